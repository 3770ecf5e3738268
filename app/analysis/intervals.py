"""Intervals for shares: of independent lookups, of lookups that come in clusters, and of lookups in the order of time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

_Z = {0.90: 1.6448536269514722, 0.95: 1.959963984540054, 0.99: 2.5758293035489004}


@dataclass(frozen=True, slots=True)
class Share:
    """k of n, 0 < n, with an interval. All ratios are 0…1. Of sampled lookups both are estimates, to whole lookups.

    worth: of so many independent lookups is the interval; None = of n.
    """

    k: int
    n: int
    low_ratio: float
    high_ratio: float
    worth: float | None = None

    @property
    def ratio(self) -> float:
        return self.k / self.n


@dataclass(frozen=True, slots=True)
class Difference:
    """A share less another, -1…1, with an interval. few: of too few lookups on a side for a finding, whatever the interval says."""

    ratio: float
    low_ratio: float
    high_ratio: float
    few: bool = False

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
    return Share(k, n, *_limits(k / n, n, _Z[confidence]))


def _limits(p: float, n: float, z: float) -> tuple[float, float]:
    z2 = z * z
    centre = (p + z2 / (2 * n)) / (1 + z2 / n)
    half = z / (1 + z2 / n) * math.sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return 0.0 if p == 0 else max(0.0, centre - half), 1.0 if p == 1 else min(1.0, centre + half)


def widened(share: Share | None, design: float | None) -> Share | None:
    """Return the share with the interval of worth / design observations: so many independent ones are worth as much as those in clusters.

    design: variance over that of independent ones (Kish 1965); None or below 1 = as it is. Of a weighed share it multiplies what the
    weights cost (Gabler, Haeder and Lahiri, Survey Methodology 25, 1999).
    """
    if share is None or design is None or design <= 1:
        return share
    worth = (share.n if share.worth is None else share.worth) / design
    return Share(share.k, share.n, *_limits(share.ratio, worth, _Z[0.95]), worth)


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


def weighed(strata: Sequence[tuple[float, int, int]]) -> Share | None:
    """Return the share of lookups that were kept with known probabilities, or None when there is none.

    strata: (w, k, n): k of n lookups, each of which stands for w = 1/p >= 1. The estimator is Hajek's, sum w k / sum w n = r, its
    variance sum w^2 (k (1 - r)^2 + (n - k) r^2) / (sum w n)^2; the interval is Wilson's of as many lookups as have that variance.
    At r = 0 or 1 it is that of Kish's (sum w n)^2 / sum w^2 n.
    """
    part, whole = sum(w * k for w, k, _ in strata), sum(w * n for w, _, n in strata)
    if not whole:
        return None
    ratio = part / whole
    error2 = sum(w * w * (k * (1 - ratio) ** 2 + (n - k) * ratio**2) for w, k, n in strata) / whole**2
    worth = ratio * (1 - ratio) / error2 if error2 > 0 else whole**2 / sum(w * w * n for w, _, n in strata)
    return Share(round(part), round(whole), *_limits(ratio, worth, _Z[0.95]), worth)


MIN_CLUSTERS = 40  # fewer than this and the interval below is too narrow to be called 95 %
_MOST_CLUSTERS = 400  # neighbours are put together above it: the work is bounded, and a wider cluster is never wrong
_DRAWS = 999


@dataclass(frozen=True, slots=True)
class Ratio:
    """A weighted share, 0…1, with a 95 % interval over clusters; None, None where there are too few of them.

    clusters: that carried weight, or were made of what did. design: variance over that of as many independent observations, for a
    share of counts alone; of few batches, as much more as Student's t is wider.
    """

    ratio: float
    low_ratio: float | None
    high_ratio: float | None
    clusters: int
    design: float | None = None


def clustered(part: ArrayLike, whole: ArrayLike, *, seed: int = 0) -> Ratio | None:
    """Return sum(part) / sum(whole) over clusters, each drawn as one, or None when the whole is not above 0.

    part, whole: shape (g,), what each cluster adds above and below the line; 0 <= part <= whole. Clusters without weight are left
    out. Studentised bootstrap over clusters (Efron and Tibshirani 1993, 12.5) of the ratio estimator. In order of time: above 400
    clusters, neighbours are put together.
    Raises ValueError for what is not finite.
    """
    above, below = np.asarray(part, dtype=np.float64).ravel(), np.asarray(whole, dtype=np.float64).ravel()
    if above.shape != below.shape or not np.all(np.isfinite(above)) or not np.all(np.isfinite(below)):
        raise ValueError("part and whole must be finite and of one shape")
    kept = below > 0
    above, below = above[kept], below[kept]
    total = float(below.sum())
    if not total > 0:
        return None
    ratio, size = float(above.sum()) / total, len(below)
    if size < MIN_CLUSTERS:
        return Ratio(ratio, None, None, size)
    if size > _MOST_CLUSTERS:
        edges = np.linspace(0, size, _MOST_CLUSTERS + 1).astype(np.int64)[:-1]
        above, below = np.add.reduceat(above, edges), np.add.reduceat(below, edges)
    g = len(below)
    drawn = _drawn(g, seed)
    found, errors = _ratio_and_error(*(drawn @ column for column in (above, below, above**2, above * below, below**2)))
    _, error = _ratio_and_error(*(column.sum() for column in (above, below, above**2, above * below, below**2)))
    if error == 0:
        return Ratio(ratio, ratio, ratio, size, None)
    pulled = (found - ratio) / np.where(errors > 0, errors, np.inf)
    low, high = ratio - error * np.quantile(pulled, [0.975, 0.025])
    binomial = ratio * (1 - ratio) / total
    design = float(error**2 / binomial) if binomial > 0 else None
    return Ratio(ratio, max(0.0, float(low)), min(1.0, float(high)), size, design)


FEWEST_BATCHES = 5  # a fifth of the time is the longest batch
_MOST_DEPENDENT = 3.0  # batches are this many times as long as what comes together


def batched(part: ArrayLike, whole: ArrayLike, *, seed: int = 0) -> Ratio | None:
    """Return sum(part) / sum(whole) with an interval that holds where neighbours in time are alike; None when the whole is not above 0.

    part, whole: shape (n,), sums by equal steps in the order of time; 0 <= part <= whole. Steps without weight are left out. Steps are
    joined to batches of 3 (tau - 1) of them, at least 5 batches, tau being the integrated autocorrelation of part - ratio * whole up to
    where two neighbouring lags first sum to 0 or less (Geyer 1992, Stat. Sci. 7, 473-483). From 40 batches on the interval is that of
    `clustered`; below, Wilson's of as many independent lookups as have the batches' variance, with Student's t for z. What still
    reaches over the edges of batches is added: the variance is divided by 1 - (tau - 1 / tau) / (3 length), as for sessions of tau steps.
    Below 5 steps there is no interval. Raises ValueError for what is not finite.
    """
    above, below = np.asarray(part, dtype=np.float64).ravel(), np.asarray(whole, dtype=np.float64).ravel()
    if above.shape != below.shape or not np.all(np.isfinite(above)) or not np.all(np.isfinite(below)):
        raise ValueError("part and whole must be finite and of one shape")
    above, below = above[below > 0], below[below > 0]
    total, steps = float(below.sum()), len(below)
    if not total > 0:
        return None
    ratio = float(above.sum()) / total
    if steps < FEWEST_BATCHES:
        return Ratio(ratio, None, None, steps)
    tau = _dependence(above - ratio * below)
    length = min(max(1, math.ceil(_MOST_DEPENDENT * (tau - 1))), steps // FEWEST_BATCHES)
    batches = steps // length
    edges = np.linspace(0, steps, batches + 1).astype(np.int64)[:-1]
    above, below = np.add.reduceat(above, edges), np.add.reduceat(below, edges)
    more = 1 / (1 - min((tau - 1 / tau) / (3 * length), 0.5))
    if batches >= MIN_CLUSTERS:
        return _stretched(clustered(above, below, seed=seed), math.sqrt(more))
    error2 = float(((above - ratio * below) ** 2).sum()) * batches / (batches - 1) / total**2 * more
    spread = ratio * (1 - ratio)
    if error2 <= 0 or spread <= 0:
        return Ratio(ratio, ratio, ratio, batches)
    t = student(batches - 1)
    design = error2 * total / spread * (t / _Z[0.95]) ** 2
    return Ratio(ratio, *_limits(ratio, spread / error2, t), batches, design)


def _dependence(series: NDArray[np.float64]) -> float:
    """Return the integrated autocorrelation time in steps, >= 1: how many steps of the series are worth one independent one."""
    size = len(series)
    power = float(series @ series) / size
    if not power > 0:
        return 1.0
    lags = range(1, size // 2 + 1)
    alike = [float(series[:-lag] @ series[lag:]) / (size - lag) / power for lag in lags]
    tau = 1.0
    for pair in zip(alike[::2], alike[1::2], strict=False):
        if sum(pair) <= 0:
            break
        tau += 2 * sum(pair)
    return tau


def _stretched(found: Ratio | None, by: float) -> Ratio | None:
    if found is None or found.low_ratio is None or found.high_ratio is None:
        return found
    low, high = (found.ratio + (limit - found.ratio) * by for limit in (found.low_ratio, found.high_ratio))
    return Ratio(found.ratio, max(0.0, low), min(1.0, high), found.clusters, None if found.design is None else found.design * by**2)


def student(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t, within 0.001 from 4 degrees of freedom on (Cornish and Fisher's expansion)."""
    z = _Z[0.95]
    terms = [(z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384]
    terms.append((79 * z**9 + 776 * z**7 + 1_482 * z**5 - 1_920 * z**3 - 945 * z) / 92_160)
    return float(z + sum(term / freedom**power for power, term in enumerate(terms, 1)))


@lru_cache(maxsize=8)
def _drawn(clusters: int, seed: int) -> NDArray[np.float64]:
    """Return how often each cluster is drawn, shape (draws, clusters): a page asks for several shares of the same clusters."""
    return np.random.default_rng(seed).multinomial(clusters, np.full(clusters, 1 / clusters), size=_DRAWS).astype(np.float64)


def _ratio_and_error(above: Any, below: Any, above2: Any, product: Any, below2: Any) -> tuple[Any, Any]:
    """Return a ratio of sums and its linearised standard error, from the sums of the parts, their squares and their product."""
    ratio = above / np.maximum(below, 1e-300)
    spread = np.maximum(above2 - 2 * ratio * product + ratio**2 * below2, 0.0)
    return ratio, np.sqrt(spread) / np.maximum(below, 1e-300)
