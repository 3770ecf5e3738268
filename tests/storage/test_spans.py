from __future__ import annotations

import atexit
import functools
import json
import math
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from storage import rollups, spans
from storage.errors import StoreBusy
from storage.rows import LookupRow, SourceKey, WriteResult
from storage.sketch import Sketch, merge_bytes
from storage.store import Store, open_telemetry
from tests.storage.support import GATEWAY, MINUTE_NS, START_NS, Made, batch, settings
from tests.support.servers import wait_for

OTHER = SourceKey("otlp_traces", "shop", "two", "langchain@0.1", "openinference")


def rows(store: Store, query: str, *values: object) -> list[tuple[Any, ...]]:
    with store.read() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(query, values)]


def one(store: Store, query: str, *values: object) -> Any:
    return rows(store, query, *values)[0][0]


def test_spans_payloads_and_lookups_land_together(telemetry: Store) -> None:
    made = [Made(1), Made(2, is_lookup=False)]
    assert spans.write(telemetry, [batch(*made)], now_ms=5) == [WriteResult(2, 0, 1)]
    found = rows(telemetry, "SELECT s.*, p.payload FROM spans s JOIN span_payloads p ON p.span_id = s.id ORDER BY s.id")
    for row, event in zip(found, made, strict=True):
        span = event.span()
        assert row[1:4] == span[:3]
        assert (*row[5:-2], row[-1]) == span[3:]  # between them waits_for, which is the store's own
    lookup = rows(telemetry, "SELECT * FROM lookups")[0]
    assert (*lookup[1:3], *lookup[4:]) == made[0].lookup()


def test_nothing_to_write_writes_nothing(telemetry: Store) -> None:
    assert spans.write(telemetry, [], now_ms=1) == []
    assert spans.write(telemetry, [batch()], now_ms=1) == [WriteResult(0, 0, 0)]


def test_a_resend_changes_nothing_but_the_count_of_duplicates(telemetry: Store) -> None:
    sent = batch(Made(1), Made(2), missing={"threshold": 2})
    spans.write(telemetry, [sent], now_ms=5)
    tables = ("spans", "span_payloads", "lookups", *rollups.WIDTHS_MS, "trace_summaries")
    before = [rows(telemetry, f"SELECT * FROM {table}") for table in tables]
    assert spans.write(telemetry, [sent], now_ms=9) == [WriteResult(0, 2, 0)]
    assert [rows(telemetry, f"SELECT * FROM {table}") for table in tables] == before
    counted = rows(telemetry, "SELECT accepted, duplicates, lookups, missing, first_seen_ms, last_seen_ms FROM sources")
    assert counted == [(2, 2, 2, '{"threshold":2}', 5, 9)]


def test_duplicates_inside_one_batch_and_across_batches_of_one_write(telemetry: Store) -> None:
    results = spans.write(telemetry, [batch(Made(1), Made(1), Made(2)), batch(Made(2), Made(3), source=OTHER)], now_ms=5)
    assert results == [WriteResult(2, 1, 2), WriteResult(1, 1, 1)]
    assert one(telemetry, "SELECT sum(lookups) FROM rollups_1m") == 3
    assert one(telemetry, "SELECT count(*) FROM lookups") == 3


def test_a_span_id_may_be_used_by_two_traces(telemetry: Store) -> None:
    assert spans.write(telemetry, [batch(Made(1, trace=1), Made(1, trace=2))], now_ms=5) == [WriteResult(2, 0, 2)]


def test_a_lookup_without_its_span_does_not_land(telemetry: Store) -> None:
    lonely = batch(Made(1))
    lonely = type(lonely)(GATEWAY, [], lonely.lookups)
    assert spans.write(telemetry, [lonely], now_ms=5) == [WriteResult(0, 0, 0)]


def test_a_lookup_that_outlived_its_span_is_not_counted_twice(telemetry: Store) -> None:
    spans.write(telemetry, [batch(Made(1))], now_ms=5)
    with telemetry.write() as connection:
        connection.exec_driver_sql("DELETE FROM span_payloads")
        connection.exec_driver_sql("DELETE FROM spans")
    assert spans.write(telemetry, [batch(Made(1))], now_ms=6) == [WriteResult(1, 0, 0)]
    assert one(telemetry, "SELECT sum(lookups) FROM rollups_1m") == 1


