"""OpenLLMetry (Traceloop). Its packages disagree: most report an input that holds the cached tokens, Bedrock's does not."""

from __future__ import annotations

from collectors.dialects.base import ADDITIVE, INCLUSIVE, Dialect

_PACKAGES = (
    "openai.v",
    "anthropic",
    "bedrock",
    "cohere",
    "groq",
    "mistralai",
    "ollama",
    "together",
    "replicate",
    "vertexai",
    "google_generativeai",
    "watsonx",
    "langchain",
    "llamaindex",
    "crewai",
    "haystack",
    "openai_agents",
    "alephalpha",
    "sagemaker",
    "transformers",
    "writer",
)

OPENLLMETRY = Dialect(
    name="openllmetry",
    scopes=tuple(f"opentelemetry.instrumentation.{package}" for package in _PACKAGES),
    marks=("traceloop.",),
    operation=("gen_ai.operation.name", "llm.request.type"),
    provider=("gen_ai.provider.name", "gen_ai.system"),
    model=("gen_ai.request.model", "gen_ai.response.model"),
    input_tokens=("gen_ai.usage.input_tokens", "gen_ai.usage.prompt_tokens", "llm.usage.prompt_tokens"),
    output_tokens=("gen_ai.usage.output_tokens", "gen_ai.usage.completion_tokens", "llm.usage.completion_tokens"),
    cache_read=("gen_ai.usage.cache_read.input_tokens", "gen_ai.usage.cache_read_input_tokens"),
    cache_write=("gen_ai.usage.cache_creation.input_tokens", "gen_ai.usage.cache_creation_input_tokens"),
    response_id=("gen_ai.response.id",),
    operations={"completion": "text_completion", "embedding": "embeddings"},
    rules=(
        ("opentelemetry.instrumentation.bedrock", "", ADDITIVE),
        ("", "", INCLUSIVE),
    ),
)
