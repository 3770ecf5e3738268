"""Purge: preview, hide, prove it hidden, reclaim later; and undo until then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.adapters.base import GatewayInfo, Preview, PurgeInfo
from app.admin import tokens
from app.admin.context import AdminContext, find_namespace
from app.admin.record import ActResult, after_a_change, earlier, perform
from app.admin.roles import authorise
from app.admin.stake import Stake, at_stake
from app.errors import ActFailed, Refused
from storage import actions, jobs

# A gateway that has not looked at the store for a second bypasses its tiers by itself. Its heartbeat, which tells us what it
# has applied, is written every second: two of them, and a second for a busy machine.
VERIFY_MS = 3_000
STALE_MS = 3_000  # no heartbeat for this long: stopped, or cut off from the store and bypassing
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class PurgePreview:
    """What a purge would hide now, and the token that lets this actor do it.

    stake: what the entries earn a minute. None when it is not known; stake_unknown then says why.
    """

    token: str
    expires_ms: int
    undo_window_s: float
    preview: Preview
    stake: Stake | None = None
    stake_unknown: str = ""

    @property
    def namespace(self) -> str:
        return self.preview.namespace


def preview_purge(ctx: AdminContext, namespace: str) -> PurgePreview:
    """Return what a purge of the namespace would hide, counted by the engine now."""
    authorise(ctx.actor, "purge", ctx.engine.capabilities)
    preview = ctx.engine.preview(namespace)
    now = ctx.clock()
    claims = {
        "kind": "purge",
        "actor": ctx.actor.name,
        "namespace": namespace,
        "live": list(preview.live),
        "entries": preview.entries,
    }
    token = tokens.sign(ctx.secret, claims, now_ms=now)
    stake, unknown = at_stake(ctx, namespace)
    return PurgePreview(
        token=token,
        expires_ms=now + tokens.LIFETIME_MS,
        undo_window_s=ctx.undo_window_s,
        preview=preview,
        stake=stake,
        stake_unknown=unknown,
    )


def purge(ctx: AdminContext, token: str, typed_name: str, operation_id: str) -> ActResult:
    """Hide every entry of the previewed namespace, verify it, and schedule its reclaiming after the undo window."""
    authorise(ctx.actor, "purge", ctx.engine.capabilities)
    found = earlier(ctx, operation_id, kind="purge")
    if found:
        return found
    claims = tokens.verify(ctx.secret, token, kind="purge", actor=ctx.actor.name, now_ms=ctx.clock())
    namespace: str = claims["namespace"]
    if typed_name != namespace:
        raise Refused(f"the name typed is not exactly {namespace!r}. Nothing was changed")
    if list(_live(ctx, namespace)) != claims["live"]:
        found = earlier(ctx, operation_id, kind="purge")  # a click of the same operation may have come first meanwhile
        if found:
            return found
        raise Refused(f"{namespace!r} was purged or restored since the preview; preview again. Nothing was changed")

    def work() -> Mapping[str, Any]:
        began = ctx.clock()
        done = ctx.engine.purge(namespace, operation_id)
        # Before the verification: what was hidden must be deleted some day, whatever comes of that.
        job = schedule_reclaim(ctx, done, not_before_ms=ctx.clock() + int(ctx.undo_window_s * 1000))
        with after_a_change():
            proof = verify_hidden(ctx, done, began_ms=began)
        return {
            "entries": done.entries,
            "via": str(done.via),
            "old_live": list(done.old_live),
            "new": done.new,
            **proof,
            "undo_until_ms": job.not_before_ms,
        }

    parameters = {"previewed_entries": claims["entries"], "live": claims["live"]}
    return perform(ctx, act_id=operation_id, kind="purge", namespace=namespace, parameters=parameters, work=work)


def schedule_reclaim(ctx: AdminContext, done: PurgeInfo, *, not_before_ms: int) -> jobs.Job:
    """Queue the purge's reclaiming, once; return its job."""
    return jobs.enqueue(
        ctx.ops,
        kind="reclaim",
        act_id=done.id,
        namespace=done.namespace,
        parameters={"purge_id": done.id, "entries": done.entries},
        now_ms=ctx.clock(),
        not_before_ms=not_before_ms,
    )


