"""Counts of prompts by window."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import spans
from storage.reads import drift as reads
from storage.reads.window import Scope, Window
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


def test_prompts_are_counted_in_their_window_and_scope(store: Store) -> None:
    with store.read() as conn:
        assert reads.prompt_counts(conn, NOW, Scope()) == {"a": 3, "b": 1, "d": 1}
        assert reads.prompt_counts(conn, NOW.previous, Scope()) == {"a": 1, "c": 1}
        assert reads.prompt_counts(conn, NOW, Scope(namespace="docs")) == {"b": 1}


def test_similarities_leave_exact_hits_out(store: Store) -> None:
    with store.read() as conn:
        assert reads.similarities(conn, NOW, Scope()) == [0.9]
        assert reads.similarities(conn, NOW.previous, Scope()) == [0.8]


def test_sample_is_the_newest_text_and_none_where_it_is_not_recorded(store: Store) -> None:
    with store.read() as conn:
        found = reads.samples(conn, NOW, Scope(), ["a", "d", "unknown"])
    assert set(found) == {"a", "d"}
    assert found["d"].prompt is None
