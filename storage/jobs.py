"""Long work and who does it. A job is claimed for a time (its lease); a dead worker's job goes to another.

A claim's `attempts` number is its proof: progress, finish and fail of an older claim, or of a cancelled job, return False
and change nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, Row

from storage.store import Store

MAX_ATTEMPTS: Final = 3

_COLUMNS: Final = (
    "id, kind, act_id, namespace, state, parameters, progress, error, created_ms, not_before_ms, lease_ms, attempts, finished_ms"
)
# Longer than any claim takes one for: a clock that was ahead gave it. Clocks that differ by less take nobody's job away.
_FAR_LEASES: Final = 10
_RAN_OUT: Final = f"state = 'running' AND (lease_ms < :now OR lease_ms > :now + {_FAR_LEASES} * :lease)"
_READY: Final = f"((state = 'queued' AND not_before_ms <= :now) OR ({_RAN_OUT}))"
_ENQUEUE: Final = """
INSERT INTO jobs (id, kind, act_id, namespace, state, parameters, progress, error, created_ms, not_before_ms, lease_ms, attempts)
VALUES (?, ?, ?, ?, 'queued', ?, '{}', '', ?, ?, 0, 0) ON CONFLICT DO NOTHING
"""
_GIVE_UP: Final = f"""
UPDATE jobs SET state = 'failed', finished_ms = :now, error = CASE error WHEN '' THEN :reason ELSE error END
WHERE {_RAN_OUT} AND attempts >= {MAX_ATTEMPTS}
"""  # noqa: S608
_CLAIM: Final = f"""
UPDATE jobs SET state = 'running', attempts = attempts + 1, lease_ms = :now + :lease
WHERE id = (SELECT id FROM jobs WHERE {_READY} AND attempts < {MAX_ATTEMPTS} ORDER BY created_ms, id LIMIT 1)
RETURNING {_COLUMNS}
"""  # noqa: S608
_MINE: Final = "id = :id AND attempts = :attempt AND state = 'running'"


@dataclass(frozen=True, slots=True)
class Job:
    """A row of `jobs`, with its JSON read."""

    id: str
    kind: str
    act_id: str
    namespace: str
    state: str
    parameters: Mapping[str, Any]
    progress: Mapping[str, Any]
    error: str
    created_ms: int
    not_before_ms: int
    lease_ms: int
    attempts: int
    finished_ms: int | None


@dataclass(frozen=True, slots=True)
class Beat:
    """A worker's last sign of life."""

    worker_id: str
    started_ms: int
    last_ms: int
    errors: int


def enqueue(
    store: Store,
    *,
    kind: str,
    act_id: str,
    namespace: str,
    parameters: Mapping[str, Any],
    now_ms: int,
    not_before_ms: int = 0,
) -> Job:
    """Queue the act's job and return it. An act has one job: a second call returns the first one's, whatever its state."""
    with store.write() as connection:
        values = (f"{kind}-{act_id}", kind, act_id, namespace, _text(parameters), now_ms, not_before_ms)
        connection.exec_driver_sql(_ENQUEUE, values)
        row = connection.exec_driver_sql(f"SELECT {_COLUMNS} FROM jobs WHERE act_id = ?", (act_id,)).one()  # noqa: S608
        return _job(row)


def claim(store: Store, *, lease_ms: int, now_ms: int) -> Job | None:
    """Take the oldest job that is due, or whose worker's lease ran out or is a clock's that was far ahead; None when there is none.

    A job whose lease ran out for the third time is failed instead: it kills its workers.
    """
    with store.read() as connection:  # an idle worker asks every second: it must not take the write lock for that
        ready = f"SELECT 1 FROM jobs WHERE {_READY} LIMIT 1"  # noqa: S608
        if not connection.exec_driver_sql(ready, {"now": now_ms, "lease": lease_ms}).first():
            return None
    with store.write() as connection:
        _give_up(connection, now_ms, lease_ms)
        row = connection.exec_driver_sql(_CLAIM, {"now": now_ms, "lease": lease_ms}).first()
        return _job(row) if row else None


def progress(store: Store, job: Job, progress: Mapping[str, Any], *, lease_ms: int, now_ms: int) -> bool:
    """Report what is done and extend the lease. False: the job is cancelled or another's by now; stop."""
    change = "progress = :progress, lease_ms = :lease"
    return _change(store, job, change, {"progress": _text(progress), "lease": now_ms + lease_ms})


def finish(store: Store, job: Job, *, now_ms: int, progress: Mapping[str, Any] | None = None) -> bool:
    """The work is done. False: it was cancelled or another's by then."""
    change = "state = 'done', error = '', finished_ms = :now, progress = coalesce(:progress, progress)"
    return _change(store, job, change, {"now": now_ms, "progress": None if progress is None else _text(progress)})


