"""Eviction by queues: FIFO, LRU, SIEVE and S3-FIFO.

All take the stream as `policies.replay` prepares it: ids (n,) dense, sizes by id, times (n,) never falling, ttl < 0 = none. All return
(n,) flags: this request was a hit. An entry's age counts from its store; one that is older than ttl leaves at once. A key larger than the
capacity is never stored. stored[x] is the index of the request that stored x, -1 when it is not there.
"""

from __future__ import annotations

import numpy as np

from app.analysis.compiled import Flags, Ints, kernel, new_list, push, unlink


@kernel
def recency(ids: Ints, sizes: Ints, times: Ints, ttl: int, capacity: int, refresh: bool) -> Flags:
    """Replay LRU (refresh) or FIFO (not)."""
    n, m = ids.size, sizes.size
    hit = np.zeros(n, np.bool_)
    before, after = new_list(m)
    stored = np.full(m, -1, np.int64)
    used, oldest = 0, 0
    for k in range(n):
        if ttl >= 0:
            while times[k] - times[oldest] > ttl:
                y = ids[oldest]
                if stored[y] == oldest:
                    unlink(before, after, y)
                    stored[y] = -1
                    used -= sizes[y]
                oldest += 1
        x = ids[k]
        if stored[x] >= 0:
            hit[k] = True
            if refresh:
                unlink(before, after, x)
                push(before, after, x, m)
            continue
        if sizes[x] > capacity:
            continue
        while used + sizes[x] > capacity:
            y = before[m]
            unlink(before, after, y)
            stored[y] = -1
            used -= sizes[y]
        push(before, after, x, m)
        stored[x] = k
        used += sizes[x]
    return hit


@kernel
def sieve(ids: Ints, sizes: Ints, times: Ints, ttl: int, capacity: int) -> Flags:
    """Replay SIEVE: a queue in order of arrival, a visited bit, and a hand that moves from the oldest to the newest.

    Source: Zhang et al., "SIEVE is simpler than LRU", NSDI 2024, algorithm 1.
    """
    n, m = ids.size, sizes.size
    hit = np.zeros(n, np.bool_)
    before, after = new_list(m)
    visited = np.zeros(m, np.bool_)
    stored = np.full(m, -1, np.int64)
    used, oldest, hand = 0, 0, m
    for k in range(n):
        if ttl >= 0:
            while times[k] - times[oldest] > ttl:
                y = ids[oldest]
                if stored[y] == oldest:
                    if hand == y:
                        hand = before[y]
                    unlink(before, after, y)
                    stored[y] = -1
                    used -= sizes[y]
                oldest += 1
        x = ids[k]
        if stored[x] >= 0:
            hit[k] = visited[x] = True
            continue
        if sizes[x] > capacity:
            continue
        while used + sizes[x] > capacity:
            y = hand if hand != m else before[m]
            while visited[y]:
                visited[y] = False
                y = before[y] if before[y] != m else before[m]
            hand = before[y]
            unlink(before, after, y)
            stored[y] = -1
            used -= sizes[y]
        push(before, after, x, m)
        visited[x] = False
        stored[x] = k
        used += sizes[x]
    return hit


_SMALL, _MAIN = 1, 2


@kernel
def s3fifo(ids: Ints, sizes: Ints, times: Ints, ttl: int, capacity: int) -> Flags:
    """Replay S3-FIFO: a small queue of 10 %, a main queue, and a ghost queue of the main one's size; two hits promote.

    Source: Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023, algorithm 1.
    """
    n, m = ids.size, sizes.size
    hit = np.zeros(n, np.bool_)
    before, after = new_list(m)  # the small queue
    main_before, main_after = new_list(m)
    ghost_before, ghost_after = new_list(m)
    count = np.zeros(m, np.int64)
    where = np.zeros(m, np.int8)
    stored = np.full(m, -1, np.int64)
    small_most = capacity // 10
    main_most = capacity - small_most
    small, main, ghost, oldest = 0, 0, 0, 0
    full = False
    for k in range(n):
        if ttl >= 0:
            while times[k] - times[oldest] > ttl:
                y = ids[oldest]
                if stored[y] == oldest:
                    if where[y] == _SMALL:
                        unlink(before, after, y)
                        small -= sizes[y]
                    else:
                        unlink(main_before, main_after, y)
                        main -= sizes[y]
                    stored[y] = -1
                oldest += 1
        x = ids[k]
        if stored[x] >= 0:
            hit[k] = True
            count[x] += 1
            continue
        if sizes[x] > capacity:
            continue
        remembered = ghost_before[x] >= 0
        if remembered:
            unlink(ghost_before, ghost_after, x)
            ghost -= sizes[x]
        while small + main + sizes[x] > capacity:
            full = True
            if main > main_most or small == 0:
                y = main_before[m]
                unlink(main_before, main_after, y)
                if count[y] > 0:
                    count[y] = min(count[y], 3) - 1
                    push(main_before, main_after, y, m)
                else:
                    main -= sizes[y]
                    stored[y] = -1
                continue
            y = before[m]
            unlink(before, after, y)
            small -= sizes[y]
            if count[y] > 1:
                count[y] = 0
                push(main_before, main_after, y, m)
                main += sizes[y]
                where[y] = _MAIN
                continue
            stored[y] = -1
            if sizes[y] <= main_most:
                while ghost + sizes[y] > main_most:
                    z = ghost_before[m]
                    unlink(ghost_before, ghost_after, z)
                    ghost -= sizes[z]
                push(ghost_before, ghost_after, y, m)
                ghost += sizes[y]
        count[x] = 0
        # While the cache fills, the small queue keeps to its share, so that the main one starts with something to keep.
        if remembered or sizes[x] > small_most or (not full and small + sizes[x] > small_most):
            push(main_before, main_after, x, m)
            main += sizes[x]
            where[x] = _MAIN
        else:
            push(before, after, x, m)
            small += sizes[x]
            where[x] = _SMALL
        stored[x] = k
    return hit
