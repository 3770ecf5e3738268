"""OpenLIT. It hands on what each provider's API counts: Anthropic's and Bedrock's input is what was not cached."""

from __future__ import annotations

from dataclasses import dataclass

from collectors.dialects import genai
from collectors.dialects.base import Attributes, Dialect, Reading
from collectors.dialects.tokens import ADDITIVE, INCLUSIVE, Rules


@dataclass(frozen=True, slots=True)
class OpenLIT(Dialect):
    """A cost of exactly 0 is what OpenLIT writes for a model whose price it does not know: no cost is known."""

    def read(self, attributes: Attributes, *, scope: str) -> Reading:
        reading = Dialect.read(self, attributes, scope=scope)
        return reading._replace(cost_usd=None) if reading.cost_usd == 0 else reading


OPENLIT = OpenLIT(
    name="openlit",
    scopes=("openlit.",),
    marks=("openlit.",),
    operation=genai.OPERATION,
    provider=genai.PROVIDER,
    model=genai.MODEL,
    input_tokens=genai.INPUT,
    output_tokens=genai.OUTPUT,
    total_tokens=(*genai.TOTAL, "gen_ai.client.token.usage"),
    cache_read=(*genai.CACHE_READ, "gen_ai.usage.prompt_tokens_details.cached_tokens"),
    cache_write=(*genai.CACHE_WRITE, "gen_ai.usage.prompt_tokens_details.cache_creation_tokens"),
    cost_usd=("gen_ai.usage.cost",),
    response_id=genai.RESPONSE_ID,
    operations=genai.OPERATIONS,
    rules=Rules(
        (
            # Read in version 1.45.0: the usage of these APIs is passed through.
            ("openlit.instrumentation.anthropic", "", ADDITIVE),
            ("openlit.instrumentation.bedrock", "", ADDITIVE),
            ("", "", INCLUSIVE),
        )
    ),
)
