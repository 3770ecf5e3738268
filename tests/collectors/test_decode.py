"""OTLP bytes to rows: protobuf and JSON alike, and no bad span takes others with it."""

from __future__ import annotations

import base64
import copy
import json
import random
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from collectors.dialects import DIALECTS
from collectors.errors import Undecodable
from collectors.otlp.decode import JSON, PROTOBUF, Decoded, decode_traces
from collectors.settings import CollectorSettings
from engine import semconv
from storage.payloads import unpack
from storage.rows import SpanRow
from storage.settings import StorageSettings
from tests.collectors.support import put, request
from tests.collectors.wires import as_json

SETTINGS = CollectorSettings(StorageSettings("", ""))


def from_json(document: Any) -> Decoded:
    return decode_traces(json.dumps(document).encode(), JSON, SETTINGS)


def from_protobuf(message: Any) -> Decoded:
    return decode_traces(message.SerializeToString(), PROTOBUF, SETTINGS)


def only_span(decoded: Decoded) -> SpanRow:
    (span,) = [span for batch in decoded.batches for span in batch.spans]
    return span


def payload(span: SpanRow) -> dict[str, Any]:
    loaded: dict[str, Any] = orjson.loads(unpack(span.payload))
    return loaded


_values = st.recursive(
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary(max_size=20)
    | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


_patient = hypothesis_settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no failure


@_patient
@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), _values, max_size=5))
def test_protobuf_and_json_of_the_same_span_give_identical_rows(attributes: dict[str, Any]) -> None:
    message = request(2, attributes=attributes)
    assert from_json(as_json(message)) == from_protobuf(message)


def test_point_10_hex_ids_in_any_case_are_the_same_id_and_never_base64() -> None:
    message = request()
    upper = only_span(from_json(as_json(message, upper=True)))
    assert upper == only_span(from_protobuf(message))
    assert len(upper.trace_id) == 16
    document = as_json(message)
    document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["traceId"] = base64.b64encode(b"\x01" * 16).decode()
    assert from_json(document).rejects == {"invalid_trace_id": 1}


def test_point_10_int64_is_a_string_or_a_number_and_unknown_fields_are_ignored() -> None:
    document = as_json(request(attributes={"n": 5}))
    span = document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    plain = only_span(from_json(document))
    span["startTimeUnixNano"] = int(span["startTimeUnixNano"])
    span["attributes"][0]["value"] = {"intValue": 5}
    span["somethingNew"] = {"deep": [1, 2]}
    document["other"] = None
    document["resourceSpans"][0]["schemaUrl"] = None
    assert only_span(from_json(document)) == plain


@pytest.mark.parametrize(
    ("trace_id", "span_id", "reason"),
    [
        (b"\0" * 16, b"\1" * 8, "invalid_trace_id"),
        (b"\1" * 15, b"\1" * 8, "invalid_trace_id"),
        (b"", b"\1" * 8, "invalid_trace_id"),
        (b"\1" * 16, b"\0" * 8, "invalid_span_id"),
        (b"\1" * 16, b"\1" * 9, "invalid_span_id"),
    ],
)
def test_point_11_a_bad_id_costs_its_span_alone(trace_id: bytes, span_id: bytes, reason: str) -> None:
    message = request(3)
    bad = message.resource_spans[0].scope_spans[0].spans[1]
    bad.trace_id, bad.span_id = trace_id, span_id
    for decoded in (from_protobuf(message), from_json(as_json(message))):
        assert decoded.spans == 2
        assert decoded.rejects == {reason: 1}
        assert sum(batch.rejects.get(reason, 0) for batch in decoded.batches) == 1
        assert reason in decoded.message


def test_point_12_every_kind_of_value_is_legal_and_a_lone_surrogate_or_a_nul_fails_nothing() -> None:
    values: dict[str, Any] = {
        "none": None,
        "bytes": b"\xff\0",
        "mixed": [1, "a", None, [2.5]],
        "map": {"k": [True]},
        "nul": "a\0b",
    }
    kept = payload(only_span(from_protobuf(request(attributes=values))))["attributes"]
    assert kept == {
        "none": None,
        "bytes": {"bytesValue": "/wA="},
        "mixed": [1, "a", None, [2.5]],
        "map": {"k": [True]},
        "nul": "a\0b",
    }
    document = as_json(request(2, attributes={"text": "HERE"}))
    body = json.dumps(document).replace("HERE", "\\ud800 and \\u0000").encode()
    decoded = decode_traces(body, JSON, SETTINGS)
    assert decoded.spans == 2
    assert payload(decoded.batches[0].spans[0])["attributes"]["text"] == "\ufffd and \0"