def test_sources_keep_their_counters_errors_and_rejects(telemetry: Store) -> None:
    first = batch(Made(1), rejects={"bad_trace_id": 2}, missing={"similarity": 1}, dropped=4)
    second = batch(Made(2), Made(3, is_lookup=False), rejects={"bad_trace_id": 1, "too_long": 1}, missing={"similarity": 1}, error="odd")
    spans.write(telemetry, [first, batch(Made(4), source=OTHER)], now_ms=5)
    spans.write(telemetry, [second], now_ms=8)
    columns = "service, dialect, accepted, lookups, dropped, missing, last_error, last_error_ms, last_span_ms"
    query = f"SELECT {columns} FROM sources ORDER BY id"
    end_ms = START_NS // 1_000_000 + 5
    assert rows(telemetry, query) == [
        ("cachescope-gateway", "native", 3, 2, 4, '{"similarity":2}', "odd", 8, end_ms),
        ("shop", "openinference", 1, 1, 0, "{}", "", None, end_ms),
    ]
    assert rows(telemetry, "SELECT reason, count, last_ms FROM rejects ORDER BY reason") == [
        ("bad_trace_id", 3, 8),
        ("too_long", 1, 8),
    ]


def test_a_batch_that_is_new_in_part_never_lacks_more_than_it_added(telemetry: Store) -> None:
    spans.write(telemetry, [batch(Made(1), Made(2), missing={"threshold": 2})], now_ms=5)
    spans.write(telemetry, [batch(Made(1), Made(2), Made(3), missing={"threshold": 3})], now_ms=5)
    assert json.loads(one(telemetry, "SELECT missing FROM sources")) == {"threshold": 3}


def test_a_trace_is_summarised_as_its_spans_come(telemetry: Store) -> None:
    child = Made(2, parent=1, start_ns=START_NS + 10, duration_ms=3, status=2, name="child", service="inner")
    spans.write(telemetry, [batch(child)], now_ms=5)
    query = "SELECT start_ns, end_ns, spans, errors, lookups, root_name, service FROM trace_summaries"
    assert rows(telemetry, query) == [(START_NS + 10, START_NS + 10 + 3_000_000, 1, 1, 1, "", "inner")]
    root = Made(1, start_ns=START_NS, duration_ms=9, name="root", service="outer", is_lookup=False)
    spans.write(telemetry, [batch(root)], now_ms=5)
    expected = [(START_NS, START_NS + 9_000_000, 2, 1, 1, "root", "outer")]
    assert rows(telemetry, query) == expected
    spans.write(telemetry, [batch(root, child)], now_ms=6)
    assert rows(telemetry, query) == expected


