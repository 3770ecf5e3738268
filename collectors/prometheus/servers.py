"""Reads Prometheus servers at intervals: from where the last look ended, or back-filled, in bounded steps."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from collectors.errors import ScrapeFailed
from collectors.metrics import CollectorMetrics
from collectors.prometheus.families import Families
from collectors.prometheus.query import PrometheusApi, levels, readings, targets_snapshot, wanted_names
from collectors.prometheus.scrape import Sink, shown, source_of
from collectors.settings import PrometheusServer
from collectors.ticking import Ticker
from storage.rows import Scrape

_OVERLAP_MS: Final = 60_000  # a sample carries the time at which its scrape began, and is there when it ended; read twice, stored once
_STEPS_PER_TICK: Final = 12  # a back-fill goes on in the next tick: the newest data of other sources must not wait for it
_NAMES_EVERY: Final = 20  # ticks between looks at which names a server has
_LEAST_STEP_S: Final = 10.0


class ServerReader:
    """One Prometheus server. now_ms: our own clock; samples carry the server's."""

    def __init__(
        self, server: PrometheusServer, sink: Sink, metrics: CollectorMetrics, *, families: Families, now_ms: Callable[[], int]
    ) -> None:
        self._server = server
        self._sink = sink
        self._metrics = metrics
        self._families = families
        self._now_ms = now_ms
        self._source = source_of("prometheus", server.url, server.match)
        self._api = PrometheusApi(server, shown(server.url))
        self._step_s = server.step_s
        self._names: list[str] = []
        self._ticks = 0
        self._read_to_ms: int | None = None  # on the server's clock
        self._stored_ms = 0  # the newest reading that was there before the first look
        self._levels: dict[tuple[str, str], int] = {}  # gauge (name, labels) -> the time of its value stored last

    def close(self) -> None:
        self._api.close()

    async def once(self) -> None:
        """Read what is new, at most twelve steps of it, and store it."""
        try:
            await self._read()
        except ScrapeFailed as error:
            if "too many samples" in str(error) or "larger than" in str(error):
                self._step_s = max(_LEAST_STEP_S, self._step_s / 2)
            self._metrics.scrapes.labels("failed").inc()
            await self._sink.failed(self._source, str(error), self._now_ms())

    async def _read(self) -> None:
        end_ms = await asyncio.to_thread(self._api.now_ms)
        if self._ticks % _NAMES_EVERY == 0 or not self._names:
            self._names = await asyncio.to_thread(self._api.names, wanted_names(self._families))
        self._ticks += 1
        earliest_ms = end_ms - round(self._server.backfill_s * 1000)
        if self._read_to_ms is None:
            stored_ms = await self._sink.newest_ms(self._source)
            self._stored_ms = stored_ms or 0
            self._read_to_ms = max(earliest_ms, self._stored_ms)
        start_ms = max(earliest_ms, min(self._read_to_ms, end_ms) - _OVERLAP_MS)
        for _ in range(_STEPS_PER_TICK):
            stop_ms = min(end_ms, start_ms + round(self._step_s * 1000))
            await self._step(start_ms, stop_ms, last=stop_ms == end_ms)
            self._read_to_ms = stop_ms
            if stop_ms == end_ms:
                break
            start_ms = stop_ms

    async def _step(self, start_ms: int, end_ms: int, *, last: bool) -> None:
        found = await asyncio.to_thread(self._api.raw, self._names, start_ms=start_ms, end_ms=end_ms) if self._names else []
        snapshots = {}
        gauges = levels(found, self._families, after_ms=max(end_ms - _OVERLAP_MS, self._stored_ms)) if last else []
        if last:
            known, down = await asyncio.to_thread(self._api.down)
            snapshots["targets"] = targets_snapshot(known, down)
        scrape = Scrape(
            self._now_ms(),
            # A stretch overlaps the last one: its newest value may be the one that was stored then.
            [one for one in gauges if one.at_ms > self._levels.get((one.name, one.labels), 0)],
            list(readings(found, self._families)),
            from_ms=start_ms,
            snapshots=snapshots,
        )
        faults = await self._sink.scraped(self._source, scrape, max_series=self._server.max_series)
        if last:
            self._levels = {(one.name, one.labels): one.at_ms for one in gauges}
        self._metrics.scrapes.labels("partial" if faults else "ok").inc()


class ServerReaders:
    """All servers, a task each."""

    def __init__(
        self, servers: Sequence[PrometheusServer], sink: Sink, metrics: CollectorMetrics, *, families: Families, now_ms: Callable[[], int]
    ) -> None:
        self._readers = [(server, ServerReader(server, sink, metrics, families=families, now_ms=now_ms)) for server in servers]
        self._ticker = Ticker("prometheus", metrics)

    def start(self) -> None:
        for server, reader in self._readers:
            self._ticker.start(reader.once, interval_s=server.interval_s)

    async def stop(self) -> None:
        await self._ticker.stop()
        for _, reader in self._readers:
            reader.close()
