"""Change of a distribution between two windows, against what chance and bursts alone would give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCKS = 12  # parts of a window that are moved as one: a burst within a part cannot look like a change
DRAWS = 499
MOST_KINDS = 600  # the rarest are put together above it
MOST_HASHED = 400  # of each window, whose SimHashes are compared pair by pair
_BITS = 64  # of a SimHash
_GRID = 256  # points at which two distributions of a number are compared


@dataclass(frozen=True, slots=True)
class Change:
    """A statistic of two windows of equal n. effect: as seen. null, median: its 95th percentile and its median when parts of both are dealt
    anew.

    p_value: share of deals at least as far apart, (k + 1) / (draws + 1). halves: both halves of the later window alone are further
    from all the rest than nine in ten deals of their size are.
    """

    effect: float
    null: float
    p_value: float
    n: int
    halves: bool
    median: float = 0.0


def blocks(n: int) -> Ints:
    """Return which of BLOCKS equal parts each of n observations in the order of time belongs to, shape (n,)."""
    return np.asarray(np.arange(n) * BLOCKS // max(n, 1), dtype=np.int64)


def thinned(n: int, wanted: int) -> Ints:
    """Return the places of `wanted` of n observations, evenly spread: windows are compared at equal n."""
    return np.asarray(np.arange(wanted) * n // max(wanted, 1), dtype=np.int64)


class Statistic(NamedTuple):
    """A sum over kinds: what one of them adds, and what the sum says.

    parts: of a kind's counts in the later and the earlier window (arrays of one shape), the windows' sizes and the number of kinds.
    """

    parts: Callable[[Floats, Floats, float, float, int], Floats]
    told: Callable[[Floats], Floats]


def of_kinds(before: Ints, now: Ints, statistic: Statistic, *, seed: int = 0) -> Change | None:
    """Return the change of a mix. before, now: kind of each observation in the order of time, any length, thinned to equal n.

    Kinds are numbered whatever window they are of: the rarest are put together by count, then by number, and would else be the later one's.
    None when a side has fewer than BLOCKS. n is a multiple of these: every deal of blocks is then one of as many observations.
    """
    n = _equal(before, now)
    if not n:
        return None
    before, now = before[thinned(len(before), n)], now[thinned(len(now), n)]
    kinds, codes = np.unique(np.concatenate([before, now]), return_inverse=True)
    codes, size = _folded(codes, len(kinds))
    table = _table(codes[:n], codes[n:], n, size)
    whole = table.sum(axis=0)
    # A kind with w in both has 0 … w in the later one: what it adds is reckoned for each of these once, and looked up.
    first = np.concatenate([[0], np.cumsum(whole + 1)[:-1]])
    possible = np.concatenate([np.arange(w + 1) for w in whole])
    other = np.repeat(whole, (whole + 1).astype(np.int64)) - possible

    def of(mask: Floats) -> Floats:
        later = float(mask[0].sum()) * n / BLOCKS
        added = statistic.parts(possible, other, later, 2 * n - later, size)
        return statistic.told(np.take(added, (mask @ table + first).astype(np.intp)).sum(axis=1))

    return _judge(of, n, seed)


def of_numbers(before: Floats, now: Floats, *, seed: int = 0) -> Change | None:
    """Return the change of a number's distribution: Kolmogorov and Smirnov's distance, 0..1, on a grid of pooled quantiles.

    None when a side has fewer than BLOCKS.
    """
    n = _equal(before, now)
    if not n:
        return None
    before, now = before[thinned(len(before), n)], now[thinned(len(now), n)]
    grid = np.unique(np.quantile(np.concatenate([before, now]), np.linspace(0, 1, _GRID)))
    # A value belongs to the first point of the grid at or above it.
    places = [np.searchsorted(grid, side, side="left") for side in (before, now)]
    table = np.cumsum(_table(places[0], places[1], n, len(grid)), axis=1)
    whole = table.sum(axis=0)

    def of(mask: Floats) -> Floats:
        later = float(mask[0].sum()) * n / BLOCKS
        share = 1 / later + 1 / (2 * n - later)  # c / later - (whole - c) / the rest
        apart = mask @ (table * share) - whole / (2 * n - later)
        return np.asarray(np.maximum(apart.max(axis=1), -apart.min(axis=1)))

    return _judge(of, n, seed)


def _equal(before: Ints | Floats, now: Ints | Floats) -> int:
    """Return how many observations of each window are compared."""
    return min(len(before), len(now)) // BLOCKS * BLOCKS


def of_hashes(before: NDArray[np.uint64], now: NDArray[np.uint64], *, most: int = MOST_HASHED, seed: int = 0) -> Change | None:
    """Return the change of prompts as vectors: unbiased MMD^2 on 64-bit SimHashes, kernel exp(-Hamming / median).

    before, now: SimHashes in the order of time, as unsigned 64-bit integers; `most` of each, evenly spread. 0 = one distribution.
    Source: Gretton et al., Journal of Machine Learning Research 13, 2012.
    """
    n = min(len(before), len(now), most)
    if n < 2 * BLOCKS:
        return None
    codes = np.concatenate([before[thinned(len(before), n)], now[thinned(len(now), n)]]).astype(np.uint64)
    distance = np.bitwise_count(codes[:, None] ^ codes[None, :])
    pairs = np.bincount(distance.ravel(), minlength=_BITS + 1)
    pairs[0] -= len(codes)  # each with itself
    middle = np.searchsorted(np.cumsum(pairs), np.array([pairs.sum() // 2 - 1, pairs.sum() // 2]), side="right")
    return _mmd(np.exp(-np.arange(_BITS + 1) / max(1.0, float(middle.mean())))[distance], n, seed)


def of_vectors(before: NDArray[np.float32], now: NDArray[np.float32], *, most: int = 400, seed: int = 0) -> Change | None:
    """Return the change of prompts as vectors: unbiased MMD^2, Gaussian kernel whose width is the median distance.

    before, now: shape (n, d) and (m, d), L2-normalised, in the order of time; `most` of each, evenly spread. 0 = one distribution.
    Source: Gretton et al., Journal of Machine Learning Research 13, 2012.
    """
    n = min(len(before), len(now), most)
    if n < 2 * BLOCKS:
        return None
    vectors = np.concatenate([before[thinned(len(before), n)], now[thinned(len(now), n)]]).astype(np.float64)
    squared = np.maximum(2 - 2 * vectors @ vectors.T, 0.0)
    width = float(np.median(squared[np.triu_indices(len(vectors), 1)]))
    return _mmd(np.exp(-squared / (2 * max(width, 1e-6))), n, seed)


def _mmd(kernel: Floats, n: int, seed: int) -> Change:
    """Return the unbiased MMD^2 of the first n from the last n rows of a kernel, shape (2 n, 2 n), and its chance."""
    np.fill_diagonal(kernel, 0.0)
    member = np.concatenate([blocks(n), BLOCKS + blocks(n)])
    firsts = np.searchsorted(member, np.arange(2 * BLOCKS))
    sums = np.add.reduceat(np.add.reduceat(kernel, firsts, axis=0), firsts, axis=1)
    sizes = np.bincount(member).astype(np.float64)

    def mmd(mask: Floats) -> Floats:
        other = 1 - mask
        a, b = mask @ sizes, other @ sizes
        near, far = mask @ sums, other @ sums
        inside = (near * mask).sum(axis=1) / np.maximum(a * (a - 1), 1)
        outside = (far * other).sum(axis=1) / np.maximum(b * (b - 1), 1)
        return np.asarray(inside + outside - 2 * (near * other).sum(axis=1) / np.maximum(a * b, 1))

    return _judge(mmd, n, seed)


def _table(before: Ints, now: Ints, n: int, size: int) -> Floats:
    """Return counts by block and kind, shape (2 BLOCKS, size): the earlier window's blocks first."""
    places = np.concatenate([blocks(n), BLOCKS + blocks(n)]) * size + np.concatenate([before, now])
    return np.bincount(places, minlength=2 * BLOCKS * size).reshape(2 * BLOCKS, size).astype(np.float64)


