"""What an OTLP 1.11 receiver must do: fifteen points, each over every wire that it holds for."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import os
import random
import signal as signals
import sqlite3
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from backports import zstd
from google.rpc import error_details_pb2

from collectors.errors import UnsafeBind
from collectors.otlp import decode
from collectors.runner import check_bind
from collectors.settings import CollectorSettings
from storage.payloads import unpack
from storage.settings import StorageSettings
from tests.collectors import process
from tests.collectors.support import PROTOBUF, request, rows, running, settings, trace_id
from tests.collectors.test_otlp_metrics import faulty
from tests.collectors.wires import GRPC, HTTP_JSON, HTTP_PROTOBUF, PACK, WIRES, as_json, send

every_wire = pytest.mark.parametrize("wire", WIRES)
http_wires = pytest.mark.parametrize("wire", [HTTP_PROTOBUF, HTTP_JSON])

INVALID_ARGUMENT, RESOURCE_EXHAUSTED, UNAVAILABLE = 3, 8, 14


@every_wire
async def test_point_01_none_and_gzip_are_accepted_and_deflate_and_zstd_too(tmp_path: Path, wire: str) -> None:
    # gRPC's core inflates by itself, and knows no zstd: a call in it is told UNIMPLEMENTED with the encodings that are spoken.
    encodings = [name for name in PACK if wire != GRPC or name != "zstd"]
    async with running(tmp_path) as it:
        for number, encoding in enumerate(encodings):
            answer = await send(it, wire, request(3, first=3 * number), encoding=encoding)
            assert (answer.code, answer.http) in {(0, 0), (0, 200)}, encoding
        assert await it.rows("SELECT count(*) FROM spans") == [(3 * len(encodings),)]


async def test_point_01_bodies_in_several_members_and_deflate_without_a_header_are_understood(tmp_path: Path) -> None:
    plain = request(3).SerializeToString()
    raw = zlib.compressobj(wbits=-15)
    forms = {
        "gzip": gzip.compress(plain[:7]) + gzip.compress(plain[7:]),
        "zstd": zstd.compress(plain[:7]) + zstd.compress(plain[7:]),
        "X-GZIP": gzip.compress(plain),
        "deflate": raw.compress(plain) + raw.flush(),
        "identity": plain,
    }
    async with running(tmp_path) as it:
        for encoding, body in forms.items():
            answer = await it.post(body, PROTOBUF | {"Content-Encoding": encoding})
            assert (answer.status_code, answer.content) == (200, b""), encoding
        assert await it.rows("SELECT accepted, duplicates FROM sources") == [(3, 3 * (len(forms) - 1))]


@every_wire
async def test_point_02_a_limit_holds_before_and_after_decompression(tmp_path: Path, wire: str) -> None:
    pad = "".join(random.Random(1).choices("abcdefgh", k=60_000))  # gzip to 24 kB: only the inflated body is too large
    large = request(1, attributes={"pad": pad})
    async with running(tmp_path, max_body_bytes=40_000) as it:
        for encoding in [name for name in PACK if wire != GRPC or name != "zstd"]:
            answer = await send(it, wire, large, encoding=encoding)
            assert answer.code == RESOURCE_EXHAUSTED, encoding
            assert answer.http in {0, 413}
            assert answer.retry_s == 0
        assert (await send(it, wire, request(1))).code == 0
        assert await it.rows("SELECT count(*) FROM spans") == [(1,)]
        assert "cachescope_collector_queue_bytes 0.0" in (await it.client.get("/metrics")).text


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "deflate"])
async def test_point_02_a_bomb_is_stopped_while_it_inflates(tmp_path: Path, encoding: str) -> None:
    bomb = PACK[encoding](b"\0" * 40_000_000)
    async with running(tmp_path, max_body_bytes=1_000_000) as it:
        answer = await it.post(bomb, PROTOBUF | {"Content-Encoding": encoding})
        assert answer.status_code == 413
        assert "cachescope_collector_queue_bytes 0.0" in (await it.client.get("/metrics")).text


@http_wires
@pytest.mark.parametrize("parameters", ["", "; charset=utf-8"])
async def test_point_03_the_answer_has_the_content_type_of_the_request(tmp_path: Path, wire: str, parameters: str) -> None:
    kind = "application/json" if wire == HTTP_JSON else "application/x-protobuf"
    async with running(tmp_path) as it:
        for given in (kind, kind.title()):
            good = await send(it, wire, request(), headers={"Content-Type": given + parameters})
            bad = await send(it, wire, b"{", headers={"Content-Type": given + parameters})
            assert (good.http, bad.http) == (200, 400)
            assert good.headers["content-type"] == bad.headers["content-type"] == kind


@every_wire
async def test_point_04_traces_metrics_and_logs_have_their_paths_and_services(tmp_path: Path, wire: str) -> None:
    async with running(tmp_path) as it:
        for signal in ("traces", "metrics", "logs"):
            assert (await send(it, wire, {} if wire == HTTP_JSON else b"", signal=signal)).code == 0
        for path in ("/v2/traces", "/v1/traces/", "/"):
            assert (await it.post(b"", path=path)).status_code == 404
        assert (await it.client.get("/v1/traces")).status_code == 405
    given = CollectorSettings(StorageSettings("", ""))
    assert (given.grpc_bind, given.http_bind) == ("127.0.0.1:4317", "127.0.0.1:4318")
    with pytest.raises(UnsafeBind):
        check_bind("0.0.0.0:4318", token="")


@every_wire
@pytest.mark.parametrize("signal", ["traces", "metrics", "logs"])
async def test_point_05_full_success_leaves_partial_success_unset_and_an_empty_request_succeeds(
    tmp_path: Path, wire: str, signal: str
) -> None:
    empty = {"traces": {"resourceSpans": []}, "metrics": {"resourceMetrics": []}, "logs": {"resourceLogs": []}}[signal]
    async with running(tmp_path) as it:
        for sent in [empty, {}] if wire == HTTP_JSON else [b""]:
            answer = await send(it, wire, sent, signal=signal)
            assert (answer.code, answer.rejected) == (0, -1)
        if signal == "traces":
            answer = await send(it, wire, request(2))
            assert (answer.code, answer.rejected) == (0, -1)


@every_wire
async def test_point_06_partial_success_counts_the_refused_and_says_why(tmp_path: Path, wire: str) -> None:
    message = request(4)
    spans = message.resource_spans[0].scope_spans[0].spans
    spans[0].trace_id = b"short"
    spans[1].span_id = b""
    async with running(tmp_path, max_request_spans=3) as it:
        answer = await send(it, wire, message)
        assert (answer.code, answer.rejected) == (0, 2)
        assert "invalid_trace_id (1)" in answer.message
        assert "invalid_span_id (1)" in answer.message
        answer = await send(it, wire, request(5, first=10))  # above the bound of spans: said, not hidden
        assert (answer.code, answer.rejected) == (0, 2)
        assert "too_many_spans" in answer.message
        assert await it.rows("SELECT count(*) FROM spans") == [(5,)]


@http_wires
async def test_point_07_every_refusal_is_a_status_with_a_message_in_the_encoding_of_the_request(tmp_path: Path, wire: str) -> None:
    token = {"Authorization": "Bearer s3cret"}
    kind = {"Content-Type": "application/json" if wire == HTTP_JSON else "application/x-protobuf"}
    async with running(tmp_path, token="s3cret", max_body_bytes=2_000) as it:
        for sent, headers, http in (
            (b"{", {}, 401),
            (b"{", token, 400),
            (b"x" * 3_000, token, 413),
            (b"{", token | {"Content-Encoding": "br"}, 415),
        ):
            answer = await send(it, wire, sent, headers=headers)
            assert answer.http == http
            assert answer.message
            assert answer.headers["content-type"] == kind["Content-Type"]
        assert (await it.client.post("/v9", content=b"", headers=kind)).headers["content-type"] == kind["Content-Type"]
        other = await it.client.post("/v1/traces", content=b"", headers={"Content-Type": "text/plain"} | token)
        assert (other.status_code, bool(other.json()["message"])) == (415, True)


@every_wire
@pytest.mark.parametrize("signal", ["traces", "metrics", "logs"])
async def test_point_08_undecodable_bytes_are_400_or_invalid_argument_with_details(tmp_path: Path, wire: str, signal: str) -> None:
    noise = random.Random(7).randbytes(37)
    async with running(tmp_path) as it:
        for sent in [b"{", b"[]", b'{"resourceSpans": 5, "resourceMetrics": 5, "resourceLogs": 5}'] if wire == HTTP_JSON else [noise, b"{"]:
            answer = await send(it, wire, sent, signal=signal)
            assert answer.code == INVALID_ARGUMENT, sent
            assert answer.http in {0, 400}
            detail = answer.detail(error_details_pb2.BadRequest)
            assert detail is not None
            assert detail.field_violations[0].description


@every_wire
async def test_point_09_overload_asks_the_sender_to_come_again_and_nothing_is_lost(tmp_path: Path, wire: str) -> None:
    message = request(20, attributes={"pad": "x" * 1000})
    storage = replace(settings(tmp_path).storage, busy_timeout_s=60)
    size = len(json.dumps(as_json(message)))
    async with running(tmp_path, queue_bytes=size + 100, storage=storage) as it:
        with contextlib.closing(sqlite3.connect(tmp_path / "telemetry.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")  # the first waits for the lock and holds the queue's bytes
            first = asyncio.create_task(send(it, wire, message))
            async with asyncio.timeout(60):
                while "cachescope_collector_queue_bytes 0.0" in (await it.client.get("/metrics")).text:
                    await asyncio.sleep(0.01)
            refused = [await send(it, wire, request(20, first=20 * n, attributes={"pad": "x" * 1000})) for n in range(1, 4)]
            other.execute("ROLLBACK")
        assert (await first).code == 0
        for answer in refused:
            assert answer.code == UNAVAILABLE
            assert answer.http in {0, 503}
            assert answer.retry_s >= 1
            if wire == GRPC:
                assert "google.rpc.retryinfo-bin" in answer.headers
            else:
                assert int(answer.headers["retry-after"]) >= 1
        for n in range(1, 4):
            assert (await send(it, wire, request(20, first=20 * n))).code == 0
        assert await it.rows("SELECT count(*) FROM spans") == [(80,)]


async def test_point_10_json_ids_are_hex_in_any_case_enums_and_int64_are_numbers_or_strings_and_unknown_fields_are_ignored(
    tmp_path: Path,
) -> None:
    message = request(1, attributes={"n": 2**62})
    span = message.resource_spans[0].scope_spans[0].spans[0]
    span.trace_id, span.span_id, span.parent_span_id = bytes.fromhex("ab" * 16), bytes.fromhex("cd" * 8), bytes.fromhex("ef" * 8)
    plain, loud = as_json(message), as_json(message, upper=True)
    one = loud["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    one["startTimeUnixNano"] = int(one["startTimeUnixNano"])
    one["attributes"][0]["value"] = {"intValue": 2**62}
    one |= {"kind": "1", "brandNew": {"deep": [1]}, "links": None}
    loud |= {"other": [1], "resourceLogs": "x"}
    base64_id = as_json(request(1, first=9))
    base64_id["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"] = "AQEBAQEBAQEBAQEBAQEBAQ=="
    async with running(tmp_path) as it:
        for sent in (plain, loud, message.SerializeToString()):
            answer = await send(it, HTTP_PROTOBUF if isinstance(sent, bytes) else HTTP_JSON, sent)
            assert (answer.code, answer.rejected) == (0, -1)
        assert (await send(it, HTTP_JSON, base64_id)).rejected == 1
        assert await it.rows("SELECT hex(trace_id), hex(span_id), hex(parent_id) FROM spans") == [("AB" * 16, "CD" * 8, "EF" * 8)]
        assert await it.rows("SELECT accepted, duplicates FROM sources") == [(1, 2)]


@every_wire
async def test_point_11_a_bad_id_costs_its_span_alone(tmp_path: Path, wire: str) -> None:
    message = request(8)
    spans = message.resource_spans[0].scope_spans[0].spans
    spans[0].trace_id, spans[1].trace_id, spans[2].trace_id = b"", b"\1" * 15, b"\0" * 16
    spans[3].span_id, spans[4].span_id, spans[5].span_id = b"", b"\1" * 9, b"\0" * 8
    async with running(tmp_path) as it:
        answer = await send(it, wire, message)
        assert (answer.code, answer.rejected) == (0, 6)
        assert await it.rows("SELECT trace_id FROM spans ORDER BY trace_id") == [(trace_id(6),), (trace_id(7),)]
        assert dict(await it.rows("SELECT reason, count FROM rejects")) == {"invalid_trace_id": 3, "invalid_span_id": 3}


@every_wire
async def test_point_12_every_kind_of_value_is_legal_and_a_lone_surrogate_or_a_nul_fails_nothing(tmp_path: Path, wire: str) -> None:
    values: dict[str, Any] = {
        "none": None,
        "empty": "",
        "bytes": b"\xff\0",
        "mixed": [1, "a", None, [2.5], {"x": b""}],
        "map": {"k": [True], "": None},
        "nul": "a\0b",
        "": "no key",
        "surrogate": "HERE",
        "nan": float("nan"),
        "huge": "x" * 1_000_000,
    }
    message = request(2, attributes=values)
    if wire == HTTP_JSON:
        body = json.dumps(as_json(message)).replace("HERE", "\\ud800!").encode()
    else:
        body = message.SerializeToString().replace(b"HERE", b"\xed\xa0\x80!")
    async with running(tmp_path) as it:
        answer = await send(it, wire, body)
        assert (answer.code, answer.rejected) == (0, -1)
        assert await it.rows("SELECT count(*) FROM spans") == [(2,)]
        (packed,) = (await it.rows("SELECT payload FROM span_payloads LIMIT 1"))[0]
    kept = json.loads(unpack(packed))["attributes"]
    assert kept["mixed"] == [1, "a", None, [2.5], {"x": {"bytesValue": ""}}]
    assert (kept["nul"], kept["none"], kept["nan"]) == ("a\0b", None, "NaN")
    assert "\ufffd" in kept["surrogate"]
    assert kept["huge"].endswith("…[cut: 1000000 characters]")


@every_wire
async def test_point_13_metrics_that_contradict_themselves_are_refused_point_by_point(tmp_path: Path, wire: str) -> None:
    message, reasons = faulty()
    async with running(tmp_path) as it:
        answer = await send(it, wire, message, signal="metrics")
        assert (answer.code, answer.rejected) == (0, sum(reasons.values()))
        assert dict(await it.rows("SELECT reason, count FROM rejects")) == reasons
        assert await it.rows("SELECT accepted FROM sources") == [(1,)]


@every_wire
async def test_point_14_a_resend_changes_nothing(tmp_path: Path, wire: str) -> None:
    async with running(tmp_path) as it:
        for _ in range(3):
            assert (await send(it, wire, request(5))).code == 0
            assert await it.rows("SELECT count(*) FROM spans") == [(5,)]  # the answer came after the commit
        assert await it.rows("SELECT accepted, duplicates FROM sources") == [(5, 10)]


def test_point_14_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    given = settings(tmp_path)
    with process.collecting(given) as collector:
        answer = httpx.post(f"http://{given.http_bind}/v1/traces", content=request(7).SerializeToString(), headers=PROTOBUF, timeout=60)
        os.kill(collector.pid, signals.SIGKILL)
    assert answer.status_code == 200
    assert rows(tmp_path, "SELECT count(*) FROM spans") == [(7,)]


@every_wire
async def test_point_15_one_bad_span_never_rejects_its_batch_and_is_counted_by_reason(tmp_path: Path, wire: str) -> None:
    message = request(4)
    spans = message.resource_spans[0].scope_spans[0].spans
    for span in spans[:2]:
        span.span_id = b""
    spans[2].end_time_unix_nano = 2**63
    async with running(tmp_path) as it:
        assert (await send(it, wire, message)).rejected == 3
        page = (await it.client.get("/metrics")).text
    assert 'cachescope_collector_rejected_total{reason="invalid_span_id",signal="traces"} 2.0' in page
    assert 'cachescope_collector_rejected_total{reason="time_out_of_range",signal="traces"} 1.0' in page
    assert "cachescope_collector_committed_spans_total 1.0" in page


def test_point_15_json_that_is_malformed_in_one_span_costs_that_span_alone() -> None:
    document = as_json(request(5))
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans[0]["attributes"], spans[1]["name"], spans[2]["startTimeUnixNano"] = "x", 5, "soon"
    spans[3]["endTimeUnixNano"] = str(2**63)
    decoded = decode.decode_traces(json.dumps(document).encode(), decode.JSON, CollectorSettings(StorageSettings("", "")))
    assert decoded.spans == 1
    assert decoded.rejects == {"malformed_span": 3, "time_out_of_range": 1}
