"""Switch, threshold and the return to an earlier policy. What is in force is the engine's to say; its history is kept here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from app.admin.context import AdminContext, find_namespace
from app.admin.record import ActResult, earlier, perform
from app.admin.roles import authorise
from app.errors import EngineConflict, InvalidValue, Refused
from engine.records import score_json
from engine.types import Normaliser, Policy, Switch
from storage import policies

_TRIES = 5  # a switch does not depend on the rest of the policy: when another change comes between, it is set on that one


def policy_in_force(ctx: AdminContext, namespace: str) -> Policy:
    """Return the namespace's policy as the engine has it; the defaults when it has none."""
    found = find_namespace(ctx, namespace)
    return found.policy if found else Policy()


def as_json(policy: Policy) -> dict[str, Any]:
    """Return the fields an operator can change, as the control record holds them."""
    return {
        "switch": policy.switch.value,
        "threshold": policy.threshold,
        "ttl_s": policy.ttl_s,
        "verify_mode": policy.verify_mode.value,
        "holdout_ratio": policy.holdout_ratio,
        "normaliser": policy.normaliser.value,
        "score": None if policy.score is None else score_json(policy.score),
        "judge": policy.judge.value,
    }


def set_switch(ctx: AdminContext, namespace: str, switch: str, operation_id: str) -> ActResult:
    """Set what the namespace may serve: on, exact-only or off."""
    authorise(ctx.actor, "switch", ctx.engine.capabilities)
    found = earlier(ctx, operation_id, kind="switch", namespace=namespace)
    if found:
        return found
    try:
        wanted = Switch(switch)
    except ValueError as error:
        raise InvalidValue(f"{switch!r} is no switch; expected {', '.join(Switch)}. Nothing was changed") from error

    def work() -> Mapping[str, Any]:
        for attempt in range(_TRIES):
            before = policy_in_force(ctx, namespace)
            try:
                return _change(ctx, before, namespace, {"switch": wanted.value}, expected_version=before.version, act_id=operation_id)
            except EngineConflict:
                if attempt == _TRIES - 1:
                    raise
        raise AssertionError("the loop returns or raises")

    return perform(ctx, act_id=operation_id, kind="switch", namespace=namespace, parameters={"switch": wanted.value}, work=work)


def set_threshold(ctx: AdminContext, namespace: str, threshold: float | None, operation_id: str, expected_version: int) -> ActResult:
    """Set the similarity from which a candidate may serve; None = the embedder's own. Fails when the policy is another by now."""
    authorise(ctx.actor, "threshold", ctx.engine.capabilities)
    found = earlier(ctx, operation_id, kind="threshold", namespace=namespace)
    if found:
        return found
    if threshold is not None and not (math.isfinite(threshold) and -1 <= threshold <= 1):
        raise InvalidValue(f"a threshold is a cosine from -1 to 1, not {threshold!r}. Nothing was changed")
    return policy_act(ctx, namespace, {"threshold": threshold}, operation_id, expected_version)


def set_normaliser(ctx: AdminContext, namespace: str, normaliser: str, operation_id: str, expected_version: int) -> ActResult:
    """Set which spellings of a request share a key. Entries of the one before are not seen until it is set back."""
    authorise(ctx.actor, "normaliser", ctx.engine.capabilities)
    found = earlier(ctx, operation_id, kind="normaliser", namespace=namespace)
    if found:
        return found
    if normaliser not in set(Normaliser):
        raise InvalidValue(f"{normaliser!r} is no normaliser; expected {', '.join(Normaliser)}. Nothing was changed")
    return policy_act(ctx, namespace, {"normaliser": normaliser}, operation_id, expected_version, kind="normaliser")


def restore_policy(ctx: AdminContext, namespace: str, version: int, operation_id: str, expected_version: int) -> ActResult:
    """Set everything as it was in an earlier version but the switch, a lever of its own, which stays."""
    authorise(ctx.actor, "threshold", ctx.engine.capabilities)
    found = earlier(ctx, operation_id, kind="threshold", namespace=namespace)
    if found:
        return found
    # Version 0 is no policy of its own: the installation's TTL, not the one in the code.
    changes = {**as_json(Policy()), "ttl_s": None, "holdout_ratio": None} if version == 0 else _recorded(ctx, namespace, version)
    changes.pop("switch")
    return policy_act(ctx, namespace, changes, operation_id, expected_version, note={"restored_version": version})


def _recorded(ctx: AdminContext, namespace: str, version: int) -> dict[str, Any]:
    with ctx.ops.read() as conn:
        found = policies.at(conn, namespace, version)
        rows = policies.history(conn, namespace)
    if found is not None:
        return dict(found.policy)
    known = ", ".join(str(row.version) for row in rows) or "none"
    raise Refused(f"{namespace!r} has no recorded policy {version} (known: {known}). Nothing was changed")


def policy_act(
    ctx: AdminContext,
    namespace: str,
    changes: Mapping[str, Any],
    operation_id: str,
    expected_version: int,
    *,
    kind: str = "threshold",
    note: Mapping[str, Any] | None = None,
) -> ActResult:
    """Change the policy as an act of this kind. note: what else its record says. The caller has authorised it."""

    def work() -> Mapping[str, Any]:
        before = policy_in_force(ctx, namespace)
        return _change(ctx, before, namespace, changes, expected_version=expected_version, act_id=operation_id)

    return perform(
        ctx,
        act_id=operation_id,
        kind=kind,
        namespace=namespace,
        parameters={**changes, **(note or {}), "expected_version": expected_version},
        work=work,
    )


def _change(
    ctx: AdminContext, before: Policy, namespace: str, changes: Mapping[str, Any], *, expected_version: int, act_id: str
) -> Mapping[str, Any]:
    """Change the policy in force and keep its history; return the figures for the audit."""
    try:
        after = ctx.engine.set_policy(namespace, changes, expected_version, act_id)
    except EngineConflict as error:
        now = policy_in_force(ctx, namespace)
        # The answer to our own first attempt may have been lost on the way to a gateway: then our change is in force already.
        if now.version == expected_version + 1 and all(as_json(now)[name] == value for name, value in changes.items()):
            after = now
        else:
            raise EngineConflict(
                f"the policy of {namespace!r} is at version {now.version}, not {expected_version}: somebody changed it; look again",
                code=error.code,
                status=error.status,
            ) from error
    policies.append(
        ctx.ops,
        namespace=namespace,
        version=after.version,
        policy=as_json(after),
        actor=ctx.actor.name,
        act_id=act_id,
        at_ms=ctx.clock(),
    )
    return {"before": {**as_json(before), "version": before.version}, "after": {**as_json(after), "version": after.version}}
