"""Counts and sums of lookups from the minute rollups, by time and by dimension. Ratios are made in `app.analysis`."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from storage.reads.window import Scope, Window, rollups, within


@dataclass(frozen=True, slots=True)
class Count:
    """Lookups of one outcome in one bucket. at_ms: the bucket's start."""

    at_ms: int
    cache_kind: str
    outcome: str
    lookups: int


@dataclass(frozen=True, slots=True)
class Cell:
    """Lookups of one outcome in one place. `_n`: how many lookups reported the sum beside it; absent is not 0."""

    cache_kind: str
    namespace: str
    tenant: str
    model: str
    tier: str
    outcome: str
    reason: str
    lookups: int
    duration_us: int
    input_tokens: int
    input_tokens_n: int
    output_tokens: int
    cost_nusd: int
    cost_n: int
    saved_nusd: int
    saved_usd_n: int
    saved_us: int
    saved_us_n: int


_DIMENSIONS = ("cache_kind", "namespace", "tenant", "model", "tier", "outcome", "reason")
_SUMS = (
    "lookups",
    "duration_us",
    "input_tokens",
    "input_tokens_n",
    "output_tokens",
    "cost_nusd",
    "cost_n",
    "saved_nusd",
    "saved_usd_n",
    "saved_us",
    "saved_us_n",
)


def series(conn: Connection, window: Window, scope: Scope, *, step_ms: int | None = None) -> list[Count]:
    """Return counts by bucket (the chart's, or of `step_ms`, whole minutes), kind and outcome. Buckets without lookups are absent."""
    step = step_ms or window.bucket_ms
    bucket = (rollups.c.at_ms - rollups.c.at_ms % step).label("bucket")
    query = (
        select(bucket, rollups.c.cache_kind, rollups.c.outcome, func.sum(rollups.c.lookups))
        .where(within(rollups, window, scope))
        .group_by(bucket, rollups.c.cache_kind, rollups.c.outcome)
        .order_by(bucket)
    )
    return [Count(*row) for row in conn.execute(query)]


def cells(conn: Connection, window: Window, scope: Scope) -> list[Cell]:
    """Return the window's sums by every dimension."""
    dimensions = [rollups.c[name] for name in _DIMENSIONS]
    sums = [func.sum(rollups.c[name]) for name in _SUMS]
    query = select(*dimensions, *sums).where(within(rollups, window, scope)).group_by(*dimensions)
    return [Cell(*row) for row in conn.execute(query)]
