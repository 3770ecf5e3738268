"""Vercel's AI SDK. The inner span (`….doGenerate`) is the call; the wrapper repeats its tokens over all its steps."""

from __future__ import annotations

from collectors.dialects.base import Dialect

VERCEL = Dialect(
    name="vercel",
    scopes=(),
    marks=("ai.operationId",),
    operation=("ai.operationId",),
    provider=("gen_ai.provider.name", "gen_ai.system", "ai.model.provider"),
    model=("gen_ai.request.model", "ai.model.id"),
    input_tokens=("gen_ai.usage.input_tokens", "ai.usage.inputTokens", "ai.usage.promptTokens", "ai.usage.tokens"),
    output_tokens=("gen_ai.usage.output_tokens", "ai.usage.outputTokens", "ai.usage.completionTokens"),
    cache_read=("ai.usage.inputTokenDetails.cacheReadTokens", "ai.usage.cachedInputTokens"),
    cache_write=("ai.usage.inputTokenDetails.cacheWriteTokens",),
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
)
