"""The best that any cache could have done, knowing the future: Belady's MIN, and brackets where sizes and values differ.

A reuse interval is the time from one request of a key to its next: the entry is held for it, or not. It has a size, and a value, what its
hit saves. Intervals longer than the lifetime are infeasible.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from app.analysis.compiled import Flags, Floats, Ints, kernel
from app.analysis.policies import NO_LIMIT, Stream
from app.analysis.ttl import best_hits

LP_MOST = 10_000  # intervals: above it the linear program takes minutes


@dataclass(frozen=True, slots=True)
class Intervals:
    """Feasible reuse intervals: held after request start[i] until request end[i] hits. All (k,), ends ascending."""

    start: Ints
    end: Ints
    size: Ints
    value: Floats
    n: int  # requests of the stream


@dataclass(frozen=True, slots=True)
class Bracket:
    """low <= the value of the optimum <= high. method: FOO or PFOO, which gave the upper end; high_by: (n,) it by request."""

    low: float
    high: float
    method: str
    high_by: Floats = field(compare=False, default_factory=lambda: np.zeros(0))


@kernel
def next_request(ids: Ints, keys: int) -> Ints:
    """Return (n,) the index of each key's next request; n = never."""
    n = ids.size
    last = np.full(keys, n, np.int64)
    found = np.empty(n, np.int64)
    for k in range(n - 1, -1, -1):
        found[k] = last[ids[k]]
        last[ids[k]] = k
    return found


@kernel
def _lift(heap: Ints, i: int) -> None:
    """Move heap[i] up a heap whose top is the greatest."""
    value = heap[i]
    while i > 0:
        parent = (i - 1) >> 1
        if heap[parent] >= value:
            break
        heap[i] = heap[parent]
        i = parent
    heap[i] = value


@kernel
def _pop(heap: Ints, size: int) -> None:
    """Take the greatest out of a heap of `size`."""
    value = heap[size - 1]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= size - 1:
            break
        if child + 1 < size - 1 and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[i] = heap[child]
        i = child
    heap[i] = value


@kernel
def _belady(ids: Ints, sizes: Ints, times: Ints, following: Ints, ttl: int, capacity: int, bypass: bool) -> Flags:
    """A heap of the next uses of what is held. A use that has come is the least in it, so it need not be taken out: entries of it are
    stale when due[owner] has moved on. n + x stands for "x is never used again"."""
    n, m = ids.size, sizes.size
    hit = np.zeros(n, np.bool_)
    due = np.full(m, -1, np.int64)  # next use of what is held; -1 = not held
    stored = np.zeros(m, np.int64)
    heap = np.empty(4 * m + 2_048, np.int64)
    size, held, used, limit = 0, 0, 0, 2_048
    for k in range(n):
        x = ids[k]
        use = following[k]
        if use == n or (ttl >= 0 and times[use] - times[k] > ttl):
            use = n + x
        if due[x] >= 0:
            if due[x] == k and (ttl < 0 or times[k] - stored[x] <= ttl):
                hit[k] = True
            else:
                stored[x] = times[k]  # expired: made again, in its own place
        else:
            if sizes[x] > capacity:
                continue
            skipped = bypass and use >= n
            while not skipped and used + sizes[x] > capacity:
                top = heap[0]
                y = ids[top] if top < n else top - n
                if due[y] == top:
                    if bypass and top <= use:
                        skipped = True
                        break
                    due[y] = -1
                    used -= sizes[y]
                    held -= 1
                _pop(heap, size)
                size -= 1
            if skipped:
                continue
            stored[x] = times[k]
            used += sizes[x]
            held += 1
        due[x] = use
        if size == limit:
            kept = 0
            for i in range(size):
                y = ids[heap[i]] if heap[i] < n else heap[i] - n
                if due[y] == heap[i] and heap[i] > k and heap[i] != use:
                    heap[kept] = heap[i]
                    kept += 1
                    due[y] = -1 - due[y]  # one entry each: a use that never comes is pushed anew whenever its key expires
            size = kept
            for i in range(size):
                due[ids[heap[i]] if heap[i] < n else heap[i] - n] = heap[i]
            for i in range(1, size):
                _lift(heap, i)
            limit = min(4 * held + 2_048, heap.size)
        heap[size] = use
        size += 1
        _lift(heap, size - 1)
    return hit


def belady(requests: Stream, capacity: int, *, bypass: bool = False, ttl_ms: int = NO_LIMIT) -> Flags:
    """Return (n,) hits of MIN: what is used again last leaves first. bypass: a key need not be stored when it is asked for.

    With sizes of 1 and no lifetime this is the most hits possible (of caches that must store every miss, without bypass). With sizes or
    a lifetime it is what one offline policy gets: a lower bound of the optimum.
    Source: Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal 5 (2), 1966.
    """
    following = next_request(requests.ids, requests.keys)
    return _belady(requests.ids, requests.sizes, requests.times, following, ttl_ms, capacity, bypass)


