"""Both OTLP ports over TLS."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import grpc
import httpx
import pytest
from grpc import aio
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from app.adapters import health
from collectors.errors import TlsUnusable
from collectors.runner import Collector, check_tls
from collectors.settings import Tls
from tests.collectors.support import PROTOBUF, request, running, settings
from tests.collectors.test_exporters import send

FILES = Path(__file__).parent / "tls"
TLS = Tls(FILES / "cert.pem", FILES / "key.pem")


async def test_real_exporters_send_over_tls_and_plain_text_is_not_understood(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):  # they would win over the exporter's own setting
        monkeypatch.delenv(name, raising=False)
    async with running(tmp_path, tls=TLS) as it:
        where = f"https://{it.settings.http_bind}"
        exporters: list[SpanExporter] = [
            HttpExporter(endpoint=f"{where}/v1/traces", timeout=60, certificate_file=str(TLS.certificate)),
            GrpcExporter(
                endpoint=f"https://{it.settings.grpc_bind}",
                timeout=60,
                credentials=grpc.ssl_channel_credentials(TLS.certificate.read_bytes()),
            ),
        ]
        for exporter in exporters:
            assert await asyncio.to_thread(send, exporter) == [SpanExportResult.SUCCESS] * 2
        assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
        assert await it.rows("SELECT count(*) FROM spans") == [(4,)]
        ca = str(TLS.certificate)
        assert (await asyncio.to_thread(lambda: health.page("collector", where, "/healthz", ca=ca, timeout_s=60))).ok
        for spelled in (where, where.replace("https", "HTTPS")):  # nobody we trust signed it
            assert not (await asyncio.to_thread(health.page, "collector", spelled, "/healthz")).ok
        with pytest.raises(httpx.TransportError):
            await it.post(request().SerializeToString(), PROTOBUF)
        async with aio.insecure_channel(it.settings.grpc_bind) as channel:
            with pytest.raises(aio.AioRpcError):
                await channel.unary_unary("/opentelemetry.proto.collector.trace.v1.TraceService/Export")(b"", timeout=60)


@pytest.mark.parametrize(
    "tls",
    [
        Tls(FILES / "none.pem", FILES / "key.pem"),
        Tls(FILES / "cert.pem", FILES / "cert.pem"),
        Tls(FILES / "key.pem", FILES / "README.md"),
    ],
)
async def test_files_that_are_no_certificate_and_key_stop_the_start_with_their_names(tmp_path: Path, tls: Tls) -> None:
    with pytest.raises(TlsUnusable, match=tls.certificate.name):
        check_tls(tls)
    collector = Collector(replace(settings(tmp_path), tls=tls))
    with pytest.raises(TlsUnusable):
        await collector.start()
    await collector.stop()
