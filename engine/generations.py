"""Which generation an answer is stored under, and the first one of a namespace that has none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from engine.purges import new_generation
from engine.records import GENERATIONS, generations_json
from engine.tiers.base import StoreTier
from engine.types import Generations, Namespace
from engine.view import ControlView


class WriteGenerations:
    """clock: Unix milliseconds. max_namespaces: on record, above which a namespace that has none gets none."""

    def __init__(self, store: StoreTier, view: ControlView, *, clock: Callable[[], int], max_namespaces: int) -> None:
        self._store = store
        self._view = view
        self._clock = clock
        self._max_namespaces = max_namespaces
        self._beginning = asyncio.Lock()

    def is_one_too_many(self, namespace: str) -> bool:
        """Return whether this namespace, a text from a request's header, may not get a record any more."""
        spaces = self._view.spaces
        return len(spaces) >= self._max_namespaces and namespace not in spaces

    async def of(self, space: Namespace) -> str:
        """Return the generation to store under, '' when a purge came between. Raises TierUnavailable.

        space: as it was when the lookup began; its generation is the one: a purge since then hides the answer. Where there was no
        record then, one made since by a store is as good, but not one that a purge has touched: the upstream was asked before it.
        """
        namespace, write = space.name, space.generations.write
        if write:
            return write if write in self._view.space(namespace).generations.live else ""
        # One at a time: each sees what the one before it began, so that this gateway never exceeds max_namespaces.
        async with self._beginning:
            first = self._view.unpurged(namespace)
            if first or self._view.space(namespace).generations.write or self.is_one_too_many(namespace):
                return first
            token = new_generation(self._clock())
            record = generations_json(Generations(token, frozenset({token})), first=True)
            made = await self._store.control_put(f"{GENERATIONS}{namespace}", record, expected=0)
            await self._view.refresh()
        return token if made is not None else self._view.unpurged(namespace)
