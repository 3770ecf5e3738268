"""Sentry's AI spans: cached and written tokens are a part of the input (its conventions say so)."""

from __future__ import annotations

from collectors.dialects import genai
from collectors.dialects.base import Dialect
from collectors.dialects.tokens import INCLUSIVE, Rules

SENTRY = Dialect(
    name="sentry",
    scopes=("sentry",),
    marks=("sentry.", "gen_ai.usage.input_tokens."),
    operation=genai.OPERATION,
    provider=genai.PROVIDER,
    model=genai.MODEL,
    input_tokens=genai.INPUT,
    output_tokens=genai.OUTPUT,
    total_tokens=genai.TOTAL,
    cache_read=("gen_ai.usage.input_tokens.cached", *genai.CACHE_READ),
    cache_write=("gen_ai.usage.input_tokens.cache_write", *genai.CACHE_WRITE),
    cost_usd=("gen_ai.cost.total_tokens",),
    response_id=genai.RESPONSE_ID,
    operations=genai.OPERATIONS,
    rules=Rules((("", "", INCLUSIVE),)),
)
