"""Counts of prompts by window."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from sqlalchemy import event, select

from storage import spans
from storage.reads import changes
from storage.reads import drift as reads
from storage.reads import window as windows
from storage.reads.window import Scope, Window
from storage.slots import PICKS
from storage.store import Store, open_telemetry
from tests.storage.support import MINUTE_NS, START_NS, Made, batch, settings

START_MS = START_NS // 1_000_000
NOW = Window.of(START_MS, START_MS + 600_000)


def _asked(number: int, hashed: str, *, minute: int = 0, **extra: object) -> Made:
    recorded = {"prompt_hash": hashed, "prompt": f"text {number}", **extra}
    return Made(number, start_ns=START_NS + minute * MINUTE_NS, extra=recorded)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_telemetry(settings(tmp_path), write=True)
    made = [
        _asked(1, "a", similarity=0.9),
        _asked(2, "a", minute=1),
        _asked(3, "b", minute=2, namespace="docs"),
        _asked(4, "a", minute=-1),
        _asked(5, "c", minute=-2, similarity=0.8),
        _asked(6, ""),
        Made(7, outcome="exact_hit", extra={"prompt_hash": "a", "similarity": 1.0}),
        _asked(8, "d", prompt=None),
    ]
    spans.write(opened, [batch(*made)], now_ms=START_MS)
    yield opened
    opened.close()


def _prompts(store: Store, window: Window, scope: Scope) -> list[str]:
    with store.read() as conn:
        return [row.prompt_hash for row in reads.mix(conn, window, scope).rows]


def test_prompts_are_read_in_their_window_and_scope_in_the_order_of_time(store: Store) -> None:
    found = _prompts(store, NOW, Scope())
    assert (sorted(found[:3]), found[3:]) == (["a", "a", "d"], ["a", "b"])  # three are of one millisecond
    assert _prompts(store, NOW.previous, Scope()) == ["c", "a"]
    assert _prompts(store, NOW, Scope(namespace="docs")) == ["b"]


def test_similarities_leave_exact_hits_out(store: Store) -> None:
    with store.read() as conn:
        for window, known in ((NOW, [0.9]), (NOW.previous, [0.8])):
            assert [row.similarity for row in reads.mix(conn, window, Scope()).rows if row.similarity is not None] == known


def test_of_a_wide_window_an_even_part_is_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "MOST_ROWS", 3)
    with store.read() as conn:
        found = reads.mix(conn, NOW, Scope())
    assert found.stride == 2
    assert 0 < len(found.rows) < 5
    assert {row.id % PICKS % 2 for row in found.rows} == {0}


@pytest.mark.parametrize("scope", [Scope(), Scope(namespace="faq")])
@pytest.mark.parametrize(("number", "index"), [(3, "at"), (8, "8"), (24, "8"), (4_096, "2048")])
def test_a_sample_of_a_wide_window_is_read_from_an_index_alone(store: Store, number: int, index: str, scope: Scope) -> None:
    columns = [windows.lookups.c[name] for name in ("id", "prompt_hash", "entry_id", "fingerprint", "generation")]
    query = select(*columns).where(changes.of_sample(NOW, scope, windows.every(number)))
    everything = select(windows.lookups.c.id).where(windows.within(windows.lookups, NOW, scope))
    with store.read() as conn:
        told = query.compile(dialect=conn.dialect, compile_kwargs={"literal_binds": True}).string
        plan = [row[3] for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {told}")]
        found, ids = ({row.id for row in conn.execute(one)} for one in (query, everything))
    assert plan == [f"SEARCH lookups USING COVERING INDEX ix_lookups_{index} (at_ms>? AND at_ms<?)"]
    assert found == {one for one in ids if one % PICKS % windows.every(number) == 0}


def test_every_is_at_least_what_is_asked_for_and_less_than_twice_of_it() -> None:
    assert all(number <= windows.every(number) < max(2 * number, 2) for number in range(1, 20_000))


def test_sample_is_the_newest_text_and_none_where_it_is_not_recorded(store: Store) -> None:
    with store.read() as conn:
        ids = [row.id for row in reads.mix(conn, NOW, Scope()).rows if row.prompt_hash in {"a", "d"}]
        found = reads.samples(conn, ids)
    assert set(found) == {"a", "d"}
    assert found["a"].prompt == "text 2"
    assert found["d"].prompt is None


@pytest.mark.parametrize(
    ("scope", "passed", "number", "by_its_own_index"),
    [
        (Scope(namespace="faq"), 1_000, 3, False),
        (Scope(namespace="faq"), 1, 5, True),  # one row of six may be passed over: none of them may be its own
        (Scope(tenant="t1"), 1, 6, False),  # there is no index of tenants: fewer are read
    ],
)
def test_of_a_part_of_the_traffic_a_bounded_sample_is_read(
    store: Store, monkeypatch: pytest.MonkeyPatch, scope: Scope, passed: int, number: int, *, by_its_own_index: bool
) -> None:
    monkeypatch.setattr(changes, "_MOST_PASSED", passed)
    monkeypatch.setattr(changes, "_ENOUGH", 1)
    monkeypatch.setattr(changes, "_MOST_FETCHED", 1)
    with store.read() as conn:
        found = changes.sample(conn, NOW, scope, most=2)
        every = conn.execute(select(windows.lookups.c.id).where(changes.of_sample(NOW, scope, 1))).scalars().all()
        query = select(windows.lookups.c.id).where(found.condition)
        read = conn.execute(query).scalars().all()
        text = str(query.compile(conn, compile_kwargs={"literal_binds": True}))
        plan = str(conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}").all())
    assert found.number == number
    assert sorted(read) == [one for one in sorted(every) if one % PICKS % number == 0]
    assert ("ix_lookups_ns_at" in plan) is by_its_own_index


@pytest.mark.parametrize(
    ("scope", "passed", "number", "index"),
    [
        (Scope(), 1_000, 8, "ix_lookups_8 "),  # enough of them, and fewer than of all
        (Scope(tenant="t2"), 1_000, 1, "ix_lookups_at "),  # too few for one in eight to be enough
        (Scope(tenant="t2"), 100, 8, "ix_lookups_8 "),  # 160 in all may not be passed over; a few are enough
        (Scope(tenant="t3"), 30, 1, "ix_lookups_at "),  # one in eight is nothing: all are passed over, whatever it takes
        (Scope(namespace="small"), 30, 2, "ix_lookups_ns_at "),
    ],
)
def test_who_waits_gets_lookups_enough_from_the_index_that_passes_over_the_fewest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, scope: Scope, passed: int, number: int, index: str
) -> None:
    for name, value in (("ENOUGH", 12), ("MOST_BRIEF", 50), ("LEAST", 3), ("FEWEST", 2), ("PASSED", passed)):
        monkeypatch.setattr(reads, name, value)
    told = ["t1"] * 112 + ["t2"] * 40 + ["t3"] * 8
    made = [_asked(n, f"p{n}", tenant=tenant, namespace="small" if tenant == "t3" or n < 8 else "faq") for n, tenant in enumerate(told)]
    with contextlib.closing(open_telemetry(settings(tmp_path), write=True)) as store:
        spans.write(store, [batch(*made)], now_ms=START_MS)
        seen: list[str] = []
        with store.read() as conn:
            event.listen(conn, "before_cursor_execute", lambda *given: seen.append(sqlite(given[2], given[3])))
            found = reads.mix(conn, NOW, scope, thorough=False)
            every = reads.mix(conn, NOW, scope)
            plan = str(conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {next(one for one in seen if 'prompt_simhash' in one)}").all())
    assert found.stride == number
    assert found.rows == tuple(row for row in every.rows if row.id % PICKS % number == 0)
    assert index in plan
    assert (found.thorough, every.thorough) == (False, True)


def sqlite(query: str, values: Sequence[object]) -> str:
    """Return a query with its values written out."""
    told = iter(f"'{value}'" if isinstance(value, str) else str(value) for value in values)
    return "".join(next(told) if part == "?" else part for part in re.split(r"(\?)", query))
