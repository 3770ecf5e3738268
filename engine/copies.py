"""The memory tier as the cache sees it: a copy is believed for a while only, then the store is asked again.

A copy has no vector: the vector tier holds it once, beside all others of its partition, and the store has it for who needs the entry's own.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from engine.embedders.simhash import simhash
from engine.tiers.base import Tier
from engine.types import Entry, ServingKey


def hashed(entry: Entry) -> Entry:
    """Return the entry with its vector's SimHash; itself, where it has that or no vector."""
    if entry.simhash or not entry.vector:
        return entry
    return replace(entry, simhash=simhash(np.frombuffer(entry.vector, dtype="<f4").astype(np.float32)))


class Copies:
    """Copies of the store's entries in another tier, without their vectors.

    After ttl_s one is no answer: another gateway may have replaced the entry.
    """

    def __init__(self, tier: Tier, *, ttl_s: float, clock: Callable[[], int]) -> None:
        self.name = tier.name
        self._tier = tier
        self._ttl_ms = int(ttl_s * 1000)
        self._clock = clock
        # Until when each copy is believed, oldest first: all are for the same time, so that the order of their coming is that
        # of their end, and the tier's own evictions need not be followed.
        self._until: OrderedDict[str, int] = OrderedDict()

    async def get(self, key: ServingKey) -> Entry | None:
        return await self._tier.get(key) if self._until.get(key, 0) > self._clock() else None

    async def put(self, entry: Entry) -> None:
        now = self._clock()
        while self._until and next(iter(self._until.values())) <= now:
            self._until.popitem(last=False)
        self._until.pop(entry.key, None)
        self._until[entry.key] = now + self._ttl_ms
        await self._tier.put(replace(hashed(entry), vector=b"") if entry.vector else entry)

    async def delete(self, keys: Iterable[str]) -> int:
        return await self._tier.delete(keys)

    async def close(self) -> None:
        await self._tier.close()
