"""Higress's AI cache: one attribute, `cache_status`, on a span or a log record."""

from __future__ import annotations

from dataclasses import dataclass

from collectors.dialects.base import NOTHING, RESPONSE, Attributes, Dialect, Reading, Timing, text
from storage.rows import LookupRow

STATUS = "cache_status"
OUTCOMES = {"hit": "exact_hit", "miss": "miss", "skip": "bypass"}


@dataclass(frozen=True, slots=True)
class Higress(Dialect):
    """Its exact and its semantic hits look alike. Any other word is no decision."""

    def read(self, attributes: Attributes, *, scope: str) -> Reading:
        return NOTHING._replace(model=text(attributes.get("model")))

    def lookup(self, attributes: Attributes, reading: Reading, timing: Timing) -> LookupRow | None:
        outcome = OUTCOMES.get(text(attributes.get(STATUS)))
        if outcome is None:
            return None
        return LookupRow(
            timing.trace_id,
            timing.span_id,
            self.name,
            RESPONSE,
            timing.at_ms,
            timing.duration_ms,
            outcome,
            tenant=text(attributes.get("consumer")),
            model=reading.model,
        )


HIGRESS = Higress(
    name="higress", scopes=("higress",), marks=(STATUS,), expected=("namespace", "tenant", "model", "similarity", "threshold", "key")
)
