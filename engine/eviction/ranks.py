"""Policies that rank what is held: LFU, LRU-K, heat, GDSF. A call takes constant time for LFU, logarithmic for the others."""

from __future__ import annotations

import heapq
import math
from collections import OrderedDict
from typing import Generic

from engine.eviction.base import K

_REFERENCES = 2  # the K of LRU-K; O'Neil et al. (SIGMOD 1993) found little beyond 2
_HALF_LIFE_RATIO = 10.0  # requests in which heat halves, by the entries held: as W-TinyLFU's counts, which halve every ten times them


class Lfu(Generic[K]):
    """The least often used leaves first, the oldest of its frequency among equals. What left is forgotten."""

    def __init__(self, capacity: int) -> None:
        del capacity
        self._frequency: dict[K, int] = {}
        self._buckets: dict[int, OrderedDict[K, None]] = {}
        self._least = 1

    def add(self, key: K, size: int, cost: float = 1.0) -> None:
        self._put(key, 1)
        self._least = 1

    def hit(self, key: K) -> None:
        frequency = self._take(key)
        self._put(key, frequency + 1)

    def resize(self, key: K, size: int, cost: float = 1.0) -> None:
        self.hit(key)

    def remove(self, key: K) -> None:
        self._take(key)
        del self._frequency[key]

    def make_room(self, size: int) -> K:
        if self._least not in self._buckets:
            self._least = min(self._buckets)
        key = next(iter(self._buckets[self._least]))
        self.remove(key)
        return key

    def clear(self) -> None:
        self._frequency.clear()
        self._buckets.clear()

    def _put(self, key: K, frequency: int) -> None:
        self._frequency[key] = frequency
        bucket = self._buckets.get(frequency)
        if bucket is None:
            bucket = self._buckets[frequency] = OrderedDict()
        bucket[key] = None

    def _take(self, key: K) -> int:
        frequency = self._frequency[key]
        bucket = self._buckets[frequency]
        del bucket[key]
        if not bucket:
            del self._buckets[frequency]
            if frequency == self._least:
                self._least += 1  # right for a hit; `make_room` looks again otherwise
        return frequency


class _Ranked(Generic[K]):
    """Held keys by a rank that changes; the smallest rank leaves. Old ranks stay in the heap until they come up or it is rebuilt."""

    def __init__(self) -> None:
        self.ranks: dict[K, tuple[float, int]] = {}
        self._heap: list[tuple[tuple[float, int], K]] = []

    def rank(self, key: K, rank: tuple[float, int]) -> None:
        """rank: its second part is unique, so that keys are never compared."""
        self.ranks[key] = rank
        heapq.heappush(self._heap, (rank, key))
        if len(self._heap) > 4 * len(self.ranks) + 64:
            self._heap = [(rank, key) for key, rank in self.ranks.items()]
            heapq.heapify(self._heap)

    def pop(self) -> tuple[K, float]:
        """Return the key of the smallest rank, and that rank's first part."""
        while True:
            rank, key = heapq.heappop(self._heap)
            if self.ranks.get(key) == rank:
                del self.ranks[key]
                return key, rank[0]

    def clear(self) -> None:
        self.ranks.clear()
        self._heap.clear()


class LruK(Generic[K]):
    """The one whose K-th last use is longest ago leaves first; before all, those used less than K times, by their last use.

    The last uses of as many keys as are held are remembered after they left, so that a key that returns is no newcomer.
    """

    def __init__(self, capacity: int) -> None:
        del capacity
        self._now = 0
        self._held: _Ranked[K] = _Ranked()
        self._uses: OrderedDict[K, tuple[int, ...]] = OrderedDict()  # oldest first; of held keys and of some that left
        self._left: OrderedDict[K, None] = OrderedDict()

    def add(self, key: K, size: int, cost: float = 1.0) -> None:
        self._left.pop(key, None)
        self.hit(key)

    def hit(self, key: K) -> None:
        self._now += 1
        uses = (*self._uses.get(key, ()), self._now)[-_REFERENCES:]
        self._uses[key] = uses
        # Those without a K-th use rank below all that have one.
        self._held.rank(key, (float(uses[0]) if len(uses) == _REFERENCES else float(uses[-1] - 2**52), self._now))

    def resize(self, key: K, size: int, cost: float = 1.0) -> None:
        self.hit(key)

    def remove(self, key: K) -> None:
        del self._held.ranks[key]
        del self._uses[key]

    def make_room(self, size: int) -> K:
        key, _ = self._held.pop()
        self._left[key] = None
        while len(self._left) > len(self._held.ranks):
            del self._uses[self._left.popitem(last=False)[0]]
        return key

    def clear(self) -> None:
        self._held.clear()
        self._uses.clear()
        self._left.clear()


