"""What a lifetime costs: the space that live entries take, by TTL."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.analysis.compiled import Ints, kernel
from app.analysis.policies import Stream


@dataclass(frozen=True, slots=True)
class Space:
    """The space of live entries when nothing is evicted. most, mean: in the unit of sizes; the mean is over time."""

    most: int
    mean: float


@kernel
def _space(ids: Ints, sizes: Ints, times: Ints, ttl: int) -> tuple[int, float]:
    n = ids.size
    stored = np.full(sizes.size, -1, np.int64)
    used, most, oldest, area, at = 0, 0, 0, 0.0, times[0]
    for k in range(n):
        if ttl >= 0:
            while times[k] - times[oldest] > ttl:
                y = ids[oldest]
                if stored[y] == oldest:
                    area += used * float(times[oldest] + ttl - at)
                    at = times[oldest] + ttl
                    used -= sizes[y]
                    stored[y] = -1
                oldest += 1
        x = ids[k]
        area += used * float(times[k] - at)
        at = times[k]
        if stored[x] < 0:
            stored[x] = k
            used += sizes[x]
            most = max(most, used)
    return most, area


def space(requests: Stream, ttl_ms: int) -> Space:
    """Return the most and the mean space of live entries from the first to the last request."""
    if not requests.n:
        return Space(0, 0.0)
    most, area = _space(requests.ids, requests.sizes, requests.times, ttl_ms)
    length = float(requests.times[-1] - requests.times[0])
    return Space(int(most), area / length if length > 0 else float(most))
