"""The audit: what operators asked for and what came of it. Append-only; each row carries the hash of the one before it.

An act is the events of one act_id: `pending` first, then at most one of done, failed, cancelled, then at most one of undone,
reclaimed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row

from storage.errors import UnknownAct
from storage.store import Store

PENDING: Final = "pending"
OUTCOMES: Final = frozenset({"done", "failed", "cancelled"})
AFTERMATHS: Final = frozenset({"undone", "reclaimed"})
GENESIS: Final = "0" * 64

_COLUMNS: Final = "seq, act_id, event, kind, namespace, actor, origin, at_ms, body, previous_hash, hash"
_APPEND: Final = f"INSERT INTO act_events ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608
_OF_ACT: Final = f"SELECT {_COLUMNS} FROM act_events WHERE act_id = ? ORDER BY seq"  # noqa: S608
_ALL: Final = f"SELECT {_COLUMNS} FROM act_events ORDER BY seq"  # noqa: S608
_HISTORY: Final = f"""
SELECT {_COLUMNS} FROM act_events WHERE act_id IN (
  SELECT act_id FROM act_events
  WHERE event = 'pending' AND (? IS NULL OR seq < ?) AND (? IS NULL OR kind = ?) AND (? IS NULL OR namespace = ?)
  ORDER BY seq DESC LIMIT ?
) ORDER BY seq
"""  # noqa: S608
_STALE: Final = """
SELECT act_id FROM act_events AS pending
WHERE event = 'pending' AND at_ms < ?
  AND NOT EXISTS (SELECT 1 FROM act_events AS later WHERE later.act_id = pending.act_id AND later.event <> 'pending')
  AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.act_id = pending.act_id AND jobs.state IN ('queued', 'running'))
ORDER BY seq
"""


@dataclass(frozen=True, slots=True)
class Event:
    """One row of the audit."""

    seq: int
    event: str
    actor: str
    origin: str
    at_ms: int
    body: Mapping[str, Any]
    hash: str


@dataclass(frozen=True, slots=True)
class Act:
    """What an operator did. state is the last event; finished_ms the time of done, failed or cancelled."""

    act_id: str
    kind: str
    namespace: str
    actor: str
    origin: str
    state: str
    seq: int  # of its first event: pages of the history go by it
    started_ms: int
    finished_ms: int | None
    events: tuple[Event, ...]

    @property
    def body(self) -> Mapping[str, Any]:
        """What was asked for."""
        return self.events[0].body

    @property
    def result(self) -> Mapping[str, Any]:
        """What came of it; empty while pending."""
        return self.events[-1].body if len(self.events) > 1 else {}


@dataclass(frozen=True, slots=True)
class ChainStatus:
    """broken_at_seq: the first row that does not fit, None when all do. head_hash: write it down elsewhere to prove more."""

    ok: bool
    events: int
    broken_at_seq: int | None
    head_hash: str


def begin(
    store: Store,
    *,
    act_id: str,
    kind: str,
    namespace: str,
    actor: str,
    origin: str,
    body: Mapping[str, Any],
    at_ms: int,
) -> bool:
    """Record that an act is about to be done. False when this act_id was begun before: then do nothing."""
    with store.write() as connection:
        if connection.exec_driver_sql("SELECT 1 FROM act_events WHERE act_id = ?", (act_id,)).first():
            return False
        _append(connection, (act_id, PENDING, kind, namespace, actor, origin, at_ms, _text(body)))
    return True


def record(
    store: Store,
    *,
    act_id: str,
    event: str,
    body: Mapping[str, Any],
    at_ms: int,
    actor: str | None = None,
    origin: str | None = None,
) -> bool:
    """Record what came of an act. False, and nothing written, when that is already recorded.

    actor and origin: who recorded it; as at the beginning when left out. Raises UnknownAct when it was never begun.
    """
    with store.write() as connection:
        return _record(connection, act_id, event, body, at_ms, actor=actor, origin=origin)


def get(connection: Connection, act_id: str) -> Act | None:
    rows = connection.exec_driver_sql(_OF_ACT, (act_id,)).all()
    return _fold(rows) if rows else None


def history(
    connection: Connection,
    *,
    limit: int = 100,
    before_seq: int | None = None,
    kind: str | None = None,
    namespace: str | None = None,
) -> list[Act]:
    """Return the newest acts first. before_seq: the last act's seq of the page before."""
    chosen = (before_seq, before_seq, kind, kind, namespace, namespace, limit)
    acts: dict[str, list[Row[Any]]] = {}
    for row in connection.exec_driver_sql(_HISTORY, chosen):
        acts.setdefault(row.act_id, []).append(row)
    return [_fold(rows) for rows in reversed(acts.values())]


