"""What the worker computed ahead, and the jobs that do it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import analyses, jobs
from storage.analyses import Analysis
from storage.store import Store, open_ops
from tests.storage.support import settings

ONE = Analysis("regret", "faq", "24h", 1_000, 0, 900, 42, {"ttl_s": 60.0}, {"hits": 3})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_ops(settings(tmp_path))
    yield opened
    opened.close()


def newest(store: Store, horizon: str = "24h") -> list[Analysis]:
    with store.read() as conn:
        return analyses.newest(conn, kind="regret", horizon=horizon)


def test_the_newest_of_each_namespace_and_horizon_is_kept(store: Store) -> None:
    later = dataclasses.replace(ONE, at_ms=2_000, result=None)
    for one in (ONE, later, dataclasses.replace(ONE, horizon="7d"), dataclasses.replace(ONE, namespace="docs"), ONE):
        analyses.put(store, one)
    assert newest(store) == [dataclasses.replace(ONE, namespace="docs"), later]
    assert newest(store, "7d") == [dataclasses.replace(ONE, horizon="7d")]


def test_old_ones_are_forgotten(store: Store) -> None:
    analyses.put(store, ONE)
    assert analyses.forget(store, kind="regret", before_ms=1_000, now_ms=2_000) == 0
    assert analyses.forget(store, kind="drift", before_ms=9_999, now_ms=2_000) == 0
    assert analyses.forget(store, kind="regret", before_ms=1_001, now_ms=2_000) == 1
    assert newest(store) == []


def test_nan_is_never_stored(store: Store) -> None:
    with pytest.raises(ValueError, match="JSON"):
        analyses.put(store, dataclasses.replace(ONE, result={"hits": float("nan")}))


def test_jobs_that_ended_are_trimmed_and_those_under_way_are_not(store: Store) -> None:
    for number in range(3):
        jobs.enqueue(store, kind="regret", act_id=f"r-{number}", namespace="", parameters={}, now_ms=number)
    with store.read() as conn:
        assert jobs.under_way(conn, "regret")
        assert not jobs.under_way(conn, "warmup")
    first = jobs.claim(store, lease_ms=1_000, now_ms=10)
    assert first is not None
    jobs.finish(store, first, now_ms=20)
    assert jobs.trim(store, kind="regret", before_ms=20) == 0
    assert jobs.trim(store, kind="warmup", before_ms=999) == 0
    assert jobs.trim(store, kind="regret", before_ms=999) == 1
    with store.read() as conn:
        assert {job.state for job in jobs.list_recent(conn, kind="regret")} == {"queued"}
