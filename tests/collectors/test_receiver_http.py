"""OTLP over HTTP, point by point."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import random
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from google.rpc import error_details_pb2, status_pb2
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tests.collectors.support import JSON, PROTOBUF, put, request, running
from tests.collectors.wires import as_json


def status_of(response: httpx.Response) -> status_pb2.Status:
    """The google.rpc.Status of a refusal, in the encoding of its request."""
    if response.headers["content-type"] == "application/json":
        document = response.json()
        return status_pb2.Status(code=document["code"], message=document["message"])
    assert response.headers["content-type"] == "application/x-protobuf"
    return status_pb2.Status.FromString(response.content)


def traces_response(response: httpx.Response) -> ExportTraceServiceResponse:
    return ExportTraceServiceResponse.FromString(response.content)


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


async def test_langfuse_has_a_path_of_its_own(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        assert (await it.post(b"", path="/api/public/otel/v1/traces")).status_code == 200
        unknown, wrong = await it.post(b"", path="/v2/traces"), await it.client.get("/v1/traces")
    assert (unknown.status_code, wrong.status_code) == (404, 405)
    assert status_of(unknown).message
    assert status_of(wrong).message


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


async def test_a_locked_store_is_503_and_the_spans_land_when_sent_again(tmp_path: Path) -> None:
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
        async with asyncio.timeout(60):
            while 'reason="SlowSender"} 1.0' not in (await it.client.get("/metrics")).text:
                await asyncio.sleep(0.02)
        assert "cachescope_collector_queue_bytes 0.0" in (await it.client.get("/metrics")).text
        never.set()
        assert (await sending).status_code == 408


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