def test_a_late_lookup_lands_in_the_time_it_belongs_to(telemetry: Store) -> None:
    spans.write(telemetry, [batch(Made(1, start_ns=START_NS + 5 * MINUTE_NS))], now_ms=5)
    spans.write(telemetry, [batch(Made(2, start_ns=START_NS + MINUTE_NS + 1))], now_ms=6)
    base = START_NS // 1_000_000
    for table, starts in (("rollups_10s", [60_000, 300_000]), ("rollups_1m", [60_000, 300_000]), ("rollups_1h", [0])):
        found = rows(telemetry, f"SELECT at_ms, lookups FROM {table} ORDER BY at_ms")
        assert found == [(base + start, 2 // len(starts)) for start in starts]


UNSTORABLE: list[dict[str, Any]] = [
    {"extra": {"similarity": math.nan, "prompt": "\ud800"}},
    {"extra": {"input_tokens": 1 << 63}},
    {"duration_ms": 1.0, "start_ns": (1 << 63) + 5},
    {"extra": {"saved_ms": math.inf}},
    {"name": "lone \udfff surrogate"},
    {"extra": {"namespace": None}},
    {"extra": {"prompt": ["a", "list"]}},
]


@pytest.mark.parametrize("bad", UNSTORABLE)
def test_one_row_that_cannot_be_stored_does_not_fail_the_batch(telemetry: Store, bad: dict[str, Any]) -> None:
    results = spans.write(telemetry, [batch(Made(1), Made(2, **bad), Made(3)), batch(Made(4), source=OTHER)], now_ms=5)
    assert (results[0].lookups, results[1]) == (2, WriteResult(1, 0, 1))
    assert rows(telemetry, "SELECT reason, count FROM rejects") == [(spans.UNSTORABLE, 1)]


def test_huge_durations_do_not_overflow_the_sums(telemetry: Store) -> None:
    huge = {"saved_ms": 1e300, "saved_usd": -1e300, "input_tokens": 1 << 62}
    spans.write(telemetry, [batch(Made(number, duration_ms=5, extra=huge)) for number in range(50)], now_ms=5)
    assert rows(telemetry, "SELECT typeof(saved_us), typeof(saved_nusd), typeof(input_tokens) FROM rollups_1m") == [("integer",) * 3]


def test_nothing_of_a_failed_write_remains(tmp_path: Path) -> None:
    store = open_telemetry(settings(tmp_path, busy_timeout_s=0.05), write=True)
    with open_telemetry(settings(tmp_path), write=True).write(), pytest.raises(StoreBusy):
        spans.write(store, [batch(Made(1))], now_ms=5)
    assert one(store, "SELECT count(*) FROM sources") == 0
    assert spans.write(store, [batch(Made(1))], now_ms=5) == [WriteResult(1, 0, 1)]
    store.close()


# Rollups equal the raw rows.


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


money = st.floats(-1, 1, allow_subnormal=False)
extras = st.fixed_dictionaries(
    {
        "namespace": st.sampled_from(["faq", "docs", ""]),
        "tier": st.sampled_from(["memory", ""]),
        "reason": st.sampled_from(["", "expired"]),
        "input_tokens": optional(st.integers(0, 1000)),
        "output_tokens": optional(st.integers(0, 1000)),
        "cost_usd": optional(money),
        "saved_usd": optional(money),
        "saved_ms": optional(st.floats(0, 1e5)),
        "lookup_ms": optional(st.floats(0, 1e3)),
        "cached_input_tokens": optional(st.integers(-5, 1000)),
        "similarity": optional(st.sampled_from([0.7, 0.8, 0.9])),
        "threshold": optional(st.just(0.8)),
        "passed": optional(st.booleans()),
    }
)


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Made, SourceKey]]:
    def event(number: int) -> Made:
        return Made(
            number,
            trace=draw(st.integers(0, 3)),
            start_ns=START_NS + draw(st.sampled_from([-61, -1, 0, 0, 1, 60])) * MINUTE_NS + draw(st.integers(0, MINUTE_NS - 1)),
            duration_ms=draw(st.floats(-5, 1e5)),
            outcome=draw(st.sampled_from(["miss", "exact_hit"])),
            is_lookup=draw(st.booleans()),
            extra=draw(extras),
        )

    return [(event(number), draw(st.sampled_from([GATEWAY, OTHER]))) for number in range(draw(st.integers(1, 12)))]


def cached(members: list[LookupRow]) -> tuple[int, int, int]:
    told = [
        (row.cached_input_tokens, row.input_tokens)
        for row in members
        if row.cached_input_tokens is not None and row.input_tokens is not None and 0 <= row.cached_input_tokens <= row.input_tokens
    ]
    return sum(part for part, _ in told), sum(whole for _, whole in told), len(told)


def judged(members: list[LookupRow]) -> tuple[int, int]:
    near = [row for row in members if row.similarity is not None and row.outcome == "miss"]
    told = [row for row in near if row.passed is not None and not row.passed]  # the database gives 0 for False
    vetoed = [row for row in told if row.threshold is not None and (row.similarity or 0) >= row.threshold]
    return len(near), len(vetoed)


