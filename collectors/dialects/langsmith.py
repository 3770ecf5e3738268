"""LangSmith's OpenTelemetry exporter: details of the input's tokens are a Python dict written as a string."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from collectors.dialects import genai
from collectors.dialects.base import Attributes, Dialect, Usage, count, first
from collectors.dialects.tokens import INCLUSIVE, Rules

_DETAILS = "gen_ai.usage.input_token_details"
_MAX_CHARS = 2_000  # the details are a handful of numbers; whatever is longer is none


@dataclass(frozen=True, slots=True)
class LangSmith(Dialect):
    """LangChain's usage, whose `input_tokens` is the sum of all: cached, written and fresh."""

    def usage(self, attributes: Attributes, *, scope: str, provider: str) -> Usage:
        details = _details(attributes.get(_DETAILS))
        return self.normalised(
            scope,
            provider,
            given=count(first(attributes, self.input_tokens)),
            output=count(first(attributes, self.output_tokens)),
            read=count(details.get("cache_read")),
            written=count(details.get("cache_creation")),
            total=first(attributes, self.total_tokens),
        )


def _details(told: Any) -> dict[str, Any]:
    if not isinstance(told, str) or not told.startswith("{") or len(told) > _MAX_CHARS:
        return {}
    try:
        read = ast.literal_eval(told)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}


LANGSMITH = LangSmith(
    name="langsmith",
    scopes=("langsmith",),
    marks=("langsmith.",),
    operation=("langsmith.span.kind", *genai.OPERATION),
    provider=genai.PROVIDER,
    model=genai.MODEL,
    input_tokens=genai.INPUT,
    output_tokens=genai.OUTPUT,
    total_tokens=genai.TOTAL,
    response_id=genai.RESPONSE_ID,
    operations=genai.OPERATIONS | {"llm": "chat", "tool": "execute_tool", "retriever": "retrieval", "prompt": "prompt"},
    rules=Rules((("", "", INCLUSIVE),)),
)
