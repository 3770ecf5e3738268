"""Reclaim: delete what a purge hid, in bounded batches, and look again until nothing is left."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.errors import ActFailed, EngineConflict
from app.jobs.run import JobRun
from storage import actions

BATCH = 500
_PAUSE_S = 0.02  # between batches, so that lookups get their turn at the store


def run(run: JobRun) -> Mapping[str, Any]:
    """Return the figures. Ends at once, with nothing deleted, when the purge was undone."""
    purge_id = str(run.job.parameters["purge_id"])
    with run.ctx.ops.read() as conn:
        act = actions.get(conn, run.job.act_id)
    if act is not None and act.state == "pending":
        raise ActFailed("the purge is still being verified")
    progress = {"done": 0, "total": int(run.job.parameters.get("entries") or 0), **run.job.progress}
    while True:
        try:
            batch = run.ctx.engine.reclaim(purge_id, BATCH)
        except EngineConflict:
            return {**progress, "undone": True}
        progress["done"] += batch.deleted
        progress["total"] = max(progress["total"], progress["done"] + batch.remaining)
        progress["via"] = str(batch.via)
        if batch.remaining == 0:
            break
        run.report(progress)
        run.stop.wait(_PAUSE_S)
    if act is not None:  # a purge asked of a gateway directly has no act here
        actions.record(run.ctx.ops, act_id=run.job.act_id, event="reclaimed", body={"deleted": progress["done"]}, at_ms=run.ctx.clock())
    return progress
