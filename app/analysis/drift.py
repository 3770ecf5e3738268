"""Change of a distribution between two windows, against what chance and bursts alone would give."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

BLOCKS = 12  # parts of a window that are moved as one: a burst within a part cannot look like a change
DRAWS = 499
MOST_KINDS = 600  # the rarest are put together above it
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


Statistic = Callable[[Floats, Floats], Floats]


def of_kinds(before: Ints, now: Ints, statistic: Statistic, *, seed: int = 0) -> Change | None:
    """Return the change of a mix. before, now: kind of each observation in the order of time, any length, thinned to equal n.

    None when a side is empty.
    """
    n = min(len(before), len(now))
    if not n:
        return None
    before, now = before[thinned(len(before), n)], now[thinned(len(now), n)]
    kinds, codes = np.unique(np.concatenate([before, now]), return_inverse=True)
    codes, size = _folded(codes, len(kinds))
    table = _table(codes[:n], codes[n:], n, size)
    return _judge(_dealt(table, statistic), n, seed)


def of_numbers(before: Floats, now: Floats, *, seed: int = 0) -> Change | None:
    """Return the change of a number's distribution: Kolmogorov and Smirnov's distance, 0..1, on a grid of pooled quantiles."""
    n = min(len(before), len(now))
    if not n:
        return None
    before, now = before[thinned(len(before), n)], now[thinned(len(now), n)]
    grid = np.unique(np.quantile(np.concatenate([before, now]), np.linspace(0, 1, _GRID)))
    # A value belongs to the first point of the grid at or above it.
    places = [np.searchsorted(grid, side, side="left") for side in (before, now)]
    table = np.cumsum(_table(places[0], places[1], n, len(grid)), axis=1)
    return _judge(_dealt(table, ks_rows), n, seed)


def of_hashes(before: NDArray[np.uint64], now: NDArray[np.uint64], *, most: int = 400, seed: int = 0) -> Change | None:
    """Return the change of prompts as vectors: unbiased MMD^2 on 64-bit SimHashes, kernel exp(-Hamming / median).

    before, now: SimHashes in the order of time, as unsigned 64-bit integers; `most` of each, evenly spread. 0 = one distribution.
    Source: Gretton et al., Journal of Machine Learning Research 13, 2012.
    """
    n = min(len(before), len(now), most)
    if n < 2 * BLOCKS:
        return None
    codes = np.concatenate([before[thinned(len(before), n)], now[thinned(len(now), n)]]).astype(np.uint64)
    distance = np.bitwise_count(codes[:, None] ^ codes[None, :]).astype(np.float64)
    apart = distance[np.triu_indices(len(codes), 1)]
    return _mmd(np.exp(-distance / max(1.0, float(np.median(apart)))), n, seed)


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
    member = np.zeros((2 * n, 2 * BLOCKS))
    member[np.arange(2 * n), np.concatenate([blocks(n), BLOCKS + blocks(n)])] = 1
    sums, sizes = member.T @ kernel @ member, member.sum(axis=0)

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
    table = np.zeros((2 * BLOCKS, size))
    np.add.at(table, (blocks(n), before), 1)
    np.add.at(table, (BLOCKS + blocks(n), now), 1)
    return table


def _dealt(table: Floats, statistic: Statistic) -> Callable[[Floats], Floats]:
    """Return the statistic of masks over the table's blocks. Counts are whole numbers: what is not in the one window is in the other."""
    whole = table.sum(axis=0)

    def of(mask: Floats) -> Floats:
        now = mask @ table
        return statistic(now, whole - now)

    return of


def _folded(codes: Ints, size: int) -> tuple[Ints, int]:
    if size <= MOST_KINDS:
        return codes, size
    order = np.argsort(-np.bincount(codes, minlength=size), kind="stable")
    renumbered = np.full(size, MOST_KINDS - 1, dtype=np.int64)
    renumbered[order[: MOST_KINDS - 1]] = np.arange(MOST_KINDS - 1)
    return renumbered[codes], MOST_KINDS