def intervals(requests: Stream, values: Floats, *, ttl_ms: int = NO_LIMIT) -> Intervals:
    """Return the stream's feasible intervals. values: (n,) what a hit at each request saves; those at 0 or below are left out."""
    following = next_request(requests.ids, requests.keys)
    start = np.flatnonzero(following < requests.n)
    end = following[start]
    worth = values[end] > 0
    if ttl_ms >= 0:
        worth &= requests.times[end] - requests.times[start] <= ttl_ms
    start, end = start[worth], end[worth]
    order = np.argsort(end, kind="stable")
    start, end = start[order], end[order]
    return Intervals(start, end, requests.sizes[requests.ids[start]], values[end], requests.n)


def pfoo_high(found: Intervals, capacity: int) -> Floats:
    """Return (k,) the shares (0…1) of the intervals whose value together is an upper bound: the cheapest by footprint (size · length) for
    their value, until capacity · time is used up. Source: Berger, Beckmann, Harchol-Balter, "Practical bounds on optimal caching",
    SIGMETRICS 2018, PFOO-L.
    """
    shares = np.zeros(found.end.size)
    fits = np.flatnonzero(found.size <= capacity)
    if not fits.size:
        return shares
    footprint = (found.size * (found.end - found.start)).astype(np.float64)[fits]
    order = np.argsort(footprint / found.value[fits], kind="stable")
    room = float(capacity) * float(found.end[fits].max() - found.start[fits].min())
    total = np.cumsum(footprint[order])
    whole = int(np.searchsorted(total, room, side="right"))
    shares[fits[order[:whole]]] = 1.0
    if whole < order.size:
        left = room - (float(total[whole - 1]) if whole else 0.0)
        shares[fits[order[whole]]] = left / float(footprint[order[whole]])
    return shares


@kernel
def _pack(order: Ints, start: Ints, end: Ints, size: Ints, capacity: int, slots: int) -> Flags:
    """Take intervals in this order while they fit. A tree over time holds, for each node, the space in use by all of it, and the most in
    use by parts of it."""
    leaves = 1
    while leaves < slots:
        leaves *= 2
    whole = np.zeros(2 * leaves, np.int64)
    most = np.zeros(2 * leaves, np.int64)
    taken = np.zeros(start.size, np.bool_)
    for i in order:
        low, high = start[i] + leaves, end[i] + leaves
        # What is in use over [start, end): nodes that cover it, each with what its ancestors hold.
        peak = 0
        a, b = low, high
        while a < b:
            for side in range(2):
                node = -1
                if side == 0 and a & 1:
                    node = a
                    a += 1
                if side == 1 and b & 1:
                    b -= 1
                    node = b
                if node >= 0:
                    use = most[node]
                    above = node >> 1
                    while above:
                        use += whole[above]
                        above >>= 1
                    peak = max(peak, use)
            a >>= 1
            b >>= 1
        if peak + size[i] > capacity:
            continue
        taken[i] = True
        a, b = low, high
        while a < b:
            if a & 1:
                whole[a] += size[i]
                most[a] += size[i]
                a += 1
            if b & 1:
                b -= 1
                whole[b] += size[i]
                most[b] += size[i]
            a >>= 1
            b >>= 1
        for leaf in (low, high - 1):
            node = leaf >> 1
            while node:
                most[node] = max(most[2 * node], most[2 * node + 1]) + whole[node]
                node >>= 1
    return taken


@kernel
def _last_in_time(taken: Flags, start: Ints, end: Ints, ids: Ints, times: Ints, keys: int, ttl: int) -> Flags:
    """Drop what the entry's age forbids: intervals of one key that follow each other are hits on one store, until it expires."""
    kept = taken.copy()
    held = np.full(keys, -1, np.int64)  # the request at which the interval kept last ended
    stored = np.zeros(keys, np.int64)
    for i in range(end.size):
        if not taken[i]:
            continue
        x = ids[start[i]]
        if held[x] != start[i]:
            stored[x] = times[start[i]]
        if times[end[i]] - stored[x] > ttl:
            kept[i] = False
        else:
            held[x] = end[i]
    return kept


def packed(found: Intervals, requests: Stream, capacity: int, *, ttl_ms: int = NO_LIMIT, weights: Floats | None = None) -> float:
    """Return a value that an offline cache reaches: intervals are taken while they fit, those of the greatest weight first, then those of
    the least footprint for their value. A lower bound. weights: (k,) of the linear program; None = all equal.
    """
    if not found.end.size:
        return 0.0
    footprint = found.size * (found.end - found.start) / found.value
    order = np.lexsort((footprint, -(np.zeros(found.end.size) if weights is None else np.round(weights, 6))))
    taken = _pack(order, found.start, found.end, found.size, capacity, found.n)
    if ttl_ms >= 0:
        taken = _last_in_time(taken, found.start, found.end, requests.ids, requests.times, requests.keys, ttl_ms)
    return float(found.value[taken].sum())


