"""Lookups that outlived a sampler: by what it told of how many it kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Connection, func, literal_column, select

from storage.reads.window import Scope, Window, beside_namespace, lookups

# In so many words: the index of sampled lookups alone is used only where its own condition stands.
_TOLD: Final[ColumnElement[bool]] = literal_column("lookups.sampler <> ''")
_AT_ONCE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Kept:
    """Sampled lookups of one kind of cache. ratio: the probability with which they were kept; None = not told."""

    ratio: float | None
    outcome: str
    lookups: int


def kept(conn: Connection, window: Window, scope: Scope, *, kind: str = "response") -> list[Kept]:
    """Return the window's sampled lookups by probability and outcome; none where nobody samples, at the price of one index probe."""
    columns = (lookups.c.kept_ratio, lookups.c.outcome)
    query = select(*columns, func.count()).where(beside_namespace(window, scope), _TOLD, lookups.c.cache_kind == kind)
    return [Kept(*row) for row in conn.execute(query.group_by(*columns))]


def ratios(conn: Connection, ids: Sequence[int]) -> dict[int, float]:
    """Return the probabilities with which those of these lookups were kept that a sampler let through and told of."""
    columns = (lookups.c.id, lookups.c.kept_ratio)
    found: dict[int, float] = {}
    for at in range(0, len(ids), _AT_ONCE):
        query = select(*columns).where(lookups.c.id.in_(ids[at : at + _AT_ONCE]), _TOLD, lookups.c.kept_ratio.is_not(None))
        found |= {row.id: row.kept_ratio for row in conn.execute(query)}
    return found


def any_kept(conn: Connection, scope: Scope, *, kind: str = "response") -> bool:
    """Return whether any lookup of the scope that is still there outlived a sampler, at the price of one index probe."""
    whole = Window(0, 1 << 62)
    query = select(lookups.c.id).where(beside_namespace(whole, scope), _TOLD, lookups.c.cache_kind == kind)
    return conn.execute(query.limit(1)).first() is not None
