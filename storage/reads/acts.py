"""Operators' acts in a window, for the marks on time charts. From `ops.db`."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, Table, select

from storage.ops_models import ops_metadata
from storage.reads.window import Window

act_events: Table = ops_metadata.tables["act_events"]


@dataclass(frozen=True, slots=True)
class Mark:
    """What is marked on a time chart: an act that came to something, or what telemetry itself shows.

    An act has when, what, where and by whom. detail: in words, of a mark that is no act (kind outage | restart); act_id '' then.
    """

    act_id: str
    at_ms: int
    kind: str
    event: str
    namespace: str
    actor: str
    detail: str = ""


def marks(conn: Connection, window: Window, *, namespace: str | None = None, limit: int = 200) -> list[Mark]:
    """Return the acts that took effect in the window, oldest first; the newest `limit` of them. Pending ones are left out."""
    columns = [act_events.c[name] for name in ("act_id", "at_ms", "kind", "event", "namespace", "actor")]
    query = (
        select(*columns)
        .where(act_events.c.at_ms >= window.start_ms, act_events.c.at_ms < window.end_ms)
        .where(act_events.c.event.in_(("done", "undone", "failed")))
        .where(act_events.c.kind.in_(("purge", "undo", "switch", "threshold", "normaliser", "verification", "warmup")))
        .order_by(act_events.c.seq.desc())
        .limit(limit)
    )
    if namespace is not None:
        query = query.where(act_events.c.namespace == namespace)
    return [Mark(*row) for row in conn.execute(query)][::-1]
