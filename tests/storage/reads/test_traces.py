"""Which lookups a search finds, and how far back it says that it looked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import spans
from storage.reads import traces
from storage.reads.traces import Search
from storage.reads.window import Scope, Window
from storage.store import Store, open_telemetry
from tests.storage.support import START_NS, Made, batch, settings

START_MS = START_NS // 1_000_000
WINDOW = Window.of(START_MS, START_MS + 3_600_000)


RARE = ("coalesced", "bypass", "error", "stale_hit", "partial_hit")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """Forty lookups, a second apart; one in four of tenant rare."""
    opened = open_telemetry(settings(tmp_path), write=True)
    made = [
        Made(number, start_ns=START_NS + number * 1_000_000_000, extra={"tenant": "busy" if number % 4 else "rare", "prompt": "refund"})
        for number in range(40)
    ]
    spans.write(opened, [batch(*made)], now_ms=START_MS)
    yield opened
    opened.close()


def test_a_text_is_looked_for_among_the_newest_and_the_page_says_how_far_back(store: Store) -> None:
    with store.read() as conn:
        found = traces.find(conn, WINDOW, Scope(tenant="rare"), Search(text="refund"), most_passed=10)
    assert [(row.at_ms - START_MS) // 1_000 for row in found.rows] == [36, 32]
    assert found.from_ms is not None
    assert (found.from_ms - START_MS) // 1_000 == 29


def test_of_a_namespace_fewer_are_passed_over(store: Store) -> None:
    with store.read() as conn:
        found = traces.find(conn, WINDOW, Scope(namespace="faq", tenant="rare"), Search(text="refund"), most_passed=50)
    assert [(row.at_ms - START_MS) // 1_000 for row in found.rows] == [36, 32]


def test_all_of_the_window_is_searched_where_it_holds_no_more(store: Store) -> None:
    with store.read() as conn:
        found = traces.find(conn, WINDOW, Scope(tenant="rare"), Search(text="refund"))
        other = traces.find(conn, WINDOW, Scope(tenant="rare"), Search(text="invoice"))
    assert (len(found.rows), found.from_ms, len(other.rows), other.from_ms) == (10, None, 0, None)


@pytest.mark.parametrize(
    ("low", "high", "found"), [(None, None, 4), (0.9, None, 2), (None, 0.9, 2), (0.8, 0.9, 2), (0.91, 0.92, 0), (1.0, None, 1)]
)
def test_lookups_are_found_by_their_candidates_similarity(tmp_path: Path, low: float | None, high: float | None, found: int) -> None:
    opened = open_telemetry(settings(tmp_path), write=True)
    near = (None, 0.8, 0.9, 1.0000001)
    made = [Made(number, start_ns=START_NS + number, extra={"similarity": one} if one else {}) for number, one in enumerate(near)]
    spans.write(opened, [batch(*made)], now_ms=START_MS)
    with opened.read() as conn:
        page = traces.find(conn, WINDOW, Scope(), Search(similarity_from=low, similarity_to=high))
    assert len(page.rows) == found
    opened.close()


@pytest.mark.parametrize("outcome", [*RARE, "exact_hit", "miss"])
def test_a_rare_outcome_is_found_without_a_look_at_the_others(tmp_path: Path, outcome: str) -> None:
    opened = open_telemetry(settings(tmp_path), write=True)
    made = [
        Made(number, start_ns=START_NS + number * 1_000_000_000, outcome=outcome if number % 10 == 0 else "miss") for number in range(50)
    ]
    spans.write(opened, [batch(*made)], now_ms=START_MS)
    asked: list[str] = []
    with opened.read() as conn:
        raw = conn.connection.driver_connection
        assert raw is not None
        raw.set_trace_callback(asked.append)
        all_of_it = traces.find(conn, WINDOW, Scope(), Search(outcome=outcome))
        found = traces.find(conn, WINDOW, Scope(namespace="faq", tenant="t1"), Search(outcome=outcome))
        raw.set_trace_callback(None)
        query = next(one for one in reversed(asked) if "ORDER BY lookups.at_ms DESC, lookups.id DESC" in one)
        plan = " ".join(row[3] for row in conn.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}"))
    opened.close()
    assert len(all_of_it.rows) == (50 if outcome == "miss" else 5)
    assert ("ix_lookups_rare" in plan) is (outcome in RARE), plan
    assert found == all_of_it
