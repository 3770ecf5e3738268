"""Hit rates from counts by outcome: hits / (hits + coalesced + misses). Bypasses and errors are counted beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from app.analysis.attribution import kitagawa
from app.analysis.intervals import Difference, Share, difference, wilson

HITS = ("exact_hit", "semantic_hit", "partial_hit", "stale_hit")
ELIGIBLE = (*HITS, "coalesced", "miss")
OUTCOMES = (*ELIGIBLE, "bypass", "error")


@dataclass(frozen=True, slots=True)
class Counts:
    """Lookups by outcome."""

    by_outcome: Mapping[str, int] = field(default_factory=dict)

    def of(self, *outcomes: str) -> int:
        return sum(self.by_outcome.get(outcome, 0) for outcome in outcomes)

    @property
    def hits(self) -> int:
        return self.of(*HITS)

    @property
    def eligible(self) -> int:
        return self.of(*ELIGIBLE)

    @property
    def total(self) -> int:
        return sum(self.by_outcome.values())

    @property
    def hit_rate(self) -> Share | None:
        return wilson(self.hits, self.eligible)

    def share(self, *outcomes: str) -> Share | None:
        """Return the share of eligible lookups with one of these outcomes; None when there is none eligible."""
        return wilson(self.of(*outcomes), self.eligible)

    @property
    def coverage(self) -> Share | None:
        """The share of all lookups that could have hit: neither bypassed nor failed."""
        return wilson(self.eligible, self.total)


def count(pairs: Iterable[tuple[str, int]]) -> Counts:
    """Return the sum of (outcome, lookups) pairs."""
    totals: dict[str, int] = {}
    for outcome, lookups in pairs:
        totals[outcome] = totals.get(outcome, 0) + lookups
    return Counts(totals)


@dataclass(frozen=True, slots=True)
class Mover:
    """A segment's part in the change of the total hit rate, -1…1: what the total would not have moved without it.

    mix + rate = effect. mix: its share of traffic changed; rate: its own hit rate did.
    """

    name: str
    now: Counts
    before: Counts
    mix_ratio: float
    rate_ratio: float

    @property
    def effect_ratio(self) -> float:
        return self.mix_ratio + self.rate_ratio

    @property
    def change(self) -> Difference | None:
        return difference(self.now.hit_rate, self.before.hit_rate)


def movers(now: Mapping[str, Counts], before: Mapping[str, Counts]) -> list[Mover]:
    """Return every segment's effect on the change of the total hit rate, largest first; the effects sum to the change.

    Symmetric Kitagawa decomposition: mix = dw * (mean r - mean R), rate = dr * mean w. New and vanished segments: mix only.
    Empty when either side has no eligible lookups.
    """
    names = sorted(now.keys() | before.keys())
    sides = [[side.get(name, Counts()) for name in names] for side in (before, now)]
    k0, k1 = (np.array([counts.hits for counts in side], dtype=np.float64) for side in sides)
    n0, n1 = (np.array([counts.eligible for counts in side], dtype=np.float64) for side in sides)
    if not n0.sum() or not n1.sum():
        return []
    mix, rate = kitagawa(k0, n0, k1, n1)
    found = [Mover(name, sides[1][at], sides[0][at], float(mix[at]), float(rate[at])) for at, name in enumerate(names)]
    return sorted(found, key=lambda mover: -abs(mover.effect_ratio))
