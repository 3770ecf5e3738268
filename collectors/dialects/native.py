"""Our own engine's vocabulary: one lookup span is one row, field by field."""

from __future__ import annotations

from dataclasses import dataclass

from collectors.dialects.base import INCLUSIVE, Attributes, Dialect, Reading, Timing, count, flag, long_text, number, text
from engine import semconv as sc
from storage.rows import LookupRow

# engine.types.Outcome's values: collectors import nothing of the engine but its vocabulary. A test holds the two together.
OUTCOMES = frozenset({"exact_hit", "semantic_hit", "partial_hit", "stale_hit", "coalesced", "miss", "bypass", "error"})


@dataclass(frozen=True, slots=True)
class Native(Dialect):
    """A lookup of the response cache. An unknown outcome is no lookup: it could be in no rate.

    A lookup stands for a model call only when it made one.
    """

    def read(self, attributes: Attributes, *, scope: str) -> Reading:
        reading = Dialect.read(self, attributes, scope=scope)
        return reading._replace(is_call=reading.is_call and sc.UPSTREAM_MS in attributes)

    def lookup(self, attributes: Attributes, reading: Reading, timing: Timing) -> LookupRow | None:
        outcome = text(attributes.get(sc.OUTCOME))
        if outcome not in OUTCOMES:
            return None
        get = attributes.get
        return LookupRow(
            trace_id=timing.trace_id,
            span_id=timing.span_id,
            dialect=self.name,
            cache_kind="response",
            at_ms=timing.at_ms,
            duration_ms=timing.duration_ms,
            outcome=outcome,
            reason=text(get(sc.REASON)),
            purpose=text(get(sc.PURPOSE)) or "traffic",
            tier=text(get(sc.TIER)),
            namespace=text(get(sc.NAMESPACE)),
            tenant=text(get(sc.TENANT)),
            model=reading.model,
            model_version=text(get(sc.MODEL_VERSION)),
            provider=reading.provider,
            client=text(get(sc.CLIENT)),
            switch=text(get(sc.SWITCH)),
            policy_version=count(get(sc.POLICY_VERSION)),
            generation=text(get(sc.GENERATION)),
            partition=text(get(sc.PARTITION)),
            key=text(get(sc.KEY)),
            fingerprint=text(get(sc.FINGERPRINT)),
            prompt_hash=text(get(sc.PROMPT_HASH)),
            prompt_simhash=text(get(sc.PROMPT_SIMHASH)),
            prompt=long_text(get(sc.PROMPT)),
            entry_id=text(get(sc.ENTRY_ID)),
            entry_age_s=number(get(sc.ENTRY_AGE_S)),
            entry_bytes=count(get(sc.ENTRY_BYTES)),
            candidates=count(get(sc.CANDIDATES)),
            candidate_id=text(get(sc.CANDIDATE_ID)),
            similarity=number(get(sc.CANDIDATE_SIMILARITY)),
            threshold=number(get(sc.THRESHOLD)),
            passed=flag(get(sc.CANDIDATE_PASSED)),
            verdicts=long_text(get(sc.CANDIDATE_VERDICTS)) or "",
            candidate_prompt=long_text(get(sc.CANDIDATE_PROMPT)),
            holdout_propensity=number(get(sc.HOLDOUT_PROPENSITY)),
            held_out=flag(get(sc.HELD_OUT)),
            input_tokens=reading.usage.input_tokens,
            output_tokens=reading.usage.output_tokens,
            cached_input_tokens=reading.usage.cached_input_tokens,
            lookup_ms=number(get(sc.LOOKUP_MS)),
            upstream_ms=number(get(sc.UPSTREAM_MS)),
            saved_ms=number(get(sc.SAVED_MS)),
            saved_usd=number(get(sc.SAVED_USD)),
            cost_usd=reading.cost_usd,
        )


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
    cache_write=(),
    cost_usd=(sc.COST_USD,),
    rule=INCLUSIVE,
    expected=("namespace", "tenant", "model", "generation", "policy_version", "lookup_ms"),
)
