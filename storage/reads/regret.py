"""Recorded lookups as a stream of keys: what eviction, lifetime and regret are replayed from."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, func, or_, select

from storage.reads.window import Scope, Window, lookups, rollups, within
from storage.slots import SLOTS

_NOT_LOOKED_UP = ("bypass", "error")
_FETCH = 10_000


@dataclass(frozen=True, slots=True)
class StreamRow:
    """One lookup, or a burst of such. What was not recorded is None or ''. entry_id: of the entry that served, or, after a miss, that was
    stored. n: of the burst; at_ms is its first's, the age that of the earliest stored of its entries, and other numbers are means."""

    at_ms: int
    key: str
    generation: str
    outcome: str
    held_out: bool | None
    entry_id: str
    entry_bytes: int | None
    entry_age_s: float | None
    lookup_ms: float | None
    upstream_ms: float | None
    saved_ms: float | None
    cost_usd: float | None
    saved_usd: float | None
    prompt_hash: str
    reason: str = ""
    n: int = 1


def busiest(conn: Connection, window: Window, *, limit: int) -> list[tuple[str, int]]:
    """Return the namespaces with the most response-cache lookups, and how many those are. From rollups: bypasses and errors left out."""
    found = rollups(conn, window, Scope(), ("namespace", "outcome", "lookups"), kind="response")
    total = func.sum(found.c.lookups)
    query = (
        select(found.c.namespace, total)
        .where(found.c.outcome.not_in(_NOT_LOOKED_UP))
        .group_by(found.c.namespace)
        .order_by(total.desc(), found.c.namespace)
        .limit(limit)
    )
    return [(row[0], int(row[1])) for row in conn.execute(query)]


def _of(namespace: str, window: Window) -> ColumnElement[bool]:
    wanted = within(lookups, window, Scope(namespace=namespace))
    return and_(wanted, lookups.c.cache_kind == "response", lookups.c.outcome.not_in(_NOT_LOOKED_UP))


def counted(conn: Connection, namespace: str, window: Window) -> tuple[int, int]:
    """Return how many lookups name a key, and how many do not: their sender does not record one."""
    query = select(func.count(), func.count().filter(lookups.c.key == "")).where(_of(namespace, window))
    row = conn.execute(query).one()
    return int(row[0]) - int(row[1]), int(row[1])


def some_keys(conn: Connection, namespace: str, window: Window, *, every: int) -> Iterator[str]:
    """Yield the keys of an even sample of the lookups with one: of those in one of `every` milliseconds, by a hash of the time."""
    place = lookups.c.at_ms % 1_000_003 * 40_503 % SLOTS  # a prime, and an odd factor near SLOTS / the golden ratio
    query = select(lookups.c.key).where(_of(namespace, window), lookups.c.key != "", place < max(1, SLOTS // every))
    for rows in conn.execution_options(yield_per=_FETCH).execute(query).partitions():
        yield from (row.key for row in rows)


_COLUMNS = [lookups.c[name] for name in StreamRow.__dataclass_fields__ if name != "n"]


def stream(conn: Connection, namespace: str, window: Window) -> Iterator[StreamRow]:
    """Yield the lookups with a key in order of time."""
    order = (lookups.c.at_ms, lookups.c.trace_id, lookups.c.span_id)
    query = select(*_COLUMNS).where(_of(namespace, window), lookups.c.key != "").order_by(*order)
    for rows in conn.execution_options(yield_per=_FETCH).execute(query).partitions():
        yield from (StreamRow(*row) for row in rows)


def bursts(conn: Connection, namespace: str, window: Window, *, certain: Collection[str], below: int, step_ms: int) -> Iterator[StreamRow]:
    """Yield the lookups of some keys in order of time; those of a key in one step, with one outcome, are one burst.

    certain: keys that are taken anyway. below: of SLOTS, which part of the others, by their hash: always the same ones.
    """
    at, key = lookups.c.at_ms, lookups.c.key
    told = {
        "at_ms": func.min(at),
        "entry_id": func.max(lookups.c.entry_id),
        "entry_bytes": func.max(lookups.c.entry_bytes),
        "entry_age_s": (func.min(at) - func.min(at - lookups.c.entry_age_s * 1000)) / 1000.0,
        **{name: func.avg(lookups.c[name]) for name in ("lookup_ms", "upstream_ms", "saved_ms", "cost_usd", "saved_usd")},
        "prompt_hash": func.max(lookups.c.prompt_hash),
        "n": func.count(),
    }
    # One list of them as JSON: there may be more than a statement takes values.
    listed = key.in_(select(func.json_each(json.dumps(sorted(certain))).table_valued("value").c.value))
    wanted = [_of(namespace, window), key != "", or_(func.slot(key) < below, listed)]
    alike = (key, lookups.c.generation, lookups.c.outcome, lookups.c.held_out, lookups.c.reason)
    columns = [told[name] if name in told else lookups.c[name] for name in StreamRow.__dataclass_fields__]
    query = select(*columns).where(*wanted).group_by(at // step_ms, *alike).order_by(func.min(at), *alike)
    for rows in conn.execution_options(yield_per=_FETCH).execute(query).partitions():
        yield from (StreamRow(*row) for row in rows)
