"""Counts and sums of lookups from rollups, by time and by dimension. Ratios are made in `app.analysis`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, and_, func, literal, select

from storage.reads.window import MINUTE_MS, Scope, Window, lookups, rollups, within

# Outcomes that could have been hits, as in app.analysis.hit_rate; a test holds the two equal.
HITS = ("exact_hit", "semantic_hit", "partial_hit", "stale_hit")
ELIGIBLE = (*HITS, "coalesced", "miss")
OUTCOMES = (*ELIGIBLE, "bypass", "error")


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


DIMENSIONS = ("cache_kind", "namespace", "tenant", "model", "tier", "outcome", "reason")
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
    found = rollups(conn, window, scope, ("cache_kind", "outcome", "lookups"), step_ms=step)
    bucket = (found.c.at_ms - found.c.at_ms % step).label("bucket")
    query = (
        select(bucket, found.c.cache_kind, found.c.outcome, func.sum(found.c.lookups))
        .group_by(bucket, found.c.cache_kind, found.c.outcome)
        .order_by(bucket)
    )
    return [Count(*row) for row in conn.execute(query)]


def cells(conn: Connection, window: Window, scope: Scope, *, by: Sequence[str] = DIMENSIONS) -> list[Cell]:
    """Return the window's sums by these dimensions; the others are ''. Leave tenants out where there may be very many."""
    found = rollups(conn, window, scope, (*by, *_SUMS))
    shown = [found.c[name] if name in by else literal("").label(name) for name in DIMENSIONS]
    query = select(*shown, *(func.sum(found.c[name]) for name in _SUMS)).group_by(*(found.c[name] for name in by))
    return [Cell(*row) for row in conn.execute(query)]


@dataclass(frozen=True, slots=True)
class Place:
    """Lookups of the response cache of one namespace, tenant and model, by outcome."""

    namespace: str
    tenant: str
    model: str
    by_outcome: Mapping[str, int]


def places(conn: Connection, window: Window, scope: Scope, *, limit: int) -> list[Place]:
    """Return the `limit` busiest places of the window, the busiest first."""
    names = ("namespace", "tenant", "model")
    found = rollups(conn, window, scope, (*names, "outcome", "lookups"), kind="response")
    columns = [found.c[name] for name in names]
    counts = [func.sum(func.iif(found.c.outcome == outcome, found.c.lookups, 0)) for outcome in OUTCOMES]
    query = select(*columns, *counts).group_by(*columns).order_by(func.sum(found.c.lookups).desc(), *columns).limit(limit)
    return [Place(row[0], row[1], row[2], dict(zip(OUTCOMES, row[3:], strict=True))) for row in conn.execute(query)]


def totals(conn: Connection, window: Window, scope: Scope) -> list[Count]:
    """Return the window's counts by kind and outcome, whatever its length; at_ms is where the earliest rollup begins."""
    found = rollups(conn, window, scope, ("cache_kind", "outcome", "lookups"))
    columns = (found.c.cache_kind, found.c.outcome)
    query = select(func.min(found.c.at_ms), *columns, func.sum(found.c.lookups)).group_by(*columns)
    return [Count(*row) for row in conn.execute(query)]


@dataclass(frozen=True, slots=True)
class Cluster:
    """Eligible lookups of the response cache of one tenant in one bucket: what a person or a program asked in one go, about.

    tokens: input and output, of those that reported them. spent_nusd: what the misses' upstream calls cost. saved_nusd: what those
    of the hits would have cost.
    """

    at_ms: int
    hits: int
    eligible: int
    hit_tokens: int
    tokens: int
    saved_nusd: int
    spent_nusd: int


MOST_CLUSTERS = 20_000  # above it, tenants are put together: one cluster a bucket


def clusters(conn: Connection, window: Window, scope: Scope) -> list[Cluster]:
    """Return the window's clusters in the order of time."""
    step = max(MINUTE_MS, window.bucket_ms)  # what comes in one go lasts longer than the ten seconds of the finest chart
    names = ("tenant", "outcome", "lookups", "input_tokens", "output_tokens", "saved_nusd", "cost_nusd")
    found = rollups(conn, window, scope, names, step_ms=step, kind="response")
    bucket = (found.c.at_ms - found.c.at_ms % step).label("bucket")
    eligible, hit = found.c.outcome.in_(ELIGIBLE), found.c.outcome.in_(HITS)
    tokens = found.c.input_tokens + found.c.output_tokens
    sums = [
        func.sum(func.iif(hit, found.c.lookups, 0)),
        func.sum(found.c.lookups),
        func.sum(func.iif(hit, tokens, 0)),
        func.sum(tokens),
        func.sum(func.iif(hit, found.c.saved_nusd, 0)),
        func.sum(func.iif(hit, 0, found.c.cost_nusd)),
    ]
    tenants = conn.execute(select(func.count(func.distinct(found.c.tenant))).where(eligible)).scalar_one()
    by = [bucket] if tenants * (window.length_ms // step) > MOST_CLUSTERS else [bucket, found.c.tenant]
    query = select(bucket, *sums).where(eligible).group_by(*by).order_by(*by)
    return [Cluster(*row) for row in conn.execute(query)]


@dataclass(frozen=True, slots=True)
class Overhead:
    """Time in the cache itself, ms a lookup, of hits and of the rest; None where it is not recorded. n: lookups read."""

    hit_ms: float | None
    miss_ms: float | None
    n: int


def overhead(conn: Connection, window: Window, scope: Scope, *, every: int) -> Overhead:
    """Return the mean time in the cache of every `every`-th eligible lookup."""
    hit = lookups.c.outcome.in_(HITS)
    query = select(
        func.avg(func.iif(hit, lookups.c.lookup_ms, None)), func.avg(func.iif(hit, None, lookups.c.lookup_ms)), func.count()
    ).where(within(lookups, window, scope), lookups.c.cache_kind == "response", lookups.c.outcome.in_(ELIGIBLE), lookups.c.id % every == 0)
    return Overhead(*conn.execute(query).one())


@dataclass(frozen=True, slots=True)
class CachedTokens:
    """Input tokens of calls that reported both, and how many of them came from a cache. n: calls that did; of: all of the kind."""

    cache_kind: str
    cached: int
    input: int
    n: int
    of: int


MOST_CALLS = 200_000  # of the newest calls of other kinds that are read for their tokens


def cached_tokens(conn: Connection, window: Window, scope: Scope) -> list[CachedTokens]:
    """Return the token sums of caches of other kinds (a provider's prompt cache, an inference server's prefix cache)."""
    newest = (
        select(lookups.c.cache_kind, lookups.c.cached_input_tokens, lookups.c.input_tokens)
        .where(within(lookups, window, scope), lookups.c.cache_kind != "response")
        .order_by(lookups.c.at_ms.desc())
        .limit(MOST_CALLS)
        .subquery()
    )
    # A cached part larger than the whole is a sender's fault and in no ratio.
    told = and_(newest.c.cached_input_tokens >= 0, newest.c.cached_input_tokens <= newest.c.input_tokens)
    query = select(
        newest.c.cache_kind,
        func.coalesce(func.sum(func.iif(told, newest.c.cached_input_tokens, 0)), 0),
        func.coalesce(func.sum(func.iif(told, newest.c.input_tokens, 0)), 0),
        func.coalesce(func.sum(func.iif(told, 1, 0)), 0),
        func.count(),
    ).group_by(newest.c.cache_kind)
    return [CachedTokens(*row) for row in conn.execute(query)]
