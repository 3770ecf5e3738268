"""When a rate changed: adaptive windowing (ADWIN) over counts by time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DELTA = 0.002  # chance of a false cut of a window, as the method's authors and `river` have it
_LEAST = 5  # observations that a side needs beyond which its error counts
_PAIRS = 8  # neighbouring blocks needed to judge how bursty they are


@dataclass(frozen=True, slots=True)
class Cut:
    """The rate changed at the start of block `at`. before and now: rates (0…1) of the windows on its sides. excess: |change| / bound."""

    at: int
    before_ratio: float
    now_ratio: float
    excess: float


def adwin(hits: Sequence[int], lookups: Sequence[int], *, delta: float = DELTA, most_blocks: int = 2_000) -> list[Cut]:
    """Return the cuts, oldest first; at most one between two of them.

    hits, lookups: counts of blocks in the order of time, 0 <= hits <= lookups; blocks without lookups are passed over. After each
    block every split of the window is tested with the bound of Bifet and Gavaldà (SIAM Data Mining 2007, variance form) on the
    effective number of lookups; when one fails, what lies before the worst split is dropped. Blocks keep every split, where the
    authors' exponential histogram keeps some.
    Raises ValueError above `most_blocks`: the work grows with their square.
    """
    if len(hits) > most_blocks:
        raise ValueError(f"{len(hits)} blocks are too many; expected at most {most_blocks}: use wider ones")
    k, n = np.asarray(hits, dtype=np.float64), np.asarray(lookups, dtype=np.float64)
    place = np.flatnonzero(n > 0)
    burst = dispersion(hits, lookups)
    k, n = k[place] / burst, n[place] / burst
    sums = np.vstack([np.zeros(2), np.cumsum(np.stack([k, n], axis=1), axis=0)])
    found: list[Cut] = []
    start = 0
    for end in range(2, len(place) + 1):
        while (cut := _worst(sums[start : end + 1], delta)) is not None:
            at, before, now, excess = cut
            found.append(Cut(int(place[start + at]), before, now, excess))
            start += at
    return _settled(found, sums, place, delta)


def _worst(sums: Floats, delta: float) -> tuple[int, float, float, float] | None:
    """Return the split of a window that fails by most: its place, both rates and how far beyond the bound; None when all hold."""
    total_k, total_n = sums[-1] - sums[0]
    n0 = sums[1:-1, 1] - sums[0, 1]
    k0 = sums[1:-1, 0] - sums[0, 0]
    n1, k1 = total_n - n0, total_k - k0
    usable = (n0 > _LEAST) & (n1 > _LEAST)
    if not usable.any():
        return None
    mean = total_k / total_n
    size = 1 / np.maximum(n0 - _LEAST + 1, 1) + 1 / np.maximum(n1 - _LEAST + 1, 1)
    depth = np.log(2 * max(np.log(max(total_n, np.e)), 1.0) / delta)
    variance = max(0.0, mean * (1 - mean))  # sums of parts of lookups round: all of them may be a little more than all
    bound = np.sqrt(2 * size * variance * depth) + 2 / 3 * depth * size
    before, now = k0 / np.maximum(n0, 1e-12), k1 / np.maximum(n1, 1e-12)
    excess = np.where(usable, np.abs(now - before) / bound, 0.0)
    at = int(np.argmax(excess))
    return (at + 1, float(before[at]), float(now[at]), float(excess[at])) if excess[at] > 1 else None


def _settled(found: Sequence[Cut], sums: Floats, place: NDArray[np.int64], delta: float) -> list[Cut]:
    """Return each cut where the whole stretch between its neighbours splits best: at first sight little of the new rate was seen."""
    where = {int(block): at for at, block in enumerate(place)}
    edges = [0, *sorted({where[cut.at] for cut in found}), len(place)]
    settled = []
    for at in range(1, len(edges) - 1):
        before, after = edges[at - 1], edges[at + 1]
        better = _worst(sums[before : after + 1], delta)
        if better is not None:  # what looked like a change may have gone again
            edges[at] = before + better[0]
            settled.append(Cut(int(place[edges[at]]), *better[1:]))
    return settled


def dispersion(hits: Sequence[int], lookups: Sequence[int]) -> float:
    """Return how much more the rates of neighbouring blocks differ than independent lookups would, >= 1.

    Bursts of one session or prompt make lookups dependent: n of them tell as much as n / dispersion. Neighbours are compared, so
    a change of the level does not count. 1 where there are too few blocks to tell.
    """
    k, n = np.asarray(hits, dtype=np.float64), np.asarray(lookups, dtype=np.float64)
    k, n = k[n > 0], n[n > 0]
    if len(n) <= _PAIRS:
        return 1.0
    pooled = (k[1:] + k[:-1]) / (n[1:] + n[:-1])
    expected = pooled * (1 - pooled) * (1 / n[1:] + 1 / n[:-1])
    known = expected > 0
    if np.count_nonzero(known) < _PAIRS:
        return 1.0
    seen = (k[1:] / n[1:] - k[:-1] / n[:-1]) ** 2
    # The pooled rate comes from the same two blocks, which makes the expected square a little too small: N / (N - 1).
    size = n[1:] + n[:-1]
    return float(max(1.0, np.sum(seen[known]) / np.sum(expected[known] * size[known] / np.maximum(size[known] - 1, 1))))
