"""OTLP over HTTP, point by point."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import random
import zlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tests.collectors.support import JSON, PROTOBUF, put, request, running
from tests.collectors.test_decode import as_json


def status_of(response: httpx.Response) -> status_pb2.Status:
    """The google.rpc.Status of a refusal, in the encoding of its request."""
    if response.headers["content-type"] == "application/json":
        document = response.json()
        return status_pb2.Status(code=document["code"], message=document["message"])
    assert response.headers["content-type"] == "application/x-protobuf"
    return status_pb2.Status.FromString(response.content)


def traces_response(response: httpx.Response) -> ExportTraceServiceResponse:
    return ExportTraceServiceResponse.FromString(response.content)


async def test_point_1_none_gzip_and_deflate_give_the_same_rows(tmp_path: Path) -> None:
    plain = request(3).SerializeToString()
    raw = zlib.compressobj(wbits=-15)
    async with running(tmp_path) as it:
        for number, (encoding, pack) in enumerate(
            {
                "identity": lambda body: body,
                "gzip": gzip.compress,
                "deflate": zlib.compress,
                "GZIP": lambda body: gzip.compress(body[:7]) + gzip.compress(body[7:]),
            }.items()
        ):
            body = request(3, first=3 * number).SerializeToString()
            response = await it.post(pack(body), PROTOBUF | {"Content-Encoding": encoding})
            assert response.status_code == 200, encoding
        response = await it.post(raw.compress(plain) + raw.flush(), PROTOBUF | {"Content-Encoding": "deflate"})
        assert response.status_code == 200
        assert await it.rows("SELECT count(*), count(DISTINCT name), min(end_ns - start_ns) FROM spans") == [(12, 1, 5_000_000)]


async def test_case_b04_gzip_is_inflated_before_it_is_parsed_and_a_cut_body_is_400(tmp_path: Path) -> None:
    body = json.dumps(as_json(request(2))).encode()
    async with running(tmp_path) as it:
        for sent, headers in ((body, JSON), (gzip.compress(body), JSON | {"Content-Encoding": "gzip"})):
            assert (await it.post(sent, headers)).status_code == 200
        for broken in (gzip.compress(body)[:-9], b"not gzip at all"):
            response = await it.post(broken, JSON | {"Content-Encoding": "gzip"})
            assert response.status_code == 400
            assert status_of(response).code == 3
        assert await it.rows("SELECT accepted, duplicates FROM sources") == [(2, 2)]


async def test_point_2_too_large_before_or_after_decompression_is_413(tmp_path: Path) -> None:
    body = request(1, attributes={"pad": "x" * 50_000}).SerializeToString()
    async with running(tmp_path, max_body_bytes=40_000) as it:
        for sent, headers in (
            (body, PROTOBUF),
            (gzip.compress(body), PROTOBUF | {"Content-Encoding": "gzip"}),
            (gzip.compress(b"\0" * 300_000_000, 9)[:39_000], PROTOBUF | {"Content-Encoding": "gzip"}),
        ):
            response = await it.post(sent, headers)
            assert response.status_code == 413
            assert status_of(response).code == 8
            assert not status_of(response).details
        assert await it.rows("SELECT count(*) FROM spans") == [(0,)]
        assert "cachescope_collector_queue_bytes 0.0" in (await it.client.get("/metrics")).text


@pytest.mark.parametrize(
    ("content_type", "answered"),
    [
        ("application/x-protobuf", "application/x-protobuf"),
        ("application/json", "application/json"),
        ("Application/JSON; charset=utf-8", "application/json"),
    ],
)
async def test_point_3_the_answer_has_the_content_type_of_the_request(tmp_path: Path, content_type: str, answered: str) -> None:
    message = request()
    body = json.dumps(as_json(message)).encode() if "json" in answered else message.SerializeToString()
    async with running(tmp_path) as it:
        good = await it.post(body, {"Content-Type": content_type})
        bad = await it.post(b"{", {"Content-Type": content_type})
    assert good.headers["content-type"] == bad.headers["content-type"] == answered
    assert good.content == (b"{}" if "json" in answered else b"")


async def test_point_4_all_three_signals_have_their_paths_and_langfuse_its_own(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        for path in ("/v1/traces", "/v1/metrics", "/v1/logs", "/api/public/otel/v1/traces"):
            assert (await it.post(b"", path=path)).status_code == 200
        unknown, wrong = await it.post(b"", path="/v2/traces"), await it.client.get("/v1/traces")
    assert (unknown.status_code, wrong.status_code) == (404, 405)
    assert status_of(unknown).message
    assert status_of(wrong).message


async def test_point_5_full_success_leaves_partial_success_unset_and_an_empty_request_succeeds(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        for body in (b"", request(0).SerializeToString(), request(2).SerializeToString()):
            response = await it.post(body)
            assert response.status_code == 200
            assert not traces_response(response).HasField("partial_success")


async def test_point_6_partial_success_counts_the_refused_spans_and_says_why(tmp_path: Path) -> None:
    message = request(3)
    message.resource_spans[0].scope_spans[0].spans[0].trace_id = b"short"
    async with running(tmp_path) as it:
        partial = traces_response(await it.post(message.SerializeToString())).partial_success
        document = (await it.post(json.dumps(as_json(message)).encode(), JSON)).json()
        assert await it.rows("SELECT reason, count FROM rejects") == [("invalid_trace_id", 2)]
    assert partial.rejected_spans == 1
    assert "invalid_trace_id" in partial.error_message
    assert document["partialSuccess"]["rejectedSpans"] == "1"


async def test_point_7_every_refusal_is_a_status_with_a_message_in_the_encoding_of_the_request(tmp_path: Path) -> None:
    async with running(tmp_path, token="s3cret") as it:
        for headers in (PROTOBUF, JSON):
            refusal = await it.post(b"", headers)
            assert (refusal.status_code, status_of(refusal).code) == (401, 16)
            assert status_of(refusal).message
        authorised = {"Authorization": "Bearer s3cret"}
        for headers, status in (
            ({"Content-Type": "text/plain"} | authorised, 415),
            (PROTOBUF | authorised | {"Content-Encoding": "br"}, 415),
            (PROTOBUF | authorised, 400),
        ):
            refusal = await it.post(b"\xff\xff\xff", headers)
            assert refusal.status_code == status
            assert status_of(refusal).message


async def test_case_b06_malformed_is_400_with_details_empty_is_200(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        garbage = await it.post(random.Random(7).randbytes(37))
        brace = await it.post(b"{", JSON)
        empty = await it.post(b"")
        zero = await it.post(b'{"resourceSpans":[]}', JSON)
        assert [r.status_code for r in (garbage, brace, empty, zero)] == [400, 400, 200, 200]
        status = status_of(garbage)
        details = error_details_pb2.BadRequest()
        assert status.details[0].Unpack(details)
        assert details.field_violations
        message = request(2)
        for number in range(140):
            put(message.resource_spans[0].scope_spans[0].spans[0].attributes.add(key=f"k{number}").value, "y" * 65_000)
        assert traces_response(await it.post(message.SerializeToString())).partial_success.rejected_spans == 1


async def test_point_9_overload_is_503_with_retry_after_and_what_was_refused_lands_when_sent_again(tmp_path: Path) -> None:
    body = request(20, attributes={"pad": "x" * 1000}).SerializeToString()
    async with running(tmp_path, queue_bytes=len(body) + 100) as it:
        responses = await asyncio.gather(*(it.post(body) for _ in range(40)))
        refused = [response for response in responses if response.status_code == 503]
        assert refused
        assert {response.status_code for response in responses} == {200, 503}
        assert int(refused[0].headers["retry-after"]) >= 1
        info = error_details_pb2.RetryInfo()
        assert status_of(refused[0]).details[0].Unpack(info)
        assert (await it.post(body)).status_code == 200
        assert await it.rows("SELECT count(*) FROM spans") == [(20,)]


async def test_point_9_a_locked_store_is_503_and_the_spans_land_when_sent_again(tmp_path: Path) -> None:
    import contextlib
    import sqlite3
    from dataclasses import replace

    from tests.collectors.support import settings

    storage = replace(settings(tmp_path).storage, busy_timeout_s=0.05)
    async with running(tmp_path, storage=storage) as it:
        with contextlib.closing(sqlite3.connect(tmp_path / "telemetry.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            refused = await it.post(request(2).SerializeToString())
            assert refused.status_code == 503
            assert "retry-after" in refused.headers
            health = await it.client.get("/healthz")
            assert (health.status_code, "StoreBusy" in health.text) == (503, True)
            other.execute("ROLLBACK")
        assert (await it.post(request(2).SerializeToString())).status_code == 200
        assert (await it.client.get("/healthz")).text == "ok"


async def test_a_body_that_never_ends_is_let_go_and_its_bytes_are_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collectors.otlp.receiver_http._BODY_TIMEOUT_S", 0.1)
    never = asyncio.Event()

    async def trickle() -> AsyncIterator[bytes]:
        yield b"\n\x05"
        await never.wait()

    async with running(tmp_path) as it:
        sending = asyncio.create_task(it.client.post("/v1/traces", content=trickle(), headers=PROTOBUF))
        async with asyncio.timeout(20):
            while 'reason="SlowSender"} 1.0' not in (await it.client.get("/metrics")).text:
                await asyncio.sleep(0.02)
        assert "cachescope_collector_queue_bytes 0.0" in (await it.client.get("/metrics")).text
        never.set()
        assert (await sending).status_code == 408


def _metrics(**point: Any) -> bytes:
    message = ExportMetricsServiceRequest()
    metric = message.resource_metrics.add().scope_metrics.add().metrics.add(name="m")
    metric.histogram.aggregation_temporality = point.pop("temporality", 2)
    metric.histogram.data_points.add(**point)
    return message.SerializeToString()


@pytest.mark.parametrize(
    ("point", "reason"),
    [
        ({"count": 3, "bucket_counts": [1, 2], "explicit_bounds": [1.0]}, "not_stored"),
        ({"count": 3}, "not_stored"),
        ({"temporality": 0, "count": 3}, "unspecified_temporality"),
        ({"count": 3, "bucket_counts": [1, 2], "explicit_bounds": [1.0, 2.0]}, "invalid_buckets"),
        ({"count": 4, "bucket_counts": [1, 2], "explicit_bounds": [1.0]}, "invalid_buckets"),
        ({"count": 3, "bucket_counts": [1, 1, 1], "explicit_bounds": [2.0, 2.0]}, "invalid_bounds"),
    ],
)
async def test_point_13_metrics_are_checked_answered_and_counted(tmp_path: Path, point: dict[str, Any], reason: str) -> None:
    async with running(tmp_path) as it:
        response = await it.post(_metrics(**point), path="/v1/metrics")
        partial = ExportMetricsServiceResponse.FromString(response.content).partial_success
        assert (response.status_code, partial.rejected_data_points) == (200, 1)
        assert reason in partial.error_message
        dropped = 1 if reason == "not_stored" else 0
        assert await it.rows("SELECT kind, dropped FROM sources") == [("otlp_metrics", dropped)]


async def test_logs_are_answered_and_counted_as_dropped(tmp_path: Path) -> None:
    message = ExportLogsServiceRequest()
    records = message.resource_logs.add().scope_logs.add().log_records
    records.add().body.string_value = "a"
    records.add()
    documents = {"resourceLogs": [{"scopeLogs": [{"logRecords": [{"traceId": "01" * 16, "unknown": 1}, {}]}]}]}
    async with running(tmp_path) as it:
        response = await it.post(message.SerializeToString(), path="/v1/logs")
        assert ExportLogsServiceResponse.FromString(response.content).partial_success.rejected_log_records == 2
        assert (await it.post(json.dumps(documents).encode(), JSON, path="/v1/logs")).status_code == 200
        assert (await it.post(b'{"resourceLogs": 1}', JSON, path="/v1/logs")).status_code == 400
        assert await it.rows("SELECT kind, dropped FROM sources") == [("otlp_logs", 4)]


async def test_point_14_a_resend_changes_nothing_and_the_answer_comes_after_the_commit(tmp_path: Path) -> None:
    body = request(5).SerializeToString()
    async with running(tmp_path) as it:
        for _ in range(3):
            assert (await it.post(body)).status_code == 200
            assert await it.rows("SELECT count(*) FROM spans") == [(5,)]
        assert await it.rows("SELECT accepted, duplicates FROM sources") == [(5, 10)]


async def test_point_15_refused_spans_are_counted_by_reason_on_the_metrics_page(tmp_path: Path) -> None:
    message = request(4)
    for span in message.resource_spans[0].scope_spans[0].spans[:3]:
        span.span_id = b""
    async with running(tmp_path) as it:
        await it.post(message.SerializeToString())
        page = (await it.client.get("/metrics")).text
    assert 'cachescope_collector_rejected_total{reason="invalid_span_id",signal="traces"} 3.0' in page
    assert "cachescope_collector_received_spans_total 4.0" in page
    assert "cachescope_collector_committed_spans_total 1.0" in page


async def test_a_token_is_taken_as_bearer_or_as_the_password_of_basic(tmp_path: Path) -> None:
    basic = base64.b64encode(b"pk:s3cret").decode()
    async with running(tmp_path, token="s3cret") as it:
        for given, status in {
            "Bearer s3cret": 200,
            "bearer  s3cret": 200,
            f"Basic {basic}": 200,
            "Bearer s3cre": 401,
            "s3cret": 401,
            "Basic !!": 401,
            "": 401,
        }.items():
            assert (await it.post(b"", PROTOBUF | {"Authorization": given})).status_code == status, given
        assert (await it.client.get("/metrics")).status_code == 401
        assert (await it.client.get("/healthz")).text == "ok"


@pytest.mark.parametrize("headers", [PROTOBUF, JSON])
async def test_a_fault_of_the_decoder_is_answered_as_otlp_and_counted(
    tmp_path: Path, headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_args: object) -> None:
        raise KeyError("a word of the prompt")

    async with running(tmp_path) as it:
        monkeypatch.setattr("collectors.otlp.intake.decode_traces", broken)
        response = await it.post(b"{}", headers)
        assert response.status_code == 500
        assert status_of(response).code == 13
        assert "DecodeFailed" in (await it.client.get("/metrics")).text
        assert "a word of the prompt" not in response.text
        monkeypatch.undo()
        assert (await it.post(request(1).SerializeToString())).status_code == 200
