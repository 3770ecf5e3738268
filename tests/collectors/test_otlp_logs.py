"""Log records that carry a cache decision become lookups; others are counted."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from app.views.understood import understood_rows
from collectors.dialects.native import OUTCOMES
from collectors.otlp import logs
from collectors.otlp.decode import PROTOBUF
from collectors.otlp.logs import decode_logs
from collectors.settings import CollectorSettings
from storage.payloads import unpack
from storage.reads.sources import sources
from storage.rows import LookupRow
from storage.settings import StorageSettings
from storage.store import open_telemetry
from tests.collectors.support import put, running
from tests.collectors.support import request as spans_request
from tests.collectors.wires import HTTP_JSON, WIRES, as_json, send

AT = 1_795_954_000_000_000_000
SETTINGS = CollectorSettings(StorageSettings("", ""))


def request(*records: dict[str, Any]) -> ExportLogsServiceRequest:
    """body: str or dict. trace_id, span_id, at. All else is an attribute."""
    message = ExportLogsServiceRequest()
    one = message.resource_logs.add()
    one.resource.attributes.add(key="service.name").value.string_value = "higress-gateway"
    scope = one.scope_logs.add()
    for given in records:
        record = scope.log_records.add(time_unix_nano=given.pop("at", AT))
        record.trace_id, record.span_id = given.pop("trace_id", b""), given.pop("span_id", b"")
        if "body" in given:
            put(record.body, given.pop("body"))
        for key, value in given.items():
            put(record.attributes.add(key=key).value, value)
    return message


def lookups(*records: dict[str, Any]) -> list[LookupRow]:
    decoded = decode_logs(request(*records).SerializeToString(), PROTOBUF, SETTINGS)
    return [row for batch in decoded.batches for row in batch.lookups]  # type: ignore[union-attr]


@pytest.mark.parametrize("wire", WIRES)
async def test_a_record_with_a_decision_is_a_lookup_and_others_are_counted(tmp_path: Path, wire: str) -> None:
    message = request(
        {"cache_status": "hit", "model": "qwen", "consumer": "acme", "route_name": "faq", "input_token": "12"},
        {"cache_status": "miss", "trace_id": b"\1" * 16, "span_id": b"\2" * 8},
        {"cache_status": "skip", "at": AT + 1},
        {"body": "GET / 200"},
        {"body": "another"},
    )
    async with running(tmp_path) as it:
        for _ in range(2):  # a resend changes nothing
            answer = await send(it, wire, message, signal="logs")
            assert (answer.code, answer.rejected, "not_stored (2)" in answer.message) == (0, 2, True)
        found = await it.rows(
            "SELECT outcome, reason, model, tenant, namespace, input_tokens, cache_kind, at_ms FROM lookups ORDER BY outcome"
        )
        assert found == [
            ("bypass", "skip", "", "", "", None, "response", AT // 10**6),
            ("exact_hit", "", "qwen", "acme", "faq", 12, "response", AT // 10**6),
            ("miss", "", "", "", "", None, "response", AT // 10**6),
        ]
        # The record with a trace is a child of its span, under its own id: that span may come by another way.
        assert await it.rows("SELECT count(*) FROM spans WHERE trace_id = ? AND parent_id = ?", b"\1" * 16, b"\2" * 8) == [(1,)]
        assert await it.rows("SELECT count(*) FROM spans WHERE span_id = ?", b"\2" * 8) == [(0,)]
        by_kind = await it.rows("SELECT dialect, accepted, duplicates, lookups, dropped FROM sources ORDER BY dialect")
        assert by_kind == [("", 0, 0, 0, 4), ("log", 3, 3, 3, 0)]


@pytest.mark.parametrize("first", ["traces", "logs"])
async def test_a_decision_that_a_span_and_a_record_tell_of_counts_once_and_sources_say_which(tmp_path: Path, first: str) -> None:
    span = spans_request(1, scope="higress", attributes={"cache_status": "hit", "model": "qwen"}, service="higress-gateway")
    one = span.resource_spans[0].scope_spans[0].spans[0]
    record = request({"cache_status": "hit", "consumer": "acme", "trace_id": one.trace_id, "span_id": one.span_id})
    sent = {"traces": span, "logs": record}
    async with running(tmp_path) as it:
        for signal in sorted(sent, key=lambda signal: signal != first):
            assert (await send(it, "grpc", sent[signal], signal=signal)).code == 0
        assert await it.rows("SELECT dialect, span_id FROM lookups") == [("higress", one.span_id)]
        assert await it.rows("SELECT sum(lookups) FROM rollups_1h") == [(1,)]
        assert await it.rows("SELECT call_role FROM spans ORDER BY parent_id") == [("",), ("retold",)]
        with contextlib.closing(open_telemetry(it.settings.storage, write=False)) as store, store.read() as connection:
            rows = understood_rows(sources(connection))
    assert {row["dialect"]: (row["lookups"], row["decisions told twice"]) for row in rows} == {
        "higress": ("response cache 1", ""),
        "log": ("", "1 by a span too, which counts"),
    }


@pytest.mark.parametrize(
    "record",
    [
        {"body": json.dumps({"cache_status": "hit", "model": "m"})},
        {"body": {"cache_status": "hit", "model": "m"}},
        {"body": json.dumps({"ai_log": json.dumps({"cache_status": "hit", "model": "m"})})},
        {"ai_log": json.dumps({"cache_status": "hit", "model": "m"})},
        {"ai_log": {"cache_status": "HIT ", "model": "m"}},
        {"cache_status": "hit", "model": "m", "body": json.dumps({"cache_status": "miss", "model": "other"})},
        {"cache_hit": True, "model": "m"},
    ],
)
def test_the_decision_is_found_where_gateways_put_it(record: dict[str, Any]) -> None:
    (row,) = lookups(record)
    assert (row.outcome, row.model) == ("exact_hit", "m")


@pytest.mark.parametrize(
    "record", [{"cache_status": ""}, {"cache_status": "perhaps"}, {"cache_hit": 3}, {"body": "{broken"}, {"body": "[1]"}, {"body": {}}, {}]
)
def test_what_is_no_decision_is_no_lookup(record: dict[str, Any]) -> None:
    assert lookups(record) == []


def test_a_similarity_below_one_makes_a_hit_a_semantic_one() -> None:
    assert [row.outcome for row in lookups({"cache_status": "hit", "similarity": 0.93}, {"cache_status": "hit", "similarity": 1.0})] == [
        "semantic_hit",
        "exact_hit",
    ]


def test_every_word_of_the_table_is_an_outcome_of_ours() -> None:
    assert {outcome for outcome, _ in logs.OUTCOMES.values()} <= OUTCOMES
    for word, (outcome, reason) in logs.OUTCOMES.items():
        (row,) = lookups({"cache_status": word.upper()})
        assert (row.outcome, row.reason) == (outcome, reason)


def test_prompts_of_a_record_are_dropped_when_they_are_not_recorded() -> None:
    message = request(
        {"cache_status": "hit", "gen_ai.input.messages": "my card", "question.text": "my card", "body": '{"prompt": "my card"}'}
    )
    decoded = decode_logs(message.SerializeToString(), PROTOBUF, replace(SETTINGS, record_prompts=False))
    (span,) = [span for batch in decoded.batches for span in batch.spans]  # type: ignore[union-attr]
    assert b"my card" not in unpack(span.payload)


async def test_a_malformed_record_costs_itself_alone(tmp_path: Path) -> None:
    document = as_json(request({"cache_status": "hit"}, {"cache_status": "miss", "at": AT + 1}, {"cache_status": "miss", "at": 0}))
    document["resourceLogs"][0]["scopeLogs"][0]["logRecords"][0]["timeUnixNano"] = "soon"
    async with running(tmp_path) as it:
        answer = await send(it, HTTP_JSON, document, signal="logs")
        assert (answer.code, answer.rejected) == (0, 2)
        assert await it.rows("SELECT outcome FROM lookups") == [("miss",)]
        assert dict(await it.rows("SELECT reason, count FROM rejects")) == {"malformed_record": 1, "time_out_of_range": 1}


async def test_a_record_nested_without_end_is_cut_and_its_neighbour_lands(tmp_path: Path) -> None:
    line = '{"cache_status":"hit","long":"' + "y" * 50 + '","x":' + "[" * 300 + "]" * 300 + "}"
    message = request({"body": line}, {"cache_status": "miss", "at": AT + 1})
    async with running(tmp_path, max_attribute_chars=20) as it:
        answer = await send(it, HTTP_JSON, message, signal="logs")
        assert (answer.code, answer.rejected) == (0, -1)
        assert await it.rows("SELECT outcome FROM lookups ORDER BY outcome") == [("exact_hit",), ("miss",)]
    decoded = decode_logs(message.SerializeToString(), PROTOBUF, replace(SETTINGS, max_attribute_chars=20, max_attributes=2))
    spans = [span for batch in decoded.batches for span in batch.spans]  # type: ignore[union-attr]
    kept = json.loads(unpack(spans[0].payload))["attributes"]
    assert kept == {"cachescope.left_out.attributes": 1, "cache_status": "hit", "long": "y" * 20 + "…[cut: 50 characters]"}


async def test_no_byte_of_a_prompt_reaches_the_file_when_prompts_are_not_recorded(tmp_path: Path) -> None:
    ai_log = {"cache_status": "hit", "question": "SECRETQ", "answer": "SECRETA", "messages": [{"role": "user", "content": "SECRETM"}]}
    given = {"cache_status": "hit", "question": "SECRET1", "answer": "SECRET2", "messages": [{"content": "SECRET3"}]}
    nested = {"mine": {"deep": [{"question": "SECRET4", "prompt": "SECRET5", "kept": 1}]}, "rest": {"input": "SECRET6"}}
    odd = {"ai_log": json.dumps(ai_log), "whatever": "SECRET7"}
    logged = request(
        {**given, **odd}, {"ai_log": ai_log, "at": AT + 1}, {"body": json.dumps(ai_log), "at": AT + 2}, {"body": ai_log, "at": AT + 3}
    )
    put(logged.resource_logs[0].resource.attributes.add(key="messages").value, [{"content": "SECRET8"}])
    traced = spans_request(attributes={**given, **nested, "ai_log": ai_log})
    put(traced.resource_spans[0].resource.attributes.add(key="my").value, {"answer": "SECRET9"})
    traced.resource_spans.append(spans_request(first=1, attributes={"ai_log": json.dumps(ai_log)}).resource_spans[0])
    # Payloads are compressed in the file: what is stored is looked at as it is read, too.
    async with running(tmp_path, record_prompts=False) as it:
        assert (await send(it, HTTP_JSON, logged, signal="logs")).code == 0
        assert (await send(it, HTTP_JSON, traced)).code == 0
        payloads = [unpack(held) for (held,) in await it.rows("SELECT payload FROM span_payloads")]
        assert await it.rows("SELECT count(*) FROM lookups") == [(5,)]
    assert len(payloads) == 6
    assert [held for held in payloads if b"SECRET" in held] == []
    assert any(b'"deep":[{"kept":1}]' in held for held in payloads)
    assert [file.name for file in tmp_path.iterdir() if b"SECRET" in file.read_bytes()] == []
