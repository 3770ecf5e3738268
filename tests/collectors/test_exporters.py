"""The real OpenTelemetry exporters over HTTP and gRPC: all three signals land, no error is logged, and a refusal is tried again."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetrics
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogs
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetrics
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import Counter as CounterInstrument
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExporter, SpanExportResult

from engine import semconv as sc
from engine.types import Outcome
from tests.collectors.rotel_agent import agent
from tests.collectors.support import Running, running, settings, until


class Seen(SpanExporter):
    """Hands on to the real exporter and keeps its word on each export."""

    def __init__(self, exporter: SpanExporter) -> None:
        self.exporter = exporter
        self.results: list[SpanExportResult] = []

    def export(self, spans):  # type: ignore[no-untyped-def]
        self.results.append(self.exporter.export(spans))
        return self.results[-1]

    def shutdown(self) -> None:
        self.exporter.shutdown()


def send(exporter: SpanExporter) -> list[SpanExportResult]:
    seen = Seen(exporter)
    provider = TracerProvider(resource=Resource.create({"service.name": "cachescope-gateway", sc.DEMO: True}))
    provider.add_span_processor(SimpleSpanProcessor(seen))
    tracer = provider.get_tracer(sc.SCOPE, "0.1.0")
    with tracer.start_as_current_span("outer"), tracer.start_as_current_span(sc.SPAN_LOOKUP) as span:
        span.set_attributes({sc.OUTCOME: Outcome.SEMANTIC_HIT.value, sc.NAMESPACE: "faq", sc.CANDIDATE_SIMILARITY: 0.97})
    provider.shutdown()
    return seen.results


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def exporters(it: Running, kind: str) -> dict[str, Any]:
    """A real exporter of each signal: 'http' or 'grpc'."""
    if kind == "http":
        url = f"http://{it.settings.http_bind}/v1"
        return {
            "traces": HttpExporter(endpoint=f"{url}/traces", timeout=60),
            "metrics": HttpMetrics(endpoint=f"{url}/metrics", timeout=60),
            "logs": HttpLogs(endpoint=f"{url}/logs", timeout=60),
        }
    where = it.settings.grpc_bind
    return {
        "traces": GrpcExporter(endpoint=where, timeout=60, insecure=True),
        "metrics": GrpcMetrics(endpoint=where, timeout=60, insecure=True),
        "logs": GrpcLogs(endpoint=where, timeout=60, insecure=True),
    }


def send_metrics(exporter: Any, *, delta: bool = False) -> None:
    if delta:
        kinds = {CounterInstrument: AggregationTemporality.DELTA, Histogram: AggregationTemporality.DELTA}
        exporter._preferred_temporality |= kinds
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
    exponential = View(instrument_name="cache.size", aggregation=ExponentialBucketHistogramAggregation())
    provider = MeterProvider([reader], resource=Resource.create({"service.name": "shop"}), views=[exponential])
    meter = provider.get_meter("meter")
    hits, latency, size = meter.create_counter("cache.hits"), meter.create_histogram("cache.ms"), meter.create_histogram("cache.size")
    for number in range(20):
        hits.add(1, {"tier": "l1"})
        latency.record(number)
        size.record(number * 100.0)
    meter.create_counter("litellm_cache_hits_metric").add(5)
    meter.create_gauge("cache.entries").set(7)
    provider.shutdown()


def send_logs(exporter: Any) -> None:
    provider = LoggerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
    record = LogRecord(timestamp=1_795_954_000_000_000_000, severity_number=SeverityNumber.INFO, attributes={"cache_status": "hit"})
    provider.get_logger("access").emit(record)
    provider.shutdown()


@pytest.mark.parametrize("kind", ["http", "grpc"])
async def test_metrics_and_logs_of_the_real_exporters_land_and_no_error_is_logged(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path) as it:
        real = exporters(it, kind)
        await asyncio.to_thread(send_metrics, real["metrics"], delta=kind == "grpc")
        await asyncio.to_thread(send_logs, real["logs"])
        suffix = "_delta" if kind == "grpc" else ""
        assert await it.rows("SELECT kind, labels, value FROM metric_samples WHERE name = 'cache.hits_total'") == [
            (f"counter{suffix}", '{"tier":"l1"}', 20.0)
        ]
        for name, total in (("cache.ms", 190.0), ("cache.size", 19_000.0)):
            assert await it.rows("SELECT kind, value FROM metric_samples WHERE name = ?", f"{name}_sum") == [(f"histogram{suffix}", total)]
            whole = """SELECT value FROM metric_samples WHERE name = ? AND labels = '{"le":"+Inf"}'"""
            assert await it.rows(whole, f"{name}_bucket") == [(20.0,)]
        # A process that began after the collector, and says all in one go at its end, is counted from its first total on.
        assert await it.rows("SELECT sum(increase) FROM counter_hours") == [(5.0,)]
        assert await it.rows("SELECT outcome FROM lookups") == [("exact_hit",)]
        assert await it.rows("SELECT coalesce(sum(count), 0) FROM rejects") == [(0,)]
    assert errors(caplog) == []


async def test_the_real_exporters_try_again_when_told_to_and_nothing_is_lost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    storage = replace(settings(tmp_path).storage, busy_timeout_s=0.05)
    async with running(tmp_path, storage=storage) as it:
        with contextlib.closing(sqlite3.connect(tmp_path / "telemetry.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # what they send now is refused
            sending = [asyncio.create_task(asyncio.to_thread(send, exporters(it, kind)["traces"])) for kind in ("http", "grpc")]
            failures = it.collector.metrics.failures
            async with asyncio.timeout(60):
                while not all(failures.labels(kind, "StoreUnavailable")._value.get() for kind in ("http", "grpc")):
                    await asyncio.sleep(0.01)
            other.execute("ROLLBACK")
        assert await asyncio.gather(*sending) == [[SpanExportResult.SUCCESS] * 2] * 2
        assert await it.rows("SELECT count(*) FROM spans") == [(4,)]
    assert errors(caplog) == []
    assert [record for record in caplog.records if "retrying" in record.getMessage()]


@pytest.mark.parametrize("protocol", ["http", "http-gzip", "grpc", "grpc-gzip"])
async def test_spans_of_the_real_exporter_land(tmp_path: Path, protocol: str) -> None:
    async with running(tmp_path, token="t") as it:
        headers = {"authorization": "Bearer t"}
        exporter: SpanExporter
        if protocol.startswith("http"):
            compression = Compression.Gzip if "gzip" in protocol else Compression.NoCompression
            url = f"http://{it.settings.http_bind}/v1/traces"
            exporter = HttpExporter(endpoint=url, timeout=60, headers=headers, compression=compression)
        else:
            packed = grpc.Compression.Gzip if "gzip" in protocol else grpc.Compression.NoCompression
            exporter = GrpcExporter(endpoint=it.settings.grpc_bind, timeout=60, insecure=True, headers=headers, compression=packed)
        results = await asyncio.to_thread(send, exporter)
        assert results == [SpanExportResult.SUCCESS] * 2
        assert await it.rows("SELECT outcome, namespace, similarity FROM lookups") == [("semantic_hit", "faq", 0.97)]
        assert await it.rows("SELECT count(*), count(parent_id) FROM spans") == [(2, 1)]
        assert await it.rows("SELECT service, scope, dialect, demo FROM sources") == [
            ("cachescope-gateway", "cachescope.engine@0.1.0", "native", 1)
        ]


def send_many(exporter: SpanExporter, count: int) -> None:
    provider = TracerProvider(resource=Resource.create({"service.name": "shop"}))
    provider.add_span_processor(BatchSpanProcessor(exporter, max_queue_size=2 * count, max_export_batch_size=50))
    tracer = provider.get_tracer("shop")
    for number in range(count):
        with tracer.start_as_current_span(f"work {number}", attributes={"number": number}):
            pass
    provider.force_flush()
    provider.shutdown()


@pytest.mark.parametrize("protocol", ["grpc", "http"])
async def test_a_real_collector_forwards_the_sdk_s_traffic_and_nothing_is_lost(
    tmp_path: Path, protocol: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path, token="t") as it:
        bind = it.settings.grpc_bind if protocol == "grpc" else it.settings.http_bind
        with agent(tmp_path, to=f"http://{bind}", protocol=protocol, token="t") as between:
            where = between.grpc
            await asyncio.to_thread(send_many, GrpcExporter(endpoint=where, timeout=60, insecure=True), 300)
            await asyncio.to_thread(send_metrics, GrpcMetrics(endpoint=where, timeout=60, insecure=True))
            await asyncio.to_thread(send_logs, GrpcLogs(endpoint=where, timeout=60, insecure=True))
            # What it holds when it is stopped it sends for a short while only: that is its own affair.
            await until(it, "SELECT count(*) FROM spans WHERE name LIKE 'work %'", [(300,)])
            await until(it, "SELECT count(*) FROM metric_samples WHERE name = 'cache.hits_total'", [(1,)])
            await until(it, "SELECT count(*) FROM lookups", [(1,)])
            await asyncio.to_thread(between.flush)
        assert await it.rows("SELECT count(*), count(DISTINCT name) FROM spans WHERE name LIKE 'work %'") == [(300, 300)]
        assert await it.rows("SELECT value FROM metric_samples WHERE name = 'cache.hits_total'") == [(20.0,)]
        assert await it.rows("SELECT outcome FROM lookups") == [("exact_hit",)]
        assert await it.rows("SELECT coalesce(sum(count), 0) FROM rejects") == [(0,)]
    assert errors(caplog) == []
