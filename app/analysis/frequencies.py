"""Eviction by how often and how dear: LFU, GDSF and W-TinyLFU. Arguments and result as in `queues`."""

from __future__ import annotations

import numpy as np

from app.analysis.compiled import Flags, Floats, Ints, kernel, new_list, push, sift, take, unlink


@kernel
def ranked(ids: Ints, sizes: Ints, times: Ints, ttl: int, capacity: int, worth: Floats, aging: bool) -> Flags:
    """Replay LFU (worth all 1, no aging) or GDSF (worth = cost / size, aging): evict the least rank, the longest untouched first.

    rank = L + uses · worth, where L is 0, or with aging the rank of what was evicted last. Uses are forgotten with the entry.
    Source: Cherkasova, "Improving WWW proxies performance with Greedy-Dual-Size-Frequency caching policy", HPL-98-69, 1998.
    """
    n, m = ids.size, sizes.size
    hit = np.zeros(n, np.bool_)
    heap = np.empty(m, np.int64)
    place = np.full(m, -1, np.int64)
    rank = np.zeros(m)
    turn = np.zeros(m, np.int64)
    uses = np.zeros(m, np.int64)
    stored = np.full(m, -1, np.int64)
    size, used, oldest, base = 0, 0, 0, 0.0
    for k in range(n):
        if ttl >= 0:
            while times[k] - times[oldest] > ttl:
                y = ids[oldest]
                if stored[y] == oldest:
                    take(heap, place, rank, turn, y, size)
                    size -= 1
                    stored[y] = -1
                    used -= sizes[y]
                oldest += 1
        x = ids[k]
        if stored[x] >= 0:
            hit[k] = True
            uses[x] += 1
            rank[x] = base + uses[x] * worth[x]
            turn[x] = k
            sift(heap, place, rank, turn, place[x], size)
            continue
        if sizes[x] > capacity:
            continue
        while used + sizes[x] > capacity:
            y = heap[0]
            if aging:
                base = rank[y]
            take(heap, place, rank, turn, y, size)
            size -= 1
            stored[y] = -1
            used -= sizes[y]
        uses[x] = 1
        rank[x] = base + worth[x]
        turn[x] = k
        heap[size] = x
        size += 1
        sift(heap, place, rank, turn, size - 1, size)
        stored[x] = k
        used += sizes[x]
    return hit


_WINDOW, _PROBATION, _PROTECTED = 1, 2, 3


@kernel
def tinylfu(ids: Ints, sizes: Ints, times: Ints, ttl: int, capacity: int) -> Flags:
    """Replay W-TinyLFU: a window of 1 % by recency; from it a key enters the main part only when it was asked for more often
    than the one that would leave. The main part is a segmented LRU, 80 % of it protected. Counts go to 15 and are halved every
    ten times the most entries held; they are exact here, where a server keeps a sketch.

    Source: Einziger, Friedman, Manes, "TinyLFU: a highly efficient cache admission policy", ACM Trans. Storage 13 (4), 2017.
    """
    n, m = ids.size, sizes.size
    hit = np.zeros(n, np.bool_)
    window_before, window_after = new_list(m)
    probation_before, probation_after = new_list(m)
    protected_before, protected_after = new_list(m)
    count = np.zeros(m, np.int64)
    where = np.zeros(m, np.int8)
    stored = np.full(m, -1, np.int64)
    window_most = max(1, capacity // 100)
    main_most = capacity - window_most
    protected_most = main_most * 8 // 10
    window, probation, protected, oldest, counted, held, most_held = 0, 0, 0, 0, 0, 0, 1
    for k in range(n):
        if ttl >= 0:
            while times[k] - times[oldest] > ttl:
                y = ids[oldest]
                if stored[y] == oldest:
                    if where[y] == _WINDOW:
                        unlink(window_before, window_after, y)
                        window -= sizes[y]
                    elif where[y] == _PROBATION:
                        unlink(probation_before, probation_after, y)
                        probation -= sizes[y]
                    else:
                        unlink(protected_before, protected_after, y)
                        protected -= sizes[y]
                    stored[y] = -1
                    held -= 1
                oldest += 1
        x = ids[k]
        count[x] = min(count[x] + 1, 15)
        counted += 1
        most_held = max(most_held, held)
        if counted >= 10 * most_held and used_enough(window, probation, protected, capacity):
            counted //= 2
            for y in range(m):
                count[y] >>= 1
        if stored[x] >= 0:
            hit[k] = True
            if where[x] == _WINDOW:
                unlink(window_before, window_after, x)
                push(window_before, window_after, x, m)
            elif where[x] == _PROTECTED:
                unlink(protected_before, protected_after, x)
                push(protected_before, protected_after, x, m)
            else:
                unlink(probation_before, probation_after, x)
                probation -= sizes[x]
                push(protected_before, protected_after, x, m)
                protected += sizes[x]
                where[x] = _PROTECTED
                while protected > protected_most:
                    y = protected_before[m]
                    unlink(protected_before, protected_after, y)
                    protected -= sizes[y]
                    push(probation_before, probation_after, y, m)
                    probation += sizes[y]
                    where[y] = _PROBATION
            continue
        if sizes[x] > capacity:
            continue
        push(window_before, window_after, x, m)
        where[x] = _WINDOW
        window += sizes[x]
        stored[x] = k
        held += 1
        while window > window_most:
            y = window_before[m]
            unlink(window_before, window_after, y)
            window -= sizes[y]
            enters = sizes[y] <= main_most
            while enters and probation + protected + sizes[y] > main_most:
                in_probation = probation > 0
                z = probation_before[m] if in_probation else protected_before[m]
                if count[y] <= count[z]:
                    enters = False
                    break
                if in_probation:
                    unlink(probation_before, probation_after, z)
                    probation -= sizes[z]
                else:
                    unlink(protected_before, protected_after, z)
                    protected -= sizes[z]
                stored[z] = -1
                held -= 1
            if enters:
                push(probation_before, probation_after, y, m)
                probation += sizes[y]
                where[y] = _PROBATION
            else:
                stored[y] = -1
                held -= 1
    return hit


@kernel
def used_enough(window: int, probation: int, protected: int, capacity: int) -> bool:
    """Return whether the cache is nearly full: before that nothing competes, and counts need no aging."""
    return (window + probation + protected) * 10 >= capacity * 9
