"""The tier that holds nothing: what a memory budget of 0 bytes becomes."""

from __future__ import annotations

from collections.abc import Iterable

from engine.types import Entry


class NullTier:
    """Every get is a miss, every put is forgotten."""

    name = "null"
    bytes = 0

    def __len__(self) -> int:
        return 0

    async def get(self, key: str) -> Entry | None:
        return None

    async def put(self, entry: Entry) -> None:
        return None

    async def delete(self, keys: Iterable[str]) -> int:
        return 0

    def discard(self, generations: frozenset[str]) -> int:
        return 0

    async def close(self) -> None:
        return None
