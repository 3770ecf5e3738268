"""Intervals for shares. All assume independent lookups; repeated prompts make real ones somewhat wider."""

from __future__ import annotations

import math
from dataclasses import dataclass

_Z = {0.90: 1.6448536269514722, 0.95: 1.959963984540054, 0.99: 2.5758293035489004}


@dataclass(frozen=True, slots=True)
class Share:
    """k of n, 0 < n, with an interval. All ratios are 0…1."""

    k: int
    n: int
    low_ratio: float
    high_ratio: float

    @property
    def ratio(self) -> float:
        return self.k / self.n


@dataclass(frozen=True, slots=True)
class Difference:
    """A share less another, -1…1, with an interval."""

    ratio: float
    low_ratio: float
    high_ratio: float

    @property
    def clear(self) -> bool:
        """True when the interval leaves zero out."""
        return self.low_ratio > 0 or self.high_ratio < 0


def wilson(k: int, n: int, *, confidence: float = 0.95) -> Share | None:
    """Return the share k/n with Wilson's score interval, or None when n is 0: no data is not 0 %.

    confidence: 0.90, 0.95 or 0.99. Raises ValueError unless 0 <= k <= n.
    Source: Wilson 1927, J. Am. Stat. Assoc. 22, 209-212.
    """
    if not 0 <= k <= n:
        raise ValueError(f"{k} of {n} is no share: expected 0 <= k <= n")
    if n == 0:
        return None
    z = _Z[confidence]
    p, z2 = k / n, z * z
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return Share(k, n, 0.0 if k == 0 else max(0.0, centre - half), 1.0 if k == n else min(1.0, centre + half))


def difference(now: Share | None, before: Share | None) -> Difference | None:
    """Return now - before with Newcombe's hybrid score interval, or None when either is missing.

    Source: Newcombe 1998, Stat. Med. 17, 873-890, method 10.
    """
    if now is None or before is None:
        return None
    d = now.ratio - before.ratio
    low = d - math.hypot(now.ratio - now.low_ratio, before.high_ratio - before.ratio)
    high = d + math.hypot(now.high_ratio - now.ratio, before.ratio - before.low_ratio)
    return Difference(d, low, high)
