"""Places of the response cache: namespace, tenant and model. The busiest of them, however many there are, and what models have prices."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final, NamedTuple

from sqlalchemy import Connection, func, literal, select

from storage.reads.changes import sample
from storage.reads.window import WHOLE_MS, Scope, Window, lookups
from storage.reads.window import places as by_place
from storage.rollups import HITS, OUTCOMES

MOST_ROWS: Final = 60_000  # by place, of a window whose places are all counted: some 0.2 s
_MOST_READ: Final = 20_000  # lookups that tell which of more places are the busiest
_NAMES: Final = ("namespace", "tenant", "model")
_PRICED: Final = ("hits_priced", "misses_priced")


@dataclass(frozen=True, slots=True)
class Place:
    """Lookups of the response cache of one namespace, tenant and model, by outcome."""

    namespace: str
    tenant: str
    model: str
    by_outcome: Mapping[str, int]
    hits_priced: int = 0
    misses_priced: int = 0


class Busiest(NamedTuple):
    """every: which places these are was told by one of so many lookups; 1 = by all. What each counts is of all lookups always."""

    places: list[Place]
    every: int


def busiest(conn: Connection, window: Window, scope: Scope, *, limit: int) -> Busiest:
    """Return the `limit` busiest places of the window, the busiest first.

    Where there are very many, a sample of the lookups that are still there chooses them: one of another 500 may have as many.
    """
    rows = by_place(conn, window, scope, _NAMES, step_ms=WHOLE_MS, kind="response", sums=())
    few = select(literal(1)).select_from(rows).limit(MOST_ROWS + 1).subquery()
    if conn.execute(select(func.count()).select_from(few)).scalar_one() > MOST_ROWS:
        number, mine = sample(conn, window, scope, most=_MOST_READ)
        names = [lookups.c[name] for name in _NAMES]
        often = select(*names).where(mine).group_by(*names).order_by(func.count().desc(), *names).limit(limit)
        if chosen := [tuple(row) for row in conn.execute(often)]:
            return Busiest(_counted(conn, window, scope, limit, chosen), number)
    return Busiest(_counted(conn, window, scope, limit), 1)


def _counted(conn: Connection, window: Window, scope: Scope, limit: int, only: Sequence[tuple[str, ...]] = ()) -> list[Place]:
    found = by_place(conn, window, scope, _NAMES, step_ms=WHOLE_MS, kind="response", sums=(*OUTCOMES, *_PRICED), only=only)
    columns = [found.c[name] for name in _NAMES]
    counts = [func.sum(found.c[outcome]).label(outcome) for outcome in OUTCOMES]
    most = reduce(operator.add, counts).desc()
    query = select(*columns, *(func.sum(found.c[name]) for name in _PRICED), *counts).group_by(*columns)
    rows = conn.execute(query.order_by(most, *columns).limit(limit))
    return [Place(row[0], row[1], row[2], dict(zip(OUTCOMES, row[5:], strict=True)), row[3], row[4]) for row in rows]


@dataclass(frozen=True, slots=True)
class Priced:
    """Hits and misses of one model, and how many of each have a price."""

    model: str
    hits: int
    hits_priced: int
    misses: int
    misses_priced: int


MOST_MODELS: Final = 100  # the busiest; each is a branch of a query


def priced(conn: Connection, window: Window, scope: Scope, *, every_place: Sequence[Place] | None = None) -> list[Priced]:
    """Return the busiest models of the response cache, coalesced lookups left out: they have no price of their own.

    every_place: all of the window's places, where they were read; they need not be read again.
    """
    if every_place is not None:
        return _priced(every_place)
    found = by_place(conn, window, scope, ("model",), step_ms=WHOLE_MS, kind="response", sums=(*HITS, "miss", *_PRICED))
    hits, misses = reduce(operator.add, [func.sum(found.c[name]) for name in HITS]), func.sum(found.c.miss)
    query = select(found.c.model, hits, func.sum(found.c.hits_priced), misses, func.sum(found.c.misses_priced)).group_by(found.c.model)
    rows = conn.execute(query.having(hits + misses > 0).order_by((hits + misses).desc(), found.c.model).limit(MOST_MODELS))
    return [Priced(*row) for row in rows]


def _priced(places: Sequence[Place]) -> list[Priced]:
    sums: dict[str, list[int]] = {}
    for place in places:
        held = sums.setdefault(place.model, [0, 0, 0, 0])
        hits = sum(place.by_outcome[outcome] for outcome in HITS)
        held[:] = map(operator.add, held, (hits, place.hits_priced, place.by_outcome["miss"], place.misses_priced))
    found = [Priced(model, *held) for model, held in sums.items() if held[0] + held[2] > 0]
    return sorted(found, key=lambda one: (-(one.hits + one.misses), one.model))[:MOST_MODELS]