def test_point_12_a_lone_surrogate_in_protobuf_fails_nothing() -> None:
    body = request(2, attributes={"text": "HERE", "after": 7}).SerializeToString().replace(b"HERE", b"\xed\xa0\x80!")
    decoded = decode_traces(body, PROTOBUF, SETTINGS)
    assert decoded.spans == 2
    attributes = payload(decoded.batches[0].spans[0])["attributes"]
    assert attributes["after"] == 7
    assert attributes["text"].endswith("!")
    assert "\ufffd" in attributes["text"]


def test_a_nul_does_not_reach_a_hot_column() -> None:
    message = request()
    message.resource_spans[0].scope_spans[0].spans[0].name = "a\0b"
    assert only_span(from_protobuf(message)).name == "a\ufffdb"


@pytest.mark.parametrize("body", [b"{", b"", b"[]", b"null", b'{"resourceSpans": 5}', b'{"resourceSpans": [5]}', b"[" * 100_000])
def test_point_8_what_is_no_otlp_json_is_undecodable(body: bytes) -> None:
    with pytest.raises(Undecodable):
        decode_traces(body, JSON, SETTINGS)


def test_point_8_random_bytes_are_undecodable_protobuf() -> None:
    rng = random.Random(1)
    for _ in range(200):
        with pytest.raises(Undecodable):
            decode_traces(rng.randbytes(37), PROTOBUF, SETTINGS)


@_patient
@given(st.binary(max_size=200), st.sampled_from([JSON, PROTOBUF]))
def test_any_bytes_are_decoded_or_undecodable(body: bytes, content_type: str) -> None:
    try:
        decode_traces(body, content_type, SETTINGS)
    except Undecodable:
        return


def test_point_15_a_malformed_span_costs_itself_alone() -> None:
    document = as_json(request(5))
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans[0]["attributes"] = "x"
    spans[1]["name"] = 5
    spans[2]["startTimeUnixNano"] = "soon"
    spans[3]["endTimeUnixNano"] = str(2**63)
    decoded = from_json(document)
    assert decoded.spans == 1
    assert decoded.rejects == {"malformed_span": 3, "time_out_of_range": 1}


@pytest.mark.parametrize("scope", [{"name": 5}, {"name": ["a"]}, {"name": "a", "version": {}}])
def test_point_8_a_scope_whose_name_is_no_text_is_undecodable(scope: dict[str, Any]) -> None:
    document = as_json(request(2))
    document["resourceSpans"][0]["scopeSpans"][0]["scope"] = scope
    with pytest.raises(Undecodable):
        from_json(document)


def test_point_15_an_event_whose_time_is_beyond_64_bits_costs_its_span_alone() -> None:
    document = as_json(request(3))
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    spans[0]["events"] = [{"name": "e", "timeUnixNano": str(-(2**64) + 1)}]
    spans[1]["events"] = [{"name": "e", "timeUnixNano": str(2**64 - 1)}]
    decoded = from_json(document)
    assert decoded.spans == 2
    assert decoded.rejects == {"malformed_span": 1}


_OF_DIALECTS = sorted(
    {
        name
        for dialect in DIALECTS
        for kind in ("operation", "provider", "model", "input_tokens", "cost_usd")
        for name in getattr(dialect, kind)
    }
    | {value for value in vars(semconv).values() if isinstance(value, str) and "." in value}
    | {"cache.hit", "cache.similarity", "cache.key", "cache.name", "cache.model"}
)
_SCOPES = sorted({prefix for dialect in DIALECTS for prefix in dialect.scopes} | {""})


@_patient
@given(st.sampled_from(_SCOPES), st.dictionaries(st.sampled_from(_OF_DIALECTS), _values, max_size=6), st.booleans())
def test_point_15_whatever_a_known_attribute_holds_the_span_lands(scope: str, attributes: dict[str, Any], recorded: bool) -> None:
    body = request(attributes=attributes, scope=scope).SerializeToString()
    assert decode_traces(body, PROTOBUF, replace(SETTINGS, record_prompts=recorded)).spans == 1


