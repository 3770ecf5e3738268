"""What a lifetime allows and costs without a limit of space: the hits, and the space that live entries take, by TTL."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.analysis.compiled import Flags, Floats, Ints, kernel
from app.analysis.policies import NO_LIMIT, Stream


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
def _unlimited(ids: Ints, times: Ints, keys: int, ttl: int) -> Flags:
    hit = np.zeros(ids.size, np.bool_)
    stored = np.zeros(keys, np.int64)
    seen = np.zeros(keys, np.bool_)
    for k in range(ids.size):
        x = ids[k]
        if seen[x] and (ttl < 0 or times[k] - stored[x] <= ttl):
            hit[k] = True
        else:
            seen[x] = True
            stored[x] = times[k]
    return hit


def unlimited(requests: Stream, *, ttl_ms: int = NO_LIMIT) -> Flags:
    """Return (n,) hits of a cache without a limit of space: the most that any cache gets with this lifetime."""
    return _unlimited(requests.ids, requests.times, requests.keys, ttl_ms)


@kernel
def _richest(order: Ints, ids: Ints, times: Ints, values: Floats, ttl: int) -> Flags:
    """Of each key choose the requests that store, over its requests in order: all between two of them are within the first one's life.

    gained[j]: what hits up to j save when j stores, less all values up to j. queue: possible stores before j, the best first.
    """
    hit = np.ones(order.size, np.bool_)
    gained = np.zeros(order.size)
    choice = np.full(order.size, -1, np.int64)
    queue = np.empty(order.size, np.int64)
    first = last = 0
    for j in range(order.size + 1):
        begins = j == order.size or not j or ids[order[j]] != ids[order[j - 1]]
        if j > 0:
            while first < last and gained[queue[last - 1]] <= gained[j - 1]:
                last -= 1
            queue[last] = j - 1
            last += 1
            while 0 <= ttl < times[order[j - 1]] - times[order[queue[first]]]:
                first += 1
            if begins:  # the key's last request was j - 1: go back over its stores
                i = queue[first]
                while i >= 0:
                    hit[order[i]] = False
                    i = choice[i]
                first = last = 0
        if j < order.size:
            choice[j] = -1 if begins else queue[first]
            gained[j] = (0.0 if begins else gained[queue[first]]) - values[order[j]]
    return hit


def richest(requests: Stream, values: Floats, *, ttl_ms: int = NO_LIMIT) -> Flags:
    """Return (n,) the hits that save the most without a limit of space. values: (n,) what a hit at each request saves, >= 0.

    Where a key's requests save unlike amounts, its entry may be worth dropping early, so that its next store falls to a lesser one.
    """
    return _richest(np.argsort(requests.ids, kind="stable"), requests.ids, requests.times, values, ttl_ms)
