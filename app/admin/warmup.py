"""Warm-up: plan from the recorded misses what should be there before they ask, then let the worker do it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.admin import tokens
from app.admin.context import AdminContext
from app.admin.record import ActResult, earlier, perform
from app.admin.roles import authorise
from app.errors import EngineRefused, EngineUnavailable, InvalidValue, Refused
from storage import actions, jobs
from storage.reads import sampling
from storage.reads import warmup as reads
from storage.reads.window import Scope, Window

MOST = 1_000  # requests of one warm-up: their keys stand in the job's row
DAY_MS = 86_400_000
STORED = "stored_by_now"  # why a request need not be warmed


@dataclass(frozen=True, slots=True)
class WarmupItem:
    """One request to warm. prompt is a tenant's text: data, never markup. reason: why it is not warmed; '' = it is."""

    key: str
    tenant: str
    model: str
    model_version: str
    misses: int
    prompt: str | None
    tokens: float | None
    cost_usd: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class WarmupPlan:
    """What a warm-up would send upstream, and the token that lets this actor start it.

    distinct, misses: all that was recorded in the window. cost_usd, tokens: from what these requests cost and reported before; None =
    nothing known of any. costed, counted: how many of the warmable ones they cover. not_warmable: reason -> requests, without those
    that need not be: stored, of the items, None = the engine could not be asked, so that all the rest is an upper bound.
    sampled: a sampler dropped some lookups, so there were more misses, and others may be more frequent.
    """

    token: str
    namespace: str
    since_ms: int
    until_ms: int
    distinct: int
    misses: int
    items: tuple[WarmupItem, ...]
    not_warmable: Mapping[str, int]
    stored: int | None
    tokens: float | None
    counted: int
    cost_usd: float | None
    costed: int
    seconds: float
    sampled: bool = False

    @property
    def warmable(self) -> tuple[WarmupItem, ...]:
        return tuple(item for item in self.items if not item.reason)


def plan_warmup(ctx: AdminContext, namespace: str, limit: int = 100, since_ms: int | None = None, tenant: str | None = None) -> WarmupPlan:
    """Return the plan of the `limit` most frequent misses since then (default: a day), less those whose answer is stored by now."""
    authorise(ctx.actor, "warmup", ctx.engine.capabilities)
    if not 1 <= limit <= MOST:
        raise InvalidValue(f"a warm-up takes 1 to {MOST} requests, not {limit}")
    until = ctx.clock()
    since = until - DAY_MS if since_ms is None else since_ms
    with ctx.telemetry().read() as conn:
        distinct, misses = reads.count_missed(conn, namespace=namespace, since_ms=since, until_ms=until, tenant=tenant)
        rows = reads.most_missed(conn, namespace=namespace, since_ms=since, until_ms=until, limit=limit, tenant=tenant)
        sampled = bool(sampling.kept(conn, Window(since, until), Scope(namespace=namespace, tenant=tenant)))
        recorded = reads.bodies(conn, namespace=namespace, since_ms=since, until_ms=until, keys=[row.key for row in rows])
    stored = _stored(ctx, namespace, rows)
    items = tuple(_item(row, recorded[row.key], stored=stored is not None and row.key in stored) for row in rows)
    warmable = [item for item in items if not item.reason]
    reasons: dict[str, int] = {}
    for item in items:
        if item.reason and item.reason != STORED:
            reasons[item.reason] = reasons.get(item.reason, 0) + 1
    costs = [item.cost_usd for item in warmable if item.cost_usd is not None]
    counts = [item.tokens for item in warmable if item.tokens is not None]
    claims = {
        "kind": "warmup",
        "actor": ctx.actor.name,
        "namespace": namespace,
        "tenant": tenant,
        "since_ms": since,
        "until_ms": until,
        "limit": limit,
        "digest": _digest(rows, recorded),
    }
    return WarmupPlan(
        token=tokens.sign(ctx.secret, claims, now_ms=ctx.clock()),
        namespace=namespace,
        since_ms=since,
        until_ms=until,
        distinct=distinct,
        misses=misses,
        items=items,
        not_warmable=reasons,
        stored=None if stored is None else len(stored),
        tokens=sum(counts) if counts else None,
        counted=len(counts),
        cost_usd=sum(costs) if costs else None,
        costed=len(costs),
        seconds=len(warmable) / ctx.warmup_rate_per_s,
        sampled=sampled,
    )


def _stored(ctx: AdminContext, namespace: str, rows: Sequence[reads.MissedRequest]) -> frozenset[str] | None:
    """Return the keys that have an entry by now, None when the engine does not say: the run finds out all the same."""
    try:
        return ctx.engine.stored(namespace, [row.key for row in rows])
    except (EngineRefused, EngineUnavailable):
        return None


