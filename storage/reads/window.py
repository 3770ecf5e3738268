"""The window and scope that every read takes, and what there is to choose from in it.

A window is made of whole minutes, and every sum of it is read from rollups: totals, series and tables of one page then agree to the
lookup. Which rollups is decided here, by `stretches`: hours where whole hours are asked for, minutes at the edges.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, Subquery, Table, and_, func, select, union_all

from storage.models import telemetry_metadata

TEN_SECONDS_MS = 10_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
_STEPS_MIN = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1_440)
_MOST_BUCKETS = 75  # what a chart of 1,100 px can show as bars that stay apart

_BY_WIDTH: dict[int, Table] = {
    TEN_SECONDS_MS: telemetry_metadata.tables["rollups_10s"],
    MINUTE_MS: telemetry_metadata.tables["rollups_1m"],
    HOUR_MS: telemetry_metadata.tables["rollups_1h"],
}
_TOTALS: dict[int, Table] = {
    MINUTE_MS: telemetry_metadata.tables["totals_1m"],
    HOUR_MS: telemetry_metadata.tables["totals_1h"],
}
lookups: Table = telemetry_metadata.tables["lookups"]
senders: Table = telemetry_metadata.tables["sources"]
_removed: Table = telemetry_metadata.tables["removed"]


@dataclass(frozen=True, slots=True)
class Window:
    """[start_ms, end_ms), both whole minutes of UTC."""

    start_ms: int
    end_ms: int

    @classmethod
    def of(cls, start_ms: int, end_ms: int) -> Window:
        """Return the whole minutes that cover the given times; at least one."""
        start = start_ms // MINUTE_MS * MINUTE_MS
        return cls(start, max(start + MINUTE_MS, -(-end_ms // MINUTE_MS) * MINUTE_MS))

    @property
    def length_ms(self) -> int:
        return self.end_ms - self.start_ms

    @property
    def previous(self) -> Window:
        """The window of the same length that ends where this one starts."""
        return Window(self.start_ms - self.length_ms, self.start_ms)

    def shifted(self, by_ms: int) -> Window:
        """The window of the same length that starts this much earlier, to the minute."""
        by = by_ms // MINUTE_MS * MINUTE_MS
        return Window(self.start_ms - by, self.end_ms - by)

    @property
    def bucket_ms(self) -> int:
        """The width of a chart's bucket: ten seconds or whole minutes, at most 75 buckets."""
        if self.length_ms <= _MOST_BUCKETS * TEN_SECONDS_MS:
            return TEN_SECONDS_MS
        minutes = self.length_ms // MINUTE_MS
        step = next((step for step in _STEPS_MIN if minutes <= step * _MOST_BUCKETS), -(-minutes // _MOST_BUCKETS))
        return step * MINUTE_MS

    @property
    def buckets(self) -> tuple[int, ...]:
        """The start of every bucket that the window touches, aligned to the bucket's width."""
        step = self.bucket_ms
        return tuple(range(self.start_ms // step * step, self.end_ms, step))


@dataclass(frozen=True, slots=True)
class Scope:
    """Which lookups. None = all; '' = those whose sender did not say. source: the sender's service name."""

    namespace: str | None = None
    tenant: str | None = None
    model: str | None = None
    tier: str | None = None
    purpose: str | None = "traffic"
    source: str | None = None


_EVERYTHING = Scope(purpose=None)


@dataclass(frozen=True, slots=True)
class Choices:
    """The values that occur in a window, sorted."""

    namespaces: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


def within(table: Table, window: Window, scope: Scope) -> ColumnElement[bool]:
    """Return the condition on a table of rollups or on `lookups` for a window and scope."""
    return and_(table.c.at_ms >= window.start_ms, table.c.at_ms < window.end_ms, *_of_scope(table, scope))


def _of_scope(table: Table, scope: Scope) -> list[ColumnElement[bool]]:
    clauses: list[ColumnElement[bool]] = []
    for name in ("namespace", "tenant", "model", "tier", "purpose"):
        value = getattr(scope, name)
        if value is not None:
            clauses.append(table.c[name] == value)
    if scope.source is not None:
        clauses.append(table.c.source_id.in_(select(senders.c.id).where(senders.c.service == scope.source)))
    return clauses


class Stretch(NamedTuple):
    """Whole rollups of one width: [start_ms, end_ms)."""

    start_ms: int
    end_ms: int
    width_ms: int


class Horizons(NamedTuple):
    """What retention has left: nothing of a kind before its time; 0 = nothing was removed. hours are kept longest."""

    raw_ms: int = 0
    tens_ms: int = 0
    minutes_ms: int = 0
    hours_ms: int = 0


NOTHING_REMOVED = Horizons()
_KINDS = ("raw", "rollups_10s", "rollups_1m", "rollups_1h")


def horizons(conn: Connection) -> Horizons:
    """Return since when there is what."""
    found = {row.kind: row.before_ms for row in conn.execute(select(_removed.c.kind, _removed.c.before_ms))}
    return Horizons(*(found.get(kind, 0) for kind in _KINDS))


def stretches(window: Window, *, step_ms: int, left: Horizons = NOTHING_REMOVED) -> list[Stretch]:
    """Return the coarsest rollups whose sum is the window's, when it is cut into steps aligned to step_ms.

    Where only hours are left, those that lie wholly inside the window; with steps finer than that, they stand where they begin.
    """
    start, end = window.start_ms, window.end_ms
    if start < left.minutes_ms:
        start = min(_hour_after(start), end)
        end = end // HOUR_MS * HOUR_MS if end < left.minutes_ms else end
    first, last = _hour_after(start), end // HOUR_MS * HOUR_MS
    if step_ms % HOUR_MS:
        last = min(last, _hour_after(left.minutes_ms))  # hours cannot fill finer steps; they do where nothing else is left
    fine = TEN_SECONDS_MS if step_ms < MINUTE_MS and start >= left.tens_ms else MINUTE_MS
    if first >= last:
        return [Stretch(start, end, fine)] if start < end else []
    found = (Stretch(start, first, fine), Stretch(first, last, HOUR_MS), Stretch(last, end, fine))
    return [part for part in found if part.start_ms < part.end_ms]


def _hour_after(at_ms: int) -> int:
    return -(-at_ms // HOUR_MS) * HOUR_MS


def rollups(
    conn: Connection, window: Window, scope: Scope, columns: Sequence[str], *, step_ms: int = HOUR_MS, kind: str | None = None
) -> Subquery:
    """Return the window's rollups of the scope, as few as answer it exactly, with `at_ms` and the given columns.

    step_ms: the width of the steps that the caller sums by; one sum of all = an hour. kind: of this cache kind only.
    """
    parts: list[Select[Any]] = []
    everything = replace(scope, purpose=None) == _EVERYTHING
    for part in stretches(window, step_ms=step_ms, left=horizons(conn)) or [Stretch(0, 0, HOUR_MS)]:
        table = _BY_WIDTH[part.width_ms]
        totals = _TOTALS.get(part.width_ms)
        if everything and totals is not None and all(name in totals.c for name in columns):
            table = totals  # some rows a minute, where the others may be a row a lookup
        clauses = [table.c.at_ms >= part.start_ms, table.c.at_ms < part.end_ms, *_of_scope(table, scope)]
        if kind is not None:
            clauses.append(table.c.cache_kind == kind)
        parts.append(select(table.c.at_ms, *(table.c[name] for name in columns)).where(*clauses))
    return (union_all(*parts) if len(parts) > 1 else parts[0]).subquery("rollups")


def choices(conn: Connection, window: Window) -> Choices:
    """Return the namespaces, tenants, models, tiers and senders with lookups in the window."""
    names = ("namespace", "tenant", "model", "tier", "source_id")
    found = rollups(conn, window, Scope(purpose=None), names)
    once = select(*(found.c[name] for name in names)).distinct().subquery()
    columns = (once.c.namespace, once.c.tenant, once.c.model, once.c.tier, senders.c.service)
    rows = conn.execute(select(*columns).join_from(once, senders, senders.c.id == once.c.source_id)).all()
    return Choices(*(tuple(sorted({row[index] for row in rows})) for index in range(len(columns))))


@dataclass(frozen=True, slots=True)
class Extent:
    """The first and last lookup stored, of any purpose. None = there is none at all."""

    first_ms: int | None
    last_ms: int | None


def extent(conn: Connection) -> Extent:
    """Return when the stored lookups begin and end. Two index probes, however many there are."""
    first = conn.execute(select(func.min(lookups.c.at_ms))).scalar()
    last = conn.execute(select(func.max(lookups.c.at_ms))).scalar()
    return Extent(first, last)
