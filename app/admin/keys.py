"""Tenants' API keys: made, shown once, revoked. The audit holds ids, never secrets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from app.adapters.base import KeyInfo
from app.admin.context import AdminContext
from app.admin.record import ActResult, earlier, perform
from app.admin.roles import authorise
from app.errors import InvalidValue


def create_key(
    ctx: AdminContext,
    tenant: str,
    operation_id: str,
    *,
    namespaces: Sequence[str] = ("*",),
    model_versions: Sequence[str] = ("*",),
    scope: str = "",
) -> tuple[ActResult, KeyInfo | None]:
    """Make a key. Its secret is in the KeyInfo, this once; a repeated operation returns None in its place."""
    authorise(ctx.actor, "key_create", ctx.engine.capabilities)
    found = earlier(ctx, operation_id, kind="key_create")
    if found:
        return found, None
    if not tenant.strip():
        raise InvalidValue("a key needs a tenant's name. Nothing was changed")
    made: list[KeyInfo] = []

    def work() -> Mapping[str, Any]:
        key = ctx.engine.key_create(tenant, namespaces, model_versions, scope)
        made.append(key)
        return {"key_id": key.id, "via": str(key.via)}

    parameters = {"tenant": tenant, "namespaces": list(namespaces), "model_versions": list(model_versions), "scope": scope}
    result = perform(ctx, act_id=operation_id, kind="key_create", namespace="", parameters=parameters, work=work)
    return result, made[0] if made else None


def revoke_key(ctx: AdminContext, key_id: str, operation_id: str) -> ActResult:
    """Revoke a key: requests with it are refused from now on."""
    authorise(ctx.actor, "key_revoke", ctx.engine.capabilities)
    found = earlier(ctx, operation_id, kind="key_revoke")
    if found:
        return found

    def work() -> Mapping[str, Any]:
        key = ctx.engine.key_revoke(key_id)
        return {"tenant": key.tenant, "revoked_ms": key.revoked_ms, "via": str(key.via)}

    return perform(ctx, act_id=operation_id, kind="key_revoke", namespace="", parameters={"key_id": key_id}, work=work)
