"""What the worker computed ahead, for pages to show with its age. One row for each kind, namespace and horizon: the newest.

Of what pages compare with what was before, a kind of its own keeps the figures: its horizon is the hour in which they were computed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from storage.store import Store


@dataclass(frozen=True, slots=True)
class Analysis:
    """A row of `analyses`, with its JSON read. result: None = there was too little data. lookups: of the namespace in that time."""

    kind: str
    namespace: str
    horizon: str
    at_ms: int
    start_ms: int
    end_ms: int
    lookups: int
    parameters: Mapping[str, Any]
    result: Mapping[str, Any] | None


def put(store: Store, analysis: Analysis) -> None:
    """Store an analysis in place of its earlier one. One that was computed earlier than what is stored is dropped."""
    upsert = """
    INSERT INTO analyses (kind, namespace, horizon, at_ms, start_ms, end_ms, lookups, parameters, result) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
    ON CONFLICT (kind, namespace, horizon) DO UPDATE
    SET at_ms = excluded.at_ms, start_ms = excluded.start_ms, end_ms = excluded.end_ms, lookups = excluded.lookups,
        parameters = excluded.parameters, result = excluded.result
    WHERE excluded.at_ms >= analyses.at_ms
    """
    told = (_text(analysis.parameters), _text(analysis.result))
    head = (analysis.kind, analysis.namespace, analysis.horizon, analysis.at_ms, analysis.start_ms, analysis.end_ms, analysis.lookups)
    with store.write() as connection:
        connection.exec_driver_sql(upsert, (*head, *told))


_COLUMNS = "kind, namespace, horizon, at_ms, start_ms, end_ms, lookups, parameters, result"


def newest(connection: Connection, *, kind: str, horizon: str) -> list[Analysis]:
    """Return the newest analysis of each namespace, by name."""
    query = f"SELECT {_COLUMNS} FROM analyses WHERE kind = ? AND horizon = ? ORDER BY namespace"  # noqa: S608 - names from above
    return [_read(row) for row in connection.exec_driver_sql(query, (kind, horizon))]


def one(connection: Connection, *, kind: str, namespace: str, horizon: str) -> Analysis | None:
    """Return the newest analysis of one namespace; None when there is none."""
    query = f"SELECT {_COLUMNS} FROM analyses WHERE kind = ? AND namespace = ? AND horizon = ?"  # noqa: S608 - names from above
    row = connection.exec_driver_sql(query, (kind, namespace, horizon)).first()
    return None if row is None else _read(row)


def of(connection: Connection, *, kind: str, namespace: str) -> list[Analysis]:
    """Return a namespace's analyses of this kind, of every horizon, the newest first."""
    query = f"SELECT {_COLUMNS} FROM analyses WHERE kind = ? AND namespace = ? ORDER BY at_ms DESC"  # noqa: S608 - names from above
    return [_read(row) for row in connection.exec_driver_sql(query, (kind, namespace))]


def between(connection: Connection, *, kind: str, first: str, last: str) -> list[Analysis]:
    """Return the analyses of this kind whose horizons lie from first to last, both of them too, in order of namespace and horizon."""
    query = f"SELECT {_COLUMNS} FROM analyses WHERE kind = ? AND horizon BETWEEN ? AND ? ORDER BY namespace, horizon"  # noqa: S608 - names from above
    return [_read(row) for row in connection.exec_driver_sql(query, (kind, first, last))]


def ages(connection: Connection, *, kind: str, horizon: str) -> dict[str, int]:
    """Return when each namespace's newest analysis was computed, without reading it."""
    query = "SELECT namespace, at_ms FROM analyses WHERE kind = ? AND horizon = ?"
    return {row.namespace: int(row.at_ms) for row in connection.exec_driver_sql(query, (kind, horizon))}


def _read(row: Any) -> Analysis:
    return Analysis(**{**row._asdict(), **{name: json.loads(row._mapping[name]) for name in ("parameters", "result")}})


def forget(store: Store, *, kind: str, before_ms: int, now_ms: int) -> int:
    """Delete analyses computed before this time: of namespaces without traffic since. Return how many.

    Those of more than a minute from now go too: a clock that was ahead dated them, and nothing would be computed until that time has come.
    """
    delete = "DELETE FROM analyses WHERE kind = ? AND (at_ms < ? OR at_ms > ?)"
    with store.write() as connection:
        return connection.exec_driver_sql(delete, (kind, before_ms, now_ms + 60_000)).rowcount


def _text(value: Mapping[str, Any] | None) -> str:
    """NaN has no JSON: a result that holds one is a bug, and raises ValueError."""
    return json.dumps(None if value is None else dict(value), sort_keys=True, separators=(",", ":"), allow_nan=False)
