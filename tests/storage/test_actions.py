from __future__ import annotations

import multiprocessing
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from storage import actions, jobs
from storage.errors import UnknownAct
from storage.store import Store, open_ops
from tests.storage.support import settings

SPAWN = multiprocessing.get_context("spawn")


def begin(store: Store, act_id: str, at_ms: int = 1_000, **changes: Any) -> bool:
    values: dict[str, Any] = {"kind": "purge", "namespace": "faq", "actor": "ada", "origin": "console", "body": {"count": 3}}
    return actions.begin(store, act_id=act_id, at_ms=at_ms, **{**values, **changes})


def record(store: Store, act_id: str, event: str, at_ms: int = 2_000) -> bool:
    return actions.record(store, act_id=act_id, event=event, body={"seen": event}, at_ms=at_ms)


def verify(store: Store) -> actions.ChainStatus:
    with store.read() as connection:
        return actions.verify_chain(connection)


def get(store: Store, act_id: str) -> actions.Act:
    with store.read() as connection:
        act = actions.get(connection, act_id)
    assert act is not None
    return act


def test_an_act_is_folded_from_its_events(ops: Store) -> None:
    assert begin(ops, "a")
    assert record(ops, "a", "done", 2_000)
    assert actions.record(ops, act_id="a", event="reclaimed", body={"deleted": 3}, at_ms=9_000, actor="", origin="worker")
    act = get(ops, "a")
    assert (act.kind, act.namespace, act.actor, act.origin, act.state) == ("purge", "faq", "ada", "console", "reclaimed")
    assert (act.started_ms, act.finished_ms) == (1_000, 2_000)
    assert [(event.event, event.origin) for event in act.events] == [
        ("pending", "console"),
        ("done", "console"),
        ("reclaimed", "worker"),
    ]
    assert act.body == {"count": 3}
    assert act.result == {"deleted": 3}


def test_a_second_click_begins_nothing(ops: Store) -> None:
    assert begin(ops, "a")
    assert not begin(ops, "a", kind="undo")
    assert verify(ops).events == 1
    record(ops, "a", "done")
    assert not begin(ops, "a")


@pytest.mark.parametrize("first", sorted(actions.OUTCOMES))
@pytest.mark.parametrize("second", sorted(actions.OUTCOMES))
def test_an_outcome_is_recorded_once(ops: Store, first: str, second: str) -> None:
    begin(ops, "a")
    assert record(ops, "a", first)
    assert not record(ops, "a", second)
    assert get(ops, "a").state == first


def test_what_came_later_is_recorded_once_and_ends_the_act(ops: Store) -> None:
    begin(ops, "a")
    assert record(ops, "a", "undone")
    assert not record(ops, "a", "undone")
    assert not record(ops, "a", "reclaimed")
    assert not record(ops, "a", "done")
    assert get(ops, "a").state == "undone"


def test_an_act_that_was_never_begun_has_no_outcome(ops: Store) -> None:
    with pytest.raises(UnknownAct, match="'ghost'"):
        record(ops, "ghost", "done")
    begin(ops, "a")
    with pytest.raises(ValueError, match="not 'pending'"):
        record(ops, "a", "pending")
    with ops.read() as connection:
        assert actions.get(connection, "ghost") is None


def test_history_pages_from_the_newest_and_filters(ops: Store) -> None:
    for number in range(5):
        begin(ops, f"a{number}", namespace="faq" if number % 2 else "docs", kind="purge" if number < 3 else "switch")
    record(ops, "a0", "done")
    with ops.read() as connection:
        first = actions.history(connection, limit=2)
        assert [act.act_id for act in first] == ["a4", "a3"]
        second = actions.history(connection, limit=10, before_seq=first[-1].seq)
        assert [act.act_id for act in second] == ["a2", "a1", "a0"]
        assert second[-1].state == "done"
        assert [act.act_id for act in actions.history(connection, namespace="faq")] == ["a3", "a1"]
        assert [act.act_id for act in actions.history(connection, kind="switch")] == ["a4", "a3"]


def filled(folder: Path) -> Store:
    store = open_ops(settings(folder))
    for number in range(4):
        begin(store, f"a{number}")
        record(store, f"a{number}", "done")
    return store