def fail(store: Store, job: Job, error: str, *, now_ms: int, retry_ms: int | None = None, counts: bool = True) -> bool:
    """The attempt failed. retry_ms: try again after so long, at most three times in all; None: for good.

    counts: False = this attempt is not one of the three.

    False: the job was cancelled or another's by then. Whether it is queued again or failed is told by `get`.
    """
    if retry_ms is not None and (job.attempts < MAX_ATTEMPTS or not counts):
        change = "state = 'queued', error = :error, not_before_ms = :later"
        change += "" if counts else ", attempts = attempts - 1"
        return _change(store, job, change, {"error": error, "later": now_ms + retry_ms})
    return _change(store, job, "state = 'failed', error = :error, finished_ms = :now", {"error": error, "now": now_ms})


def release(store: Store, job: Job) -> bool:
    """Give a job back as its worker ends: the attempt does not count. False: it was cancelled or another's by then."""
    return _change(store, job, "state = 'queued', attempts = attempts - 1", {})


def cancel(store: Store, job_id: str, *, now_ms: int) -> bool:
    """Cancel a job that has not ended. Its worker learns of it at its next `progress`. False: it had ended, or never was."""
    change = "UPDATE jobs SET state = 'cancelled', finished_ms = ? WHERE id = ? AND state IN ('queued', 'running')"
    with store.write() as connection:
        return connection.exec_driver_sql(change, (now_ms, job_id)).rowcount == 1


def get(connection: Connection, job_id: str) -> Job | None:
    row = connection.exec_driver_sql(f"SELECT {_COLUMNS} FROM jobs WHERE id = ?", (job_id,)).first()  # noqa: S608
    return _job(row) if row else None


def of_act(connection: Connection, act_id: str) -> Job | None:
    """Return the act's job."""
    row = connection.exec_driver_sql(f"SELECT {_COLUMNS} FROM jobs WHERE act_id = ?", (act_id,)).first()  # noqa: S608
    return _job(row) if row else None


def list_recent(connection: Connection, *, limit: int = 50, kind: str | None = None) -> list[Job]:
    """Return the newest jobs first."""
    query = f"SELECT {_COLUMNS} FROM jobs WHERE ? IS NULL OR kind = ? ORDER BY created_ms DESC, id DESC LIMIT ?"  # noqa: S608
    return [_job(row) for row in connection.exec_driver_sql(query, (kind, kind, limit))]


def under_way(connection: Connection, kind: str) -> bool:
    """Return whether a job of this kind is queued or running."""
    row = connection.exec_driver_sql("SELECT 1 FROM jobs WHERE kind = ? AND state IN ('queued', 'running') LIMIT 1", (kind,)).first()
    return row is not None


def trim(store: Store, *, kind: str, before_ms: int) -> int:
    """Delete the jobs of this kind that ended before this time; return how many. For work that no act stands behind."""
    delete = "DELETE FROM jobs WHERE kind = ? AND finished_ms < ? AND state NOT IN ('queued', 'running')"
    with store.write() as connection:
        return connection.exec_driver_sql(delete, (kind, before_ms)).rowcount


def beat(store: Store, *, worker_id: str, started_ms: int, now_ms: int, errors: int = 0) -> None:
    """Say that the worker lives, and how many errors its loop has caught since it started."""
    upsert = """
    INSERT INTO worker_beats (worker_id, started_ms, last_ms, errors) VALUES (?, ?, ?, ?)
    ON CONFLICT (worker_id) DO UPDATE SET started_ms = excluded.started_ms, last_ms = excluded.last_ms, errors = excluded.errors
    """
    with store.write() as connection:
        connection.exec_driver_sql(upsert, (worker_id, started_ms, now_ms, errors))


def beats(connection: Connection) -> list[Beat]:
    """Return every worker ever seen, the last one to beat first."""
    rows = connection.exec_driver_sql("SELECT worker_id, started_ms, last_ms, errors FROM worker_beats ORDER BY last_ms DESC")
    return [Beat(*row) for row in rows]


def _give_up(connection: Connection, now_ms: int, lease_ms: int) -> None:
    reason = f"given up: its worker stopped {MAX_ATTEMPTS} times without an outcome"
    connection.exec_driver_sql(_GIVE_UP, {"now": now_ms, "lease": lease_ms, "reason": reason})


def _change(store: Store, job: Job, change: str, values: Mapping[str, Any]) -> bool:
    with store.write() as connection:
        statement = f"UPDATE jobs SET {change} WHERE {_MINE}"  # noqa: S608 - the changes are the ones above
        return connection.exec_driver_sql(statement, {**values, "id": job.id, "attempt": job.attempts}).rowcount == 1


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(dict(value), sort_keys=True, separators=(",", ":"))


def _job(row: Row[Any]) -> Job:
    values = row._asdict()
    values["parameters"] = json.loads(values["parameters"])
    values["progress"] = json.loads(values["progress"])
    return Job(**values)
