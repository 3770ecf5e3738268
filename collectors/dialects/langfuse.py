"""Langfuse's SDK: usage is one JSON document, in Langfuse's own words or as the provider's API wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from collectors.dialects.base import NO_USAGE, Attributes, Dialect, Usage, count, first
from collectors.dialects.tokens import ADDITIVE, INCLUSIVE, Rules

_USAGE = "langfuse.observation.usage_details"
_READ = ("input_cached_tokens", "input_cache_read", "cache_read_input_tokens")
_WRITTEN = ("input_cache_creation", "cache_creation_input_tokens")


@dataclass(frozen=True, slots=True)
class Langfuse(Dialect):
    """`input` means fresh tokens: what was cached comes on top. An OpenAI usage object holds them in its `prompt_tokens` or
    `input_tokens`, with the details beneath; Anthropic's, whose details lie beside, does not.
    """

    def usage(self, attributes: Attributes, *, scope: str, provider: str) -> Usage:
        told = attributes.get(_USAGE)
        if not isinstance(told, str):
            return NO_USAGE
        try:
            read = orjson.loads(told)
        except orjson.JSONDecodeError:
            return NO_USAGE
        return _usage(self, read) if isinstance(read, dict) else NO_USAGE


def _usage(dialect: Dialect, told: dict[str, Any]) -> Usage:
    details = first(told, ("prompt_tokens_details", "input_tokens_details"))
    nested = details if isinstance(details, dict) else {}
    of_openai = "prompt_tokens" in told or "input_tokens_details" in told
    return dialect.normalised(
        "openai" if of_openai else "",
        "",
        given=count(first(told, ("prompt_tokens", "input_tokens", "input"))),
        output=count(first(told, ("completion_tokens", "output_tokens", "output"))),
        read=count(nested.get("cached_tokens")) if of_openai else count(first(told, _READ)),
        written=None if of_openai else count(first(told, _WRITTEN)),
        total=first(told, ("total_tokens", "total")),
    )


LANGFUSE = Langfuse(
    name="langfuse",
    scopes=("langfuse-sdk",),
    marks=("langfuse.observation.",),
    operation=("langfuse.observation.type",),
    model=("langfuse.observation.model.name",),
    operations={
        "generation": "chat",
        "embedding": "embeddings",
        "tool": "execute_tool",
        "agent": "invoke_agent",
        "retriever": "retrieval",
        "evaluator": "evaluate",
    },
    rules=Rules((("openai", "", INCLUSIVE), ("", "", ADDITIVE))),
)