def warmed(log_heat: float, now: float) -> float:
    """Return log2(2^log_heat + 2^now), in which neither term is ever computed: the log-heat of a key that is asked for at `now`.

    now: half-lives since the epoch. log_heat: log2 of the key's heat as it would be at the epoch, -inf = it was never asked for.
    """
    colder, hotter = sorted((log_heat, now))
    return hotter + math.log2(1.0 + 2.0 ** (colder - hotter))


class Heat(Generic[K]):
    """The coldest leaves first. Heat is a count of uses that halves with each half-life: h = h * 2^(-elapsed / half-life) + 1.

    All heats fall by the same factor as time passes, so none is touched for it: kept is the logarithm of what each would have been at
    one epoch, which only a use changes, and which ranks keys as their heats do (forward decay: Cormode et al., ICDE 2009).
    Time is counted in requests, so that a quiet night cools nothing. half_life: in requests; None = ten times the entries held.
    The heats of as many keys as are held are remembered after they left.
    """

    def __init__(self, capacity: int, *, half_life: float | None = None) -> None:
        del capacity
        self._half_life = half_life
        self._now = 0.0  # half-lives since the epoch
        self._uses = 0
        self._held: _Ranked[K] = _Ranked()
        self._left: OrderedDict[K, float] = OrderedDict()  # to log-heats

    def add(self, key: K, size: int, cost: float = 1.0) -> None:
        self._note(key, self._left.pop(key, -math.inf))

    def hit(self, key: K) -> None:
        self._note(key, self._held.ranks[key][0])

    def resize(self, key: K, size: int, cost: float = 1.0) -> None:
        self.hit(key)

    def remove(self, key: K) -> None:
        del self._held.ranks[key]

    def make_room(self, size: int) -> K:
        key, log_heat = self._held.pop()
        self._left[key] = log_heat
        while len(self._left) > len(self._held.ranks):
            self._left.popitem(last=False)
        return key

    def clear(self) -> None:
        self._held.clear()
        self._left.clear()

    def _note(self, key: K, log_heat: float) -> None:
        self._uses += 1
        self._now += 1.0 / (self._half_life or _HALF_LIFE_RATIO * max(1, len(self._held.ranks)))
        self._held.rank(key, (warmed(log_heat, self._now), self._uses))


class Gdsf(Generic[K]):
    """The smallest L + uses * cost / size leaves first; L is the rank of what left last, so that what is never used ages.

    Source: Cherkasova, HPL-98-69R1.
    """

    def __init__(self, capacity: int) -> None:
        del capacity
        self._clock = 0
        self._inflation = 0.0
        self._held: _Ranked[K] = _Ranked()
        self._worth: dict[K, tuple[int, float]] = {}  # uses, cost a byte

    def add(self, key: K, size: int, cost: float = 1.0) -> None:
        self._note(key, 1, cost / size)

    def hit(self, key: K) -> None:
        uses, worth = self._worth[key]
        self._note(key, uses + 1, worth)

    def resize(self, key: K, size: int, cost: float = 1.0) -> None:
        self._note(key, self._worth[key][0] + 1, cost / size)

    def remove(self, key: K) -> None:
        del self._held.ranks[key]
        del self._worth[key]

    def make_room(self, size: int) -> K:
        key, self._inflation = self._held.pop()
        del self._worth[key]
        return key

    def clear(self) -> None:
        self._held.clear()
        self._worth.clear()
        self._inflation = 0.0

    def _note(self, key: K, uses: int, worth: float) -> None:
        self._clock += 1
        self._worth[key] = (uses, worth)
        self._held.rank(key, (self._inflation + uses * worth, self._clock))
