"""The shared store itself, through `engine.control`: the way taken when no gateway answers.

Gateways that live see what was done by their next poll.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

from app.adapters.base import (
    EngineState,
    GatewayInfo,
    KeyInfo,
    NamespaceInfo,
    Preview,
    PurgeInfo,
    Reclaimed,
    SampleEntry,
    Via,
    Visible,
)
from app.errors import EngineConflict, EngineRefused, EngineUnavailable
from engine.control import Control
from engine.errors import Conflict, EngineError, InvalidRequest, InvalidSetting
from engine.records import GatewayInfo as GatewayRecord
from engine.records import Purge, TenantKey
from engine.tiers import open_store
from engine.tiers.base import StoreTier
from engine.types import Policy

T = TypeVar("T")
TIMEOUT_S = 5.0  # an operator waits longer than a lookup does


class SharedStore:
    """Opens the store for each call and closes it again, so that no connection outlives the event loop of its call."""

    def __init__(self, cache_url: str, *, clock: Callable[[], int], defaults: Policy, timeout_s: float = TIMEOUT_S) -> None:
        """defaults: the policy of a namespace that has none, as the gateways have it."""
        self._url = cache_url
        self._clock = clock
        self._defaults = defaults
        self._timeout_s = timeout_s

    def _run(self, work: Callable[[Control], Awaitable[T]]) -> T:
        return self._with_store(lambda control, _: work(control))

    def _with_store(self, work: Callable[[Control, StoreTier], Awaitable[T]]) -> T:
        async def call() -> T:
            store = open_store(self._url, timeout_s=self._timeout_s, clock=self._clock)
            try:
                return await work(Control(store, clock=self._clock, defaults=self._defaults), store)
            finally:
                await store.close()

        try:
            return asyncio.run(call())
        except Conflict as error:
            raise EngineConflict(str(error), code="conflict", status=409) from error
        except EngineError as error:
            if error.retryable:
                raise EngineUnavailable(f"no gateway answers, and the store does not either: {error}") from error
            raise EngineRefused(str(error), code=type(error).__name__, status=_status(error)) from error

    def state(self) -> EngineState:
        async def work(control: Control, store: StoreTier) -> EngineState:
            return EngineState(
                gateway_id="",
                started_ms=0,
                control_token=await store.control_token(),
                control_age_ms=None,
                store={"url_scheme": urlsplit(self._url).scheme, "ok": True, "error": ""},
                embedder={},
                upstream={},
                keys=sum(1 for key in await control.key_list() if key.revoked_ms is None),
                counters={},
                prompts_recorded=None,
                demo=None,
                via=Via.STORE,
            )

        return self._with_store(work)

    def namespaces(self) -> list[NamespaceInfo]:
        found = self._run(lambda control: control.namespaces())
        return [
            NamespaceInfo(
                name=row.name,
                policy=row.policy,
                live=tuple(sorted(row.generations.live)),
                purges=tuple(_purge(purge) for purge in row.undoable),
                via=Via.STORE,
            )
            for row in found
        ]

    def gateways(self) -> list[GatewayInfo]:
        async def work(control: Control, store: StoreTier) -> list[GatewayInfo]:
            token = await store.control_token()
            return [_gateway(row, current=row.token == token) for row in await control.gateways()]

        return self._with_store(work)

    def preview(self, namespace: str) -> Preview:
        found = self._run(lambda control: control.preview(namespace))
        return Preview(
            namespace=found.namespace,
            entries=found.entries,
            bytes=found.bytes,
            tenants=dict(found.tenants),
            models=dict(found.models),
            oldest_ms=found.oldest_ms,
            newest_ms=found.newest_ms,
            value_usd=found.value_usd,
            sample=tuple(
                SampleEntry(
                    entry_id=head.entry_id,
                    tenant=head.tenant,
                    model=head.model,
                    created_ms=head.created_ms,
                    expires_ms=head.expires_ms,
                    size_bytes=head.size_bytes,
                    cost_usd=head.cost_usd,
                    prompt=head.prompt,
                )
                for head in found.sample
            ),
            live=tuple(sorted(found.live)),
            via=Via.STORE,
        )

    def visible(self, namespace: str) -> Visible:
        async def work(control: Control, store: StoreTier) -> Visible:
            token = await store.control_token()
            return Visible(visible=await control.count_visible(namespace), control_token=token, via=Via.STORE)

        return self._with_store(work)

    def stored(self, namespace: str, keys: Sequence[str]) -> frozenset[str]:
        return frozenset(self._run(lambda control: control.stored(namespace, keys)))

    def purge(self, namespace: str, operation_id: str) -> PurgeInfo:
        return _purge(self._run(lambda control: control.purge(namespace, operation_id=operation_id)))

    def undo(self, purge_id: str) -> PurgeInfo:
        return _purge(self._run(lambda control: control.undo(purge_id)))

    def reclaim(self, purge_id: str, batch: int) -> Reclaimed:
        deleted, remaining = self._run(lambda control: control.reclaim(purge_id, batch=batch))
        return Reclaimed(deleted=deleted, remaining=remaining, via=Via.STORE)

    def set_policy(self, namespace: str, changes: Mapping[str, Any], expected_version: int, operation_id: str) -> Policy:
        return self._run(
            lambda control: control.set_policy(namespace, dict(changes), expected_version=expected_version, operation_id=operation_id)
        )

    def key_list(self) -> list[KeyInfo]:
        return [_key(row) for row in self._run(lambda control: control.key_list())]

    def key_create(self, tenant: str, namespaces: Sequence[str], model_versions: Sequence[str], scope: str = "") -> KeyInfo:
        key, secret = self._run(
            lambda control: control.key_create(tenant, namespaces=tuple(namespaces), model_versions=tuple(model_versions), scope=scope)
        )
        return dataclasses.replace(_key(key), secret=secret)

    def key_revoke(self, key_id: str) -> KeyInfo:
        return _key(self._run(lambda control: control.key_revoke(key_id)))


def _status(error: EngineError) -> int:
    """Return the status with which a gateway would have answered."""
    if isinstance(error, InvalidRequest):
        return error.status
    return 400 if isinstance(error, InvalidSetting) else 500


def _purge(row: Purge) -> PurgeInfo:
    return PurgeInfo(
        id=row.id,
        namespace=row.namespace,
        at_ms=row.at_ms,
        state=row.state,
        entries=row.entries,
        old_live=tuple(row.old_live),
        new=row.new,
        via=Via.STORE,
    )


def _key(row: TenantKey) -> KeyInfo:
    return KeyInfo(
        id=row.id,
        tenant=row.tenant,
        namespaces=tuple(row.namespaces),
        model_versions=tuple(row.model_versions),
        created_ms=row.created_ms,
        revoked_ms=row.revoked_ms,
        scope=row.scope,
        via=Via.STORE,
    )


def _gateway(row: GatewayRecord, *, current: bool) -> GatewayInfo:
    return GatewayInfo(
        id=row.id,
        url=row.url,
        pid=row.pid,
        started_ms=row.started_ms,
        last_ms=row.last_ms,
        token=row.token,
        current=current,
        via=Via.STORE,
    )
