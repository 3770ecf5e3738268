"""Retention while the collector runs: small steps on the writer's own thread, with room for others between them."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from collectors.metrics import CollectorMetrics
from collectors.pipeline import Pipeline
from storage.retention import Step, Sweeper

_EVERY_S = 60.0
# A step is followed by four times as long for the others: removing takes at most a fifth of the writer's time.
_REST = 4.0
_log = logging.getLogger("cachescope.collector")


class Sweeping:
    """start() needs a running loop; stop() waits for the step under way."""

    def __init__(self, sweeper: Sweeper, pipeline: Pipeline, metrics: CollectorMetrics, *, now_ms: Callable[[], int]) -> None:
        self._sweeper = sweeper
        self._pipeline = pipeline
        self._metrics = metrics
        self._now_ms = now_ms
        self._stopping = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="retention")

    async def stop(self) -> None:
        self._stopping.set()
        if self._task:
            await self._task

    async def _run(self) -> None:
        full = False
        while not self._stopping.is_set():
            rest_s = _EVERY_S
            try:
                started = time.perf_counter()
                step = await self._pipeline.call(self._step, writes=True)
                if step.more:
                    rest_s = min((time.perf_counter() - started) * _REST, 1.0)
                if self._sweeper.over_bytes and not full:
                    _log.warning("the telemetry database is above keep_bytes, and what is left may not be removed: raise keep_bytes")
                full = self._sweeper.over_bytes
            except Exception as error:  # noqa: BLE001 - retention's own loop; counted, and the next interval tries again
                self._metrics.failures.labels("retention", type(error).__name__).inc()
            await self._rest(rest_s)

    def _step(self) -> Step:
        step = self._sweeper.step(now_ms=self._now_ms())
        if step.rows:
            self._metrics.removed_rows.labels(step.kind).inc(step.rows)
        return step

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return