def _folded(codes: Ints, size: int) -> tuple[Ints, int]:
    """Return the kinds with the rarest put together; of equally rare ones those of higher number, whichever window they are of."""
    if size <= MOST_KINDS:
        return codes, size
    order = np.argsort(-np.bincount(codes, minlength=size), kind="stable")
    renumbered = np.full(size, MOST_KINDS - 1, dtype=np.int64)
    renumbered[order[: MOST_KINDS - 1]] = np.arange(MOST_KINDS - 1)
    return renumbered[codes], MOST_KINDS


def _judge(statistic: Callable[[Floats], Floats], n: int, seed: int) -> Change:
    """Deal all blocks anew DRAWS times. A mask (d, 2 BLOCKS) says which blocks are the later window.

    A half of the later window that holds the change is far from the rest even though the rest holds the other half.
    """
    wholes, halves = _masks(seed)
    found, parts = statistic(wholes), statistic(halves)
    effect, null = float(found[0]), found[1:]
    persists = bool(np.all(parts[:2] > np.quantile(parts[2:], 0.9)))
    p_value = float((np.count_nonzero(null >= effect - 1e-12) + 1) / (DRAWS + 1))
    return Change(effect, float(np.quantile(null, 0.95)), p_value, n, persists, float(np.median(null)))


