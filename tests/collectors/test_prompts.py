"""With prompts off nothing that a person wrote is kept, under whatever name a sender put it; what is known to be none is."""

from __future__ import annotations

import contextlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from collectors import dialects
from collectors.dialects.known import NAMES
from collectors.dialects.prompts import digest_of_lost, is_prompt, without_odd_state, without_prompts, without_sentence
from collectors.otlp.decode import PROTOBUF, decode_traces
from collectors.otlp.metrics import MetricsDecoder
from collectors.prometheus.families import load
from storage import points
from storage.payloads import unpack
from storage.rows import MetricBatch, SourceBatch, WriteResult
from storage.settings import StorageSettings
from storage.store import open_telemetry
from tests.collectors.support import put, request
from tests.collectors.test_decode import SETTINGS
from tests.collectors.test_otlp_metrics import Request

OFF = replace(SETTINGS, record_prompts=False)
# Whole, in a script without spaces, as a document, as a URL's query, in bytes, cut into words, as tokens, in the place of a name.
TEXT = "what is on my card 4929?"
SECRETS: list[Any] = [
    TEXT,
    "什么是缓存命中率",
    '{"q":"card"}',
    "https://x/search?q=card",
    b"card 4929",
    ["what", "is", "on", "card"],
    list(range(9_906, 9_940)),
    {TEXT: 1},
    {"deeper": {"still": TEXT}},
    [{"a": TEXT}],
    "x" * 129,
]
MARKER = "…[not recorded: "


def kept(value: Any, name: str = "acme.note") -> Any:
    return without_prompts({name: value}).get(name)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize(
    "name", ["acme.note", "app", "langfuse.trace.metadata.x", "gen_ai.agent.description", "container.command_args", "http.url"]
)
def test_what_may_be_prose_under_a_name_that_nobody_knows_is_a_marker(secret: Any, name: str) -> None:
    found = orjson.dumps(kept(secret, name) if not isinstance(secret, bytes) else kept({"bytesValue": "Y2FyZCA0OTI5"}, name)).decode()
    assert not any(word in found for word in ("card", "what", "什么", "9907", "xxx", "Y2Fy"))
    assert MARKER in found or found == "{}"


@pytest.mark.parametrize(
    "value",
    [
        "",
        "u-123",
        "gpt-4o-2024-08-06",
        "/v1/chat",
        "a@b.example",
        "0.9",
        "5f3c" * 16,
        7,
        0.5,
        True,
        None,
        ["only"],
        [1, 2],
        {"id": "x", "n": 3},
    ],
)
def test_names_ids_numbers_and_paths_are_kept(value: Any) -> None:
    assert kept(value) == value


def test_a_marker_tells_the_length_alone() -> None:
    assert kept(TEXT) == f"{MARKER}{len(TEXT)} characters]"
    assert kept(["a b", "cd"]) == f"{MARKER}5 characters]"
    assert kept([0.1] * 1_536) == f"{MARKER}1536 items]"
    assert without_prompts({TEXT: 1, "n" * 257: 1}) == {}


def test_what_is_known_is_kept_whatever_it_says() -> None:
    known = {
        "service.name": "Shop of Ann",
        "os.description": "Linux 6.1 #1 SMP",
        "metadata.user_api_key_team_alias": "Team Red",
        "gen_ai.response.finish_reasons": ["stop", "length"],
        "langfuse.observation.usage_details": '{"input": 5}',
        "exception.message": "no such model",
        "cachescope.steps": '[["embed", 1, 2]]',
    }
    assert without_prompts(known) == known
    assert not [name for name in NAMES if " " in name]


def test_no_name_of_a_dialect_s_table_is_lost_but_those_of_prompts() -> None:
    fields = ("operation", "provider", "model", "input_tokens", "output_tokens", "cache_read", "cache_write", "cost_usd", "response_id")
    read = {name for dialect in dialects.DIALECTS for field in fields for name in getattr(dialect, field)}
    assert read <= NAMES
    assert not [name for name in read if is_prompt(name)]


_leaf = st.one_of(st.integers(0, 9), st.booleans(), st.floats(allow_nan=False), st.just("u-1"), st.just(TEXT))
_value = st.recursive(
    _leaf, lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.sampled_from("abc"), inner, max_size=3)), max_leaves=8
)
_name = st.sampled_from(["x", "acme.note", "gen_ai.agent.description", "db.statement", "user.comment", "langsmith.metadata.why", TEXT])


@hypothesis_settings(deadline=None, max_examples=40)
@given(st.dictionaries(_name, _value, max_size=4), st.sampled_from(["", "langsmith", "litellm", "higress", "cachescope.engine", "app"]))
def test_no_text_reaches_a_row_from_span_event_link_or_resource(attributes: dict[str, Any], scope: str) -> None:
    message = request(1, scope=scope, attributes=attributes)
    span = message.resource_spans[0].scope_spans[0].spans[0]
    event = span.events.add(name=TEXT)
    link = span.links.add(trace_id=b"\1" * 16, span_id=b"\2" * 8)
    for name, value in attributes.items():
        for holder in (event, link, message.resource_spans[0].resource):
            put(holder.attributes.add(key=name).value, value)
    (batch,) = decode_traces(message.SerializeToString(), PROTOBUF, OFF).batches
    assert isinstance(batch, SourceBatch)
    for row in (*batch.spans, *batch.lookups):
        assert TEXT not in repr(row)
    assert TEXT.encode() not in unpack(batch.spans[0].payload)


