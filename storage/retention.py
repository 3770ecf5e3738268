"""Removing what is too old, or too much: raw rows first, then minutes, then hours, in transactions that nobody notices.

What was removed is noted in `removed` in the same transaction, before the rows go: the console can say so, and a span that comes again
from before that time is refused. It would be counted twice, for what it was counted by is still there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

from sqlalchemy import Connection

from storage.rollups import NARROW
from storage.settings import StorageSettings
from storage.store import Store

_DAY_MS: Final = 86_400_000
_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 3_600_000
# A thousand spans with their payloads go in about 20 ms: a commit that waits behind it is not felt.
_ROWS: Final = 1_000
_PAGES: Final = 256  # given back to the file system in one transaction, 1 MiB
# Free pages that are kept: the next rows need them, and giving pages back costs a copy of others.
_SPARE_RATIO: Final = 0.05
_SPARE_PAGES: Final = 2_048
_LOW_WATER: Final = 0.95  # once above keep_bytes, room is made down to this: not every row is then followed by a removal
_YOUNGEST_MS: Final = _HOUR_MS  # never removed for want of room: it is what a page shows first


class _Table(NamedTuple):
    """time: a column that an index orders by; unit: how many of its units are a millisecond."""

    name: str
    time: str
    unit: int = 1


@dataclass(frozen=True, slots=True)
class _Kind:
    """Rows that go together. width_ms: the horizon is a multiple of it."""

    name: str
    tables: tuple[_Table, ...]
    width_ms: int


def _narrow(of: str) -> tuple[_Table, ...]:
    return tuple(_Table(name, "at_ms") for name, narrow in NARROW.items() if narrow.of == of)


RAW: Final = "raw"
EXPIRED: Final = "expired"  # the reason under which what began before removed rows is refused: it may have been counted before
_SPANS: Final = _Table("spans", "start_ns", 1_000_000)
_TRACES: Final = _Table("trace_summaries", "start_ns", 1_000_000)
_SAMPLES: Final = _Table("metric_samples", "at_ms")
_EXEMPLARS: Final = _Table("metric_exemplars", "at_ms")
# Both have a few rows for each source, and no index by time: they are kept by number too, so that looking through them costs nothing.
_SNAPSHOTS: Final = _Table("source_snapshots", "at_ms")
_REJECTS: Final = _Table("rejects", "last_ms")
_MOST_OF_SOURCES: Final = 10_000
_KINDS: Final = (
    _Kind(RAW, (_SPANS, _Table("lookups", "at_ms"), _TRACES, _SAMPLES, _EXEMPLARS, _SNAPSHOTS), _MINUTE_MS),
    _Kind("rollups_10s", (_Table("rollups_10s", "at_ms"),), _MINUTE_MS),
    _Kind("rollups_1m", (_Table("rollups_1m", "at_ms"), *_narrow("rollups_1m"), _Table("counter_minutes", "at_ms")), _HOUR_MS),
    # Six hours of the widest rows go together with the hours that they are the sum of.
    _Kind("rollups_1h", (_Table("rollups_1h", "at_ms"), *_narrow("rollups_1h"), _Table("counter_hours", "at_ms"), _REJECTS), 6 * _HOUR_MS),
)
_NOTE: Final = """
INSERT INTO removed (kind, before_ms, rows, last_ms, by_size) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (kind) DO UPDATE SET before_ms = max(before_ms, excluded.before_ms), rows = rows + excluded.rows,
  last_ms = excluded.last_ms, by_size = excluded.by_size
