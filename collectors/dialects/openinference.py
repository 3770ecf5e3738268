"""OpenInference (Phoenix and Arize). Its prompt count holds the cached tokens."""

from __future__ import annotations

from collectors.dialects.base import Dialect

OPENINFERENCE = Dialect(
    name="openinference",
    scopes=("openinference.instrumentation", "@arizeai/openinference"),
    marks=("openinference.", "llm.token_count."),
    operation=("openinference.span.kind",),
    provider=("llm.provider", "llm.system"),
    model=("llm.model_name", "embedding.model_name"),
    input_tokens=("llm.token_count.prompt",),
    output_tokens=("llm.token_count.completion",),
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
)
