"""Bounds the upstream calls at one time while hits have stopped, so that the load which the cache kept away does not fall on it at once."""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

LEAST = 32  # calls at a time that are always allowed
HEADROOM = 2.0  # times the most calls at a time of late, while hits came
HALF_LIFE_S = 300.0  # of that memory, while hits come
WAIT_S = 2.0


class Throttle:
    """engaged: whether hits have stopped, or the upstream fails. waited: called with True when a call got its place in time.

    No call is refused: one that has waited for WAIT_S goes all the same. The upstream may answer it.
    """

    def __init__(
        self,
        engaged: Callable[[], bool],
        *,
        waited: Callable[[bool], None],
        least: int = LEAST,
        wait_s: float = WAIT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.in_flight = 0
        self._engaged = engaged
        self._waited = waited
        self._least = least
        self._wait_s = wait_s
        self._clock = clock
        self._peak, self._peak_at = 0.0, clock()
        self._frozen, self._looked_at = False, self._peak_at  # was it engaged at the last look, and when was that
        self._queue: deque[asyncio.Future[None]] = deque()
        self._herds: deque[asyncio.Future[None]] = deque()

    @property
    def waiting(self) -> int:
        """How many calls wait for their place now."""
        return len(self._queue) + len(self._herds)

    @property
    def limit(self) -> int:
        """Calls at a time that are allowed while it is engaged, and to herds at all times."""
        return max(self._least, int(HEADROOM * self._faded()))

    def _faded(self) -> float:
        now = self._clock()
        if self._frozen:  # nothing is learned while it is engaged, so nothing is forgotten: the limit must not sink in a long outage
            self._peak_at += now - self._looked_at
        self._frozen, self._looked_at = self._engaged(), now
        return self._peak * math.pow(0.5, (now - self._peak_at) / HALF_LIFE_S)

    @asynccontextmanager
    async def place(self, *, in_a_herd: bool = False, at_once: bool = False) -> AsyncIterator[bool]:
        """Hold a place for one upstream call; yield whether it had to wait.

        in_a_herd: it is one of many that were let go at this moment. at_once: it is counted and waits for nothing here.
        """
        queued = False
        if in_a_herd or self._engaged():
            queued = not at_once and self.in_flight >= self.limit
            if queued:
                await self._wait(self._herds if in_a_herd else self._queue)
        elif self.in_flight + 1 > self._faded():
            self._peak, self._peak_at = self.in_flight + 1.0, self._clock()
        self.in_flight += 1
        try:
            yield queued
        finally:
            self.in_flight -= 1
            self._admit()

    async def _wait(self, queue: deque[asyncio.Future[None]]) -> None:
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(place)
        try:
            async with asyncio.timeout(self._wait_s):
                await place
        except TimeoutError:
            self._waited(False)
        else:
            self._waited(True)
        finally:
            if place in queue:
                queue.remove(place)

    def _admit(self) -> None:
        """Let the next ones go: one for the place that is free now, and all once hits are back."""
        room = self.limit - self.in_flight
        left = _let_go(self._queue, room if self._engaged() else len(self._queue))
        _let_go(self._herds, min(room, left) if self._engaged() else room)


def _let_go(queue: deque[asyncio.Future[None]], room: int) -> int:
    """Let so many go; return the room that is left."""
    while queue and room > 0:
        place = queue.popleft()
        if not place.done():
            place.set_result(None)
            room -= 1
    return room
