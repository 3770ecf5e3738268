"""A lease in the shared store: one gateway works for all that wait on the same thing, and its death is found out.

A key is held by one owner until it ends the lease or stops renewing it. What is held is the caller's affair: a miss that goes to
the upstream, or the refresh of an entry that is about to expire.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from engine.errors import TierUnavailable
from engine.types import LeaseState

T = TypeVar("T")

# A holder that dies is noticed after so long; it renews every third of it.
LEASE_MS = 3_000
# How long the end of a lease is told to those who come late: they looked up before the answer was stored.
DONE_MS = 5_000
VOID_MS = 2_000
_FIRST_LOOK_S, _LONGEST_LOOK_S = 0.02, 0.25


class LeaseStore(Protocol):
    """What of a store the leases need."""

    async def lease(self, key: str, owner: str, ttl_ms: int) -> LeaseState: ...

    async def lease_end(self, key: str, owner: str, state: LeaseState, ttl_ms: int) -> None: ...


class Leases:
    """The leases of one gateway. owner: its id. faults: called with (tier, operation).

    A store that fails grants nothing and holds nobody.
    """

    def __init__(self, store: LeaseStore, *, owner: str, faults: Callable[[str, str], None], lease_ms: int = LEASE_MS) -> None:
        self._lease_ms = lease_ms
        self._store = store
        self._owner = owner
        self._faults = faults
        self._held: set[str] = set()
        self._renewing: asyncio.Task[None] | None = None
        self._ending: set[asyncio.Task[None]] = set()

    async def lead(self, key: str, found: Callable[[], Awaitable[T | None]], *, give_up_s: float) -> T | None:
        """Return what another holder of this key made, or None: then the caller works itself, holding the lease where it could.

        found: looks for what the holder made, None = it is not there. The wait ends when the holder says that it is done or that
        nothing came of it, when it stops renewing, when the store fails, and after give_up_s.
        """
        ends, pause_s = time.monotonic() + give_up_s, _FIRST_LOOK_S
        while True:
            try:
                state = await self._store.lease(key, self._owner, self._lease_ms)
            except TierUnavailable:
                self._faults("store", "lease")
                return None
            if state is LeaseState.MINE:
                self._hold(key)
                return None
            if state is LeaseState.DONE:
                return await found()
            if state is LeaseState.VOID or time.monotonic() >= ends:
                return None
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, _LONGEST_LOOK_S)

    def end(self, key: str, *, done: bool | None) -> None:
        """End a lease in the background. done: what was made is in the store; None = it was given up, another may take it."""
        if key not in self._held:
            return
        self._held.discard(key)
        task = asyncio.get_running_loop().create_task(self._end(key, done))
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    async def _end(self, key: str, done: bool | None) -> None:
        state = LeaseState.FREE if done is None else LeaseState.DONE if done else LeaseState.VOID
        try:
            await self._store.lease_end(key, self._owner, state, DONE_MS if done else VOID_MS)
        except TierUnavailable:
            self._faults("store", "lease")  # it runs out by itself

    def _hold(self, key: str) -> None:
        self._held.add(key)
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.get_running_loop().create_task(self._renew(), name="cachescope-leases")

    async def _renew(self) -> None:
        while self._held:
            await asyncio.sleep(self._lease_ms / 3000)
            for key in list(self._held):
                try:
                    if key in self._held:
                        await self._store.lease(key, self._owner, self._lease_ms)
                except Exception:  # noqa: BLE001 - the renewing loop: without it all that is held runs out; counted
                    self._faults("store", "lease")
                    break  # the rest would fail as well; the next round tries again

    async def close(self) -> None:
        """Give up what is held, so that no other gateway waits for it."""
        if self._renewing is not None:
            self._renewing.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._renewing
        for key in list(self._held):
            self.end(key, done=None)
        await asyncio.gather(*self._ending, return_exceptions=True)