@pytest.mark.parametrize("name", ["chat gpt-4o", "POST /v1/chat/completions", "LangGraph", ""])
def test_a_span_s_name_of_an_operation_and_its_target_is_kept(name: str) -> None:
    assert without_sentence(name) == name


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("invoke_agent Support for Cards", f"invoke_agent {MARKER}17 characters]"),
        ("什么是 缓存", f"{MARKER}6 characters]"),
        ("what's on 4929", f"{MARKER}14 characters]"),
        ("x" * 129, f"{MARKER}129 characters]"),
    ],
)
def test_a_span_s_name_of_more_words_may_be_prose(name: str, told: str) -> None:
    assert without_sentence(name) == told


def test_names_of_spans_and_metrics_and_trace_states_are_no_way_in() -> None:
    message = request(1, scope="app", attributes={})
    span = message.resource_spans[0].scope_spans[0].spans[0]
    span.name, span.trace_state = TEXT, f"a={TEXT}"
    (batch,) = decode_traces(message.SerializeToString(), PROTOBUF, OFF).batches
    assert TEXT not in repr(batch)
    assert isinstance(batch, SourceBatch)
    assert TEXT.encode() not in unpack(batch.spans[0].payload)
    span.trace_state = "ot=th:8, rojo=00f067aa0ba902b7"
    (batch,) = decode_traces(message.SerializeToString(), PROTOBUF, OFF).batches
    assert isinstance(batch, SourceBatch)
    assert b"ot=th:8, rojo=00f067aa0ba902b7" in unpack(batch.spans[0].payload)
    asked = Request()
    asked.point(f"gen_ai.cache {TEXT}", "sum", as_int=1)
    assert MetricsDecoder(OFF, load()).decode(asked.message.SerializeToString(), PROTOBUF).rejects == {"invalid_name": 1}


def test_an_odd_trace_state_of_many_members_is_seen_through_at_once() -> None:
    assert without_odd_state("a=1," * 31 + "b=2") == "a=1," * 31 + "b=2"
    assert without_odd_state("a=1," * 200 + "k=a b") == ""


def test_labels_of_metrics_and_what_exemplars_leave_out_are_held_to_the_same_rule() -> None:
    message = Request()
    point = message.point("cache.hits", "sum", as_int=1, labels={"model": "m", "asked": TEXT})
    put(point.exemplars.add(as_int=1, time_unix_nano=1).filtered_attributes.add(key="question.text").value, TEXT)
    put(point.exemplars[0].filtered_attributes.add(key="user").value, "u1")
    (batch,) = MetricsDecoder(OFF, load()).decode(message.message.SerializeToString(), PROTOBUF).batches
    assert isinstance(batch, MetricBatch)
    assert TEXT not in repr(batch)
    assert '"model":"m"' in batch.points[0].samples[0].labels
    assert batch.points[0].exemplars[0].attributes == '{"user":"u1"}'


def test_series_that_differ_in_a_text_alone_stay_two(tmp_path: Path) -> None:
    """Or the second would be taken for the first, sent again. The label differs by installation, and tells nothing of the text."""

    def labels(secret: str) -> list[dict[str, str]]:
        message = Request()
        for sent in ({"team": "Red squad"}, {"team": "New squad"}, {"question": "a b"}, {"question": "c d"}, {"team": "plain"}):
            message.point("cache.hits", "sum", as_int=1, labels=sent)
        given = replace(OFF, secret=secret)
        (batch,) = MetricsDecoder(given, load()).decode(message.message.SerializeToString(), PROTOBUF).batches
        assert isinstance(batch, MetricBatch)
        number = len(list(tmp_path.glob("*.db")))
        with contextlib.closing(open_telemetry(StorageSettings(f"sqlite:///{tmp_path}/{number}.db", ""), write=True)) as store:
            now_ms = batch.points[0].samples[0].at_ms
            assert points.write(store, [batch], now_ms=now_ms, since_ms=0) == [WriteResult(5, 0, 0)]
        return [json.loads(point.samples[0].labels) for point in batch.points]

    one, again, other = labels("one"), labels("one"), labels("other")
    assert one == again
    assert one[-1] == {"team": "plain"}
    digests = [held.pop("cachescope.not_recorded") for held in one[:-1]]
    assert len(set(digests)) == 4
    assert all(re.fullmatch("[0-9a-f]{12}", digest) for digest in digests)
    assert not set(digests) & {held.get("cachescope.not_recorded") for held in other}
    assert one[:-1] == [{"team": "…[not recorded: 9 characters]"}] * 2 + [{}] * 2


@pytest.mark.parametrize("value", [*SECRETS, "lone \ud800", [b"\xff", {"deep": [b"\0", float("nan")]}]])
def test_a_digest_is_made_of_any_value_that_is_lost(value: Any) -> None:
    assert len(digest_of_lost({"acme.note": value}, {}, secret=b"k")) == 12
    assert digest_of_lost({"acme.note": value}, {"acme.note": value}, secret=b"k") == ""


def test_a_secret_is_no_part_of_what_settings_show() -> None:
    assert "hush" not in repr(replace(OFF, secret="hush"))
