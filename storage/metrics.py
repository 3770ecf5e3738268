"""Samples, scraped or sent by OTLP: writing them, and reading series back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from sqlalchemy import Connection

from storage import sources
from storage.increases import step
from storage.rows import MetricBatch, PointRows, SampleRow, SourceKey, WriteResult
from storage.store import Store

NOT_A_NUMBER: Final = "not_a_number"  # the reason under which NaN samples are counted; SQLite has no NaN

DELTA: Final = "_delta"  # ends the kind of a sample that is an increase since its start, not a total

_INSERT: Final = "INSERT INTO metric_samples (source_id, name, labels, kind, at_ms, value, start_ms) VALUES (?, ?, ?, ?, ?, ?, ?)"
_INSERT_EXEMPLAR: Final = """
INSERT INTO metric_exemplars (source_id, name, labels, at_ms, value, trace_id, span_id, attributes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_PRESENT: Final = "SELECT labels, at_ms FROM metric_samples WHERE source_id = ? AND name = ? AND at_ms BETWEEN ? AND ?"
_SERIES: Final = """
SELECT labels, kind, at_ms, value, start_ms FROM metric_samples
WHERE source_id = ? AND name = ? AND at_ms >= ? AND at_ms < ? ORDER BY labels, at_ms, id
"""
_LATEST: Final = """
SELECT name, labels, kind, at_ms, value, start_ms FROM metric_samples
WHERE source_id = ? AND at_ms = (SELECT max(at_ms) FROM metric_samples WHERE source_id = ? AND name = ?) AND name = ?
ORDER BY labels, id
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
    return json.dumps(dict(labels), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def insert_samples(connection: Connection, source_id: int, samples: Sequence[SampleRow]) -> tuple[int, dict[str, int]]:
    """Insert samples in the transaction; return how many, and how many were refused by reason."""
    kept = [row for row in samples if not math.isnan(row.value)]
    if kept:
        connection.exec_driver_sql(_INSERT, [(source_id, *row) for row in kept])
    return len(kept), {NOT_A_NUMBER: len(samples) - len(kept)} if len(kept) < len(samples) else {}


def write_samples(store: Store, source: SourceKey, samples: Sequence[SampleRow], *, now_ms: int) -> int:
    """Store one scrape's samples and return how many. A good scrape clears the source's last error."""
    with store.write() as connection:
        source_id = sources.find_or_make(connection, source, now_ms=now_ms)
        stored, refused = insert_samples(connection, source_id, samples)
        newest = max((row.at_ms for row in samples if not math.isnan(row.value)), default=None)
        sources.count(connection, source_id, accepted=stored, last_span_ms=newest)
        if refused:
            sources.add_rejects(connection, source_id, refused, now_ms=now_ms)
        sources.clear_error(connection, source_id)
    return stored


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


def _fresh(connection: Connection, source_id: int, points: Sequence[PointRows]) -> list[PointRows]:
    """Return the points that are not stored yet, each once."""
    times: dict[str, list[int]] = {}
    for point in points:
        times.setdefault(point.samples[0].name, []).append(point.samples[0].at_ms)
    seen = {
        (name, labels, at_ms)
        for name, at in times.items()
        for labels, at_ms in connection.exec_driver_sql(_PRESENT, (source_id, name, min(at), max(at)))
    }
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


def series(
    connection: Connection, source_id: int, name: str, *, start_ms: int, end_ms: int, labels: Mapping[str, str] | None = None
) -> list[Series]:
    """Return the series of a name in [start, end), one a set of labels; `labels` keeps those that carry all of them."""
    found: dict[str, tuple[str, list[int], list[float], list[int | None]]] = {}
    for text, kind, at_ms, value, began_ms in connection.exec_driver_sql(_SERIES, (source_id, name, start_ms, end_ms)):
        _, times, values, began = found.setdefault(text, (kind, [], [], []))
        times.append(at_ms)
        values.append(value)
        began.append(began_ms)
    wanted = (labels or {}).items()
    result = []
    for text, (kind, times, values, began) in found.items():
        own: dict[str, str] = json.loads(text)
        if wanted <= own.items():
            result.append(Series(name, own, kind, tuple(times), tuple(values), tuple(began)))
    return result


def latest(connection: Connection, source_id: int, name: str) -> list[Series]:
    """Return the newest scrape's samples of a name, one a set of labels; empty when there is none."""
    rows = connection.exec_driver_sql(_LATEST, (source_id, source_id, name, name))
    return [Series(row.name, json.loads(row.labels), row.kind, (row.at_ms,), (row.value,), (row.start_ms,)) for row in rows]


def names(connection: Connection, source_id: int) -> list[str]:
    """Return the names of all series of a source, sorted."""
    rows = connection.exec_driver_sql("SELECT DISTINCT name FROM metric_samples WHERE source_id = ? ORDER BY name", (source_id,))
    return list(rows.scalars())


def increase(one: Series) -> float | None:
    """Return how much a counter grew over its samples; None when they do not tell.

    Totals: the sum of differences, resets counted from zero; a reset is a fall, or a later start. None with fewer than two samples.
    Increases (a kind that ends in `_delta`): their sum. None without a sample.
    """
    if one.kind.endswith(DELTA):
        return math.fsum(one.values) if one.values else None
    if len(one.values) < 2:
        return None
    starts = one.start_ms or (None,) * len(one.values)
    points = list(zip(one.values, starts, strict=True))
    return math.fsum(step(earlier, before, later, after).increase for (earlier, before), (later, after) in pairwise(points))