def verify_chain(connection: Connection) -> ChainStatus:
    """Read every row and compute its hash again. An edited, deleted, inserted or reordered row breaks the chain.

    The last rows' deletion is seen by the number that SQLite would give next; who edits that too is caught by a head_hash kept
    elsewhere.
    """
    previous, seq, events = GENESIS, 0, 0
    for row in connection.exec_driver_sql(_ALL, execution_options={"yield_per": 1000}):
        seq += 1
        fits = row.seq == seq and row.previous_hash == previous and row.hash == _hash(previous, tuple(row[:9]))
        if not fits:
            return ChainStatus(ok=False, events=events, broken_at_seq=min(seq, row.seq), head_hash=previous)
        previous = row.hash
        events += 1
    if _highest_given(connection) != seq:
        return ChainStatus(ok=False, events=events, broken_at_seq=seq + 1, head_hash=previous)
    return ChainStatus(ok=True, events=events, broken_at_seq=None, head_hash=previous)


def sweep(store: Store, older_than_ms: int, now_ms: int) -> list[str]:
    """Record as failed every pending act begun before older_than_ms that has no outcome and no live job: its doer crashed."""
    with store.read() as connection:
        if not connection.exec_driver_sql(_STALE, (older_than_ms,)).first():
            return []
    with store.write() as connection:
        stale = list(connection.exec_driver_sql(_STALE, (older_than_ms,)).scalars())
        body = {"error": "no outcome was recorded: the process that did it stopped", "swept": True}
        return [act_id for act_id in stale if _record(connection, act_id, "failed", body, now_ms, actor="", origin="worker")]


def _record(
    connection: Connection,
    act_id: str,
    event: str,
    body: Mapping[str, Any],
    at_ms: int,
    *,
    actor: str | None,
    origin: str | None,
) -> bool:
    if event not in OUTCOMES | AFTERMATHS:
        raise ValueError(f"an act's event is one of {', '.join(sorted(OUTCOMES | AFTERMATHS))}, not {event!r}")
    rows = connection.exec_driver_sql(_OF_ACT, (act_id,)).all()
    if not rows:
        raise UnknownAct(f"there is no act {act_id!r}; begin it before recording {event!r}")
    recorded = {row.event for row in rows}
    # An outcome that comes after undone or reclaimed is late: what it says is no longer so.
    if recorded & AFTERMATHS or (event in OUTCOMES and recorded & OUTCOMES):
        return False
    first = rows[0]
    who = (first.actor if actor is None else actor, first.origin if origin is None else origin)
    _append(connection, (act_id, event, first.kind, first.namespace, *who, at_ms, _text(body)))
    return True


def _append(connection: Connection, fields: tuple[str, str, str, str, str, str, int, str]) -> None:
    last_hash = connection.exec_driver_sql("SELECT hash FROM act_events ORDER BY seq DESC LIMIT 1").scalar()
    previous = last_hash or GENESIS
    # Not the last row's number + 1: were the last row deleted, its number would be given again and the gap closed.
    numbered = (_highest_given(connection) + 1, *fields)
    connection.exec_driver_sql(_APPEND, (*numbered, previous, _hash(previous, numbered)))


def _highest_given(connection: Connection) -> int:
    return connection.exec_driver_sql("SELECT seq FROM sqlite_sequence WHERE name = 'act_events'").scalar() or 0


def _hash(previous: str, fields: Iterable[str | int]) -> str:
    """SHA-256 over the previous hash and the fields, each with its length before it: no two lists of fields read the same."""
    digest = hashlib.sha256()
    for value in (previous, *fields):
        data = str(value).encode()
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()


def _text(body: Mapping[str, Any]) -> str:
    return json.dumps(dict(body), sort_keys=True, separators=(",", ":"))


def _fold(rows: Sequence[Row[Any]]) -> Act:
    first = rows[0]
    events = tuple(Event(row.seq, row.event, row.actor, row.origin, row.at_ms, json.loads(row.body), row.hash) for row in rows)
    return Act(
        act_id=first.act_id,
        kind=first.kind,
        namespace=first.namespace,
        actor=first.actor,
        origin=first.origin,
        state=events[-1].event,
        seq=first.seq,
        started_ms=first.at_ms,
        finished_ms=next((event.at_ms for event in events if event.event in OUTCOMES), None),
        events=events,
    )
