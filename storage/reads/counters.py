"""What counter-only sources counted: increases by series and bucket, their gauges, snapshots and exemplars."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import Connection

from storage.counters import WIDTHS_MS
from storage.metrics import Series, latest
from storage.reads.window import Window

_HOUR_MS = WIDTHS_MS["counter_hours"]
_PARTS = """
SELECT series_id, at_ms, increase, covered_ms, resets, anomalies FROM counter_hours WHERE at_ms >= :first AND at_ms < :last
UNION ALL
SELECT series_id, at_ms, increase, covered_ms, resets, anomalies FROM counter_minutes
WHERE (at_ms >= :start AND at_ms < :first) OR (at_ms >= :last AND at_ms < :end)
"""
_INCREASES = f"""
SELECT s.source_id, s.name, s.labels, m.at_ms / :step * :step AS bucket, sum(m.increase), sum(m.covered_ms), sum(m.resets), sum(m.anomalies)
FROM ({_PARTS}) m JOIN counter_series s ON s.id = m.series_id
GROUP BY s.id, bucket ORDER BY s.source_id, s.name, s.id, bucket
"""  # noqa: S608 - a constant of this module
# Each restart of a sender that pushes makes series of its own, and pods come and go on pages: those that ended long before the window
# are not read. A page that does not answer is said to be without data for a week. CROSS JOIN: sources first, by the index of their series.
_KNOWN = """
SELECT DISTINCT c.source_id, c.name, c.labels FROM sources s CROSS JOIN counter_series c ON c.source_id = s.id
WHERE c.at_ms >= iif(s.kind = 'otlp_metrics', :pushed, :looked_at) AND c.first_ms < :end
"""
_PUSHED_MS, _LOOKED_AT_MS = 24 * _HOUR_MS, 7 * 24 * _HOUR_MS
# Of those that push, each restart is a source of its own: the ones seen last are looked at.
_SAMPLED = """
SELECT id FROM sources WHERE kind IN ('scrape', 'prometheus', 'redis') UNION ALL
SELECT id FROM (SELECT id FROM sources WHERE kind = 'otlp_metrics' ORDER BY last_seen_ms DESC LIMIT 50)
"""
# A sender of totals sends an exemplar again with every collection until it has a newer one.
_EXEMPLARS = """
SELECT DISTINCT e.*, EXISTS (SELECT 1 FROM trace_summaries t WHERE t.trace_id = e.trace_id) FROM (
  SELECT source_id, name, labels, at_ms, value, trace_id FROM metric_exemplars
  WHERE at_ms >= ? AND at_ms < ? AND trace_id IS NOT NULL ORDER BY at_ms DESC LIMIT 500
) e ORDER BY e.at_ms DESC, e.value DESC LIMIT ?
"""


@dataclass(frozen=True, slots=True)
class Increase:
    """What one series grew by in a bucket. covered_ms: the time between the readings that this rests on."""

    source_id: int
    name: str
    labels: Mapping[str, str]
    at_ms: int
    increase: float
    covered_ms: int
    resets: int
    anomalies: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The newest state of a source under a topic."""

    source_id: int
    topic: str
    at_ms: int
    body: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Exemplar:
    """One measurement behind a data point. stored: whether spans of its trace are here."""

    source_id: int
    name: str
    labels: Mapping[str, str]
    at_ms: int
    value: float
    trace_id: bytes
    stored: bool


def increases(conn: Connection, window: Window) -> list[Increase]:
    """Return the increases of all series in the window's buckets; buckets without a reading are not there.

    Whole hours of a wide window are read as hours, its ends as minutes.
    """
    first = last = window.start_ms
    if window.bucket_ms % _HOUR_MS == 0:
        first = min(-(-window.start_ms // _HOUR_MS) * _HOUR_MS, window.end_ms)
        last = max(first, window.end_ms // _HOUR_MS * _HOUR_MS)
    values = {"step": window.bucket_ms, "start": window.start_ms, "end": window.end_ms, "first": first, "last": last}
    rows = conn.exec_driver_sql(_INCREASES, values)
    parsed: dict[str, dict[str, str]] = {}
    found = []
    for source_id, name, labels, *rest in rows:
        if labels not in parsed:
            parsed[labels] = json.loads(labels)
        found.append(Increase(source_id, name, parsed[labels], *rest))
    return found


def known(conn: Connection, window: Window) -> dict[int, list[tuple[str, Mapping[str, str]]]]:
    """Return the counters (name, labels) that each source had before the window ended, and less than a week before it began; of those
    that push, less than a day.
    """
    found: dict[int, list[tuple[str, Mapping[str, str]]]] = {}
    parsed: dict[str, Mapping[str, str]] = {}  # restarts repeat the same labels
    bounds = {"end": window.end_ms, "pushed": window.start_ms - _PUSHED_MS, "looked_at": window.start_ms - _LOOKED_AT_MS}
    for source_id, name, labels in conn.exec_driver_sql(_KNOWN, bounds):
        if labels not in parsed:
            parsed[labels] = json.loads(labels)
        found.setdefault(source_id, []).append((name, parsed[labels]))
    return found


def gauges(conn: Connection, names: Iterable[str]) -> dict[int, list[Series]]:
    """Return the newest values of these gauges by source. What a level changed by is no level, whatever its sender calls it."""
    wanted = sorted(names)
    found = {
        source_id: [one for name in wanted for one in latest(conn, source_id, name) if not one.kind.endswith("_delta")]
        for source_id in conn.exec_driver_sql(_SAMPLED).scalars()
    }
    return {source_id: series for source_id, series in found.items() if series}


def snapshots(conn: Connection) -> list[Snapshot]:
    """Return the newest snapshots of all sources."""
    rows = conn.exec_driver_sql("SELECT source_id, topic, at_ms, body FROM source_snapshots ORDER BY source_id, topic")
    return [Snapshot(row[0], row[1], row[2], json.loads(row[3])) for row in rows]


def exemplars(conn: Connection, window: Window, *, limit: int = 20) -> list[Exemplar]:
    """Return the window's newest exemplars that name a trace."""
    rows = conn.exec_driver_sql(_EXEMPLARS, (window.start_ms, window.end_ms, limit))
    return [Exemplar(row[0], row[1], json.loads(row[2]), row[3], row[4], row[5], bool(row[6])) for row in rows]
