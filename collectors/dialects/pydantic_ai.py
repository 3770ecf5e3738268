"""Pydantic AI and Logfire. Agents' spans carry the sum of their calls under `gen_ai.aggregated_usage`: it is not counted again."""

from __future__ import annotations

from collectors.dialects import genai
from collectors.dialects.base import Dialect
from collectors.dialects.tokens import INCLUSIVE, Rules

PYDANTIC_AI = Dialect(
    name="pydantic_ai",
    scopes=("pydantic-ai", "logfire"),
    marks=("logfire.",),
    operation=genai.OPERATION,
    provider=genai.PROVIDER,
    model=genai.MODEL,
    input_tokens=genai.INPUT,
    output_tokens=genai.OUTPUT,
    cache_read=(*genai.CACHE_READ, "gen_ai.usage.cache_read_tokens", "gen_ai.usage.details.cache_read_tokens"),
    cache_write=(*genai.CACHE_WRITE, "gen_ai.usage.cache_write_tokens", "gen_ai.usage.details.cache_write_tokens"),
    cost_usd=("operation.cost",),
    response_id=genai.RESPONSE_ID,
    operations=genai.OPERATIONS,
    rules=Rules((("", "", INCLUSIVE),)),
)
