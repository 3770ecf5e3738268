"""The shared store behind its two breakers: what requests ask of it is refused at once while it fails.

Only what a request or a poll asks is judged and refused. Acts of an operator, a purge above all, always go through: they may be
what frees a store that is full.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar

from engine.breaker import Breaker
from engine.errors import TierUnavailable
from engine.tiers.base import ControlDoc, StoreTier
from engine.types import Entry, EntryHead, LeaseState, ServingKey, VectorRow

T = TypeVar("T")


class GuardedStore:
    """slow_s: an answer later than this counts as a failure, although it is taken."""

    name = "store"

    def __init__(self, store: StoreTier, *, read: Breaker, write: Breaker, slow_s: float) -> None:
        self._store = store
        self._reads = read
        self._writes = write
        self._slow_s = slow_s

    async def _read(self, run: Callable[[], Awaitable[T]]) -> T:
        refusal = TierUnavailable("the store failed a moment ago; it is asked again soon")
        return await self._reads.call(run, refusal=refusal, failures=TierUnavailable, slow_s=self._slow_s)

    async def _write(self, run: Callable[[], Awaitable[T]]) -> T:
        return await self._writes.call(run, refusal=_no_writes(), failures=TierUnavailable, slow_s=self._slow_s)

    async def _lease(self, run: Callable[[], Awaitable[T]]) -> T:
        # A store that is full may take the few bytes of a lease and no entry: judged alike, every lease would close the breaker that the
        # entries opened. And where no answer is stored, there is nothing to wait for.
        return await self._writes.call_aside(run, refusal=_no_writes(), failures=TierUnavailable, slow_s=self._slow_s)

    # What requests and polls ask

    async def get(self, key: ServingKey) -> Entry | None:
        return await self._read(lambda: self._store.get(key))

    async def put(self, entry: Entry) -> None:
        await self._write(lambda: self._store.put(entry))

    async def vectors_since(self, partition: str, cursor: int, limit: int) -> tuple[list[VectorRow], int]:
        return await self._read(lambda: self._store.vectors_since(partition, cursor, limit))

    async def control_token(self) -> int:
        return await self._read(self._store.control_token)

    async def control_changed(self, timeout_s: float) -> None:
        await self._store.control_changed(timeout_s)

    async def lease(self, key: str, owner: str, ttl_ms: int) -> LeaseState:
        return await self._lease(lambda: self._store.lease(key, owner, ttl_ms))

    async def lease_end(self, key: str, owner: str, state: LeaseState, ttl_ms: int) -> None:
        await self._lease(lambda: self._store.lease_end(key, owner, state, ttl_ms))

    # What operators and the gateway's own account ask

    async def control_all(self, prefix: str = "") -> list[ControlDoc]:
        return await self._store.control_all(prefix)

    async def control_get(self, key: str) -> ControlDoc | None:
        return await self._store.control_get(key)

    async def delete(self, keys: Iterable[str]) -> int:
        return await self._store.delete(keys)

    async def delete_entries(self, entries: Mapping[str, str]) -> int:
        return await self._store.delete_entries(entries)

    async def scan(self, namespace: str, cursor: str, limit: int, *, expired: bool = False) -> tuple[list[EntryHead], str]:
        return await self._store.scan(namespace, cursor, limit, expired=expired)

    async def namespaces(self) -> list[str]:
        return await self._store.namespaces()

    async def control_put(self, key: str, value: str, *, expected: int | None = None) -> ControlDoc | None:
        return await self._store.control_put(key, value, expected=expected)

    async def control_delete(self, key: str) -> bool:
        return await self._store.control_delete(key)

    async def ping(self) -> None:
        await self._store.ping()

    async def close(self) -> None:
        await self._store.close()


def _no_writes() -> TierUnavailable:
    return TierUnavailable("the store refused writes a moment ago; it is asked again soon")
