"""Hit rates from counts by outcome: hits / (hits + coalesced + misses). Bypasses and errors are counted beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from app.analysis.attribution import kitagawa
from app.analysis.intervals import Difference, Share, difference, weighed, wilson

HITS = ("exact_hit", "semantic_hit", "partial_hit", "stale_hit")
ELIGIBLE = (*HITS, "coalesced", "miss")
OUTCOMES = (*ELIGIBLE, "bypass", "error")


@dataclass(frozen=True, slots=True)
class Sampled:
    """Lookups, of those counted, that a sampler kept. ratio: with which probability, 0 < p < 1; None = not told."""

    ratio: float | None
    outcome: str
    lookups: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Lookups by outcome, as received. sampled: of these, the ones that a sampler kept: each stands for 1/p in every share."""

    by_outcome: Mapping[str, int] = field(default_factory=dict)
    sampled: tuple[Sampled, ...] = ()

    @property
    def untold(self) -> int:
        """Sampled lookups that nobody says how to weigh. Above 0 no share is told: what a sampler prefers is not known."""
        return sum(one.lookups for one in self.sampled if one.ratio is None)

    @property
    def skewed(self) -> bool:
        """True when a share of what came is no estimate of all's: not every lookup was kept with one and the same known probability."""
        ratios = {one.ratio for one in self.sampled}
        alike = len(ratios) == 1 and None not in ratios and sum(one.lookups for one in self.sampled) == self.total
        return bool(self.sampled) and not alike

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
        return self.share(*HITS)

    def share(self, *outcomes: str) -> Share | None:
        """Return the share of eligible lookups with one of these outcomes; None when there is none eligible, or none can be told."""
        return self._share(outcomes, ELIGIBLE)

    @property
    def coverage(self) -> Share | None:
        """The share of all lookups that could have hit: neither bypassed nor failed."""
        return self._share(ELIGIBLE, OUTCOMES)

    def _share(self, part: tuple[str, ...], whole: tuple[str, ...]) -> Share | None:
        """Return the share of `part` in `whole`: weighed by 1/p where lookups were sampled, but for all with one p, which changes none."""
        if self.untold:
            return None
        if not self.skewed:
            return wilson(self.of(*part), self.of(*whole))
        strata = [
            (one.ratio, one.lookups * (one.outcome in part), one.lookups) for one in self.sampled if one.outcome in whole and one.ratio
        ]
        if not strata:
            return wilson(self.of(*part), self.of(*whole))
        rest = (self.of(*part) - sum(k for _, k, _ in strata), self.of(*whole) - sum(n for *_, n in strata))
        return weighed([*((1 / ratio, k, n) for ratio, k, n in strata), (1.0, *rest)])


def count(pairs: Iterable[tuple[str, int]], sampled: Iterable[Sampled] = ()) -> Counts:
    """Return the sum of (outcome, lookups) pairs. sampled: which of them a sampler kept."""
    totals: dict[str, int] = {}
    for outcome, lookups in pairs:
        totals[outcome] = totals.get(outcome, 0) + lookups
    return Counts(totals, tuple(sampled))


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
