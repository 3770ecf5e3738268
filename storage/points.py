"""Writing the data points of metrics that senders sent: each once, as samples, and those that are counters as increases too."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from sqlalchemy import Connection

from storage import retention, sources
from storage.counters import NOT_A_COUNT, Counting
from storage.metrics import INSERT_SAMPLE
from storage.rows import MetricBatch, PointRows, WriteResult
from storage.store import Store

MOST_COUNTERS: Final = 2_000  # of one sender, as of a scrape target: more are summed, or left out, and said to be
# Points of one collection carry times of their own; the next collection is seconds away.
_COLLECTION_MS: Final = 1_000
TIME_IN_FUTURE: Final = "time_in_future"  # the reason under which such points are refused
# A sender's clock may be ahead of ours by this, as Prometheus and Loki let it. What is later would be the newest until that time comes.
AHEAD_MS: Final = 10 * 60_000
_INSERT_EXEMPLAR: Final = """
INSERT INTO metric_exemplars (source_id, name, labels, at_ms, value, trace_id, span_id, attributes) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
_TIMES: Final = 64  # of a statement: always as many, so that it is prepared once
_PRESENT: Final = f"""
SELECT labels, at_ms, start_ms FROM metric_samples WHERE source_id = ? AND name = ? AND at_ms IN ({", ".join("?" * _TIMES)})
"""  # noqa: S608 - marks alone

_Identity = tuple[str, str, int, int | None]  # name, labels, time, start: processes that send as one source may look at one time


def write(store: Store, batches: Sequence[MetricBatch], *, now_ms: int, since_ms: int) -> list[WriteResult]:
    """Store data points in one transaction and return what each batch added, in order. A point that is there already is a duplicate:
    a resend must not count an increase twice. One from before the time whose rows were removed is refused as `expired`, one of more than
    ten minutes from now as `time_in_future`.

    A point is the same when source, name, labels, time and start are. since_ms: from when on senders were listened to: of one that is new,
    what was counted by a process that began later was all sent here.
    Raises as storage.spans.write does.
    """
    if not batches:
        return []
    with store.write() as connection:
        from_ms = retention.raw_from_ms(connection)
        return [_write(connection, batch, from_ms=from_ms, now_ms=now_ms, since_ms=since_ms) for batch in batches]


def _write(connection: Connection, batch: MetricBatch, *, from_ms: int, now_ms: int, since_ms: int) -> WriteResult:
    newest_ms = sources.newest_ms(connection, batch.source)
    source_id = sources.find_or_make(connection, batch.source, now_ms=now_ms)
    rejects = Counter(batch.rejects)
    points = []
    for point in batch.points:
        at_ms = point.samples[0].at_ms
        if from_ms <= at_ms <= now_ms + AHEAD_MS:
            points.append(point)
        else:
            rejects[retention.EXPIRED if at_ms < from_ms else TIME_IN_FUTURE] += 1
    fresh = _fresh(connection, source_id, points)
    if samples := [(source_id, *row) for point in fresh for row in point.samples]:
        connection.exec_driver_sql(INSERT_SAMPLE, samples)
    if exemplars := [(source_id, *row) for point in fresh for row in point.exemplars if row.at_ms <= now_ms + AHEAD_MS]:
        connection.exec_driver_sql(_INSERT_EXEMPLAR, exemplars)
    refused = _count(connection, source_id, fresh, newest_ms=newest_ms, now_ms=now_ms, since_ms=since_ms)
    if refused:
        rejects[NOT_A_COUNT] += refused
    result = WriteResult(len(fresh), len(points) - len(fresh), 0)
    newest = max((point.samples[0].at_ms for point in fresh), default=None)
    sources.count(connection, source_id, accepted=result.accepted, duplicates=result.duplicates, dropped=batch.dropped, last_span_ms=newest)
    if rejects:
        sources.add_rejects(connection, source_id, rejects, now_ms=now_ms)
    return result


def _count(connection: Connection, source_id: int, fresh: Sequence[PointRows], *, newest_ms: int | None, now_ms: int, since_ms: int) -> int:
    """Count what the counters among the points grew by; return how many values are no count.

    newest_ms: of the source's points before these. A sender of totals sends all that it has with every collection: a series that an
    earlier one did not show has begun since.
    """
    readings = [one for point in fresh for one in point.readings]
    if not readings:
        return 0
    complete = newest_ms is not None and min(one.at_ms for one in readings) >= newest_ms + _COLLECTION_MS
    from_ms = since_ms if newest_ms is None else min(newest_ms, since_ms)
    counted = Counting(connection, source_id, from_ms=from_ms, complete=complete, max_series=MOST_COUNTERS, now_ms=now_ms, exact=True)
    counted.take(readings)
    if counted.faults:
        sources.note_error(connection, source_id, counted.faults, now_ms=now_ms)
    else:
        sources.clear_error(connection, source_id)
    return counted.refused


def _stored(connection: Connection, source_id: int, points: Sequence[PointRows]) -> set[_Identity]:
    """Return the identities of the source's samples of these names and times."""
    times: dict[str, set[int]] = {}
    for point in points:
        times.setdefault(point.samples[0].name, set()).add(point.samples[0].at_ms)
    found: set[_Identity] = set()
    for name, several in times.items():
        # By time, never by a range of times: one point of long ago would make it all that is stored.
        wanted: list[int | None] = [*several]
        for start in range(0, len(wanted), _TIMES):
            part = wanted[start : start + _TIMES]
            values = (source_id, name, *part, *[None] * (_TIMES - len(part)))
            found.update((name, labels, at_ms, start_ms) for labels, at_ms, start_ms in connection.exec_driver_sql(_PRESENT, values))
    return found


def _fresh(connection: Connection, source_id: int, points: Sequence[PointRows]) -> list[PointRows]:
    """Return the points that are not stored yet, each once."""
    seen = _stored(connection, source_id, points)
    fresh = []
    for point in points:
        first = point.samples[0]
        identity = (first.name, first.labels, first.at_ms, first.start_ms)
        if identity not in seen:
            seen.add(identity)
            fresh.append(point)
    return fresh
