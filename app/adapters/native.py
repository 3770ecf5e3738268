"""Cachescope's own engine: the gateway's control API first, the shared store itself when no gateway answers.

Only silence (connection refused, broken or timed out) leads to the store; a 4xx or 5xx is an answer. Each act is idempotent,
by its operation id or by the version it expects, so an act whose answer was lost may be done again on the other way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import httpx

from app.adapters import decode
from app.adapters.base import (
    Capabilities,
    EngineState,
    GatewayInfo,
    KeyInfo,
    NamespaceInfo,
    Preview,
    PurgeInfo,
    Reclaimed,
    Visible,
    WarmRequest,
    WarmResult,
)
from app.adapters.store import SharedStore
from app.errors import EngineConflict, EngineRefused, EngineUnavailable
from engine.types import Policy

CONNECT_S = 0.5  # a gateway on this machine or in the same rack connects in milliseconds
ANSWER_S = 5.0  # a preview scans the namespace; everything else is far quicker

T = TypeVar("T")


class _Silence(Exception):
    """No gateway answered."""


class NativeAdapter:
    """Implements `app.adapters.base.EngineAdapter`. Safe to share between threads."""

    name = "cachescope"
    capabilities = Capabilities(purge=True, undo=True, reclaim=True, policy=True, warm=True, keys=True)

    def __init__(self, gateway_url: str, admin_token: str, *, store: SharedStore) -> None:
        self._url = gateway_url
        self._store = store
        # Proxies of the environment are for the upstream; the control API is never behind one.
        self._client = httpx.Client(
            base_url=f"{gateway_url}/control/v1",
            headers={"authorization": f"Bearer {admin_token}"},
            timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S),
            trust_env=False,
            verify=httpx.URL(gateway_url).scheme != "http",  # reading the certificates that plain HTTP has no use for takes 20 ms
        )

    def close(self) -> None:
        self._client.close()

    def state(self) -> EngineState:
        try:
            return self._decoded(decode.state, "GET", "/state")
        except _Silence:
            return self._store.state()

    def namespaces(self) -> Sequence[NamespaceInfo]:
        try:
            return self._decoded(lambda value: [decode.namespace(row) for row in value["namespaces"]], "GET", "/namespaces")
        except _Silence:
            return self._store.namespaces()

    def gateways(self) -> Sequence[GatewayInfo]:
        try:
            return self._decoded(
                lambda value: [decode.gateway(row, current=bool(row["applied"])) for row in value["gateways"]], "GET", "/gateways"
            )
        except _Silence:
            return self._store.gateways()

    def preview(self, namespace: str) -> Preview:
        try:
            return self._decoded(decode.preview, "GET", "/preview", params={"namespace": namespace})
        except _Silence:
            return self._store.preview(namespace)

    def visible(self, namespace: str) -> Visible:
        try:
            return self._decoded(decode.visible, "GET", "/visible", params={"namespace": namespace})
        except _Silence:
            return self._store.visible(namespace)

    def stored(self, namespace: str, keys: Sequence[str]) -> frozenset[str]:
        try:
            return self._decoded(
                lambda value: frozenset(map(str, value["stored"])), "POST", "/stored", json={"namespace": namespace, "keys": list(keys)}
            )
        except _Silence:
            return self._store.stored(namespace, keys)

    def purge(self, namespace: str, operation_id: str) -> PurgeInfo:
        body = {"namespace": namespace, "operation_id": operation_id}
        try:
            return self._decoded(decode.purge, "POST", "/purge", json=body)
        except _Silence:
            return self._store.purge(namespace, operation_id)

    def undo(self, purge_id: str, operation_id: str) -> PurgeInfo:
        try:
            return self._decoded(decode.purge, "POST", "/undo", json={"purge_id": purge_id, "operation_id": operation_id})
        except _Silence:
            return self._store.undo(purge_id)

    def reclaim(self, purge_id: str, batch: int = 500) -> Reclaimed:
        try:
            return self._decoded(decode.reclaimed, "POST", "/reclaim", json={"purge_id": purge_id, "batch": batch})
        except _Silence:
            return self._store.reclaim(purge_id, batch)

    def set_policy(self, namespace: str, changes: Mapping[str, Any], expected_version: int, operation_id: str) -> Policy:
        body = {
            "namespace": namespace,
            "changes": dict(changes),
            "expected_version": expected_version,
            "operation_id": operation_id,
        }
        try:
            return self._decoded(lambda value: decode.policy(value["policy"]), "POST", "/policy", json=body)
        except _Silence:
            return self._store.set_policy(namespace, changes, expected_version, operation_id)

    def warm(self, request: WarmRequest, operation_id: str) -> WarmResult:
        body = {
            "namespace": request.namespace,
            "tenant": request.tenant,
            "model_version": request.model_version,
            "adapter": request.adapter,
            "retrieval_version": request.retrieval_version,
            "scope": request.scope,
            "body": dict(request.body),
            "operation_id": operation_id,
        }
        timeout = httpx.Timeout(request.timeout_s, connect=CONNECT_S)
        try:
            return self._decoded(decode.warmed, "POST", "/warm", json=body, timeout=timeout)
        except _Silence as error:
            raise EngineUnavailable(f"no gateway answers at {self._url}, and warming needs one: start it (cachescope gateway)") from error

    def key_list(self) -> Sequence[KeyInfo]:
        try:
            return self._decoded(lambda value: [decode.key(row) for row in value["keys"]], "GET", "/keys")
        except _Silence:
            return self._store.key_list()

    def key_create(
        self, tenant: str, namespaces: Sequence[str] = ("*",), model_versions: Sequence[str] = ("*",), scope: str = ""
    ) -> KeyInfo:
        body = {"tenant": tenant, "namespaces": list(namespaces), "model_versions": list(model_versions), "scope": scope}
        try:
            return self._decoded(decode.key, "POST", "/keys", json=body)
        except _Silence as silence:
            if not isinstance(silence.__cause__, httpx.ConnectError | httpx.ConnectTimeout):
                # It may have been made: a second one would be active and in nobody's record.
                raise EngineUnavailable("the gateway did not answer, and the key may exist: see `cachescope key list`") from silence
            return self._store.key_create(tenant, namespaces, model_versions, scope)

    def key_revoke(self, key_id: str) -> KeyInfo:
        if not key_id.isalnum():
            raise EngineRefused(f"{key_id[:64]!r} is not a key's id; see `cachescope key list`", code="unknown_key", status=404)
        try:
            return self._decoded(decode.key, "DELETE", f"/keys/{key_id}")
        except _Silence:
            return self._store.key_revoke(key_id)

    def _decoded(
        self,
        shape: Callable[[Any], T],
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        json: Mapping[str, Any] | None = None,
        timeout: httpx.Timeout | None = None,
    ) -> T:
        try:
            answer = self._client.request(
                method, path, params=params, json=json, timeout=timeout or httpx.Timeout(ANSWER_S, connect=CONNECT_S)
            )
        except httpx.TransportError as error:
            raise _Silence from error
        value = self._json(answer)
        if answer.status_code >= 400:
            raise self._refusal(answer.status_code, value)
        try:
            return shape(value)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._stranger() from error

    def _json(self, answer: httpx.Response) -> Any:
        try:
            return answer.json()
        except ValueError as error:
            raise self._stranger() from error

    def _stranger(self) -> EngineRefused:
        return EngineRefused(
            f"what answers at {self._url} is not a gateway of this version of Cachescope", code="not_a_gateway", status=502
        )

    def _refusal(self, status: int, value: Any) -> EngineRefused | EngineUnavailable:
        fault = value.get("error") if isinstance(value, dict) else None
        if not isinstance(fault, dict):
            return self._stranger()
        code, message = str(fault.get("code", "refused")), str(fault.get("message", ""))
        if status == 401:
            return EngineRefused(
                f"the gateway at {self._url} does not know this admin token: it runs on another data folder "
                f"(is it the demo? add --demo), or CACHESCOPE_ADMIN_TOKEN differs",
                code=code,
                status=status,
            )
        if status == 409:
            return EngineConflict(message, code=code, status=status)
        if status >= 500:
            return EngineUnavailable(f"the gateway at {self._url} answered {status}: {message}", code=code)
        return EngineRefused(message, code=code, status=status)