"""
# A horizon ahead of now is a clock's that was ahead: all before now is gone, and what comes from now on was never counted.
_PUT_RIGHT: Final = "UPDATE removed SET before_ms = ? WHERE kind = ? AND before_ms > ?"

# A counter that nothing is left of, and that was not seen since: pods and models come and go, each with series of its own.
_FORGET: Final = """
DELETE FROM counter_series WHERE id IN (
  SELECT s.id FROM counter_series s WHERE s.at_ms < ? AND NOT EXISTS (SELECT 1 FROM counter_hours h WHERE h.series_id = s.id) LIMIT ?
)
"""


@dataclass(frozen=True, slots=True)
class Step:
    """What one transaction did. more: there may be more to do at once. kind: '' when it removed no rows."""

    kind: str = ""
    rows: int = 0
    more: bool = False


@dataclass(frozen=True, slots=True)
class Size:
    """bytes: of the pages in use. file_bytes: of the whole file, without its log."""

    bytes: int
    file_bytes: int


class Sweeper:
    """Removes step by step; `step` is called on the writer's thread, and between two steps others may write."""

    def __init__(
        self,
        store: Store,
        settings: StorageSettings,
        *,
        rows: int = _ROWS,
        spare_pages: int = _SPARE_PAGES,
        most_of_sources: int = _MOST_OF_SOURCES,
    ) -> None:
        """rows: about as many of each table in one step. spare_pages: free pages that the file keeps at least. most_of_sources: rows of
        each table that has some for every source.
        """
        self._store = store
        self._settings = settings
        self._rows = rows
        self._spare_pages = spare_pages
        self._most_of_sources = most_of_sources
        self._draining = False
        self.over_bytes = False  # nothing more may be removed, and the limit is still exceeded

    def step(self, *, now_ms: int) -> Step:
        """Do the next small piece of work in one transaction. Raises StorageError."""
        with self._store.write() as connection:
            for kind in _KINDS:
                latest_ms = _floor(now_ms, kind.width_ms) + kind.width_ms
                connection.exec_driver_sql(_PUT_RIGHT, (latest_ms, kind.name, latest_ms))
            for kind, horizon_ms in self._by_age(now_ms):
                rows = self._remove(connection, kind, horizon_ms, now_ms=now_ms, by_size=False)
                if rows:
                    return Step(kind.name, rows, more=True)
            for table in (_SNAPSHOTS, _REJECTS):
                if rows := self._by_number(connection, table):
                    return Step(table.name, rows, more=True)
            done = self._by_size(connection, now_ms)
            if done.rows:
                return done
            return Step(more=_give_back(connection, self._spare_pages))

    def _by_age(self, now_ms: int) -> list[tuple[_Kind, int]]:
        keep = self._settings
        days = (keep.keep_raw_days, keep.keep_raw_days, keep.keep_minutes_days, keep.keep_hours_days)
        return [
            (kind, _floor(now_ms - int(number * _DAY_MS), kind.width_ms)) for kind, number in zip(_KINDS, days, strict=True) if number > 0
        ]

    def _by_size(self, connection: Connection, now_ms: int) -> Step:
        """Remove the oldest raw rows while the limit is exceeded, when none is left minutes; hours never."""
        limit = self._settings.keep_bytes
        used = size(connection).bytes
        self._draining = limit > 0 and used > (limit * _LOW_WATER if self._draining else limit)
        self.over_bytes = False
        if not self._draining:
            return Step()
        for kinds in (_KINDS[:2], _KINDS[2:3]):
            tables = [table for kind in kinds for table in kind.tables]
            horizon_ms = min((at for table in tables if (at := _nth(connection, table, self._rows)) is not None), default=None)
            if horizon_ms is None:
                continue
            width_ms = kinds[0].width_ms
            horizon_ms = min(_floor(horizon_ms, width_ms) + width_ms, _floor(now_ms - _YOUNGEST_MS, width_ms))
            rows = [(kind, self._remove(connection, kind, horizon_ms, now_ms=now_ms, by_size=True)) for kind in kinds]
            if total := sum(number for _, number in rows):
                return Step(kinds[0].name, total, more=True)
        self.over_bytes = used > limit
        return Step()

    def _by_number(self, connection: Connection, table: _Table) -> int:
        """Remove the oldest rows of a table above the number that it may have; return how many."""
        excess = int(connection.exec_driver_sql(f"SELECT count(*) FROM {table.name}").scalar_one()) - self._most_of_sources  # noqa: S608
        if excess <= 0:
            return 0
        oldest = f"SELECT rowid FROM {table.name} ORDER BY {table.time} LIMIT ?"  # noqa: S608 - names from above
        return connection.exec_driver_sql(f"DELETE FROM {table.name} WHERE rowid IN ({oldest})", (min(excess, self._rows),)).rowcount  # noqa: S608

    def _remove(self, connection: Connection, kind: _Kind, horizon_ms: int, *, now_ms: int, by_size: bool) -> int:
        """Remove some of the rows older than the horizon; return how many, 0 when there is none left."""
        removed = sum(_remove_from(connection, table, horizon_ms, self._rows) for table in kind.tables)
        if removed and kind is _KINDS[-1]:
            connection.exec_driver_sql(_FORGET, (horizon_ms, self._rows))
        if removed:
            connection.exec_driver_sql(_NOTE, (kind.name, horizon_ms, removed, now_ms, by_size))
        return removed


