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