def test_an_untouched_chain_is_whole(tmp_path: Path) -> None:
    store = filled(tmp_path)
    status = verify(store)
    assert (status.ok, status.events, status.broken_at_seq) == (True, 8, None)
    with store.read() as connection:
        assert status.head_hash == connection.exec_driver_sql("SELECT hash FROM act_events WHERE seq = 8").scalar()
    store.close()


def test_an_empty_chain_is_whole(ops: Store) -> None:
    assert verify(ops) == actions.ChainStatus(ok=True, events=0, broken_at_seq=None, head_hash=actions.GENESIS)


SWAP = """
UPDATE act_events SET seq = 100 WHERE seq = 3;
UPDATE act_events SET seq = 3 WHERE seq = 5;
UPDATE act_events SET seq = 5 WHERE seq = 100;
"""
TAMPERING = {
    "body edited": ("UPDATE act_events SET body = '{}' WHERE seq = 3", 3),
    "actor edited": ("UPDATE act_events SET actor = 'eve' WHERE seq = 5", 5),
    "time edited": ("UPDATE act_events SET at_ms = at_ms + 1 WHERE seq = 1", 1),
    "text moved from one field to the next": ("UPDATE act_events SET actor = 'adac', origin = 'onsole' WHERE seq = 2", 2),
    "hash edited": ("UPDATE act_events SET hash = 'f' || substr(hash, 2) WHERE seq = 8", 8),
    "first deleted": ("DELETE FROM act_events WHERE seq = 1", 1),
    "one in the middle deleted": ("DELETE FROM act_events WHERE seq = 4", 4),
    "one deleted and the rest renumbered": (
        "DELETE FROM act_events WHERE seq = 4; UPDATE act_events SET seq = seq - 1 WHERE seq > 4;UPDATE sqlite_sequence SET seq = 7",
        4,
    ),
    "last deleted": ("DELETE FROM act_events WHERE seq = 8", 8),
    "all deleted": ("DELETE FROM act_events", 1),
    "two swapped": (SWAP, 3),
}


@pytest.mark.parametrize("name", TAMPERING)
def test_tampering_is_found(tmp_path: Path, name: str) -> None:
    statement, seq = TAMPERING[name]
    store = filled(tmp_path)
    other = sqlite3.connect(store.path)
    other.executescript(statement)
    other.commit()
    other.close()
    status = verify(store)
    assert not status.ok
    assert status.broken_at_seq == seq
    store.close()


def test_a_gap_at_the_end_is_not_closed_by_the_next_act(tmp_path: Path) -> None:
    store = filled(tmp_path)
    other = sqlite3.connect(store.path)
    other.execute("DELETE FROM act_events WHERE seq = 8")
    other.commit()
    other.close()
    begin(store, "later")
    assert verify(store).broken_at_seq == 8
    store.close()


def write_acts(folder: str, worker: int) -> None:
    store = open_ops(settings(Path(folder), busy_timeout_s=60))
    for number in range(15):
        begin(store, f"{worker}-{number}")
        record(store, f"{worker}-{number}", "done")
        begin(store, f"shared-{number}", actor=str(worker))
    store.close()


def test_writers_in_several_processes_keep_one_chain(tmp_path: Path) -> None:
    processes = [SPAWN.Process(target=write_acts, args=(str(tmp_path), worker)) for worker in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    store = open_ops(settings(tmp_path))
    status = verify(store)
    assert (status.ok, status.events) == (True, 3 * 15 * 2 + 15)
    store.close()


def test_a_pending_act_without_an_outcome_is_swept_to_failed(ops: Store) -> None:
    begin(ops, "crashed", 1_000)
    begin(ops, "finished", 1_000)
    record(ops, "finished", "done", 1_100)
    begin(ops, "young", 5_000)
    begin(ops, "working", 1_000)
    job = jobs.enqueue(ops, kind="warmup", act_id="working", namespace="faq", parameters={}, now_ms=1_000)
    assert actions.sweep(ops, 2_000, 6_000) == ["crashed"]
    assert actions.sweep(ops, 2_000, 6_000) == []
    act = get(ops, "crashed")
    assert (act.state, act.finished_ms, act.events[-1].origin, act.result["swept"]) == ("failed", 6_000, "worker", True)
    jobs.cancel(ops, job.id, now_ms=6_000)
    assert actions.sweep(ops, 2_000, 7_000) == ["working"]
    assert verify(ops).ok
