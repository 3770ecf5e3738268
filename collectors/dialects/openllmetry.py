"""OpenLLMetry (Traceloop). Its packages disagree: most report an input that holds the cached tokens, Bedrock's does not."""

from __future__ import annotations

from collectors.dialects import genai
from collectors.dialects.base import Dialect
from collectors.dialects.tokens import ADDITIVE, INCLUSIVE, Rules

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
    operation=(*genai.OPERATION, "llm.request.type"),
    provider=genai.PROVIDER,
    model=genai.MODEL,
    input_tokens=(*genai.INPUT, "llm.usage.prompt_tokens"),
    output_tokens=(*genai.OUTPUT, "llm.usage.completion_tokens"),
    total_tokens=(*genai.TOTAL, "llm.usage.total_tokens"),
    cache_read=genai.CACHE_READ,
    cache_write=genai.CACHE_WRITE,
    response_id=genai.RESPONSE_ID,
    operations=genai.OPERATIONS,
    rules=Rules((("opentelemetry.instrumentation.bedrock", "", ADDITIVE), ("", "", INCLUSIVE))),
)
