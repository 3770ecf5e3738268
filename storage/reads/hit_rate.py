"""Counts and sums of lookups from rollups, by time and by dimension. Ratios are made in `app.analysis`."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from sqlalchemy import ColumnElement, Connection, case, func, literal, select

from storage.reads.window import WHOLE_MS, Scope, Window, by_places, rollups
from storage.reads.window import places as by_place
from storage.rollups import ELIGIBLE, HITS, OUTCOMES, PLACE_SUMS


@dataclass(frozen=True, slots=True)
class Count:
    """Lookups of one outcome in one bucket. at_ms: the bucket's start.

    saved_nusd: what its hits saved, where that was asked for; summed over outcomes, for it may stand beside one of several.
    """

    at_ms: int
    cache_kind: str
    outcome: str
    lookups: int
    saved_nusd: int = 0


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
    lookup_us: int
    lookup_us_n: int
    cached_tokens: int
    cached_of_tokens: int
    cached_n: int


DIMENSIONS = ("cache_kind", "namespace", "tenant", "model", "tier", "outcome", "reason")
_SUMS = tuple(name for name in Cell.__dataclass_fields__ if name not in DIMENSIONS)


def series(conn: Connection, window: Window, scope: Scope, *, step_ms: int | None = None, savings: bool = False) -> list[Count]:
    """Return counts by bucket (the chart's, or of `step_ms`, whole minutes), kind and outcome. Buckets without lookups are absent.

    savings: what the hits saved is wanted too.
    """
    step = step_ms or window.bucket_ms
    if by_places(scope, step_ms=step):
        return _side_by_side(conn, window, scope, step_ms=step, savings=savings)
    sums = ("lookups", "saved_nusd") if savings else ("lookups",)
    found = rollups(conn, window, scope, ("cache_kind", "outcome", *sums), step_ms=step)
    bucket = (found.c.at_ms - found.c.at_ms % step).label("bucket")
    query = (
        select(bucket, found.c.cache_kind, found.c.outcome, *(func.sum(found.c[name]) for name in sums))
        .group_by(bucket, found.c.cache_kind, found.c.outcome)
        .order_by(bucket)
    )
    return [Count(*row) for row in conn.execute(query)]


def _side_by_side(conn: Connection, window: Window, scope: Scope, *, step_ms: int, savings: bool) -> list[Count]:
    """Return counts by step, kind and outcome from the rows by place; at_ms is where a step begins."""
    sums = (*OUTCOMES, "saved_nusd") if savings else OUTCOMES
    found = by_place(conn, window, scope, ("cache_kind",), step_ms=step_ms, kind=None, sums=sums)
    bucket = (found.c.at_ms - found.c.at_ms % step_ms).label("bucket")
    query = select(bucket, found.c.cache_kind, *(func.sum(found.c[name]) for name in sums))
    counts: list[Count] = []
    for at_ms, kind, *values in conn.execute(query.group_by(bucket, found.c.cache_kind).order_by(bucket, found.c.cache_kind)):
        saved = values[-1] if savings else 0
        for outcome, n in zip(OUTCOMES, values, strict=False):
            if n:
                counts.append(Count(at_ms, kind, outcome, n, saved))
                saved = 0  # it is of all hits together, and those come first
    return counts


def cells(conn: Connection, window: Window, scope: Scope, *, by: Sequence[str] = DIMENSIONS) -> list[Cell]:
    """Return the window's sums by these dimensions; the others are ''. Leave tenants out where there may be very many."""
    found = rollups(conn, window, scope, (*by, *_SUMS))
    shown = [found.c[name] if name in by else literal("").label(name) for name in DIMENSIONS]
    query = select(*shown, *(func.sum(found.c[name]) for name in _SUMS)).group_by(*(found.c[name] for name in by))
    return [Cell(*row) for row in conn.execute(query)]


def totals(conn: Connection, window: Window, scope: Scope) -> list[Count]:
    """Return the window's counts by kind and outcome, whatever its length; at_ms is where the earliest rollup begins."""
    if by_places(scope):
        found = by_place(conn, window, scope, ("cache_kind",), step_ms=WHOLE_MS, kind=None, sums=OUTCOMES)
        query = select(func.min(found.c.at_ms), found.c.cache_kind, *(func.sum(found.c[name]) for name in OUTCOMES))
        rows = conn.execute(query.group_by(found.c.cache_kind).order_by(found.c.cache_kind))
        return [Count(row[0], row[1], outcome, n) for row in rows for outcome, n in zip(OUTCOMES, row[2:], strict=True) if n]
    found = rollups(conn, window, scope, ("cache_kind", "outcome", "lookups"))
    columns = (found.c.cache_kind, found.c.outcome)
    query = select(func.min(found.c.at_ms), *columns, func.sum(found.c.lookups)).group_by(*columns)
    return [Count(*row) for row in conn.execute(query)]


def by_namespace(conn: Connection, window: Window, scope: Scope) -> dict[str, dict[str, int]]:
    """Return the response cache's lookups of the window by namespace and outcome."""
    counts: dict[str, dict[str, int]] = {}
    if by_places(scope, ("namespace",)):
        found = by_place(conn, window, scope, ("namespace",), step_ms=WHOLE_MS, kind="response", sums=OUTCOMES)
        query = select(found.c.namespace, *(func.sum(found.c[name]) for name in OUTCOMES)).group_by(found.c.namespace)
        for namespace, *sums in conn.execute(query):
            counts[namespace] = {outcome: n for outcome, n in zip(OUTCOMES, sums, strict=True) if n}
        return counts
    found = rollups(conn, window, scope, ("namespace", "outcome", "lookups"), kind="response")
    columns = (found.c.namespace, found.c.outcome)
    for namespace, outcome, n in conn.execute(select(*columns, func.sum(found.c.lookups)).group_by(*columns)):
        counts.setdefault(namespace, {})[outcome] = n
    return counts


@dataclass(frozen=True, slots=True)
class Step:
    """Eligible lookups of the response cache in one bucket of the chart, of all tenants.

    tokens: input and output, of those that reported them. spent_nusd: what the misses' upstream calls cost. saved_nusd: what those
    of the hits would have cost; both scaled by what was asked for, and of the models that were.
    """

    at_ms: int
    hits: int
    eligible: int
    hit_tokens: int
    tokens: int
    saved_nusd: float
    spent_nusd: float


Scale = tuple[float, float]  # what savings and costs are multiplied by


def steps(conn: Connection, window: Window, scope: Scope, *, scales: Mapping[str, Scale] | Scale | None = None) -> list[Step]:
    """Return the window's steps in the order of time, those without eligible lookups left out.

    scales: by model, those of others count 0; or one of all models, which needs far fewer rows where there are many tenants.
    None = hits and eligible lookups alone are wanted.
    """
    step = window.bucket_ms
    sums = ELIGIBLE if scales is None else PLACE_SUMS  # each column costs as much as a tenth of the row
    by_model, alike = (scales, (0.0, 0.0)) if isinstance(scales, Mapping) else ({}, scales or (0.0, 0.0))
    found = by_place(conn, window, scope, ("model",) if by_model else (), step_ms=step, kind="response", sums=sums)
    bucket = (found.c.at_ms - found.c.at_ms % step).label("bucket")
    hits, eligible = (reduce(operator.add, [found.c[name] for name in names]) for names in (HITS, ELIGIBLE))
    columns: list[ColumnElement[Any]] = [hits, eligible]
    columns += [literal(0), literal(0)] if scales is None else [found.c.hit_tokens, found.c.tokens]
    for at, name in enumerate(("saved_nusd", "spent_nusd")):
        if scales is None:
            columns.append(literal(0.0))
            continue
        each = {model: scale[at] for model, scale in by_model.items()}
        columns.append(found.c[name] * (case(each, value=found.c.model, else_=0.0) if each else literal(alike[at])))
    query = select(bucket, *(func.sum(column) for column in columns)).where(eligible > 0).group_by(bucket).order_by(bucket)
    return [Step(*row) for row in conn.execute(query)]
