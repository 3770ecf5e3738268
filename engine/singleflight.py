"""One call for concurrent identical misses. The first to join leads; the others wait for what it publishes.

Two interleavings decide the form:
- A follower is cancelled while it waits. Awaiting a future passes the cancellation on to it, and so to every other follower:
  each waits on the shared future through a shield.
- The leader fails or is cancelled. It abandons: the flight leaves the table and its followers wake with None. Each joins again,
  and since `join` does not yield, exactly one of them finds no flight and leads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Self

MAX_FLIGHTS = 10_000


class _Call:
    """What a leader and its followers share."""

    def __init__(self) -> None:
        self.landed: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.waiting = 0


class Flight:
    """One caller's place in a call. As a context manager it abandons when its leader leaves without having published."""

    def __init__(self, call: _Call, *, leader: bool, ended: Callable[[], None]) -> None:
        self._call = call
        self._ended = ended
        self.leader = leader

    @property
    def waiting(self) -> int:
        """How many followers wait for this call now."""
        return self._call.waiting

    def publish(self, value: object) -> None:
        """Give the value (not None) to all followers and end the flight. Does nothing when it has ended, or for a follower."""
        if self.leader and not self._call.landed.done():
            self._ended()
            self._call.landed.set_result(value)

    def abandon(self) -> None:
        """End the flight without a value: its followers join again. Does nothing when it has ended, or for a follower."""
        self.publish(None)

    async def result(self) -> object:
        """Return what the leader published, or None when it abandoned: the caller then joins again."""
        self._call.waiting += 1
        try:
            return await asyncio.shield(self._call.landed)
        finally:
            self._call.waiting -= 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.abandon()


class SingleFlight:
    """The flights of one event loop, at most `max_flights`: above that, callers lead alone and share nothing."""

    def __init__(self, *, max_flights: int = MAX_FLIGHTS) -> None:
        self._max_flights = max_flights
        self._calls: dict[str, _Call] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def join(self, key: str) -> Flight:
        """Return a place in this key's call: its leader's when there is none on its way. Never yields to the loop."""
        call = self._calls.get(key)
        if call is not None:
            return Flight(call, leader=False, ended=_nothing)
        call = _Call()
        if len(self._calls) >= self._max_flights:
            return Flight(call, leader=True, ended=_nothing)
        self._calls[key] = call
        return Flight(call, leader=True, ended=lambda: self._end(key))

    def _end(self, key: str) -> None:
        self._calls.pop(key, None)


def _nothing() -> None:
    """End a flight that is in no table."""
