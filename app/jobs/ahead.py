"""Analyses that are computed ahead: when one is due, and that one is under way at most."""

from __future__ import annotations

from typing import Final

from storage import analyses, jobs
from storage.store import Store

KINDS: Final = ("regret", "drift")  # of jobs; one at a time, so that a purge's reclaim always finds a thread
BUDGET_S: Final = 60.0  # what is left over comes first the next time
_KEEP_MS: Final = 7 * 86_400_000


def schedule(ops: Store, *, kind: str, every_ms: int, now_ms: int, stored: tuple[str, ...]) -> None:
    """Queue an analysis each `every_ms`, by whichever worker comes first; none while any is under way. stored: its kinds of rows."""
    with ops.read() as conn:
        act_id = f"{kind}-{now_ms // every_ms}"
        if any(jobs.under_way(conn, one) for one in KINDS) or jobs.of_act(conn, act_id) is not None:
            return
    jobs.enqueue(ops, kind=kind, act_id=act_id, namespace="", parameters={}, now_ms=now_ms)
    jobs.trim(ops, kind=kind, before_ms=now_ms - 86_400_000)
    for one in stored:
        analyses.forget(ops, kind=one, before_ms=now_ms - _KEEP_MS)
