"""Who sends telemetry, what was refused, and a gateway's own counters beside what was stored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, func, select

from storage.models import telemetry_metadata
from storage.reads.window import Window, lookups

sources_table: Table = telemetry_metadata.tables["sources"]
rejects: Table = telemetry_metadata.tables["rejects"]
samples: Table = telemetry_metadata.tables["metric_samples"]

_EARLIER_MS = 600_000
_LONGEST_REQUEST_MS = 3_600_000  # a lookup counted in a window may have begun this long before it


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """One sender or scrape target. rejects: reason -> spans refused. missing: field -> lookups that lacked it.

    described: spans that tell of a model call; calls: those of them that stand for one. call_facts: see storage.calls.facts.
    """

    id: int
    kind: str
    service: str
    instance: str
    scope: str
    dialect: str
    demo: bool
    first_seen_ms: int
    last_seen_ms: int
    last_span_ms: int | None
    accepted: int
    duplicates: int
    lookups: int
    described: int
    calls: int
    dropped: int
    last_error: str
    last_error_ms: int | None
    missing: Mapping[str, int] = field(default_factory=dict)
    rejects: Mapping[str, int] = field(default_factory=dict)
    call_facts: Mapping[str, int] = field(default_factory=dict)

    def facts(self, kind: str) -> dict[str, int]:
        """Return the counts of one kind: `rule`, `lacks` or `kind` (of cache) -> name -> how often."""
        return {name.partition(":")[2]: number for name, number in self.call_facts.items() if name.startswith(f"{kind}:") and number > 0}

    @property
    def lag_ms(self) -> int | None:
        """How old the newest span was when it came; None where spans do not apply."""
        return None if self.last_span_ms is None else max(0, self.last_seen_ms - self.last_span_ms)

    @property
    def rejected(self) -> int:
        return sum(self.rejects.values())


_COLUMNS = tuple(name for name in SourceStatus.__dataclass_fields__ if name not in {"missing", "rejects", "call_facts"})


def number(conn: Connection) -> int:
    """Return how many sources there are."""
    return conn.execute(select(func.count()).select_from(sources_table)).scalar() or 0


def sources(conn: Connection, *, senders: int | None = None) -> list[SourceStatus]:
    """Return every source, the one seen last first. senders: of those that send by OTLP at most so many, the last seen.

    Each restart of a sender may be another instance; what is scraped is what the settings name.
    """
    refused: dict[int, dict[str, int]] = {}
    for row in conn.execute(select(rejects.c.source_id, rejects.c.reason, rejects.c["count"]).order_by(rejects.c["count"].desc())):
        refused.setdefault(row[0], {})[row[1]] = row[2]
    columns = [sources_table.c[name] for name in (*_COLUMNS, "missing", "call_facts")]
    query = select(*columns).order_by(sources_table.c.last_seen_ms.desc())
    if senders is not None:
        sends = sources_table.c.kind.startswith("otlp_")
        newest = select(sources_table.c.id).where(sends).order_by(sources_table.c.last_seen_ms.desc(), sources_table.c.id).limit(senders)
        query = query.where(~sends | sources_table.c.id.in_(newest))
    return [_status(tuple(row), refused.get(row[0], {})) for row in conn.execute(query)]


def _status(row: tuple[Any, ...], refused: Mapping[str, int]) -> SourceStatus:
    missing, facts = json.loads(row[-2] or "{}"), json.loads(row[-1] or "{}")
    return SourceStatus(**dict(zip(_COLUMNS, row[:-2], strict=True)), missing=missing, rejects=refused, call_facts=facts)


@dataclass(frozen=True, slots=True)
class Point:
    """One scraped value of a counter."""

    source_id: int
    labels: str
    at_ms: int
    value: float


def counter_points(conn: Connection, window: Window, names: Sequence[str]) -> dict[str, list[Point]]:
    """Return these counters' samples in the window by name, oldest first, and before them those of each target's last earlier scrape.

    That scrape is looked for in the ten minutes before the window: a series that an older one alone shows is gone, and what it began
    at says nothing of this window. Targets that were not scraped in the window have no points.
    """
    found: dict[str, list[Point]] = {name: [] for name in names}
    columns = [samples.c[name] for name in ("source_id", "labels", "at_ms", "value")]
    for source_id in conn.execute(select(sources_table.c.id).where(sources_table.c.kind == "scrape")).scalars():
        series = {name: (samples.c.source_id == source_id) & (samples.c.name == name) for name in names}

        def read(name: str, *when: ColumnElement[bool], series: Mapping[str, ColumnElement[bool]] = series) -> list[Point]:
            query = select(*columns).where(series[name], *when).order_by(samples.c.at_ms, samples.c.id)
            return [Point(*row) for row in conn.execute(query)]

        inside = {name: read(name, samples.c.at_ms >= window.start_ms, samples.c.at_ms < window.end_ms) for name in names}
        if not any(inside.values()):
            continue
        earlier = samples.c.at_ms.between(window.start_ms - _EARLIER_MS, window.start_ms - 1)
        newest = [conn.execute(select(func.max(samples.c.at_ms)).where(series[name], earlier)).scalar() for name in names]
        last_ms = max((at_ms for at_ms in newest if at_ms is not None), default=None)
        for name in names:
            found[name] += [] if last_ms is None else read(name, samples.c.at_ms == last_ms)
            found[name] += inside[name]
    return found


def stored_lookups(conn: Connection, from_ms: int, to_ms: int, service: str) -> int:
    """Return how many lookups of this service that ended in (from_ms, to_ms] are stored, of any purpose."""
    ended = lookups.c.at_ms + lookups.c.duration_ms
    query = (
        select(func.count())
        .select_from(lookups)
        .where(lookups.c.at_ms > from_ms - _LONGEST_REQUEST_MS, lookups.c.at_ms <= to_ms, ended > from_ms, ended <= to_ms)
        .where(lookups.c.source_id.in_(select(sources_table.c.id).where(sources_table.c.service == service)))
    )
    return conn.execute(query).scalar() or 0