def independent(raw: list[tuple[LookupRow, str]], width_ms: int) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """The rollups by another route: straight from the raw rows, one group at a time."""
    groups: dict[tuple[Any, ...], list[LookupRow]] = defaultdict(list)
    for row, service in raw:
        key = (row.at_ms // width_ms * width_ms, row.cache_kind, service, row.purpose, row.namespace, row.tenant, row.model, row.tier)
        groups[(*key, row.outcome, row.reason)].append(row)
    result = {}
    for key, members in groups.items():
        sketch = Sketch()
        for row in members:
            sketch.add(row.duration_ms)

        def values(name: str, members: list[LookupRow] = members) -> list[Any]:
            least = -math.inf if name == "duration_ms" else 0  # another negative number is none
            return [value for row in members if (value := getattr(row, name)) is not None and value >= least]

        def total(name: str, factor: int) -> int:
            return sum(round(value * factor) for value in values(name))

        told = [row for row in members if row.input_tokens is not None and row.input_tokens >= 0]
        result[key] = (
            len(members),
            total("duration_ms", 1_000),
            sum(values("input_tokens")),
            len(values("input_tokens")),
            sum(values("output_tokens", told)),
            0 if key[-2] == "coalesced" else total("cost_usd", 10**9),
            len(values("cost_usd")),
            total("saved_usd", 10**9),
            len(values("saved_usd")),
            total("saved_ms", 1_000),
            len(values("saved_ms")),
            total("lookup_ms", 1_000),
            len(values("lookup_ms")),
            *cached(members),
            *judged(members),
            sketch.to_bytes(),
        )
    return result


_SUMS = """
    r.lookups, duration_us, input_tokens, input_tokens_n, output_tokens, cost_nusd, cost_n, saved_nusd, saved_usd_n, saved_us, saved_us_n,
    lookup_us, lookup_us_n, cached_tokens, cached_of_tokens, cached_n, judged_n, vetoed_n, duration_sketch
"""
DIMENSIONS = ("at_ms", "cache_kind", "service", "purpose", "namespace", "tenant", "model", "tier", "outcome", "reason")


def stored_rollups(store: Store, table: str, dimensions: tuple[str, ...] = DIMENSIONS) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    query = f"SELECT {', '.join(dimensions)}, {_SUMS} FROM {table} r JOIN sources s ON s.id = r.source_id"
    return {row[: len(dimensions)]: row[len(dimensions) :] for row in rows(store, query)}


def narrowed(by_everything: dict[tuple[Any, ...], tuple[Any, ...]], narrow: rollups.Narrow) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    """The tables of fewer dimensions by another route: sums and merged sketches of the rows by every dimension."""
    found: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for key, (*sums, sketch) in by_everything.items():
        named = dict(zip(DIMENSIONS, key, strict=True)) | {"at_ms": key[0] // narrow.width_ms * narrow.width_ms}
        total = tuple(named[name] for name in named_dimensions(narrow))
        if narrow.places:
            hit, tokens = key[8] == "exact_hit", sums[2] + sums[4]
            outcomes = [sums[0] if name == key[8] else 0 for name in rollups.OUTCOMES]
            place = (*outcomes, tokens if hit else 0, tokens, sums[7] if hit else 0, 0 if hit else sums[5])
            place += (sums[8] if hit else 0, 0 if hit else sums[6])
            found[total] = tuple(map(sum, zip(found.get(total, (0,) * len(place)), place, strict=True)))
            continue
        *before, merged = found.get(total, (*[0] * len(sums), b""))
        found[total] = (*[a + b for a, b in zip(before, sums, strict=True)], merge_bytes(merged, sketch))
    return found


def named_dimensions(narrow: rollups.Narrow) -> tuple[str, ...]:
    return tuple("service" if name == "source_id" else name for name in narrow.dimensions)


def stored_narrow(store: Store, table: str, narrow: rollups.Narrow) -> dict[tuple[Any, ...], tuple[Any, ...]]:
    if not narrow.places:
        return stored_rollups(store, table, named_dimensions(narrow))
    size = len(narrow.dimensions)
    query = f"SELECT {', '.join((*narrow.dimensions, *rollups.PLACE_SUMS))} FROM {table}"
    return {row[:size]: row[size:] for row in rows(store, query)}


@functools.cache
def empty_database() -> Path:
    """A migrated file to copy: making one takes longer than an example's test."""
    folder = Path(tempfile.mkdtemp(prefix="cachescope-test-"))
    atexit.register(shutil.rmtree, folder)
    store = open_telemetry(settings(folder), write=True)
    store.close()
    return store.path


@given(histories(), st.randoms(use_true_random=False))
@hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_rollups_equal_the_raw_rows_however_they_were_sent(history: list[tuple[Made, SourceKey]], rng: random.Random) -> None:
    raw = [(event.lookup(), source.service) for event, source in history if event.is_lookup]
    expected = {table: independent(raw, width_ms) for table, width_ms in rollups.WIDTHS_MS.items()}
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(empty_database(), folder)
        store = open_telemetry(settings(Path(folder)), write=True)
        sent = history + rng.choices(history, k=rng.randrange(6))  # some come again
        rng.shuffle(sent)
        while sent:
            size = rng.randint(1, len(sent))
            pieces, sent = sent[:size], sent[size:]
            batches = []
            while pieces:
                source = pieces[0][1]
                run = [event for event, owner in pieces if owner is source]
                pieces = [piece for piece in pieces if piece[1] is not source]
                batches.append(batch(*run, source=source))
            spans.write(store, batches, now_ms=1)
        assert {table: stored_rollups(store, table) for table in expected} == expected
        for table, narrow in rollups.NARROW.items():
            assert stored_narrow(store, table, narrow) == narrowed(expected[narrow.of], narrow)
        from_database = [
            (LookupRow(row[1], row[2], *row[4:-1]), row[-1])
            for row in rows(store, "SELECT l.*, s.service FROM lookups l JOIN sources s ON s.id = l.source_id")
        ]
        assert {table: independent(from_database, width_ms) for table, width_ms in rollups.WIDTHS_MS.items()} == expected
        per_trace = Counter(event.ids[0] for event, _ in history)
        assert dict(rows(store, "SELECT trace_id, spans FROM trace_summaries")) == per_trace
        store.close()


WRITER = """
import sys
from pathlib import Path
from storage import spans
from storage.store import open_telemetry
from tests.storage.support import Made, batch, settings

store = open_telemetry(settings(Path(sys.argv[1])), write=True)
number = int(sys.argv[2])
while True:
    spans.write(store, [batch(*[Made(number + i, trace=number) for i in range(50)])], now_ms=1)
    number += 50
    print(number, flush=True)
"""


def test_a_kill_in_the_middle_of_writing_loses_nothing_that_was_committed(tmp_path: Path) -> None:
    written = 0
    for _ in range(3):
        out = tmp_path / "out"
        with out.open("wb") as stdout:
            writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(written)], stdout=stdout, cwd=Path.cwd())
        wait_for(lambda: len(out.read_text().split()) >= 8 or writer.poll() is not None, what="eight batches are written")  # noqa: B023
        writer.send_signal(signal.SIGKILL)
        assert writer.wait(60) == -signal.SIGKILL
        acknowledged = [int(word) for word in out.read_text().split("\n")[:-1]]

        reader = open_telemetry(settings(tmp_path), write=False)  # a reader alone gets at what is only in the log
        present = one(reader, "SELECT count(*) FROM spans")
        reader.close()
        assert present >= acknowledged[-1]
        assert present % 50 == 0  # a batch is there whole or not at all

        store = open_telemetry(settings(tmp_path), write=True)
        assert one(store, "PRAGMA integrity_check") == "ok"
        assert one(store, "SELECT count(*) FROM span_payloads") == present
        assert one(store, "SELECT count(*) FROM lookups") == present
        assert one(store, "SELECT sum(lookups) FROM rollups_1m") == present
        assert one(store, "SELECT sum(spans) FROM trace_summaries") == present
        store.close()
        written = present
