"""Lookups that outlived a sampler: by what it told of how many it kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import ColumnElement, Connection, func, literal_column, select

from storage.reads.window import Scope, Window, beside_namespace, lookups

# In so many words: the index of sampled lookups alone is used only where its own condition stands.
_TOLD: Final[ColumnElement[bool]] = literal_column("lookups.sampler <> ''")


@dataclass(frozen=True, slots=True)
class Kept:
    """Sampled lookups of the response cache. ratio: the probability with which they were kept; None = not told."""

    ratio: float | None
    outcome: str
    lookups: int


def kept(conn: Connection, window: Window, scope: Scope) -> list[Kept]:
    """Return the window's sampled lookups by probability and outcome; none where nobody samples, at the price of one index probe."""
    columns = (lookups.c.kept_ratio, lookups.c.outcome)
    query = select(*columns, func.count()).where(beside_namespace(window, scope), _TOLD, lookups.c.cache_kind == "response")
    return [Kept(*row) for row in conn.execute(query.group_by(*columns))]


def any_kept(conn: Connection, scope: Scope) -> bool:
    """Return whether any lookup of the scope that is still there outlived a sampler, at the price of one index probe."""
    whole = Window(0, 1 << 62)
    query = select(lookups.c.id).where(beside_namespace(whole, scope), _TOLD, lookups.c.cache_kind == "response")
    return conn.execute(query.limit(1)).first() is not None
