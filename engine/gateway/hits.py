"""Whether hits have stopped coming, told by the lookups themselves.

A store that was flushed, a purged namespace or a dead embedder opens no breaker: all answer, and all of it is misses.
"""

from __future__ import annotations

import math

LATELY = 32.0  # lookups: the weight of what came before falls to 1/e with so many
HALF_LIFE_S = 120.0  # of what is usual: a change for good is taken for usual after some minutes
LEAST_LOOKUPS = 200.0  # of late, below which nothing is usual
LEAST_SHARE = 0.3  # of hits: where they were rarer, the upstream carried the traffic anyway
FALL = 0.5  # of the usual share


class HitShare:
    """The share of hits among a gateway's lookups: lately, and usually."""

    def __init__(self) -> None:
        self._lately = 0.0
        self._lookups = self._hits = self._at_s = 0.0

    def seen(self, *, hit: bool, at_s: float) -> None:
        """Count a lookup. at_s: monotonic seconds."""
        one = 1.0 if hit else 0.0
        self._lately += (one - self._lately) / LATELY
        if at_s - self._at_s >= 1.0:
            kept = math.pow(0.5, (at_s - self._at_s) / HALF_LIFE_S)
            self._lookups *= kept
            self._hits *= kept
            self._at_s = at_s
        self._lookups += 1.0
        self._hits += one

    def fell(self) -> bool:
        """Return whether hits are far rarer lately than is usual here."""
        usual = self._hits / self._lookups if self._lookups >= LEAST_LOOKUPS else 0.0
        return usual >= LEAST_SHARE and self._lately < FALL * usual
