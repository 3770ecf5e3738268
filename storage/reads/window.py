"""The window and scope that every read takes, and what there is to choose from in it.

Charts read `rollups_1m`, so a window is made of whole minutes: totals, series and tables of one page then agree to the lookup.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, Table, and_, func, select

from storage.models import telemetry_metadata

MINUTE_MS = 60_000
_STEPS_MIN = (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720, 1_440)
_MOST_BUCKETS = 75  # what a chart of 1,100 px can show as bars that stay apart

rollups: Table = telemetry_metadata.tables["rollups_1m"]
lookups: Table = telemetry_metadata.tables["lookups"]
senders: Table = telemetry_metadata.tables["sources"]


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
        """The width of a chart's bucket: whole minutes, at most 75 buckets."""
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


@dataclass(frozen=True, slots=True)
class Choices:
    """The values that occur in a window, sorted."""

    namespaces: tuple[str, ...] = ()
    tenants: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()


def within(table: Table, window: Window, scope: Scope) -> ColumnElement[bool]:
    """Return the condition on `rollups_1m` or `lookups` for a window and scope."""
    clauses = [table.c.at_ms >= window.start_ms, table.c.at_ms < window.end_ms]
    for name in ("namespace", "tenant", "model", "tier", "purpose"):
        value = getattr(scope, name)
        if value is not None:
            clauses.append(table.c[name] == value)
    if scope.source is not None:
        clauses.append(table.c.source_id.in_(select(senders.c.id).where(senders.c.service == scope.source)))
    return and_(*clauses)


def choices(conn: Connection, window: Window) -> Choices:
    """Return the namespaces, tenants, models, tiers and senders with lookups in the window."""
    columns = (rollups.c.namespace, rollups.c.tenant, rollups.c.model, rollups.c.tier, senders.c.service)
    joined = select(*columns).join_from(rollups, senders, senders.c.id == rollups.c.source_id)
    rows = conn.execute(joined.where(within(rollups, window, Scope(purpose=None))).distinct()).all()
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
