"""Strands Agents (read in 1.62): its input holds the cached tokens. Older ones hand on Bedrock's counts, whose total gives them away."""

from __future__ import annotations

from collectors.dialects import genai
from collectors.dialects.base import Dialect
from collectors.dialects.tokens import INCLUSIVE, Rules

STRANDS = Dialect(
    name="strands",
    scopes=("strands",),
    marks=("strands.",),
    operation=genai.OPERATION,
    provider=genai.PROVIDER,
    model=genai.MODEL,
    input_tokens=genai.INPUT,
    output_tokens=genai.OUTPUT,
    total_tokens=genai.TOTAL,
    cache_read=genai.CACHE_READ,
    cache_write=genai.CACHE_WRITE,
    response_id=genai.RESPONSE_ID,
    operations=genai.OPERATIONS,
    rules=Rules((("", "", INCLUSIVE),)),
)
