"""Odd traces: orphans, late parents, missing middles, clocks that disagree, and very large ones. Nothing is scattered, nothing is lost."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from app.charts import waterfall
from app.views import trace_tree, traces, words
from app.views.traces import Trace
from collectors.otlp.decode import JSON, PROTOBUF, decode_traces
from storage import spans
from storage.reads.traces import Search, StoredSpan
from storage.reads.window import Scope, Window
from storage.store import Store
from tests.app.views.test_pages import no_engine
from tests.collectors.support import put
from tests.collectors.test_decode import SETTINGS

START_NS = 1_795_954_000_000_000_000
TRACE = b"\1" * 16


def sent(*told: tuple[int, int, int, int], service: str = "shop", scope: str = "app") -> ExportTraceServiceRequest:
    """A request of one trace: (own number, parent's number, start ms, end ms)."""
    message = ExportTraceServiceRequest()
    resource_spans = message.resource_spans.add()
    resource_spans.resource.attributes.add(key="service.name").value.string_value = service
    scope_spans = resource_spans.scope_spans.add()
    scope_spans.scope.name = scope
    for number, parent, start, end in told:
        span = scope_spans.spans.add(trace_id=TRACE, span_id=number.to_bytes(8, "big"), name=f"span {number}", kind=1)
        span.parent_span_id = parent.to_bytes(8, "big") if parent else b""
        span.start_time_unix_nano = START_NS + start * 1_000_000
        span.end_time_unix_nano = START_NS + end * 1_000_000
    return message


def write(store: Store, message: ExportTraceServiceRequest) -> None:
    spans.write(store, decode_traces(message.SerializeToString(), PROTOBUF, SETTINGS).batches, now_ms=1)


def load(store: Store, *, correct: bool = False) -> Trace:
    shown = traces.load(lambda: store, no_engine, trace_id=TRACE.hex(), correct=correct)
    assert shown is not None
    assert waterfall.figure(shown).figure.data
    return shown


def tree(shown: Trace) -> list[tuple[int, str]]:
    return [(bar.depth, bar.label) for bar in shown.bars]


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_a_missing_middle_does_not_scatter_a_trace_and_a_late_one_takes_its_place(store: Store, order: tuple[int, ...]) -> None:
    told = [(1, 0, 0, 100), (2, 1, 10, 90), (3, 2, 20, 40), (4, 2, 50, 80)]
    for at in [place for place in order if place != 1]:
        write(store, sent(told[at]))
    shown = load(store)
    assert tree(shown) == [(0, "span 1"), (1, "(span not received)"), (2, "span 3"), (2, "span 4")]
    assert [bar.kind for bar in shown.bars] == ["span", "missing", "span", "span"]
    assert any("2 of 3 spans are orphans: 1 parent was not received" in note for note in shown.notes)
    write(store, sent(told[1]))  # the late parent
    write(store, sent(*told))  # and everything again
    late = load(store)
    assert tree(late) == [(0, "span 1"), (1, "span 2"), (2, "span 3"), (2, "span 4")]
    assert late.notes == ()
    assert all(not bar.flags for bar in late.bars)


def test_orphans_without_any_root_stand_together(store: Store) -> None:
    write(store, sent((3, 2, 20, 40), (4, 2, 50, 80), (5, 9, 1, 2), (6, 3, 21, 30)))
    assert [depth for depth, _ in tree(load(store))] == [0, 1, 0, 1, 2, 1]


def test_clock_skew_is_shown_corrected_on_demand_and_the_times_as_sent_stay(store: Store) -> None:
    write(store, sent((1, 0, 100, 200)))
    write(store, sent((2, 1, 30, 90), (3, 2, 40, 50), service="model"))  # another machine, its clock behind
    raw, corrected = load(store), load(store, correct=True)
    assert raw.skewed == corrected.skewed == 1
    assert [bar.start_ms for bar in raw.bars] == [bar.start_ms for bar in corrected.bars] == [70.0, 0.0, 10.0]
    assert [bar.shown_ms for bar in raw.bars] == [70.0, 0.0, 10.0]
    # In the middle of its parent, and what runs on the same clock goes with it.
    assert [bar.shown_ms for bar in corrected.bars] == [70.0, 90.0, 100.0]
    assert [bar.duration_ms for bar in corrected.bars] == [100.0, 60.0, 10.0]
    assert "corrected" in waterfall.figure(corrected).title
    row = traces.bar_rows(corrected)[1]
    assert (row["start ms"], row["shifted by ms"], row["duration ms"]) == (0.0, 90.0, 60.0)
    with store.read() as connection:
        stored = connection.exec_driver_sql("SELECT start_ns FROM spans ORDER BY span_id").scalars().all()
    assert stored == [START_NS + ms * 1_000_000 for ms in (100, 30, 40)]


def test_a_span_that_ends_before_it_starts_is_shown_as_sent(store: Store) -> None:
    write(store, sent((1, 0, 0, 100), (2, 1, 50, 20)))
    bar = load(store).bars[1]
    assert (bar.duration_ms, bar.flags) == (-30.0, ("ends before it starts: its clock was set back",))
    assert any("contradict" in note for note in load(store).notes)


@pytest.mark.parametrize("shape", ["chain", "fan", "orphans"])
def test_ten_thousand_spans_are_laid_out_without_recursion(store: Store, shape: str) -> None:
    size = 10_000
    parents = {"chain": lambda number: number - 1, "fan": lambda number: 0 if number == 1 else 1, "orphans": lambda number: 10**6 + number}
    for first in range(1, size + 1, 2_000):
        told = [(number, parents[shape](number), number % 50, number % 50 + number) for number in range(first, first + 2_000)]
        write(store, sent(*told))
    shown = load(store)
    assert len(shown.bars) == (size if shape != "orphans" else 2 * size)
    assert 0 < len(shown.drawn) <= trace_tree.MOST_DRAWN
    assert any("lines are drawn" in note for note in shown.notes)
    rows = traces.bar_rows(shown)
    assert len(rows) == len(shown.bars)
    assert max(len(str(row["what"])) for row in rows) < 100
    assert max(bar.depth for bar in shown.bars) == {"chain": size - 1, "fan": 1, "orphans": 1}[shape]


def _span(number: int, parent: int | None, *, start: int = 0, end: int = 10, service: str = "a") -> StoredSpan:
    return StoredSpan(
        number.to_bytes(8, "big"),
        None if parent is None else parent.to_bytes(8, "big"),
        f"{number}", 1, start, end, 0, "", service, "", "", "", None, None, None, None, False, "", "", None, None, {}, [],
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 14), st.integers(-50, 50), st.integers(-20, 60), st.sampled_from("abc")), min_size=1, max_size=14),
    st.booleans(),
)
def test_every_span_has_one_line_whatever_its_parents_are(drawn: list[tuple[int, int, int, str]], correct: bool) -> None:
    made = [
        _span(number, parent or None, start=start * 10**6, end=(start + took) * 10**6, service=service)
        for number, (parent, start, took, service) in enumerate(drawn, 1)
    ]
    made.sort(key=lambda span: span.start_ns)
    laid = trace_tree.lay_out(made, {}, correct=correct)
    assert sorted(bar.label for bar in laid.bars if bar.kind == "span") == sorted(span.name for span in made)
    steps = [0, *(bar.depth for bar in laid.bars)]
    assert all(after <= before + 1 for before, after in itertools.pairwise(steps))
    for bar in laid.bars:
        assert correct or bar.shift_ms == 0
    assert laid.orphans >= laid.missing


