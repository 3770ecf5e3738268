"""Doing the same again and again: a task a source, each at its own jittered pace, none stopped by a fault."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

from collectors.metrics import CollectorMetrics

Once = Callable[[], Awaitable[None]]


class Ticker:
    """place: under which faults are counted. sleep is injected; rng in [0, 1) spreads the sources."""

    def __init__(
        self,
        place: str,
        metrics: CollectorMetrics,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._place = place
        self._metrics = metrics
        self._sleep = sleep
        self._rng = rng
        self._tasks: list[asyncio.Task[None]] = []

    def start(self, once: Once, *, interval_s: float, jitter_ratio: float = 0.1) -> None:
        """Call `once` every interval_s, give or take half of jitter_ratio; the call's own time is part of the interval."""
        self._tasks.append(asyncio.create_task(self._loop(once, interval_s, jitter_ratio), name=self._place))

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _loop(self, once: Once, interval_s: float, jitter_ratio: float) -> None:
        loop = asyncio.get_running_loop()
        # Sources started together must not be asked together for ever.
        await self._sleep(self._rng() * interval_s * jitter_ratio)
        while True:
            began = loop.time()
            try:
                await once()
            except Exception as error:  # noqa: BLE001 - this source's loop; counted, and the next interval tries again
                self._metrics.failures.labels(self._place, type(error).__name__).inc()
            pause = interval_s * (1 + jitter_ratio * (self._rng() - 0.5))
            await self._sleep(max(0.0, pause - (loop.time() - began)))
