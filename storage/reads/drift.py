"""Counts of prompts by window: what entropy and drift are computed from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from sqlalchemy import ColumnElement, Connection, and_, func, select

from storage.reads.window import Scope, Window, lookups, within

MAX_SIMILARITIES = 20_000
MAX_SAMPLES = 200


@dataclass(frozen=True, slots=True)
class PromptSample:
    """One prompt's newest text (None where texts are not recorded) and where it was asked."""

    prompt_hash: str
    prompt: str | None
    namespace: str
    tenant: str


def _prompts(window: Window, scope: Scope) -> ColumnElement[bool]:
    return and_(within(lookups, window, scope), lookups.c.cache_kind == "response", lookups.c.prompt_hash != "")


def prompt_counts(conn: Connection, window: Window, scope: Scope) -> dict[str, int]:
    """Return prompt hash -> lookups."""
    hashed = lookups.c.prompt_hash
    query = select(hashed, func.count()).where(_prompts(window, scope)).group_by(hashed)
    return {row[0]: row[1] for row in conn.execute(query)}


def similarities(conn: Connection, window: Window, scope: Scope) -> list[float]:
    """Return the candidates' similarities (cosine) of the newest lookups, at most 20,000. An exact hit has no candidate."""
    query = (
        select(lookups.c.similarity)
        .where(_prompts(window, scope), lookups.c.similarity.is_not(None), lookups.c.outcome != "exact_hit")
        .order_by(lookups.c.at_ms.desc(), lookups.c.id.desc())
        .limit(MAX_SIMILARITIES)
    )
    return [row[0] for row in conn.execute(query)]


def samples(conn: Connection, window: Window, scope: Scope, hashes: Iterable[str]) -> dict[str, PromptSample]:
    """Return the newest lookup's text for each of the first 200 of these prompts."""
    wanted = list(islice(hashes, MAX_SAMPLES))
    columns = [lookups.c[name] for name in PromptSample.__dataclass_fields__]
    newest = (
        select(func.max(lookups.c.id)).where(_prompts(window, scope), lookups.c.prompt_hash.in_(wanted)).group_by(lookups.c.prompt_hash)
    )
    rows = conn.execute(select(*columns).where(lookups.c.id.in_(newest)))
    return {row.prompt_hash: PromptSample(*row) for row in rows}
