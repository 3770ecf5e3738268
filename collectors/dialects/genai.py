"""OpenTelemetry's GenAI conventions, old names and new. Its `input_tokens` holds the cached tokens."""

from __future__ import annotations

from collectors.dialects.base import ADDITIVE, INCLUSIVE, Dialect

GENAI = Dialect(
    name="genai",
    scopes=(
        "opentelemetry.instrumentation.openai_v2",
        "opentelemetry.instrumentation.genai",
        "opentelemetry.instrumentation.google_genai",
        "com.anthropic.sdk.python",
        "pydantic-ai",
    ),
    marks=("gen_ai.",),
    operation=("gen_ai.operation.name",),
    provider=("gen_ai.provider.name", "gen_ai.system"),
    model=("gen_ai.request.model", "gen_ai.response.model"),
    input_tokens=("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens"),
    output_tokens=("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens"),
    cache_read=(
        "gen_ai.usage.cache_read.input_tokens",
        "gen_ai.usage.cache_read_input_tokens",
        "gen_ai.usage.details.cache_read_tokens",
        "gen_ai.usage.input_tokens.cached",
    ),
    cache_write=(
        "gen_ai.usage.cache_creation.input_tokens",
        "gen_ai.usage.cache_write.input_tokens",
        "gen_ai.usage.cache_creation_input_tokens",
        "gen_ai.usage.cache_write_input_tokens",
        "gen_ai.usage.input_tokens.cache_write",
    ),
    response_id=("gen_ai.response.id",),
    operations={"completion": "text_completion", "embedding": "embeddings", "responses": "chat"},
    rules=(
        # Strands hands on Bedrock's own counts, whose input is what was not cached.
        ("strands", "", ADDITIVE),
        ("", "", INCLUSIVE),
    ),
)
