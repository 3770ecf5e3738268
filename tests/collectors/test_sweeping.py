"""Retention in the running collector."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from collectors.metrics import CollectorMetrics
from collectors.pipeline import Pipeline
from collectors.sweeping import Sweeping
from storage import spans
from storage.retention import Step, Sweeper
from storage.rows import SourceBatch, SourceKey
from storage.store import open_telemetry
from tests.collectors.support import request, rows, running, settings
from tests.storage.support import Made
from tests.support.polling import eventually

DAY_NS = 86_400_000_000_000


async def test_old_spans_go_while_new_ones_are_taken(tmp_path: Path) -> None:
    given = settings(tmp_path)
    now_ns = time.time_ns()
    store = open_telemetry(given.storage, write=True)
    old = [Made(number, trace=number, start_ns=now_ns - 3 * DAY_NS, is_lookup=False).span() for number in range(10, 3_010)]
    spans.write(store, [SourceBatch(SourceKey("otlp_traces", "old"), old)], now_ms=1)
    store.close()
    async with running(tmp_path, storage=replace(given.storage, keep_raw_days=2.0)) as collector:
        fresh = request(5)
        for span in fresh.resource_spans[0].scope_spans[0].spans:
            span.start_time_unix_nano = span.end_time_unix_nano = now_ns
        assert (await collector.post(fresh.SerializeToString())).status_code == 200

        def left() -> list[tuple[int, int]]:
            return rows(tmp_path, "SELECT (SELECT count(*) FROM spans), (SELECT count(*) FROM span_payloads)")

        await eventually(lambda: left() == [(5, 5)], what="the old spans are removed")
        metrics = (await collector.client.get("/metrics")).text
        assert 'cachescope_collector_removed_rows_total{kind="raw"}' in metrics
        assert collector.collector.health() == ""


class Broken(Sweeper):
    """A sweeper whose store fails in a way that nobody foresaw."""

    steps = 0

    def step(self, *, now_ms: int) -> Step:
        self.steps += 1
        raise ZeroDivisionError


async def test_a_fault_that_nobody_foresaw_is_counted_and_stops_neither_retention_nor_the_end(tmp_path: Path) -> None:
    given = settings(tmp_path)
    store = open_telemetry(given.storage, write=True)
    metrics = CollectorMetrics()
    pipeline = Pipeline(lambda _: [], queue_bytes=1000, metrics=metrics)
    sweeper = Broken(store, given.storage)
    sweeping = Sweeping(sweeper, pipeline, metrics, now_ms=lambda: 0)
    sweeping.start()
    await eventually(lambda: sweeper.steps == 1, what="a step fails")
    await sweeping.stop()
    assert metrics.failures.labels("retention", "ZeroDivisionError")._value.get() == 1
    await pipeline.close()
    store.close()
