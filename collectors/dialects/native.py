"""Our own engine's vocabulary: one lookup span is one row, field by field."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from collectors.dialects.base import CACHED, RESPONSE, Attributes, Dialect, Reading, Timing, count, flag, long_text, money, number, text
from collectors.dialects.tokens import INCLUSIVE, Rules
from engine import semconv as sc
from storage.rows import LookupRow

# engine.types.Outcome's values: collectors import nothing of the engine but its vocabulary. A test holds the two together.
OUTCOMES = frozenset({"exact_hit", "semantic_hit", "partial_hit", "stale_hit", "coalesced", "miss", "bypass", "error"})
ANSWERED = frozenset({"exact_hit", "semantic_hit", "partial_hit", "stale_hit", "coalesced"})


@dataclass(frozen=True, slots=True)
class Native(Dialect):
    """A lookup of the response cache. An unknown outcome is no lookup: it could be in no rate.

    A lookup stands for a model call only when it made one. What a hit answered was no call, whoever says so around it.
    """

    def read(self, attributes: Attributes, *, scope: str) -> Reading:
        reading = Dialect.read(self, attributes, scope=scope)
        if not reading.role or sc.UPSTREAM_MS in attributes:
            return reading
        return reading._replace(role=CACHED if text(attributes.get(sc.OUTCOME)) in ANSWERED else "")

    def lookup(self, attributes: Attributes, reading: Reading, timing: Timing) -> LookupRow | None:
        outcome = text(attributes.get(sc.OUTCOME))
        if outcome not in OUTCOMES:
            return None
        values = list(_NOTHING)
        for name, value in attributes.items():
            field = _FIELDS.get(name)
            if field is not None:
                values[field[0]] = field[1](value)
        row = LookupRow._make(values)
        usage = reading.usage
        return row._replace(
            trace_id=timing.trace_id,
            span_id=timing.span_id,
            dialect=self.name,
            cache_kind=RESPONSE,
            at_ms=timing.at_ms,
            duration_ms=timing.duration_ms,
            outcome=outcome,
            purpose=row.purpose or "traffic",
            model=reading.model,
            provider=reading.provider,
            verdicts=row.verdicts or "",
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_input_tokens=usage.cached_input_tokens,
            cost_usd=reading.cost_usd,
            token_rule=reading.usage.token_rule,
            raw_input_tokens=reading.usage.given,
        )


_READERS: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    sc.REASON: ("reason", text),
    sc.PURPOSE: ("purpose", text),
    sc.TIER: ("tier", text),
    sc.NAMESPACE: ("namespace", text),
    sc.TENANT: ("tenant", text),
    sc.MODEL_VERSION: ("model_version", text),
    sc.CLIENT: ("client", text),
    sc.SWITCH: ("switch", text),
    sc.POLICY_VERSION: ("policy_version", count),
    sc.GENERATION: ("generation", text),
    sc.PARTITION: ("partition", text),
    sc.KEY: ("key", text),
    sc.FINGERPRINT: ("fingerprint", text),
    sc.PROMPT_HASH: ("prompt_hash", text),
    sc.PROMPT_SIMHASH: ("prompt_simhash", text),
    sc.PROMPT: ("prompt", long_text),
    sc.ENTRY_ID: ("entry_id", text),
    sc.ENTRY_AGE_S: ("entry_age_s", number),
    sc.ENTRY_BYTES: ("entry_bytes", count),
    sc.CANDIDATES: ("candidates", count),
    sc.CANDIDATE_ID: ("candidate_id", text),
    sc.CANDIDATE_SIMILARITY: ("similarity", number),
    sc.THRESHOLD: ("threshold", number),
    sc.CANDIDATE_PASSED: ("passed", flag),
    sc.CANDIDATE_VERDICTS: ("verdicts", long_text),
    sc.CANDIDATE_PROMPT: ("candidate_prompt", long_text),
    sc.HOLDOUT_PROPENSITY: ("holdout_propensity", number),
    sc.HELD_OUT: ("held_out", flag),
    sc.LOOKUP_MS: ("lookup_ms", number),
    sc.UPSTREAM_MS: ("upstream_ms", number),
    sc.SAVED_MS: ("saved_ms", number),
    sc.SAVED_USD: ("saved_usd", money),
}
_FIELDS = {attribute: (LookupRow._fields.index(field), reader) for attribute, (field, reader) in _READERS.items()}
# A row to begin with. What has no default is set in every row.
_NOTHING = tuple(LookupRow._field_defaults.get(field) for field in LookupRow._fields)


NATIVE = Native(
    name="native",
    scopes=(sc.SCOPE,),
    marks=(sc.OUTCOME,),
    operation=(sc.GENAI_OPERATION,),
    provider=(sc.GENAI_PROVIDER,),
    model=(sc.GENAI_REQUEST_MODEL, sc.GENAI_RESPONSE_MODEL),
    input_tokens=(sc.GENAI_INPUT_TOKENS,),
    output_tokens=(sc.GENAI_OUTPUT_TOKENS,),
    cache_read=(sc.GENAI_CACHE_READ_TOKENS,),
    cost_usd=(sc.COST_USD,),
    rules=Rules((("", "", INCLUSIVE),)),
    expected=("namespace", "tenant", "model", "generation", "policy_version", "lookup_ms"),
)
