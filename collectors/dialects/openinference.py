"""OpenInference (Phoenix and Arize). Its prompt count holds the cached tokens.

LangChain's own response cache shows in the answer alone: the message that was cached comes back with `"total_cost": 0` in its
usage, and without the provider's `llm_output` (langchain-core since 0.3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from collectors.dialects.base import CACHED, CALL, Attributes, Dialect, Reading
from collectors.dialects.tokens import INCLUSIVE, Rules

_LANGCHAIN = "openinference.instrumentation.langchain"
_FREE = '"total_cost": 0'


@dataclass(frozen=True, slots=True)
class OpenInference(Dialect):
    """An LLM span of LangChain whose answer came from its cache describes no call, but a hit."""

    def read(self, attributes: Attributes, *, scope: str) -> Reading:
        reading = Dialect.read(self, attributes, scope=scope)
        if reading.role == CALL and scope.startswith(_LANGCHAIN) and _from_cache(attributes.get("output.value")):
            return reading._replace(role=CACHED, cost_usd=0.0)
        return reading


def _from_cache(output: Any) -> bool:
    # Text of a prompt cannot hold the mark unescaped; the document is parsed only where it is found.
    if not isinstance(output, str) or _FREE not in output:
        return False
    try:
        read = orjson.loads(output)
        usage = [message["message"]["kwargs"]["usage_metadata"] for batch in read["generations"] for message in batch]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return False
    return read.get("llm_output") is None and bool(usage) and all(one.get("total_cost") == 0 for one in usage if isinstance(one, dict))


OPENINFERENCE = OpenInference(
    name="openinference",
    scopes=("openinference.instrumentation", "@arizeai/openinference"),
    marks=("openinference.", "llm.token_count."),
    operation=("openinference.span.kind",),
    provider=("llm.provider", "llm.system"),
    model=("llm.model_name", "embedding.model_name"),
    input_tokens=("llm.token_count.prompt",),
    output_tokens=("llm.token_count.completion",),
    total_tokens=("llm.token_count.total",),
    cache_read=("llm.token_count.prompt_details.cache_read", "llm.token_count.prompt_details.cache_input"),
    cache_write=("llm.token_count.prompt_details.cache_write",),
    cost_usd=("llm.cost.total",),
    operations={
        "LLM": "chat",
        "EMBEDDING": "embeddings",
        "TOOL": "execute_tool",
        "AGENT": "invoke_agent",
        "CHAIN": "chain",
        "RETRIEVER": "retrieval",
        "RERANKER": "rerank",
        "PROMPT": "prompt",
        "GUARDRAIL": "guardrail",
        "EVALUATOR": "evaluate",
    },
    rules=Rules((("", "", INCLUSIVE),)),
)