def size(connection: Connection) -> Size:
    """Return how large the database is."""
    page = int(connection.exec_driver_sql("PRAGMA page_size").scalar_one())
    pages = int(connection.exec_driver_sql("PRAGMA page_count").scalar_one())
    free = int(connection.exec_driver_sql("PRAGMA freelist_count").scalar_one())
    return Size((pages - free) * page, pages * page)


def raw_from_ms(connection: Connection) -> int:
    """Return the time before which raw rows were removed, 0 when none were."""
    return int(connection.exec_driver_sql("SELECT before_ms FROM removed WHERE kind = ?", (RAW,)).scalar() or 0)


def _remove_from(connection: Connection, table: _Table, horizon_ms: int, rows: int) -> int:
    name, time = table.name, table.time
    last = f"SELECT {time} FROM {name} WHERE {time} < ? ORDER BY {time} LIMIT 1 OFFSET ?"  # noqa: S608 - names from above
    until = connection.exec_driver_sql(last, (horizon_ms * table.unit, rows)).scalar()
    # Rows of one instant go together: without a row number (the rollups have none) they cannot be told apart.
    bound = horizon_ms * table.unit if until is None else int(until) + 1
    if table is _SPANS:
        older = "DELETE FROM span_payloads WHERE span_id IN (SELECT id FROM spans WHERE start_ns < ?)"
        connection.exec_driver_sql(older, (bound,))
    return connection.exec_driver_sql(f"DELETE FROM {name} WHERE {time} < ?", (bound,)).rowcount  # noqa: S608 - names from above


def _nth(connection: Connection, table: _Table, rows: int) -> int | None:
    """Return when the row began that is so many after the oldest, in ms; the newest when there are fewer; None for an empty table."""
    name, time = table.name, table.time
    for direction, offset in (("", rows), ("DESC", 0)):
        query = f"SELECT {time} FROM {name} ORDER BY {time} {direction} LIMIT 1 OFFSET ?"  # noqa: S608 - names from above
        at = connection.exec_driver_sql(query, (offset,)).scalar()
        if at is not None:
            return int(at) // table.unit
    return None


def _give_back(connection: Connection, spare: int) -> bool:
    """Shorten the file by some of its free pages; return whether there are more to give."""
    free = int(connection.exec_driver_sql("PRAGMA freelist_count").scalar_one())
    pages = int(connection.exec_driver_sql("PRAGMA page_count").scalar_one())
    excess = free - max(spare, int(pages * _SPARE_RATIO))
    if excess <= 0:
        return False
    for _ in range(min(_PAGES, excess)):
        # One at a time: the pragma gives a row of no columns for each page, and the driver stops at the first.
        connection.exec_driver_sql("PRAGMA incremental_vacuum(1)")
    return excess > _PAGES


def _floor(at_ms: int, width_ms: int) -> int:
    return at_ms // width_ms * width_ms
