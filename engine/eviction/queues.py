"""Policies that are queues: FIFO, LRU, SIEVE, S3-FIFO. Each call takes constant time, amortised."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic

from engine.eviction.base import K

# S3-FIFO's shares and thresholds (Yang et al., SOSP 2023): a tenth for newcomers; the ghost is as large as the main queue.
_SMALL_RATIO = 0.1
_PROMOTE_HITS = 2
_MOST_HITS = 3


class Fifo(Generic[K]):
    """The oldest leaves first."""

    def __init__(self, capacity: int) -> None:
        del capacity
        self._queue: OrderedDict[K, None] = OrderedDict()

    def add(self, key: K, size: int, cost: float = 1.0) -> None:
        self._queue[key] = None

    def hit(self, key: K) -> None:
        """A hit changes nothing."""

    def resize(self, key: K, size: int, cost: float = 1.0) -> None:
        self.hit(key)

    def remove(self, key: K) -> None:
        del self._queue[key]

    def make_room(self, size: int) -> K:
        return self._queue.popitem(last=False)[0]

    def clear(self) -> None:
        self._queue.clear()


class Lru(Fifo[K]):
    """The least recently used leaves first."""

    def hit(self, key: K) -> None:
        self._queue.move_to_end(key)


class _Node(Generic[K]):
    __slots__ = ("key", "newer", "older", "visited")

    def __init__(self, key: K) -> None:
        self.key = key
        self.visited = False
        self.newer: _Node[K] | None = None
        self.older: _Node[K] | None = None


class Sieve(Generic[K]):
    """A hand goes from the oldest to the newest: it spares, once, what was hit since it last passed (Zhang et al., NSDI 2024)."""

    def __init__(self, capacity: int) -> None:
        del capacity
        self._nodes: dict[K, _Node[K]] = {}
        self._newest: _Node[K] | None = None
        self._oldest: _Node[K] | None = None
        self._hand: _Node[K] | None = None

    def add(self, key: K, size: int, cost: float = 1.0) -> None:
        node = self._nodes[key] = _Node(key)
        node.older = self._newest
        if self._newest is not None:
            self._newest.newer = node
        self._newest = node
        if self._oldest is None:
            self._oldest = node

    def hit(self, key: K) -> None:
        self._nodes[key].visited = True

    def resize(self, key: K, size: int, cost: float = 1.0) -> None:
        self.hit(key)

    def remove(self, key: K) -> None:
        node = self._nodes.pop(key)
        if self._hand is node:
            self._hand = node.newer
        if node.newer is not None:
            node.newer.older = node.older
        else:
            self._newest = node.older
        if node.older is not None:
            node.older.newer = node.newer
        else:
            self._oldest = node.newer

    def make_room(self, size: int) -> K:
        node = self._hand or self._oldest
        while node is not None and node.visited:
            node.visited = False
            node = node.newer or self._oldest
        if node is None:
            raise KeyError("nothing is held")
        self._hand = node
        self.remove(node.key)
        return node.key

    def clear(self) -> None:
        self._nodes.clear()
        self._newest = self._oldest = self._hand = None


class S3Fifo(Generic[K]):
    """Newcomers pass through a small queue; those hit there, or asked for again soon after they left, get into the main one.

    capacity: bytes. What is larger than the small queue goes into the main one at once: it would push out all the others.
    """

    def __init__(self, capacity: int) -> None:
        self._small_bytes = self._main_bytes = self._ghost_bytes = 0
        self._small_capacity = int(capacity * _SMALL_RATIO)
        self._main_capacity = capacity - self._small_capacity
        self._small: OrderedDict[K, int] = OrderedDict()  # to sizes
        self._main: OrderedDict[K, int] = OrderedDict()
        self._ghost: OrderedDict[K, int] = OrderedDict()
        self._hits: dict[K, int] = {}
        self._full = False

    def add(self, key: K, size: int, cost: float = 1.0) -> None:
        returned = self._ghost.pop(key, None)
        if returned is not None:
            self._ghost_bytes -= returned
        self._hits[key] = 0
        # Until the first eviction there is room for all: what does not fit the small queue need not wait its turn.
        early = not self._full and self._small_bytes >= self._small_capacity
        if returned is not None or size >= self._small_capacity or early:
            self._main[key] = size
            self._main_bytes += size
        else:
            self._small[key] = size
            self._small_bytes += size

    def hit(self, key: K) -> None:
        hits = self._hits
        if hits[key] < _MOST_HITS:
            hits[key] += 1

    def resize(self, key: K, size: int, cost: float = 1.0) -> None:
        self.hit(key)
        if key in self._small:
            self._small_bytes += size - self._small[key]
            self._small[key] = size
        else:
            self._main_bytes += size - self._main[key]
            self._main[key] = size

    def remove(self, key: K) -> None:
        del self._hits[key]
        size = self._small.pop(key, None)
        if size is not None:
            self._small_bytes -= size
        else:
            self._main_bytes -= self._main.pop(key)

    def make_room(self, size: int) -> K:
        self._full = True
        while True:
            if self._main_bytes > self._main_capacity or not self._small:
                return self._from_main()
            left = self._from_small()
            if left is not None:
                return left[0]

    def _from_small(self) -> tuple[K] | None:
        """Return what leaves the small queue for good, None when all of it moved on to the main one."""
        while self._small:
            key, size = self._small.popitem(last=False)
            self._small_bytes -= size
            if self._hits[key] < _PROMOTE_HITS:
                del self._hits[key]
                self._remember(key, size)
                return (key,)
            self._hits[key] = 0
            self._main[key] = size
            self._main_bytes += size
        return None

    def _from_main(self) -> K:
        while True:
            key, size = self._main.popitem(last=False)
            if not self._hits[key]:
                del self._hits[key]
                self._main_bytes -= size
                return key
            self._hits[key] -= 1
            self._main[key] = size

    def _remember(self, key: K, size: int) -> None:
        self._ghost[key] = size
        self._ghost_bytes += size
        while self._ghost_bytes > self._main_capacity:
            self._ghost_bytes -= self._ghost.popitem(last=False)[1]

    def clear(self) -> None:
        for held in (self._small, self._main, self._ghost):
            held.clear()
        self._hits.clear()
        self._small_bytes = self._main_bytes = self._ghost_bytes = 0
        self._full = False
