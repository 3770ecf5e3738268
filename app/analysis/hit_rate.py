"""Hit rates from counts by outcome: hits / (hits + coalesced + misses). Bypasses and errors are counted beside it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

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
    n_now, n_before = sum(c.eligible for c in now.values()), sum(c.eligible for c in before.values())
    if not n_now or not n_before:
        return []
    total_now = sum(c.hits for c in now.values()) / n_now
    total_before = sum(c.hits for c in before.values()) / n_before
    found = []
    for name in sorted(now.keys() | before.keys()):
        a, b = now.get(name, Counts()), before.get(name, Counts())
        w_now, w_before = a.eligible / n_now, b.eligible / n_before
        rate_now, rate_before = a.hit_rate, b.hit_rate
        r_now = rate_now.ratio if rate_now else (rate_before.ratio if rate_before else 0.0)
        r_before = rate_before.ratio if rate_before else r_now
        mix = (w_now - w_before) * ((r_now + r_before) / 2 - (total_now + total_before) / 2)
        found.append(Mover(name, a, b, mix, (r_now - r_before) * (w_now + w_before) / 2))
    return sorted(found, key=lambda mover: -abs(mover.effect_ratio))
