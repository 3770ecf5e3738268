"""One model call counts once, in whatever order and in however many requests the spans that describe it come."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage import calls, spans
from storage.calls import Description, contains, family, loser, rank
from storage.rollups import NARROW, OUTCOMES, WIDTHS_MS
from storage.rows import CACHED, CALL, REPEAT, LookupRow, SourceBatch, SourceKey, SpanRow
from storage.sketch import Sketch
from storage.store import Store, open_telemetry
from tests.storage.support import settings as storage_settings
from tests.storage.test_spans import rows

START_NS = 1_795_954_000_000_000_000
_numbers = itertools.count(1)


def key(scope: str) -> SourceKey:
    return SourceKey("otlp_traces", "shop", "1", scope, "genai")


def told(
    trace: int,
    span: int,
    parent: int | None,
    *,
    role: str = CALL,
    tokens: int | None = 10,
    cached: int | None = None,
    operation: str = "chat",
    answer: str = "",
    start: int = 0,
    end: int = 1_000,
) -> SpanRow:
    """A span that describes a call; role '' = one of a framework or a proxy. start, end: microseconds."""
    return SpanRow(
        trace.to_bytes(16, "big"),
        span.to_bytes(8, "big"),
        None if parent is None else parent.to_bytes(8, "big"),
        f"span {span}",
        1,
        START_NS + start * 1_000,
        START_NS + end * 1_000,
        0,
        "",
        "shop",
        operation if role else "",
        "openai",
        "m",
        tokens if role else None,
        5,
        cached if role else None,
        "inclusive" if cached is not None else "",
        None,
        role == CALL,
        role,
        calls.key_of_answer(answer) if answer else None,
        tokens,
        None,
        b"{}",
    )


def lookup(row: SpanRow) -> LookupRow | None:
    if row.call_role == CACHED:
        return LookupRow(row.trace_id, row.span_id, "genai", "response_hits", row.start_ns // 10**6, 1.5, "exact_hit", model="m")
    if row.call_role != CALL or row.cached_input_tokens is None:
        return None
    return LookupRow(
        row.trace_id,
        row.span_id,
        "genai",
        "provider_prompt",
        row.start_ns // 10**6,
        (row.end_ns - row.start_ns) / 1e6,
        "partial_hit" if row.cached_input_tokens else "miss",
        model="m",
        input_tokens=row.input_tokens,
        cached_input_tokens=row.cached_input_tokens,
    )


def send(store: Store, sent: Sequence[tuple[str, SpanRow]]) -> None:
    """Write spans as one request: (scope, row)."""
    batches = []
    for scope in dict.fromkeys(scope for scope, _ in sent):
        mine = [row for of, row in sent if of == scope]
        batches.append(SourceBatch(key(scope), mine, [made for row in mine if (made := lookup(row)) is not None]))
    spans.write(store, batches, now_ms=1)


def roles(store: Store, trace: int) -> dict[int, str]:
    found = rows(store, "SELECT span_id, call_role FROM spans WHERE trace_id = ?", trace.to_bytes(16, "big"))
    return {int.from_bytes(span, "big"): role for span, role in found}


def assert_books_balance(store: Store) -> None:
    """Rollups, summaries and sources say what the raw rows say."""
    raw = rows(store, "SELECT cache_kind, outcome, count(*), coalesce(sum(input_tokens), 0) FROM lookups GROUP BY 1, 2 ORDER BY 1, 2")
    for table in (*WIDTHS_MS, *(name for name, narrow in NARROW.items() if not narrow.places)):
        query = f"SELECT cache_kind, outcome, sum(lookups), sum(input_tokens) FROM {table} GROUP BY 1, 2 ORDER BY 1, 2"
        assert raw == rows(store, query)
        for sketch, lookups in rows(store, f"SELECT duration_sketch, lookups FROM {table}"):
            assert Sketch.from_bytes(sketch).count == lookups > 0
    outcomes = " + ".join(OUTCOMES)
    for table in (name for name, narrow in NARROW.items() if narrow.places):
        kinds = rows(store, "SELECT cache_kind, count(*) FROM lookups GROUP BY 1 ORDER BY 1")
        assert kinds == rows(store, f"SELECT cache_kind, sum({outcomes}) FROM {table} GROUP BY 1 ORDER BY 1")
        assert rows(store, f"SELECT count(*) FROM {table} WHERE {outcomes} = 0") == [(0,)]
    assert rows(store, "SELECT sum(calls), sum(lookups) FROM sources") == [
        (rows(store, "SELECT coalesce(sum(is_call), 0) FROM spans")[0][0], rows(store, "SELECT count(*) FROM lookups")[0][0])
    ]
    assert rows(store, "SELECT coalesce(sum(lookups), 0) FROM trace_summaries") == rows(store, "SELECT count(*) FROM lookups")


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_framework_around_an_sdk_counts_once_though_the_span_between_them_comes_last(telemetry: Store, order: tuple[int, ...]) -> None:
    outer, between, inner = told(1, 1, None, cached=4), told(1, 2, 1, role=""), told(1, 3, 2, cached=4)
    sent = [("langchain", outer), ("app", between), ("openai", inner)]
    for place in order:
        send(telemetry, [sent[place]])
        assert_books_balance(telemetry)
    assert roles(telemetry, 1) == {1: REPEAT, 2: "", 3: CALL}
    assert rows(telemetry, "SELECT cache_kind, outcome, span_id FROM lookups") == [("provider_prompt", "partial_hit", inner.span_id)]
    assert rows(telemetry, "SELECT waits_for FROM spans WHERE waits_for IS NOT NULL") == []


@pytest.mark.parametrize("order", list(itertools.permutations(range(2))))
def test_two_instrumentations_that_each_open_a_trace_count_once(telemetry: Store, order: tuple[int, ...]) -> None:
    sent = [
        ("wrapper", told(1, 1, None, answer="msg_1", cached=7, start=0, end=900)),
        ("sdk", told(2, 2, None, answer="msg_1", cached=7, start=10, end=890)),
    ]
    for place in order:
        send(telemetry, [sent[place]])
    assert (roles(telemetry, 1), roles(telemetry, 2)) == ({1: REPEAT}, {2: CALL})
    assert_books_balance(telemetry)
    for _ in range(2):  # sent again: nothing changes
        send(telemetry, sent)
    assert (roles(telemetry, 1), roles(telemetry, 2)) == ({1: REPEAT}, {2: CALL})
    assert_books_balance(telemetry)
    assert rows(telemetry, "SELECT sum(calls), sum(described), sum(duplicates) FROM sources") == [(1, 2, 4)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(2))))
def test_what_a_cache_answered_is_no_call_of_the_span_around_it(telemetry: Store, order: tuple[int, ...]) -> None:
    sent = [("app", told(1, 1, None, cached=9)), ("cachescope.engine", told(1, 2, 1, role=CACHED))]
    for place in order:
        send(telemetry, [sent[place]])
    assert roles(telemetry, 1) == {1: REPEAT, 2: CACHED}
    assert rows(telemetry, "SELECT cache_kind FROM lookups") == [("response_hits",)]
    assert rows(telemetry, "SELECT sum(is_call) FROM spans") == [(0,)]
    assert_books_balance(telemetry)


def test_a_lookup_of_a_response_cache_stays_though_its_span_repeats_a_call(telemetry: Store) -> None:
    proxy, inner = told(1, 1, None), told(1, 2, 1, cached=3)
    answer = LookupRow(proxy.trace_id, proxy.span_id, "litellm", "response", proxy.start_ns // 10**6, 1.0, "miss", model="m")
    spans.write(telemetry, [SourceBatch(key("litellm"), [proxy], [answer])], now_ms=1)
    send(telemetry, [("openai", inner)])
    assert roles(telemetry, 1) == {1: REPEAT, 2: CALL}
    assert rows(telemetry, "SELECT cache_kind FROM lookups ORDER BY 1") == [("provider_prompt",), ("response",)]
    assert_books_balance(telemetry)


def test_the_same_id_in_every_span_and_a_ring_of_parents_end(telemetry: Store) -> None:
    for at in range(0, 600, 200):
        send(telemetry, [("a", told(10 + number, 1, None, answer="same", start=number, end=number)) for number in range(at, at + 200)])
    assert rows(telemetry, "SELECT sum(is_call) FROM spans") == [(600,)]
    send(telemetry, [("a", told(1, 1, 3)), ("b", told(1, 2, 1))])
    send(telemetry, [("c", told(1, 3, 2))])
    assert list(roles(telemetry, 1).values()).count(CALL) <= 1


def test_a_key_that_is_everywhere_does_not_hide_the_twins_of_others(telemetry: Store) -> None:
    outage = calls.key_of_failure("shop", "chat", "m", START_NS)

    def failed(number: int) -> SpanRow:
        return told(number, 1, None, tokens=None, start=number, end=number)._replace(call_key=outage, status=2)

    send(telemetry, [("a", told(1, 1, None, answer="msg_1", cached=7, start=0, end=900))])
    send(telemetry, [("a", failed(10 + number)) for number in range(2_100)])
    send(telemetry, [("b", told(2, 2, None, answer="msg_1", cached=7, start=10, end=890)), ("a", failed(9_000))])
    assert (roles(telemetry, 1), roles(telemetry, 2)) == ({1: REPEAT}, {2: CALL})
    assert_books_balance(telemetry)


_spans = st.lists(
    st.tuples(
        st.integers(0, 8),  # the parent's place among those before; itself = a root
        st.sampled_from([CALL, CALL, CALL, CACHED, ""]),
        st.sampled_from([(None, None), (10, None), (10, 4)]),
        st.sampled_from(["chat", "chat", "embeddings"]),
        st.sampled_from(["", "", "x", "y"]),
        st.sampled_from(["sdk", "framework", "proxy"]),
        st.tuples(st.integers(0, 4), st.integers(4, 8)),
        st.integers(0, 1),  # which of two traces
    ),
    min_size=2,
    max_size=9,
)


def by_pairs(made: Sequence[tuple[str, SpanRow]]) -> dict[bytes, str]:
    """The rule itself, over all pairs: what any order of arrival must come to."""
    parents = {(row.trace_id, row.span_id): row.parent_id for _, row in made}

    def around(row: SpanRow) -> set[bytes]:
        found: set[bytes] = set()
        parent = row.parent_id
        while parent is not None and parent not in found:
            found.add(parent)
            parent = parents.get((row.trace_id, parent))
        return found

    def described(place: int, scope: str, row: SpanRow) -> Description:
        known = rank(row.call_role, row.input_tokens, row.cached_input_tokens)
        return Description(
            place, row.trace_id, row.span_id, row.start_ns, row.end_ns, scope, family(row.operation), known, row.call_key
        )  # fmt: skip

    everyone = [(row, described(place, scope, row)) for place, (scope, row) in enumerate(made) if row.call_role]
    lost = set()
    for (one, a), (other, b) in itertools.permutations(everyone, 2):
        nested = one.trace_id == other.trace_id and one.span_id in around(other) and a.family == b.family
        twins = a.key is not None and a.key == b.key and contains(a, b)
        if nested or twins:
            lost.add(loser(b, a).place)
    return {row.span_id: REPEAT if place in lost else row.call_role for place, (_, row) in enumerate(made)}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    folder: Path = tmp_path_factory.mktemp("calls")
    store = open_telemetry(storage_settings(folder), write=True)
    yield store
    store.close()


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_spans, st.randoms(use_true_random=False))
def test_any_order_and_any_split_give_what_the_rule_for_pairs_gives(shared: Store, drawn: list[tuple], rng: random.Random) -> None:  # type: ignore[type-arg]
    base = next(_numbers) * 1_000
    made: list[tuple[str, SpanRow]] = []
    for place, (parent, role, (tokens, cached), operation, answer, scope, (start, end), trace) in enumerate(drawn):
        above = next((base + at for at in [parent] if at < place and drawn[at][-1] == trace), None)
        unique = f"{answer}{base}" if answer and role else ""
        times = {"start": start, "end": end, "operation": operation, "answer": unique}
        row = told(base + trace, base + place, above, role=role, tokens=tokens, cached=cached, **times)  # type: ignore[arg-type]
        made.append((scope, row))
    expected = by_pairs(made)
    shuffled = made[:]
    rng.shuffle(shuffled)
    while shuffled:
        size = rng.randint(1, len(shuffled))
        send(shared, shuffled[:size])
        shuffled = shuffled[size:]
    send(shared, rng.sample(made, len(made) // 2))  # some are sent again
    found = roles(shared, base) | roles(shared, base + 1)
    assert found == {int.from_bytes(span, "big"): role for span, role in expected.items()}
    assert_books_balance(shared)