def _judge(statistic: Callable[[Floats], Floats], n: int, seed: int) -> Change:
    """Deal all blocks anew DRAWS times. A mask (d, 2 BLOCKS) says which blocks are the later window."""
    rng = np.random.default_rng(seed)
    seen = np.concatenate([np.zeros(BLOCKS), np.ones(BLOCKS)])
    dealt = np.argsort(rng.random((DRAWS, 2 * BLOCKS)), axis=1) < BLOCKS
    null = statistic(dealt.astype(np.float64))
    effect = float(statistic(seen[None, :])[0])
    persists = _persists(statistic, rng)
    p_value = float((np.count_nonzero(null >= effect - 1e-12) + 1) / (DRAWS + 1))
    return Change(effect, float(np.quantile(null, 0.95)), p_value, n, persists, float(np.median(null)))


def _persists(statistic: Callable[[Floats], Floats], rng: np.random.Generator) -> bool:
    """Return whether each half of the later window, against all other blocks, is further away than nine in ten deals of its size.

    A half that holds the change is far from the rest even though the rest holds the other half.
    """
    half = BLOCKS // 2
    halves = np.zeros((2, 2 * BLOCKS))
    halves[0, BLOCKS : BLOCKS + half], halves[1, BLOCKS + half :] = 1, 1
    dealt = np.argsort(rng.random((DRAWS // 3, 2 * BLOCKS)), axis=1) < half
    return bool(np.all(statistic(halves) > np.quantile(statistic(dealt.astype(np.float64)), 0.9)))


def js_rows(now: Floats, before: Floats) -> Floats:
    """Return the Jensen-Shannon divergence of each row's counts, bits, 0..1, shape (d,).

    Source: Lin, IEEE Transactions on Information Theory 37 (1), 1991.
    """
    p, q = (side / np.maximum(side.sum(axis=1, keepdims=True), 1) for side in (now, before))
    parts = [_log2_sum(side) for side in (p, q, (p + q) / 2)]
    return np.asarray(np.clip((parts[0] + parts[1]) / 2 - parts[2], 0.0, 1.0))


def _log2_sum(shares: Floats) -> Floats:
    """Return the sum of p log2 p over each row; 0 log2 0 = 0."""
    logs = np.log2(shares, out=np.zeros_like(shares), where=shares > 0)
    return np.asarray((shares * logs).sum(axis=1))


def psi_rows(now: Floats, before: Floats) -> Floats:
    """Return the population stability index of each row's counts, nats, half an observation added to every kind, shape (d,).

    No fixed limit fits: chance alone gives about (1/n1 + 1/n2) times a chi-square of kinds - 1 degrees of freedom.
    """
    p, q = ((side + 0.5) / (side + 0.5).sum(axis=1, keepdims=True) for side in (now, before))
    return np.asarray(((p - q) * np.log(p / q)).sum(axis=1))


def entropy_rows(now: Floats, before: Floats) -> Floats:
    """Return the size of the change of entropy of each row's counts, bits, with Miller and Madow's term, shape (d,)."""
    return np.asarray(np.abs(_bits(now) - _bits(before)))


def _bits(counts: Floats) -> Floats:
    total = np.maximum(counts.sum(axis=1, keepdims=True), 1)
    shares = counts / total
    plug_in = -_log2_sum(shares)
    return np.asarray(plug_in + np.maximum(np.count_nonzero(counts, axis=1) - 1, 0) / (2 * total[:, 0] * np.log(2)))


def ks_rows(now: Floats, before: Floats) -> Floats:
    """Return the largest distance of each row's cumulated counts, 0..1, shape (d,)."""
    p, q = (side / np.maximum(side[:, -1:], 1) for side in (now, before))
    return np.asarray(np.abs(p - q).max(axis=1))


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
