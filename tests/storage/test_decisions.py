"""A cache decision that a span and a log record tell of counts once, whichever comes first."""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage import spans
from storage.decisions import key_of
from storage.rows import RETOLD, LookupRow, SourceBatch, SourceKey, SpanRow
from storage.store import Store, open_telemetry
from tests.storage.support import START_NS, Made
from tests.storage.support import settings as storage_settings
from tests.storage.test_calls import assert_books_balance
from tests.storage.test_spans import rows

SPANS = SourceKey("otlp_traces", "gateway", "", "higress", "higress")
RECORDS = SourceKey("otlp_logs", "gateway", "", "access", "log")
Event = tuple[SourceKey, SpanRow, LookupRow]


def by_span(number: int, kind: str = "response", *, trace: int = 0) -> Event:
    made = Made(number, trace=trace, outcome="exact_hit", extra={"similarity": 0.9})
    return SPANS, made.span()._replace(call_role="cached" if kind == "response_hits" else ""), made.lookup()._replace(cache_kind=kind)


def by_record(number: int, of: int | None, *, trace: int = 0) -> Event:
    made = Made(number, trace=trace, parent=of, start_ns=START_NS + 1_000_000, outcome="exact_hit")
    span = made.span()
    key = None if span.parent_id is None else key_of(span.trace_id, span.parent_id)
    return RECORDS, span._replace(call_key=key), made.lookup()._replace(dialect="log")


def send(store: Store, *events: Event) -> None:
    groups: dict[SourceKey, list[Event]] = {}
    for event in events:
        groups.setdefault(event[0], []).append(event)
    batches = [SourceBatch(source, [span for _, span, _ in mine], [row for *_, row in mine]) for source, mine in groups.items()]
    spans.write(store, batches, now_ms=1)


def told_twice(store: Store) -> dict[str, int]:
    found: Counter[str] = Counter()
    for (facts,) in rows(store, "SELECT call_facts FROM sources"):
        found.update({name: number for name, number in json.loads(facts).items() if name.startswith("twice:")})
    return dict(found)


ORDERS = [((0,), (1,)), ((1,), (0,)), ((0, 1),), ((1, 0),)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("kind", "counts", "twice"),
    [
        ("response", ["response native"], {"twice:span": 1}),
        ("response_hits", ["response log"], {"twice:log": 1}),
        ("provider_prompt", ["provider_prompt native", "response log"], {}),  # another cache's
    ],
)
def test_of_a_span_and_a_record_one_counts_in_any_order(
    telemetry: Store, order: tuple[tuple[int, ...], ...], kind: str, counts: list[str], twice: dict[str, int]
) -> None:
    events = [by_span(1, kind), by_record(2, 1)]
    for _ in range(2):  # everything is sent again
        for group in order:
            send(telemetry, *(events[place] for place in group))
            assert_books_balance(telemetry)
    assert rows(telemetry, "SELECT cache_kind || ' ' || dialect FROM lookups ORDER BY 1") == [(one,) for one in counts]
    assert told_twice(telemetry) == twice
    assert rows(telemetry, "SELECT count(*), sum(call_role = ?) FROM spans", RETOLD) == [(2, kind == "response")]
    assert rows(telemetry, "SELECT sum(lookups) FROM sources") == [(len(counts),)]


def test_a_record_of_another_span_or_trace_is_a_decision_of_its_own(telemetry: Store) -> None:
    send(telemetry, by_span(1), by_record(2, 3), by_record(4, None), by_record(5, 1, trace=1))
    send(telemetry, by_span(3, "provider_prompt"))
    assert rows(telemetry, "SELECT count(*) FROM lookups WHERE cache_kind = 'response'") == [(4,)]
    assert told_twice(telemetry) == {}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder: Path = tmp_path_factory.mktemp("decisions")
    store = open_telemetry(storage_settings(folder), write=True)
    yield store
    store.close()


_traces = itertools.count(1)
_KINDS = st.sampled_from(["response", "response_hits", "provider_prompt"])
_DRAWN = st.lists(st.tuples(_KINDS, st.integers(0, 2)), min_size=1, max_size=5)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_DRAWN, st.randoms(use_true_random=False))
def test_any_order_and_any_split_give_what_the_rule_for_pairs_gives(
    shared: Store, drawn: list[tuple[str, int]], rng: random.Random
) -> None:
    trace = next(_traces)
    events: list[Event] = []
    expected = set()
    for number, (kind, records) in enumerate(drawn):
        named = by_span(10 * number, kind, trace=trace)
        telling = [by_record(10 * number + 1 + place, 10 * number, trace=trace) for place in range(records)]
        events += [named, *telling]
        if kind in {"provider_prompt", "response"} or not records:
            expected.add((kind, named[1].span_id))
        if kind != "response":
            expected |= {("response", span.span_id) for _, span, _ in telling}
    rng.shuffle(events)
    waiting = events[:]
    while waiting:
        size = rng.randint(1, len(waiting))
        send(shared, *waiting[:size])
        waiting = waiting[size:]
    send(shared, *rng.sample(events, len(events) // 2))  # some are sent again
    trace_id = events[0][1].trace_id
    assert set(rows(shared, "SELECT cache_kind, span_id FROM lookups WHERE trace_id = ?", trace_id)) == expected
    assert_books_balance(shared)
