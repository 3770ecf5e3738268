"""BetterDB's semantic cache and agent cache. Its `cache.similarity` is a cosine distance: a hit when <= threshold."""

from __future__ import annotations

from dataclasses import dataclass

from collectors.dialects.base import RESPONSE, Attributes, Dialect, Reading, Timing, flag, number, text
from storage.rows import LookupRow

DISTANCE = "cosine_distance"  # how the sender's score was turned into a similarity: 1 - distance


@dataclass(frozen=True, slots=True)
class BetterDB(Dialect):
    """Checks of model answers are lookups of a response cache; tool results and session state are not answers."""

    def read(self, attributes: Attributes, *, scope: str) -> Reading:
        return Reading(model=text(attributes.get("cache.model")))

    def lookup(self, attributes: Attributes, reading: Reading, timing: Timing) -> LookupRow | None:
        hit = flag(attributes.get("cache.hit"))
        if hit is None or "cache.tool_name" in attributes or "cache.thread_id" in attributes:
            return None
        key = text(attributes.get("cache.matched_key") or attributes.get("cache.key"))
        semantic = "cache.confidence" in attributes or "embedding_latency_ms" in attributes
        distance = number(attributes.get("cache.similarity"))
        threshold = number(attributes.get("cache.threshold"))
        return LookupRow(
            timing.trace_id,
            timing.span_id,
            self.name,
            RESPONSE,
            timing.at_ms,
            timing.duration_ms,
            ("semantic_hit" if semantic else "exact_hit") if hit else "miss",
            tier="vector" if hit and semantic else "store" if hit else "",
            # Hit spans lack cache.name; the matched key begins with it.
            namespace=text(attributes.get("cache.name")) or key.partition(":")[0],
            model=reading.model,
            key="" if semantic else key,
            entry_id=key if semantic and hit else "",
            similarity=None if distance is None else 1.0 - distance,
            threshold=None if threshold is None else 1.0 - threshold,
            lookup_ms=timing.duration_ms,
            score_rule=DISTANCE if distance is not None else "",
        )


BETTERDB = BetterDB(
    name="betterdb",
    scopes=("@betterdb/semantic-cache", "@betterdb/agent-cache"),
    expected=("namespace", "similarity", "threshold", "model", "tenant"),
)
