"""Samples, scraped or sent by OTLP: writing them, and reading the newest back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson
from sqlalchemy import Connection

from storage import sources
from storage.rows import MetricBatch, PointRows, SampleRow, SourceKey, WriteResult
from storage.store import Store

NOT_A_NUMBER: Final = "not_a_number"  # the reason under which NaN samples are counted; SQLite has no NaN

_INSERT: Final = "INSERT INTO metric_samples (source_id, name, labels, kind, at_ms, value, start_ms) VALUES (?, ?, ?, ?, ?, ?, ?)"
_INSERT_EXEMPLAR: Final = """
INSERT INTO metric_exemplars (source_id, name, labels, at_ms, value, trace_id, span_id, attributes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_TIMES: Final = 64  # of a statement: always as many, so that it is prepared once
_PRESENT: Final = f"""
SELECT labels, at_ms FROM metric_samples WHERE source_id = ? AND name = ? AND at_ms IN ({", ".join("?" * _TIMES)})
"""  # noqa: S608 - marks alone
_FRESH_MS: Final = 5 * 60_000  # as Prometheus itself: a series that has had no value for so long is gone
_LATEST: Final = """
SELECT name, labels, kind, max(at_ms) AS at_ms, value, start_ms FROM metric_samples
WHERE source_id = ? AND name = ? AND at_ms > (SELECT max(at_ms) FROM metric_samples WHERE source_id = ? AND name = ?) - ?
GROUP BY labels ORDER BY labels
"""


@dataclass(frozen=True, slots=True)
class Series:
    """One name with one set of labels: its samples by time. start_ms: when the count of each began, None = not told."""

    name: str
    labels: Mapping[str, str]
    kind: str
    at_ms: tuple[int, ...]
    values: tuple[float, ...]
    start_ms: tuple[int | None, ...] = ()


def labels_text(labels: Mapping[str, str]) -> str:
    """Return the one form in which a set of labels is stored."""
    return orjson.dumps(labels, option=orjson.OPT_SORT_KEYS).decode()


def insert_samples(connection: Connection, source_id: int, samples: Sequence[SampleRow]) -> tuple[int, dict[str, int]]:
    """Insert samples in the transaction; return how many, and how many were refused by reason."""
    kept = [row for row in samples if not math.isnan(row.value)]
    if kept:
        connection.exec_driver_sql(_INSERT, [(source_id, *row) for row in kept])
    return len(kept), {NOT_A_NUMBER: len(samples) - len(kept)} if len(kept) < len(samples) else {}


def write_points(store: Store, batches: Sequence[MetricBatch], *, now_ms: int) -> list[WriteResult]:
    """Store data points in one transaction and return what each batch added, in order. A point that is there already is a duplicate:
    a resend must not count an increase twice.

    A point is the same when source, name, labels and time are. Raises as storage.spans.write does.
    """
    if not batches:
        return []
    results = []
    with store.write() as connection:
        for batch in batches:
            source_id = sources.find_or_make(connection, batch.source, now_ms=now_ms)
            fresh = _fresh(connection, source_id, batch.points)
            samples = [(source_id, *row) for point in fresh for row in point.samples]
            if samples:
                connection.exec_driver_sql(_INSERT, samples)
            exemplars = [(source_id, *row) for point in fresh for row in point.exemplars]
            if exemplars:
                connection.exec_driver_sql(_INSERT_EXEMPLAR, exemplars)
            result = WriteResult(len(fresh), len(batch.points) - len(fresh), 0)
            newest = max((point.samples[0].at_ms for point in fresh), default=None)
            sources.count(
                connection, source_id, accepted=result.accepted, duplicates=result.duplicates, dropped=batch.dropped, last_span_ms=newest
            )
            if batch.rejects:
                sources.add_rejects(connection, source_id, batch.rejects, now_ms=now_ms)
            results.append(result)
    return results


def _stored(connection: Connection, source_id: int, points: Sequence[PointRows]) -> set[tuple[str, str, int]]:
    """Return the identity (name, labels, time) of the source's samples of these names and times."""
    times: dict[str, set[int]] = {}
    for point in points:
        times.setdefault(point.samples[0].name, set()).add(point.samples[0].at_ms)
    found: set[tuple[str, str, int]] = set()
    for name, several in times.items():
        # By time, never by a range of times: one point of long ago would make it all that is stored.
        wanted: list[int | None] = [*several]
        for start in range(0, len(wanted), _TIMES):
            part = wanted[start : start + _TIMES]
            values = (source_id, name, *part, *[None] * (_TIMES - len(part)))
            found.update((name, labels, at_ms) for labels, at_ms in connection.exec_driver_sql(_PRESENT, values))
    return found


def _fresh(connection: Connection, source_id: int, points: Sequence[PointRows]) -> list[PointRows]:
    """Return the points that are not stored yet, each once."""
    seen = _stored(connection, source_id, points)
    fresh = []
    for point in points:
        first = point.samples[0]
        identity = (first.name, first.labels, first.at_ms)
        if identity not in seen:
            seen.add(identity)
            fresh.append(point)
    return fresh


def record_scrape_error(store: Store, source: SourceKey, error: str, now_ms: int) -> None:
    """Keep what went wrong. last_seen_ms stays at the last good scrape, 0 for a target that never answered."""
    with store.write() as connection:
        source_id = sources.find_or_make(connection, source, now_ms=now_ms, seen=False)
        sources.note_error(connection, source_id, error, now_ms=now_ms)


def latest(connection: Connection, source_id: int, name: str) -> list[Series]:
    """Return the newest sample of each set of labels of a name, of the five minutes before the newest of all; empty when there is none.

    The targets behind one source are looked at at different times.
    """
    rows = connection.exec_driver_sql(_LATEST, (source_id, name, source_id, name, _FRESH_MS))
    return [Series(row.name, json.loads(row.labels), row.kind, (row.at_ms,), (row.value,), (row.start_ms,)) for row in rows]