def _item(row: reads.MissedRequest, recorded: reads.RecordedBody, *, stored: bool) -> WarmupItem:
    reported = [count for count in (row.input_tokens, row.output_tokens) if count is not None]
    return WarmupItem(
        key=row.key,
        tenant=row.tenant,
        model=row.model,
        model_version=row.model_version,
        misses=row.misses,
        prompt=row.prompt,
        tokens=sum(reported) if reported else None,
        cost_usd=row.cost_usd,
        reason=STORED if stored else recorded.reason,
    )


def _digest(rows: Sequence[reads.MissedRequest], recorded: Mapping[str, reads.RecordedBody]) -> str:
    """Of what can be warmed by its record: answers come and expire meanwhile, which changes what it costs and not what was agreed."""
    return hashlib.sha256(",".join(row.key for row in rows if not recorded[row.key].reason).encode()).hexdigest()


def start_warmup(ctx: AdminContext, plan_token: str, operation_id: str) -> ActResult:
    """Give the planned warm-up to the worker; the act stays pending until the job ends."""
    authorise(ctx.actor, "warmup", ctx.engine.capabilities)
    found = _started(ctx, operation_id)
    if found:
        return found
    claims = tokens.verify(ctx.secret, plan_token, kind="warmup", actor=ctx.actor.name, now_ms=ctx.clock())
    namespace: str = claims["namespace"]
    window = {"namespace": namespace, "since_ms": claims["since_ms"], "until_ms": claims["until_ms"]}
    with ctx.telemetry().read() as conn:
        rows = reads.most_missed(conn, **window, limit=claims["limit"], tenant=claims["tenant"])
        recorded = reads.bodies(conn, **window, keys=[row.key for row in rows])
    if _digest(rows, recorded) != claims["digest"]:
        raise Refused("late telemetry changed the plan since it was shown; plan again. Nothing was changed")
    stored = _stored(ctx, namespace, rows) or frozenset()
    warmable = [row for row in rows if not recorded[row.key].reason and row.key not in stored]
    if not warmable and stored:
        raise Refused(f"every miss of {namespace!r} that can be warmed in this window is stored by now. Nothing was changed")
    if not warmable:
        raise Refused(f"{namespace!r} has no recorded miss that can be warmed in this window; widen it, or see the plan's reasons")

    def work() -> Mapping[str, Any]:
        job = jobs.enqueue(
            ctx.ops,
            kind="warmup",
            act_id=operation_id,
            namespace=namespace,
            parameters={
                **window,
                "rate_per_s": ctx.warmup_rate_per_s,
                "items": [[row.key, row.tenant, row.model_version, row.cost_usd] for row in warmable],
            },
            now_ms=ctx.clock(),
        )
        return {"job_id": job.id, "requests": len(warmable)}

    parameters = {"requests": len(warmable), "since_ms": claims["since_ms"], "until_ms": claims["until_ms"]}
    return perform(ctx, act_id=operation_id, kind="warmup", namespace=namespace, parameters=parameters, work=work, finished=False)


def _started(ctx: AdminContext, operation_id: str) -> ActResult | None:
    """Return the act of this operation without waiting for its job to end; None when it is new."""
    with ctx.ops.read() as conn:
        act = actions.get(conn, operation_id)
        job = jobs.of_act(conn, operation_id)
    if act is not None and act.kind == "warmup" and act.state == "pending" and job is not None:
        return ActResult(operation_id, "warmup", act.namespace, "pending", figures={"job_id": job.id}, repeated=True)
    return earlier(ctx, operation_id, kind="warmup")


def cancel_job(ctx: AdminContext, job_id: str) -> bool:
    """Ask a job to stop; it stops after the requests under way. False when it had ended already.

    A reclaim is not cancelled here: `undo_purge` does that, with what belongs to it.
    """
    authorise(ctx.actor, "cancel", ctx.engine.capabilities)
    with ctx.ops.read() as conn:
        job = jobs.get(conn, job_id)
    if job is None:
        raise Refused(f"there is no job {job_id!r}. Nothing was changed")
    if job.kind != "warmup":
        raise Refused("only a warm-up can be cancelled; a purge is undone. Nothing was changed")
    stopped = jobs.cancel(ctx.ops, job_id, now_ms=ctx.clock())
    if stopped:  # recorded under the one who cancelled; a worker's own record comes second and does nothing
        with ctx.ops.read() as conn:
            ended = jobs.get(conn, job_id) or job
        actions.record(
            ctx.ops,
            act_id=job.act_id,
            event="cancelled",
            body={"written": 0, **ended.progress, "by": ctx.actor.name},
            at_ms=ctx.clock(),
            actor=ctx.actor.name,
            origin=ctx.origin,
        )
    return bool(stopped)