@lru_cache(maxsize=1)  # panels of one comparison are dealt alike
def _masks(seed: int) -> tuple[Floats, Floats]:
    """Return masks of the later window and DRAWS deals of its size, and of its two halves and a third as many deals of theirs."""
    rng = np.random.default_rng(seed)
    half = BLOCKS // 2
    seen = np.concatenate([np.zeros(BLOCKS), np.ones(BLOCKS)])
    halves = np.zeros((2, 2 * BLOCKS))
    halves[0, BLOCKS : BLOCKS + half], halves[1, BLOCKS + half :] = 1, 1
    wholes, parts = (np.argsort(rng.random((draws, 2 * BLOCKS)), axis=1) < size for draws, size in ((DRAWS, BLOCKS), (DRAWS // 3, half)))
    return np.vstack([seen, wholes]), np.vstack([halves, parts])


def _js(now: Floats, before: Floats, a: float, b: float, kinds: int) -> Floats:
    p, q = now / a, before / b
    return np.asarray((_p_log2_p(p) + _p_log2_p(q)) / 2 - _p_log2_p((p + q) / 2))


def _p_log2_p(shares: Floats) -> Floats:
    """Return p log2 p of each share; 0 log2 0 = 0."""
    return np.asarray(shares * np.log2(np.where(shares > 0, shares, 1.0)))


def _psi(now: Floats, before: Floats, a: float, b: float, kinds: int) -> Floats:
    p, q = (now + 0.5) / (a + 0.5 * kinds), (before + 0.5) / (b + 0.5 * kinds)
    return np.asarray((p - q) * np.log(p / q))


def _entropy(now: Floats, before: Floats, a: float, b: float, kinds: int) -> Floats:
    def bits(counts: Floats, total: float) -> Floats:
        return np.asarray(((counts > 0) - 1 / kinds) / (2 * total * np.log(2)) - _p_log2_p(counts / total))

    return bits(now, a) - bits(before, b)


# Jensen and Shannon's divergence, bits, 0..1. Source: Lin, IEEE Transactions on Information Theory 37 (1), 1991.
JS = Statistic(_js, lambda found: np.clip(np.round(found, 12), 0.0, 1.0))
# The population stability index, nats, half an observation added to every kind. No fixed limit fits: chance alone gives about
# (1/n1 + 1/n2) times a chi-square of kinds - 1 degrees of freedom.
PSI = Statistic(_psi, np.asarray)
# The size of the change of entropy, bits, with Miller and Madow's term.
ENTROPY = Statistic(_entropy, np.abs)


def adjusted(p_values: Sequence[float]) -> list[float]:
    """Return the p-values adjusted for their number, so that those below q are false discoveries in a share q at most.

    Source: Benjamini and Hochberg, Journal of the Royal Statistical Society B 57, 1995.
    """
    size = len(p_values)
    found = [1.0] * size
    least = 1.0
    for rank, at in zip(range(size, 0, -1), sorted(range(size), key=lambda at: -p_values[at]), strict=True):
        least = min(least, p_values[at] * size / rank)
        found[at] = least
    return found
