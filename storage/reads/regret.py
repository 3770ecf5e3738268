"""Recorded lookups as a stream of keys: what eviction, lifetime and regret are replayed from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Connection, and_, func, select

from storage.reads.window import Scope, Window, lookups, rollups, within
from storage.slots import SLOTS

_NOT_LOOKED_UP = ("bypass", "error")
_FETCH = 10_000


@dataclass(frozen=True, slots=True)
class StreamRow:
    """One lookup. What was not recorded is None or ''. entry_id: of the entry that served, or, after a miss, that was stored."""

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


def without_key(conn: Connection, namespace: str, window: Window) -> int:
    """Return how many lookups name no key: their sender does not record one."""
    return int(conn.execute(select(func.count()).where(_of(namespace, window), lookups.c.key == "")).scalar_one())


def stream(conn: Connection, namespace: str, window: Window, *, below: int = SLOTS) -> Iterator[StreamRow]:
    """Yield the lookups with a key in order of time. below: of SLOTS, which part of the keys, by their hash: always the same ones."""
    columns = [lookups.c[name] for name in StreamRow.__dataclass_fields__]
    query = (
        select(*columns).where(_of(namespace, window), lookups.c.key != "").order_by(lookups.c.at_ms, lookups.c.trace_id, lookups.c.span_id)
    )
    if below < SLOTS:
        query = query.where(func.slot(lookups.c.key) < below)
    for rows in conn.execution_options(yield_per=_FETCH).execute(query).partitions():
        yield from (StreamRow(*row) for row in rows)
