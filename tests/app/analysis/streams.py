"""Streams for tests: the textbook's, random ones, and plain Python replays that share no code with ours."""

from __future__ import annotations

from collections import Counter, OrderedDict

import numpy as np
from hypothesis import strategies as st

from app.analysis.policies import Stream, stream

TEXTBOOK = (7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1)


def zipf(keys: int, n: int, *, power: float = 0.8, seed: int = 3) -> Stream:
    weight = np.arange(1, keys + 1) ** -power
    return stream(np.random.default_rng(seed).choice(keys, size=n, p=weight / weight.sum()))


@st.composite
def small(draw: st.DrawFn, *, most: int = 60, sized: bool = False) -> Stream:
    """Draw up to `most` requests of up to 12 keys, with times that may stand still, and sizes of 1, or of 1 to 5."""
    ids = draw(st.lists(st.integers(0, 11), min_size=0, max_size=most))
    gaps = draw(st.lists(st.integers(0, 9), min_size=len(ids), max_size=len(ids)))
    keys = len(set(ids))
    sizes = draw(st.lists(st.integers(1, 5), min_size=keys, max_size=keys)) if sized else [1] * keys
    return stream(np.array(ids, dtype=np.int64), times=np.cumsum(np.array(gaps, dtype=np.int64)), sizes=sizes)


def plain(policy: str, requests: Stream, capacity: int, ttl: int) -> list[bool]:
    """Replay FIFO, LRU or SIEVE with dictionaries."""
    held: OrderedDict[int, list[int]] = OrderedDict()  # key -> [stored at, visited]; oldest first
    hand: int | None = None
    found = []
    for x, now in zip(requests.ids.tolist(), requests.times.tolist(), strict=True):
        if ttl >= 0:
            for y in [y for y, (at, _) in held.items() if now - at > ttl]:
                if hand == y:
                    hand = _newer(held, y)
                del held[y]
        found.append(x in held)
        if x in held:
            held[x][1] = 1
            if policy == "lru":
                held.move_to_end(x)
            continue
        size = int(requests.sizes[x])
        if size > capacity:
            continue
        while sum(int(requests.sizes[y]) for y in held) + size > capacity:
            victim = next(iter(held))
            if policy == "sieve":
                victim = hand if hand is not None else victim
                while held[victim][1]:
                    held[victim][1] = 0
                    following = _newer(held, victim)
                    victim = next(iter(held)) if following is None else following
                hand = _newer(held, victim)
            del held[victim]
        held[x] = [now, 0]
    return found


def _newer(held: OrderedDict[int, list[int]], x: int) -> int | None:
    order = list(held)
    place = order.index(x) + 1
    return order[place] if place < len(order) else None


Part = OrderedDict[int, None]  # oldest first


def tinylfu(ids: list[int], capacity: int) -> int:
    """Return W-TinyLFU's misses by the rules of its paper and of Caffeine's simulator, counted exactly; entries of one size."""
    counts: Counter[int] = Counter()
    window, probation, protected = Part(), Part(), Part()
    main = capacity - max(1, capacity // 100)
    seen = misses = 0
    for x in ids:
        counts[x] = min(15, counts[x] + 1)
        seen += 1
        if seen >= 10 * capacity:
            seen //= 2
            counts = Counter({key: n // 2 for key, n in counts.items() if n > 1})
        if x in window:
            window.move_to_end(x)
        elif x in protected:
            protected.move_to_end(x)
        elif x in probation:
            promote(x, probation, protected, main * 8 // 10)
        else:
            misses += 1
            window[x] = None
            if len(window) > capacity - main:
                y, _ = window.popitem(last=False)
                if len(probation) + len(protected) < main:
                    probation[y] = None
                elif probation and counts[y] > counts[next(iter(probation))]:
                    probation.popitem(last=False)
                    probation[y] = None
    return misses


def promote(x: int, probation: Part, protected: Part, most: int) -> None:
    del probation[x]
    protected[x] = None
    while len(protected) > most:
        probation[protected.popitem(last=False)[0]] = None
