"""The real OpenTelemetry exporters, over HTTP and gRPC."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

from engine import semconv as sc
from engine.types import Outcome
from tests.collectors.support import running


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


@pytest.mark.parametrize("protocol", ["http", "http-gzip", "grpc", "grpc-gzip"])
async def test_spans_of_the_real_exporter_land(tmp_path: Path, protocol: str) -> None:
    async with running(tmp_path, token="t") as it:
        headers = {"authorization": "Bearer t"}
        exporter: SpanExporter
        if protocol.startswith("http"):
            compression = Compression.Gzip if "gzip" in protocol else Compression.NoCompression
            url = f"http://{it.settings.http_bind}/v1/traces"
            exporter = HttpExporter(endpoint=url, headers=headers, compression=compression)
        else:
            packed = grpc.Compression.Gzip if "gzip" in protocol else grpc.Compression.NoCompression
            exporter = GrpcExporter(endpoint=it.settings.grpc_bind, insecure=True, headers=headers, compression=packed)
        results = await asyncio.to_thread(send, exporter)
        assert results == [SpanExportResult.SUCCESS] * 2
        assert await it.rows("SELECT outcome, namespace, similarity FROM lookups") == [("semantic_hit", "faq", 0.97)]
        assert await it.rows("SELECT count(*), count(parent_id) FROM spans") == [(2, 1)]
        assert await it.rows("SELECT service, scope, dialect, demo FROM sources") == [
            ("cachescope-gateway", "cachescope.engine@0.1.0", "native", 1)
        ]
