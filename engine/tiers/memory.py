"""Entries in this process, bounded in bytes; when it is full an eviction policy says which one leaves."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable

from engine.eviction import DEFAULT, make_policy
from engine.types import Entry, RemovalCause

Removal = Callable[[Entry, RemovalCause], None]


class MemoryTier:
    """Entries by key, at most `max_bytes` of `Entry.size_bytes` together.

    on_removal: told of every entry that leaves, after it left, with the cause. An entry larger than the whole tier is not
    kept: it is reported as removed for its size. removals: how many left, by cause. eviction: a name of `engine.eviction`.
    Raises InvalidSetting for a policy that does not exist.
    """

    name = "memory"

    def __init__(self, max_bytes: int, on_removal: Removal | None = None, *, clock: Callable[[], int], eviction: str = DEFAULT) -> None:
        self.max_bytes = max_bytes
        self.bytes = 0
        self.removals: Counter[RemovalCause] = Counter()
        self._on_removal = on_removal
        self._clock = clock
        self._policy = make_policy(eviction, max_bytes)
        self._entries: dict[str, tuple[Entry, int]] = {}
        # (expires_ms, key): pairs of replaced and removed entries stay behind until they are due or the heap is rebuilt.
        self._due: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return len(self._entries)

    async def get(self, key: str) -> Entry | None:
        held = self._entries.get(key)
        if held is None:
            return None
        entry = held[0]
        if entry.expires_ms <= self._clock():
            self._remove(key, RemovalCause.EXPIRED)
            return None
        self._policy.hit(key)
        return entry

    async def put(self, entry: Entry) -> None:
        now = self._clock()
        self._expire(now)
        key, size = entry.key, entry.size_bytes
        if entry.expires_ms <= now or size > self.max_bytes:
            if key in self._entries:
                self._remove(key, RemovalCause.REPLACED)
            self._report(entry, RemovalCause.EXPIRED if entry.expires_ms <= now else RemovalCause.SIZE)
            return
        # What its miss costs is the time of the upstream's answer.
        cost = max(entry.upstream_ms, 1.0)
        before = self._entries.get(key)
        if before is not None:
            # The policy keeps what it knows of the key: a copy is read anew from the store every now and then.
            self._policy.resize(key, size, cost)
            self._entries[key] = (entry, size)
            self.bytes += size - before[1]
            self._report(before[0], RemovalCause.REPLACED)
            while self.bytes > self.max_bytes:
                self._evict(0)
        else:
            while self.bytes + size > self.max_bytes:
                self._evict(size)
            self._policy.add(key, size, cost)
            self._entries[key] = (entry, size)
            self.bytes += size
        heapq.heappush(self._due, (entry.expires_ms, key))
        if len(self._due) > 2 * len(self._entries) + 64:
            self._due = [(held.expires_ms, key) for key, (held, _) in self._entries.items()]
            heapq.heapify(self._due)

    async def delete(self, keys: Iterable[str]) -> int:
        self._expire(self._clock())
        there = [key for key in dict.fromkeys(keys) if key in self._entries]
        for key in there:
            self._remove(key, RemovalCause.EXPLICIT)
        return len(there)

    def discard(self, generations: frozenset[str]) -> int:
        """Remove what was stored under these generations, which a purge hid; return how many. Looks at every entry."""
        doomed = [key for key, (entry, _) in self._entries.items() if entry.generation in generations]
        for key in doomed:
            self._remove(key, RemovalCause.EXPLICIT)
        return len(doomed)

    async def close(self) -> None:
        """Let go of everything without reporting it: the process ends."""
        self._entries.clear()
        self._due.clear()
        self._policy.clear()
        self.bytes = 0

    def _expire(self, now: int) -> None:
        while self._due and self._due[0][0] <= now:
            _, key = heapq.heappop(self._due)
            held = self._entries.get(key)
            if held is not None and held[0].expires_ms <= now:
                self._remove(key, RemovalCause.EXPIRED)

    def _evict(self, size: int) -> None:
        self._drop(self._policy.make_room(size), RemovalCause.SIZE)

    def _remove(self, key: str, cause: RemovalCause) -> None:
        self._policy.remove(key)
        self._drop(key, cause)

    def _drop(self, key: str, cause: RemovalCause) -> None:
        entry, size = self._entries.pop(key)
        self.bytes -= size
        self._report(entry, cause)

    def _report(self, entry: Entry, cause: RemovalCause) -> None:
        self.removals[cause] += 1
        if self._on_removal is not None:
            self._on_removal(entry, cause)