HOSTILE = "a\0b \ud800 c"


def test_surrogates_nuls_and_a_megabyte_of_attribute_are_stored_and_shown(store: Store) -> None:
    document = {
        "resourceSpans": [
            {
                "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": f"svc {HOSTILE}"}}]},
                "scopeSpans": [
                    {
                        "scope": {"name": "openinference.instrumentation.openai"},
                        "spans": [
                            {
                                "traceId": TRACE.hex(),
                                "spanId": "02" * 8,
                                "name": HOSTILE,
                                "startTimeUnixNano": str(START_NS),
                                "endTimeUnixNano": str(START_NS + 10**6),
                                "status": {"code": 2, "message": HOSTILE},
                                "attributes": [
                                    {"key": "openinference.span.kind", "value": {"stringValue": "LLM"}},
                                    {"key": "llm.model_name", "value": {"stringValue": HOSTILE * 200}},
                                    {"key": f"odd {HOSTILE}", "value": {"stringValue": HOSTILE}},
                                    {"key": "metadata", "value": {"stringValue": "x" * 1_000_000}},
                                    {"key": "llm.token_count.prompt", "value": {"intValue": "7"}},
                                ],
                            }
                        ],
                    }
                ],
            }
        ]
    }
    body = json.dumps(document).encode()
    decoded = decode_traces(body, JSON, SETTINGS)
    assert decoded.rejects == {}
    (result,) = spans.write(store, decoded.batches, now_ms=1)
    assert (result.accepted, result.duplicates) == (1, 0)
    shown = load(store)
    (bar,) = shown.bars
    assert "\0" not in bar.label + bar.error + bar.service
    assert words.one_line(bar.label) == bar.label
    with store.read() as connection:
        ((model, size),) = connection.exec_driver_sql(
            "SELECT s.model, length(p.payload) FROM spans s JOIN span_payloads p ON p.span_id = s.id"
        ).all()
    assert len(model) == 512
    assert "\0" not in model
    assert size < 100_000


def test_a_call_told_twice_is_marked_in_its_trace(store: Store) -> None:
    message = sent((1, 0, 0, 100), (2, 1, 10, 90), scope="openlit.instrumentation.anthropic")
    for span in message.resource_spans[0].scope_spans[0].spans:
        for key, value in {
            "gen_ai.operation.name": "chat",
            "gen_ai.usage.input_tokens": 12,
            "gen_ai.usage.cache_read.input_tokens": 1000,
        }.items():
            put(span.attributes.add(key=key).value, value)
    write(store, message)
    shown = load(store)
    rows = traces.bar_rows(shown)
    assert [row["call"] for row in rows] == ["tells of a call that another span stands for", "a model call"]
    assert rows[1]["tokens"] == "in 1,012, of these 1,000 from the provider's cache, sent as 12 without them"
    (decision,) = shown.decisions
    assert decision.headline == "1,000 of 1,012 input tokens came from the provider's own prompt cache. The call took 80 ms."
    assert ("input tokens as sent", "12") in decision.facts
    window = Window.of(START_NS // 10**6, START_NS // 10**6 + 1)
    listing = traces.find(lambda: store, window=window, scope=Scope(), search=Search(), now_ms=window.end_ms)
    assert [row["cache"] for row in traces.rows(listing)] == ["provider's prompt cache"]