def foo(found: Intervals, capacity: int, *, whole: bool = False, time_limit_s: float = 10.0) -> tuple[float, Floats] | None:
    """Return the optimum of the flow program and its (k,) shares in 0…1, or None when it is not solved in time.

    max Σ value·x with Σ size·x <= capacity over the intervals that hold each moment. whole: x in {0, 1}, the true optimum; else the
    relaxation, an upper bound. Source: Berger et al. 2018, FOO.
    """
    from scipy.optimize import Bounds, LinearConstraint, milp  # noqa: PLC0415 - 0.4 s, paid by the worker when it first needs a program
    from scipy.sparse import coo_array  # noqa: PLC0415

    k = found.end.size
    if not k:
        return 0.0, np.zeros(0)
    # Space in use after each moment at which an interval starts or ends: one variable each, so that a row has few terms.
    moments, place = np.unique(np.concatenate((found.start, found.end)), return_inverse=True)
    t = moments.size
    size = found.size.astype(np.float64) / max(1, capacity)  # in capacities: the solver's tolerances are absolute
    every = np.arange(k)
    rows = np.concatenate((place[:k], place[k:], np.arange(t), np.arange(1, t)))
    columns = np.concatenate((every, every, k + np.arange(t), k + np.arange(t - 1)))
    entries = np.concatenate((size, -size, -np.ones(t), np.ones(t - 1)))
    balance = coo_array((entries, (rows, columns)), shape=(t, k + t)).tocsr()
    most = np.concatenate(((found.size <= capacity).astype(np.float64), np.ones(t) if capacity else np.zeros(t)))
    scale = float(found.value.max())
    solved = milp(
        -np.concatenate((found.value / scale, np.zeros(t))),
        constraints=LinearConstraint(balance, 0, 0),
        bounds=Bounds(0, most),
        integrality=np.concatenate((np.full(k, int(whole)), np.zeros(t))),
        options={"time_limit": time_limit_s},
    )
    if solved.status != 0 or solved.x is None:
        return None
    return float(-solved.fun) * scale, np.clip(solved.x[:k], 0.0, 1.0)


def bracket(requests: Stream, values: Floats, capacity: int, *, ttl_ms: int = NO_LIMIT, lp_most: int = LP_MOST) -> Bracket:
    """Return what the offline optimum saves at most and at least. values: (n,) what a hit at each request saves, >= 0.

    The optimum may bypass, and an entry's age counts from its store. Up to lp_most intervals by the linear program (FOO), above it by PFOO.
    """
    found = intervals(requests, values, ttl_ms=ttl_ms)

    def by_request(shares: Floats) -> Floats:
        return np.bincount(found.end, found.value * shares, minlength=requests.n).astype(np.float64)

    ends = [by_request(pfoo_high(found, capacity)), by_request(np.ones(found.end.size)), values * best_hits(requests, values, ttl_ms)]
    high_by = min(ends, key=np.sum)
    high = float(high_by.sum())
    low = max(
        packed(found, requests, capacity, ttl_ms=ttl_ms),
        *(float(values[belady(requests, capacity, bypass=one, ttl_ms=ttl_ms)].sum()) for one in (True, False)),
    )
    method = "PFOO"
    if low < high * (1 - 1e-9) and found.end.size <= lp_most:
        solved = foo(found, capacity)
        if solved is not None:
            method = "FOO"
            if solved[0] < high:
                high, high_by = solved[0], by_request(solved[1])
            low = max(low, packed(found, requests, capacity, ttl_ms=ttl_ms, weights=solved[1]))
    return Bracket(min(low, high), high, method, high_by)


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
    """Return (n,) hits of a cache without a limit of space that holds entries until they expire: the most in number with this lifetime."""
    return _unlimited(requests.ids, requests.times, requests.keys, ttl_ms)


def best_fixed(requests: Stream, values: Floats, capacity: int, *, ttl_ms: int = NO_LIMIT) -> Flags:
    """Return (n,) hits of the best fixed set: keys chosen once, by what they save for their size, until no more fits.

    values: (n,). Exact for equal sizes; else at least half of the best set's value, together with its single best key.
    """
    gained = np.bincount(requests.ids, np.where(unlimited(requests, ttl_ms=ttl_ms), values, 0.0), minlength=requests.keys)
    chosen = np.zeros(requests.keys, np.bool_)
    left = capacity
    for x in np.argsort(-gained / requests.sizes, kind="stable"):
        if gained[x] <= 0:
            break
        if requests.sizes[x] <= left:
            chosen[x] = True
            left -= requests.sizes[x]
    fits = np.where(requests.sizes <= capacity, gained, 0.0)
    if fits.size and fits.max() > gained[chosen].sum():
        chosen[:] = False
        chosen[int(np.argmax(fits))] = True
    return unlimited(requests, ttl_ms=ttl_ms) & chosen[requests.ids]
