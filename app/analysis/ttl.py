"""What a lifetime costs and allows: the space that live entries take, and the most that hits on them save, by TTL."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.analysis.compiled import Flags, Floats, Ints, kernel
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


@kernel
def _best_hits(order: Ints, ids: Ints, times: Ints, values: Floats, ttl: int) -> Flags:
    """From each key's last request back: least[i] is the least that is missed from i on where i is a miss, following[i] the next miss then.

    The next miss comes at the latest when the entry has expired: the least of a window that moves back, its candidates in a queue whose
    head is the least, of equal ones the latest.
    """
    n = order.size
    hit = np.ones(n, np.bool_)
    least = np.zeros(n + 1, np.float64)
    following = np.zeros(n, np.int64)
    queue = np.empty(n + 1, np.int64)
    end = n
    while end > 0:
        x = ids[order[end - 1]]
        head, size = 0, 1
        queue[0], least[end] = end, 0.0  # no miss any more
        start = end
        while start > 0 and ids[order[start - 1]] == x:
            start -= 1
            i = order[start]
            if start + 1 < end:
                while size > 0 and least[queue[head + size - 1]] > least[start + 1]:
                    size -= 1
                queue[head + size] = start + 1
                size += 1
            while size > 1 and ttl >= 0 and times[order[queue[head] - 1]] - times[i] > ttl:
                head += 1
                size -= 1
            following[start] = queue[head]
            least[start] = values[i] + least[queue[head]]
        miss = start
        while miss < end:
            hit[order[miss]] = False
            miss = following[miss]
        end = start
    return hit


def best_hits(requests: Stream, values: Floats, ttl_ms: int) -> Flags:
    """Return (n,) the hits that save most with this lifetime and no limit of space. values: (n,) what each would save, >= 0.

    A key's entry may be dropped before a hit of little value, to be made anew then and still live at one of more.
    """
    return _best_hits(np.argsort(requests.ids, kind="stable"), requests.ids, requests.times, values, ttl_ms)