def heal_reclaims(ctx: AdminContext) -> int:
    """Queue the reclaiming of every purge past its undo window that has none: its process died in between. Return how many."""
    now, queued = ctx.clock(), 0
    for row in ctx.engine.namespaces():
        for done in row.purges:
            if done.state != "hidden" or done.at_ms + int(ctx.undo_window_s * 1000) > now:
                continue
            with ctx.ops.read() as conn:
                known = jobs.of_act(conn, done.id) is not None
            if not known:
                schedule_reclaim(ctx, done, not_before_ms=now)
                queued += 1
    return queued


def undo_purge(ctx: AdminContext, purge_id: str, operation_id: str) -> ActResult:
    """Make a purge's entries visible again, if their reclaiming has not begun."""
    authorise(ctx.actor, "undo", ctx.engine.capabilities)
    found = earlier(ctx, operation_id, kind="undo")
    if found:
        return found
    with ctx.ops.read() as conn:
        act = actions.get(conn, purge_id)
    if act is None or act.kind != "purge":
        raise Refused(f"there is no purge {purge_id!r} on record: ids are on the page Purge. Nothing was changed")

    def work() -> Mapping[str, Any]:
        restored = ctx.engine.undo(purge_id, operation_id)
        with after_a_change():
            live = set(_live(ctx, act.namespace))
            if not set(restored.old_live) <= live:
                raise ActFailed(f"the engine answered, but the generations of {act.namespace!r} that were hidden are not live again")
            _cancel_reclaim(ctx, purge_id)
            actions.record(ctx.ops, act_id=purge_id, event="undone", body={"undo": operation_id, "by": ctx.actor.name}, at_ms=ctx.clock())
            visible = ctx.engine.visible(act.namespace)
        return {"purge_id": purge_id, "visible": visible.visible, "via": str(restored.via)}

    return perform(ctx, act_id=operation_id, kind="undo", namespace=act.namespace, parameters={"purge_id": purge_id}, work=work)


def verify_hidden(ctx: AdminContext, done: PurgeInfo, *, began_ms: int) -> dict[str, Any]:
    """Return the figures that prove the purge, or raise ActFailed.

    Proved when no generation that it hid is live, so that whatever is visible now was stored after it; and when every gateway
    has applied the control records in force, or gives no sign of life (and bypasses its tiers, if it lives).
    """
    deadline = began_ms + VERIFY_MS
    while True:
        hidden = not set(done.old_live) & set(_live(ctx, done.namespace))
        late, current, silent = _sorted_out(ctx.engine.gateways(), now_ms=ctx.clock())
        if hidden and not late:
            return {
                "visible_after": ctx.engine.visible(done.namespace).visible,
                "verified_ms": ctx.clock() - began_ms,
                "gateways_current": len(current),
                "gateways_silent": len(silent),
            }
        if ctx.clock() >= deadline:
            break
        ctx.pause(_LOOK_S)
    if not hidden:
        raise ActFailed(f"the engine answered, but entries of {done.namespace!r} from before the purge are still visible; purge again")
    names = ", ".join(f"{gateway.id} at {gateway.url}" for gateway in late)
    raise ActFailed(
        f"hidden in the store, but not confirmed within {VERIFY_MS / 1000:g} s by gateway {names}: stop it, or purge again when it answers"
    )


def _sorted_out(gateways: Sequence[GatewayInfo], *, now_ms: int) -> tuple[list[GatewayInfo], list[GatewayInfo], list[GatewayInfo]]:
    """Return the gateways that are late, current and silent."""
    current = [gateway for gateway in gateways if gateway.current]
    behind = [gateway for gateway in gateways if not gateway.current]
    silent = [gateway for gateway in behind if now_ms - gateway.last_ms > STALE_MS]
    return [gateway for gateway in behind if gateway not in silent], current, silent


def _cancel_reclaim(ctx: AdminContext, act_id: str) -> None:
    with ctx.ops.read() as conn:
        job = jobs.of_act(conn, act_id)
    if job is not None:
        jobs.cancel(ctx.ops, job.id, now_ms=ctx.clock())


def _live(ctx: AdminContext, namespace: str) -> tuple[str, ...]:
    found = find_namespace(ctx, namespace)
    return found.live if found else ()
