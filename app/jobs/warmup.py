"""Warm-up: ask the gateway, as each tenant, for what was missed most; a few at a time, no faster than allowed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

from app.adapters.base import WarmRequest, WarmResult
from app.errors import ActFailed, EngineRefused, EngineUnavailable, NothingDone
from app.jobs.run import LEASE_MS, JobCancelled, JobRun
from storage import actions
from storage.reads import warmup as reads

AT_ONCE = 4  # upstream calls under way: a slow upstream is not hurried, a fast one is held by the rate
KEEP_S = LEASE_MS / 3000
GIVE_UP_AFTER = 8  # batches in a row without one success: the upstream or the gateway is down, and more calls only add cost

Item = Sequence[Any]  # [key, tenant, model_version, cost_usd]


def run(run: JobRun) -> Mapping[str, Any]:
    """Return the figures: written, already, failed by reason, cost_usd. Goes on where an earlier worker stopped.

    Raises NothingDone when every request failed.
    """
    progress = {"done": 0, "written": 0, "already": 0, "failed": {}, "cost_usd": 0.0, **run.job.progress}
    items: list[Item] = list(run.job.parameters["items"])
    progress["total"] = len(items)
    try:
        _all(run, items, progress)
    except JobCancelled as cancelled:
        actions.record(run.ctx.ops, act_id=run.job.act_id, event="cancelled", body=dict(cancelled.figures), at_ms=run.ctx.clock())
        raise
    if items and not progress["written"] and not progress["already"]:
        run.keep(progress)
        raise NothingDone(f"nothing was written: all {len(items)} requests failed ({_reasons(progress)})")
    actions.record(run.ctx.ops, act_id=run.job.act_id, event="done", body=progress, at_ms=run.ctx.clock())
    return progress


def _all(run: JobRun, items: list[Item], progress: dict[str, Any]) -> None:
    fruitless = 0
    run.report(progress)
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="warm") as pool:
        while progress["done"] < len(items):
            batch = items[progress["done"] : progress["done"] + AT_ONCE]
            began = time.monotonic()
            bodies = _bodies(run, batch)
            asked = [pool.submit(_warm, run, item, body) for item, body in zip(batch, bodies, strict=True)]
            while wait(asked, timeout=KEEP_S).not_done:  # a slow upstream must not cost the lease
                run.keep(progress)
            results = [future.result() for future in asked]
            succeeded = sum(_count(result, item, progress) for result, item in zip(results, batch, strict=True))
            progress["done"] += len(batch)
            run.report(progress)
            fruitless = 0 if succeeded else fruitless + 1
            if fruitless >= GIVE_UP_AFTER:
                raise ActFailed(f"{fruitless * AT_ONCE} requests in a row failed ({_reasons(progress)}): given up")
            run.stop.wait(max(0.0, len(batch) / float(run.job.parameters["rate_per_s"]) - (time.monotonic() - began)))


def _bodies(run: JobRun, batch: Sequence[Item]) -> list[reads.RecordedBody]:
    parameters = run.job.parameters
    with run.ctx.telemetry().read() as conn:
        found = reads.bodies(
            conn,
            namespace=run.job.namespace,
            since_ms=int(parameters["since_ms"]),
            until_ms=int(parameters["until_ms"]),
            keys=[str(item[0]) for item in batch],
        )
    return [found[str(item[0])] for item in batch]


def _warm(run: JobRun, item: Item, recorded: reads.RecordedBody) -> WarmResult:
    """Return what became of one request; a refusal is a result too."""
    key, tenant, model_version, _ = item
    if recorded.body is None:
        return WarmResult(outcome="error", stored=False, reason=recorded.reason)
    # A warm-up wants the answer whole; `stream` has no part in the key.
    body = {name: value for name, value in recorded.body.items() if name not in {"stream", "stream_options"}}
    try:
        request = WarmRequest(
            run.job.namespace,
            str(tenant),
            str(model_version),
            body,
            adapter=recorded.adapter,
            retrieval_version=recorded.retrieval_version,
            scope=recorded.scope,
        )
        return run.ctx.engine.warm(request, f"{run.job.act_id}-{key[:16]}")
    except (EngineRefused, EngineUnavailable) as error:
        return WarmResult(outcome="error", stored=False, reason=error.code)


def _count(result: WarmResult, item: Item, progress: dict[str, Any]) -> bool:
    """Add one result to the figures; return whether the answer is in the cache now."""
    if result.already:
        progress["already"] += 1
        return True
    cost = result.cost_usd if result.cost_usd is not None else item[3]
    if result.outcome == "miss" and cost is not None:
        progress["cost_usd"] += cost  # an answer that was not stored was paid for all the same
    if result.stored:
        progress["written"] += 1
        return True
    reason = result.reason or result.outcome
    progress["failed"][reason] = progress["failed"].get(reason, 0) + 1
    return False


def _reasons(progress: Mapping[str, Any]) -> str:
    return ", ".join(f"{reason} {count}" for reason, count in sorted(progress["failed"].items()))
