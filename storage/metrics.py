"""Samples, scraped or sent by OTLP: their stored form, and reading the newest back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson
from sqlalchemy import Connection

from storage import sources
from storage.rows import SampleRow, SourceKey
from storage.store import Store

NOT_A_NUMBER: Final = "not_a_number"  # the reason under which NaN samples are counted; SQLite has no NaN

INSERT_SAMPLE: Final = "INSERT INTO metric_samples (source_id, name, labels, kind, at_ms, value, start_ms) VALUES (?, ?, ?, ?, ?, ?, ?)"
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
        connection.exec_driver_sql(INSERT_SAMPLE, [(source_id, *row) for row in kept])
    return len(kept), {NOT_A_NUMBER: len(samples) - len(kept)} if len(kept) < len(samples) else {}


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
