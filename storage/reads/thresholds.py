"""Recorded lookups that had a candidate: what a threshold decides on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, func, not_, select

from storage.reads.window import NEWEST, Scope, Window, lookups, newest_from, rollups, within

MAX_ROWS = 10_000
MOST_LOOKED = 50_000  # lookups of the namespace whose rows are read for them: some 0.15 s


class CandidateRow(NamedTuple):
    """A lookup and its candidate. similarity, threshold: cosine, the threshold at that time. verdicts: JSON.

    passed: False when verification vetoed the candidate; True also where no verification is recorded. held_out: a semantic hit that was
    sent upstream to learn the truth. Prompts are None where they are not recorded.
    """

    id: int
    trace_id: bytes
    at_ms: int
    outcome: str
    tenant: str
    similarity: float
    threshold: float | None
    passed: bool
    held_out: bool
    verdicts: str
    prompt_hash: str
    candidate_id: str
    prompt: str | None
    candidate_prompt: str | None


@dataclass(frozen=True, slots=True)
class SimilarityCount:
    """How many lookups of a namespace had a candidate. lookups: all that were looked up in the response cache."""

    namespace: str
    lookups: int
    with_candidate: int
    semantic_hits: int
    vetoed: int


def _looked_up(window: Window, scope: Scope) -> ColumnElement[bool]:
    return and_(within(lookups, window, scope), lookups.c.cache_kind == "response", lookups.c.outcome.not_in(["bypass", "error"]))


def _judged(window: Window, scope: Scope) -> ColumnElement[bool]:
    """Lookups that a threshold decided on. An exact hit has no candidate, whatever a sender recorded with it, held out or not."""
    held_out = and_(func.coalesce(lookups.c.held_out, False), lookups.c.candidates.is_(None), lookups.c.similarity >= 1)
    return and_(_looked_up(window, scope), lookups.c.similarity.is_not(None), lookups.c.outcome != "exact_hit", not_(held_out))


def looked(conn: Connection, window: Window, scope: Scope) -> Window:
    """Return the part of the window that holds the newest 50,000 lookups of the scope's namespace; all of it where there are no more."""
    return replace(window, start_ms=newest_from(conn, window, Scope(namespace=scope.namespace, purpose=None), MOST_LOOKED))


def candidates(conn: Connection, window: Window, scope: Scope, *, limit: int = MAX_ROWS) -> list[CandidateRow]:
    """Return the newest `limit` lookups with a candidate, newest first."""
    told = {"passed": func.coalesce(lookups.c.passed, True), "held_out": func.coalesce(lookups.c.held_out, False)}
    columns = [told.get(name, lookups.c[name]) for name in CandidateRow._fields]
    query = select(*columns).where(_judged(window, scope)).order_by(*NEWEST).limit(limit)
    return list(map(CandidateRow._make, conn.execute(query).all()))


def by_namespace(conn: Connection, window: Window, scope: Scope) -> list[SimilarityCount]:
    """Return one row for each namespace with response-cache traffic in the window, by name."""
    found = rollups(conn, window, scope, ("namespace", "outcome", "lookups", "judged_n", "vetoed_n"), kind="response")
    columns = found.c
    query = (
        select(
            columns.namespace,
            func.sum(columns.lookups),
            func.sum(columns.judged_n),
            func.sum(func.iif(columns.outcome == "semantic_hit", columns.judged_n, 0)),
            func.sum(columns.vetoed_n),
        )
        .where(columns.outcome.not_in(["bypass", "error"]))
        .group_by(columns.namespace)
        .order_by(columns.namespace)
    )
    return [SimilarityCount(*row) for row in conn.execute(query)]
