"""OpenTelemetry's GenAI conventions, old names and new. Its `input_tokens` holds the cached tokens."""

from __future__ import annotations

from collectors.dialects.base import Dialect
from collectors.dialects.tokens import INCLUSIVE, Rules

# What every vocabulary built on `gen_ai.` shares; the names as they were before come after those of today.
OPERATION = ("gen_ai.operation.name",)
PROVIDER = ("gen_ai.provider.name", "gen_ai.system")
MODEL = ("gen_ai.request.model", "gen_ai.response.model")
INPUT = ("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens")
OUTPUT = ("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens")
TOTAL = ("gen_ai.usage.total_tokens",)
CACHE_READ = ("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens")
CACHE_WRITE = (
    "gen_ai.usage.cache_creation.input_tokens",
    "gen_ai.usage.cache_write.input_tokens",
    "gen_ai.usage.cache_creation_input_tokens",
    "gen_ai.usage.cache_write_input_tokens",
)
RESPONSE_ID = ("gen_ai.response.id",)
OPERATIONS = {"completion": "text_completion", "embedding": "embeddings", "responses": "chat"}

_SCOPES = (
    "opentelemetry.instrumentation.openai_v2",
    "opentelemetry.instrumentation.genai",
    "opentelemetry.instrumentation.google_genai",
    "com.anthropic.sdk.python",
)

GENAI = Dialect(
    name="genai",
    scopes=_SCOPES,
    marks=("gen_ai.",),
    operation=OPERATION,
    provider=PROVIDER,
    model=MODEL,
    input_tokens=INPUT,
    output_tokens=OUTPUT,
    total_tokens=TOTAL,
    cache_read=(
        *CACHE_READ,
        "gen_ai.usage.cache_read_tokens",
        "gen_ai.usage.details.cache_read_tokens",
        "gen_ai.usage.prompt_tokens_details.cached_tokens",
        "gen_ai.usage.input_tokens.cached",
    ),
    cache_write=(*CACHE_WRITE, "gen_ai.usage.cache_write_tokens", "gen_ai.usage.details.cache_write_tokens"),
    response_id=RESPONSE_ID,
    operations=OPERATIONS,
    rules=Rules(tuple((scope, "", INCLUSIVE) for scope in _SCOPES)),
)