@pytest.mark.parametrize("value", [["a"], {"a": 1}, b"a", float("nan"), -(2**63), "", True, "[[1], {}]"])
def test_point_15_no_kind_of_value_in_a_known_attribute_fails_a_span(value: Any) -> None:
    for name in _OF_DIALECTS:
        body = request(attributes={semconv.OUTCOME: "miss", name: value}, scope=semconv.SCOPE).SerializeToString()
        assert decode_traces(body, PROTOBUF, SETTINGS).spans == 1


def test_long_strings_are_cut_with_a_marker_and_deep_values_bounded() -> None:
    deep: Any = "bottom"
    for _ in range(30):
        deep = [deep]
    message = request(attributes={"long": "x" * 100, "deep": deep})
    small = replace(SETTINGS, max_attribute_chars=10)
    span = only_span(decode_traces(message.SerializeToString(), PROTOBUF, small))
    attributes = payload(span)["attributes"]
    assert attributes["long"] == "x" * 10 + "…[cut: 100 characters]"
    assert "deeper" in orjson.dumps(attributes["deep"]).decode()
    assert only_span(decode_traces(json.dumps(as_json(message)).encode(), JSON, small)) == span


def test_a_span_larger_than_the_bound_is_refused_and_its_neighbours_land() -> None:
    message = request(2)
    span = message.resource_spans[0].scope_spans[0].spans[0]
    for number in range(140):
        put(span.attributes.add(key=f"k{number}").value, "y" * 65_000)
    decoded = from_protobuf(message)
    assert (decoded.spans, decoded.rejects) == (1, {"span_too_large": 1})


@pytest.mark.parametrize(("outcome", "told"), [("maybe", {"unknown_outcome": 1}), ("", {"unknown_outcome": 1}), ("miss", {})])
def test_an_unknown_outcome_is_stored_as_a_span_and_told_of(outcome: str, told: dict[str, int]) -> None:
    decoded = from_protobuf(request(attributes={semconv.OUTCOME: outcome}, scope=semconv.SCOPE))
    assert (decoded.spans, decoded.rejects) == (1, {})
    (sent,) = decoded.batches
    assert sent.rejects == told
    assert len(sent.lookups) == (not told)


def test_times_are_kept_raw() -> None:
    message = request()
    span = message.resource_spans[0].scope_spans[0].spans[0]
    span.start_time_unix_nano, span.end_time_unix_nano = 2_000_000, 1_000_000
    row = only_span(from_protobuf(message))
    assert (row.start_ns, row.end_ns) == (2_000_000, 1_000_000)


def test_prompts_are_dropped_when_they_are_not_recorded() -> None:
    secret = "my card is 4929"
    names = [
        "cachescope.prompt",
        "cachescope.candidate.prompt",
        "cachescope.request.body",
        "gen_ai.input.messages",
        "gen_ai.output.messages",
        "gen_ai.prompt.0.content",
        "gen_ai.system_instructions",
        "input.value",
        "output.value",
        "llm.input_messages.0.message.content",
        "llm.prompts.0.prompt.text",
        "traceloop.entity.input",
        "langfuse.observation.output",
        "ai.prompt.messages",
        "ai.response.text",
        "vendor.unknown.prompt",
    ]
    message = request(attributes=dict.fromkeys(names, secret) | {"cachescope.candidate.verdicts": f'[["n", true, "{secret}"]]', "kept": 1})
    event = message.resource_spans[0].scope_spans[0].spans[0].events.add(name="gen_ai.content.prompt")
    put(event.attributes.add(key="content").value, secret)
    span = only_span(decode_traces(message.SerializeToString(), PROTOBUF, replace(SETTINGS, record_prompts=False)))
    kept = payload(span)
    assert secret not in orjson.dumps(kept).decode()
    assert kept["attributes"] == {"kept": 1, "cachescope.candidate.verdicts": '[["n",true,""]]'}
    assert secret in orjson.dumps(payload(only_span(from_protobuf(message)))).decode()


def test_a_scope_of_one_sender_split_in_two_is_one_source() -> None:
    message = request(1)
    message.resource_spans.append(copy.deepcopy(request(1, first=9).resource_spans[0]))
    (batch,) = from_protobuf(message).batches
    assert len(batch.spans) == 2
