"""Held-out lookups: would-be hits that were sent upstream, and how far the two answers agree."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from storage.reads.traces import contents, payloads, spans
from storage.reads.window import NEWEST, Scope, Window, lookups, rollups, within

MAX_ROWS = 2_000
_REASON = "holdout"
_AGREEMENT = "cachescope.holdout.agreement_ratio"


@dataclass(frozen=True, slots=True)
class HeldRow:
    """A held-out lookup. candidates: neighbours considered, None = an exact hit was held out.

    agreement_ratio: of the two answers, 0…1; None = they could not be compared, or their span is no longer kept.
    """

    trace_id: bytes
    at_ms: int
    outcome: str
    tenant: str
    candidates: int | None
    similarity: float | None
    upstream_ms: float | None
    cost_usd: float | None
    prompt: str | None
    candidate_prompt: str | None
    agreement_ratio: float | None


def count(conn: Connection, window: Window, scope: Scope) -> int:
    """Return how many lookups were held out, by the rollups. One whose upstream call failed has another reason."""
    found = rollups(conn, window, scope, ("reason", "lookups"))
    return int(conn.execute(select(func.sum(found.c.lookups)).where(found.c.reason == _REASON)).scalar() or 0)


def held_out(conn: Connection, window: Window, scope: Scope, *, limit: int = MAX_ROWS) -> list[HeldRow]:
    """Return the newest `limit` held-out lookups, newest first. Nothing is read where the rollups know of none."""
    if not count(conn, window, scope):
        return []
    names = [name for name in HeldRow.__dataclass_fields__ if name != "agreement_ratio"]
    query = (
        select(*(lookups.c[name] for name in names), payloads.c.payload)
        .join_from(lookups, spans, (spans.c.trace_id == lookups.c.trace_id) & (spans.c.span_id == lookups.c.span_id), isouter=True)
        .join(payloads, payloads.c.span_id == spans.c.id, isouter=True)
        .where(within(lookups, window, scope), lookups.c.held_out.is_(True))
        .order_by(*NEWEST)
        .limit(limit)
    )
    rows = []
    for row in conn.execute(query):
        given = contents(row.payload)[0].get(_AGREEMENT)
        ratio = float(given) if isinstance(given, int | float) and 0 <= given <= 1 else None
        rows.append(HeldRow(**dict(zip(names, row[:-1], strict=True)), agreement_ratio=ratio))
    return rows
