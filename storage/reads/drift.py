"""Prompts by window: what entropy and drift are computed from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, func, select

from storage.reads.changes import stride
from storage.reads.window import Scope, Window, lookups, within

MOST_ROWS = 8_000
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


class Asked(NamedTuple):
    """One lookup, as far as drift needs it. tokens: of the input, None = not reported. similarity: of the candidate, None = none."""

    prompt_hash: str
    prompt_simhash: str
    tokens: int | None
    similarity: float | None
    outcome: str
    entry_id: str


@dataclass(frozen=True, slots=True)
class Mix:
    """Lookups of a window in the order of time. stride: every stride-th was read."""

    rows: tuple[Asked, ...]
    stride: int


def mix(conn: Connection, window: Window, scope: Scope) -> Mix:
    """Return at most about 8,000 of the window's lookups with a prompt, evenly spread."""
    every = stride(conn, window, scope, most=MOST_ROWS)
    # An exact hit has no candidate, whatever a sender recorded with it.
    similarity = func.iif(lookups.c.outcome == "exact_hit", None, lookups.c.similarity)
    columns = [lookups.c.prompt_hash, lookups.c.prompt_simhash, lookups.c.input_tokens, similarity, lookups.c.outcome, lookups.c.entry_id]
    condition = _prompts(window, scope) if every == 1 else and_(_prompts(window, scope), lookups.c.id % every == 0)
    query = select(*columns).where(condition).order_by(lookups.c.at_ms, lookups.c.id)
    return Mix(tuple(map(Asked._make, conn.execute(query).all())), every)


def samples(conn: Connection, window: Window, scope: Scope, hashes: Iterable[str]) -> dict[str, PromptSample]:
    """Return the newest lookup's text for each of the first 200 of these prompts."""
    wanted = list(islice(hashes, MAX_SAMPLES))
    columns = [lookups.c[name] for name in PromptSample.__dataclass_fields__]
    newest = (
        select(func.max(lookups.c.id)).where(_prompts(window, scope), lookups.c.prompt_hash.in_(wanted)).group_by(lookups.c.prompt_hash)
    )
    rows = conn.execute(select(*columns).where(lookups.c.id.in_(newest)))
    return {row.prompt_hash: PromptSample(*row) for row in rows}
