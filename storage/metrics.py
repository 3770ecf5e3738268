"""Scraped samples: writing them, and reading series back."""

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
from storage.rows import SampleRow, SourceKey
from storage.store import Store

NOT_A_NUMBER: Final = "not_a_number"  # the reason under which NaN samples are counted; SQLite has no NaN

_INSERT: Final = "INSERT INTO metric_samples (source_id, name, labels, kind, at_ms, value) VALUES (?, ?, ?, ?, ?, ?)"
_SERIES: Final = """
SELECT labels, kind, at_ms, value FROM metric_samples
WHERE source_id = ? AND name = ? AND at_ms >= ? AND at_ms < ? ORDER BY labels, at_ms, id
"""
_LATEST: Final = """
SELECT name, labels, kind, at_ms, value FROM metric_samples
WHERE source_id = ? AND at_ms = (SELECT max(at_ms) FROM metric_samples WHERE source_id = ? AND name = ?) AND name = ?
ORDER BY labels, id
"""


@dataclass(frozen=True, slots=True)
class Series:
    """One name with one set of labels: its samples by time."""

    name: str
    labels: Mapping[str, str]
    kind: str
    at_ms: tuple[int, ...]
    values: tuple[float, ...]


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


def record_scrape_error(store: Store, source: SourceKey, error: str, now_ms: int) -> None:
    """Keep what went wrong. last_seen_ms stays at the last good scrape, 0 for a target that never answered."""
    with store.write() as connection:
        source_id = sources.find_or_make(connection, source, now_ms=now_ms, seen=False)
        sources.note_error(connection, source_id, error, now_ms=now_ms)


def series(
    connection: Connection, source_id: int, name: str, *, start_ms: int, end_ms: int, labels: Mapping[str, str] | None = None
) -> list[Series]:
    """Return the series of a name in [start, end), one a set of labels; `labels` keeps those that carry all of them."""
    found: dict[str, tuple[str, list[int], list[float]]] = {}
    for text, kind, at_ms, value in connection.exec_driver_sql(_SERIES, (source_id, name, start_ms, end_ms)):
        _, times, values = found.setdefault(text, (kind, [], []))
        times.append(at_ms)
        values.append(value)
    wanted = (labels or {}).items()
    result = []
    for text, (kind, times, values) in found.items():
        own: dict[str, str] = json.loads(text)
        if wanted <= own.items():
            result.append(Series(name, own, kind, tuple(times), tuple(values)))
    return result


def latest(connection: Connection, source_id: int, name: str) -> list[Series]:
    """Return the newest scrape's samples of a name, one a set of labels; empty when there is none."""
    rows = connection.exec_driver_sql(_LATEST, (source_id, source_id, name, name))
    return [Series(row.name, json.loads(row.labels), row.kind, (row.at_ms,), (row.value,)) for row in rows]


def names(connection: Connection, source_id: int) -> list[str]:
    """Return the names of all series of a source, sorted."""
    rows = connection.exec_driver_sql("SELECT DISTINCT name FROM metric_samples WHERE source_id = ? ORDER BY name", (source_id,))
    return list(rows.scalars())


def increase(one: Series) -> float | None:
    """Return how much a counter grew over its samples, resets counted from zero; None with fewer than two samples."""
    if len(one.values) < 2:
        return None
    return math.fsum(step(earlier, None, later, None).increase for earlier, later in pairwise(one.values))
