"""Which recorded lookups a threshold decided on."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import spans
from storage.reads import thresholds as reads
from storage.reads.window import Scope, Window
from storage.store import Store, open_telemetry
from tests.storage.support import START_NS, Made, batch, settings

START_MS = START_NS // 1_000_000
WINDOW = Window.of(START_MS, START_MS + 3_600_000)
HIT: dict[str, object] = {"similarity": 0.95, "threshold": 0.9, "passed": True}
VETOED: dict[str, object] = {"similarity": 0.93, "threshold": 0.9, "passed": False}
BELOW: dict[str, object] = {"similarity": 0.88, "threshold": 0.9, "passed": True}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_telemetry(settings(tmp_path), write=True)
    made = [
        Made(1, outcome="semantic_hit", extra=HIT),
        Made(2, outcome="miss", extra=VETOED),
        Made(3, outcome="miss", extra=BELOW),
        Made(4, outcome="miss"),
        Made(5, outcome="exact_hit", extra={"similarity": 1.0, "passed": True}),
        Made(6, outcome="bypass", extra=HIT),
        Made(7, outcome="error", extra=HIT),
        Made(8, outcome="miss", start_ns=START_NS + 1_000_000, extra={**HIT, "held_out": True, "namespace": "docs"}),
        Made(9, start_ns=START_NS + 2_000_000, outcome="miss", extra={"similarity": 0.91, "threshold": 0.9, "namespace": "docs"}),
        Made(10, outcome="semantic_hit", start_ns=START_NS - 3_600_000_000_000, extra=HIT),
    ]
    spans.write(opened, [batch(*made)], now_ms=START_MS)
    yield opened
    opened.close()


def test_candidates_are_those_that_a_threshold_decided_on(store: Store) -> None:
    with store.read() as conn:
        found = reads.candidates(conn, WINDOW, Scope(namespace="faq"))
    assert sorted((row.outcome, row.similarity, row.passed) for row in found) == [
        ("miss", 0.88, True),
        ("miss", 0.93, False),
        ("semantic_hit", 0.95, True),
    ]


def test_exact_hit_is_no_candidate_whatever_was_recorded_with_it(store: Store) -> None:
    with store.read() as conn:
        assert "exact_hit" not in {row.outcome for row in reads.candidates(conn, WINDOW, Scope())}


def test_unrecorded_verification_is_no_veto_and_a_held_out_lookup_is_known(store: Store) -> None:
    with store.read() as conn:
        found = {row.similarity: row for row in reads.candidates(conn, WINDOW, Scope(namespace="docs"))}
    assert (found[0.91].passed, found[0.91].held_out) == (True, False)
    assert (found[0.95].passed, found[0.95].held_out) == (True, True)


def test_newest_candidates_come_first_and_the_limit_holds(store: Store) -> None:
    with store.read() as conn:
        every = reads.candidates(conn, WINDOW, Scope())
        first = reads.candidates(conn, WINDOW, Scope(), limit=2)
    assert [row.at_ms - START_MS for row in every] == [2, 1, 0, 0, 0]
    assert first == every[:2]


def test_namespaces_are_counted_without_bypasses_and_errors(store: Store) -> None:
    with store.read() as conn:
        found = reads.by_namespace(conn, WINDOW, Scope())
    assert found == [
        reads.SimilarityCount("docs", lookups=2, with_candidate=2, semantic_hits=0, vetoed=0),
        reads.SimilarityCount("faq", lookups=5, with_candidate=3, semantic_hits=1, vetoed=1),
    ]


def test_the_newest_lookups_of_the_namespace_are_looked_through(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    wide, scope = Window.of(WINDOW.start_ms - 7_200_000, WINDOW.end_ms), Scope(namespace="faq", tenant="t1")
    with store.read() as conn:
        assert reads.looked(conn, wide, scope) == wide
        every = reads.candidates(conn, wide, scope)
        monkeypatch.setattr(reads, "MOST_LOOKED", 3)
        looked = reads.looked(conn, wide, scope)
        found = reads.candidates(conn, looked, scope)
    assert looked == Window(START_MS, wide.end_ms)
    assert [row.at_ms for row in every if row not in found] == [START_MS - 3_600_000]
