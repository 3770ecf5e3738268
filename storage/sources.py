"""The rows of `sources` and `rejects`: who sent what, and what was refused."""

from __future__ import annotations

import json
from collections.abc import Mapping

from sqlalchemy import Connection

from storage.rows import SourceKey

# Seen an hour or more from now: a clock that was ahead said so, and a source that falls silent must not look alive until then.
_FIND_OR_MAKE = """
INSERT INTO sources (kind, service, instance, scope, dialect, demo, first_seen_ms, last_seen_ms,
                     accepted, duplicates, lookups, described, calls, dropped, missing, call_facts, last_error)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, 0, 0, 0, 0, 0, '{}', '{}', '')
ON CONFLICT (kind, service, instance, scope, dialect) DO UPDATE
SET demo = excluded.demo, last_seen_ms = CASE WHEN excluded.last_seen_ms BETWEEN 1 AND last_seen_ms - 3600000
  THEN excluded.last_seen_ms ELSE max(last_seen_ms, excluded.last_seen_ms) END
RETURNING id
"""
_COUNT = """
UPDATE sources
SET accepted = accepted + ?, duplicates = duplicates + ?, lookups = lookups + ?, described = described + ?, calls = calls + ?,
    dropped = dropped + ?,
    last_span_ms = coalesce(max(last_span_ms, ?), last_span_ms, ?)
WHERE id = ?
"""
_NEWEST = "SELECT last_span_ms FROM sources WHERE kind = ? AND service = ? AND instance = ? AND scope = ? AND dialect = ?"
_REJECT = """
INSERT INTO rejects (source_id, reason, count, last_ms) VALUES (?, ?, ?, ?)
ON CONFLICT (source_id, reason) DO UPDATE SET count = count + excluded.count, last_ms = max(last_ms, excluded.last_ms)
"""


def find_or_make(connection: Connection, source: SourceKey, *, now_ms: int, seen: bool = True) -> int:
    """Return the source's id; note that it was seen. seen=False: it did not answer; last_seen_ms stays, 0 for one never seen."""
    last_seen_ms = now_ms if seen else 0
    values = (source.kind, source.service, source.instance, source.scope, source.dialect, source.demo, now_ms, last_seen_ms)
    return int(connection.exec_driver_sql(_FIND_OR_MAKE, values).scalar_one())


def newest_ms(connection: Connection, source: SourceKey) -> int | None:
    """Return the time of the newest row stored of a source, None when there is none."""
    row = connection.exec_driver_sql(_NEWEST, (source.kind, source.service, source.instance, source.scope, source.dialect)).first()
    return row[0] if row else None


def count(
    connection: Connection,
    source_id: int,
    *,
    accepted: int = 0,
    duplicates: int = 0,
    lookups: int = 0,
    described: int = 0,
    calls: int = 0,
    dropped: int = 0,
    last_span_ms: int | None = None,
) -> None:
    """Add to the source's counters; last_span_ms only moves forward."""
    counted = (accepted, duplicates, lookups, described, calls, dropped)
    connection.exec_driver_sql(_COUNT, (*counted, last_span_ms, last_span_ms, source_id))


def add_missing(connection: Connection, source_id: int, missing: Mapping[str, int]) -> None:
    """Add to the counts of lookups that lacked a field."""
    _add(connection, source_id, "missing", missing)


def add_call_facts(connection: Connection, source_id: int, facts: Mapping[str, int]) -> None:
    """Add to the counts of what the source's descriptions of model calls told (`storage.calls.facts`)."""
    _add(connection, source_id, "call_facts", facts)


def _add(connection: Connection, source_id: int, column: str, counts: Mapping[str, int]) -> None:
    stored = connection.exec_driver_sql(f"SELECT {column} FROM sources WHERE id = ?", (source_id,)).scalar_one()  # noqa: S608 - ours
    total: dict[str, int] = json.loads(stored)
    for name, number in counts.items():
        total[name] = total.get(name, 0) + number
    text = json.dumps(total, sort_keys=True, separators=(",", ":"))
    connection.exec_driver_sql(f"UPDATE sources SET {column} = ? WHERE id = ?", (text, source_id))  # noqa: S608


def add_rejects(connection: Connection, source_id: int, rejects: Mapping[str, int], *, now_ms: int) -> None:
    """Count refused spans, points or samples by reason."""
    connection.exec_driver_sql(_REJECT, [(source_id, reason, number, now_ms) for reason, number in rejects.items()])


def note_error(connection: Connection, source_id: int, error: str, *, now_ms: int) -> None:
    """Keep the last thing that went wrong with this source."""
    connection.exec_driver_sql("UPDATE sources SET last_error = ?, last_error_ms = ? WHERE id = ?", (error, now_ms, source_id))


def clear_error(connection: Connection, source_id: int) -> None:
    """The source is well again. When it was not stays in last_error_ms."""
    connection.exec_driver_sql("UPDATE sources SET last_error = '' WHERE id = ? AND last_error <> ''", (source_id,))
