"""Vercel's AI SDK. The inner span (`….doGenerate`) is the call; the wrapper repeats its tokens over all its steps."""

from __future__ import annotations

from dataclasses import dataclass

from collectors.dialects import genai
from collectors.dialects.base import Attributes, Dialect, Usage
from collectors.dialects.tokens import ADDITIVE, INCLUSIVE, Rules

_DETAILS = "ai.usage.inputTokenDetails."
_FRESH, _READ, _WRITTEN = f"{_DETAILS}noCacheTokens", f"{_DETAILS}cacheReadTokens", f"{_DETAILS}cacheWriteTokens"
_V6 = "ai@6"  # how the rules below name a sender that gives details


@dataclass(frozen=True, slots=True)
class Vercel(Dialect):
    """Version 6 gives the details, and its input holds them all. Before, each provider's own count was passed on."""

    def usage(self, attributes: Attributes, *, scope: str, provider: str) -> Usage:
        detailed = _READ in attributes or _FRESH in attributes or _WRITTEN in attributes
        return Dialect.usage(self, attributes, scope=_V6 if detailed else scope, provider=provider)


VERCEL = Vercel(
    name="vercel",
    scopes=(),
    marks=("ai.operationId",),
    operation=("ai.operationId",),
    provider=(*genai.PROVIDER, "ai.model.provider"),
    model=("gen_ai.request.model", "ai.model.id"),
    input_tokens=("gen_ai.usage.input_tokens", "ai.usage.inputTokens", "ai.usage.promptTokens", "ai.usage.tokens"),
    output_tokens=("gen_ai.usage.output_tokens", "ai.usage.outputTokens", "ai.usage.completionTokens"),
    total_tokens=("ai.usage.totalTokens",),
    cache_read=(_READ, "ai.usage.cachedInputTokens"),
    cache_write=(_WRITTEN,),
    response_id=("gen_ai.response.id", "ai.response.id"),
    operations={
        "ai.generateText.doGenerate": "chat",
        "ai.streamText.doStream": "chat",
        "ai.generateObject.doGenerate": "chat",
        "ai.streamObject.doStream": "chat",
        "ai.embed.doEmbed": "embeddings",
        "ai.embedMany.doEmbed": "embeddings",
        "ai.toolCall": "execute_tool",
    },
    rules=Rules(((_V6, "", INCLUSIVE), ("", "anthropic", ADDITIVE), ("", "amazon-bedrock", ADDITIVE), ("", "", INCLUSIVE))),
)
