"""LiteLLM: its proxy's and its SDK's `litellm_request` spans. `raw_gen_ai_request` beneath it is the same request again, without usage.

LiteLLM counts every provider's input with the cached tokens in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from collectors.dialects import genai
from collectors.dialects.base import CACHED, CALL, NO_USAGE, RESPONSE, Attributes, Dialect, Reading, Timing, flag, money, text
from collectors.dialects.tokens import INCLUSIVE, Rules
from storage.rows import LookupRow

_CACHE_HIT = "litellm.cache_hit"
_NO_HEADERS = '"additional_headers": {}'
_HIT_ID = "_cache_hit"


@dataclass(frozen=True, slots=True)
class LiteLLM(Dialect):
    """`litellm.cache_hit` says hit or miss; its absence says neither. The SDK's callback (1.108) writes no such attribute: there a hit
    is known by an answer that came without a provider's headers and cost nothing, and a miss is not known at all.
    """

    def read(self, attributes: Attributes, *, scope: str) -> Reading:
        reading = Dialect.read(self, attributes, scope=scope)
        if reading.role != CALL:
            return reading
        if not reading.usage.given:
            # No call has an input of no tokens: that is how LiteLLM writes a stream whose usage never came, and its cost.
            reading = reading._replace(usage=NO_USAGE, cost_usd=reading.cost_usd or None)
        told = flag(attributes.get(_CACHE_HIT))
        hit = told if told is not None else _hit_by_its_looks(attributes, reading)
        return reading._replace(role=CACHED, cost_usd=0.0) if hit else reading

    def lookup(self, attributes: Attributes, reading: Reading, timing: Timing) -> LookupRow | None:
        row = Dialect.lookup(self, attributes, reading, timing)
        if timing.failed or not reading.role:
            return row
        tenant = text(attributes.get("metadata.user_api_key_team_alias") or attributes.get("metadata.user_api_key_team_id"))
        told = flag(attributes.get(_CACHE_HIT))
        if told is None:
            return None if row is None else row._replace(tenant=tenant)
        # Exact and semantic hits look alike here.
        return LookupRow(
            timing.trace_id,
            timing.span_id,
            self.name,
            RESPONSE,
            timing.at_ms,
            timing.duration_ms,
            "exact_hit" if told else "miss",
            tenant=tenant,
            model=reading.model,
            provider=reading.provider,
            input_tokens=reading.usage.input_tokens,
            output_tokens=reading.usage.output_tokens,
            cached_input_tokens=reading.usage.cached_input_tokens,
            lookup_ms=timing.duration_ms if told else None,
            saved_usd=money(attributes.get("litellm.saved_cache_cost")) if told else None,
            cost_usd=reading.cost_usd,
            token_rule=reading.usage.token_rule,
            raw_input_tokens=reading.usage.given,
            cache_write_tokens=reading.usage.written,
        )


def _hit_by_its_looks(attributes: Attributes, reading: Reading) -> bool:
    if _HIT_ID in reading.response_id:
        return True
    hidden = attributes.get("hidden_params")
    if not isinstance(hidden, str) or _NO_HEADERS not in hidden or reading.cost_usd:
        return False
    read = _document(hidden)
    return read.get("additional_headers") == {} and not read.get("response_cost")


def _document(value: str) -> dict[str, Any]:
    try:
        read = orjson.loads(value)
    except orjson.JSONDecodeError:
        return {}
    return read if isinstance(read, dict) else {}


LITELLM = LiteLLM(
    name="litellm",
    scopes=("litellm",),
    marks=("litellm.",),
    operation=genai.OPERATION,
    provider=genai.PROVIDER,
    model=genai.MODEL,
    input_tokens=genai.INPUT,
    output_tokens=genai.OUTPUT,
    total_tokens=genai.TOTAL,
    cache_read=genai.CACHE_READ,
    cache_write=genai.CACHE_WRITE,
    cost_usd=("gen_ai.cost.total_cost",),
    response_id=genai.RESPONSE_ID,
    operations=genai.OPERATIONS | {"acompletion": "chat", "aembedding": "embeddings"},
    rules=Rules((("", "", INCLUSIVE),)),
    expected=("tenant", "namespace"),
)
