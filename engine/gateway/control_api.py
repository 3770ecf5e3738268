"""The control API under /control/v1: what the console, the CLI and the worker ask of a gateway. Needs the admin token.

Namespace names travel in bodies and query strings only: no path has to escape them.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from engine.errors import EngineError, InvalidRequest
from engine.gateway.auth import Auth, Identity
from engine.gateway.chat import Chat
from engine.gateway.errors import GatewayError, from_engine
from engine.gateway.headers import NAMED
from engine.gateway.inbound import Inbound, checked_name, json_object, read_body
from engine.gateway.openapi import MAX_BATCH, MAX_KEYS, PATHS, PREFIX, description
from engine.gateway.state import GatewayState
from engine.records import TenantKey

_ALL_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY")
Handler = Callable[[Request], Awaitable[Any]]
_KEY = re.compile(r"[0-9a-f]{64}")


def _plain(value: object) -> object:
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def _json(value: object, *, status: int = 200) -> Response:
    return Response(orjson.dumps(value, default=_plain), status, media_type="application/json")


class ControlApi:
    """The handlers; each returns a value that becomes JSON."""

    def __init__(self, *, auth: Auth, state: GatewayState, chat: Chat, max_body_bytes: int) -> None:
        self._auth = auth
        self._state = state
        self._control = state.cache.control
        self._chat = chat
        self._max_body_bytes = max_body_bytes

    def routes(self) -> list[Route]:
        """Return the routes, each behind the admin token."""
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/openapi.json", self.openapi),
            ("GET", "/state", self.state),
            ("GET", "/namespaces", self.namespaces),
            ("GET", "/preview", self.preview),
            ("GET", "/visible", self.visible),
            ("POST", "/stored", self.stored),
            ("POST", "/purge", self.purge),
            ("POST", "/undo", self.undo),
            ("POST", "/reclaim", self.reclaim),
            ("POST", "/policy", self.policy),
            ("POST", "/warm", self.warm),
            ("GET", "/keys", self.keys),
            ("POST", "/keys", self.key_create),
            ("DELETE", "/keys/{key_id}", self.key_revoke),
            ("GET", "/gateways", self.gateways),
        ]
        routes = [Route(PREFIX + path, self._guarded(handler), methods=[method]) for method, path, handler in table]
        # Any other method of a path that is here, then any other path.
        others = [Route(PREFIX + path, self._guarded(self._not_allowed, path=path), methods=_ALL_METHODS) for path in PATHS]
        return [*routes, *others, Route(PREFIX + "/{rest:path}", self._guarded(self._unknown), methods=_ALL_METHODS)]

    def _guarded(self, handler: Handler, *, path: str = "") -> Callable[[Request], Awaitable[Response]]:
        allowed = ", ".join(sorted(method.upper() for method in PATHS.get(path, {})))

        async def endpoint(request: Request) -> Response:
            try:
                self._auth.admin(request.headers.get("authorization", ""))
                return _json(await handler(request))
            except EngineError as error:
                shown = from_engine(error)
                answer = _json({"error": {"code": shown.code, "message": shown.message}}, status=shown.status)
                if shown.status == 405:
                    answer.headers["allow"] = allowed
                if shown.status == 401:
                    answer.headers["www-authenticate"] = "Bearer"
                return answer

        return endpoint

    async def _body(self, request: Request) -> dict[str, Any]:
        length = request.headers.get("content-length", "")
        content_length = int(length) if length.isdigit() else None
        return json_object(await read_body(request.receive, content_length=content_length, max_bytes=self._max_body_bytes))

    async def _unknown(self, request: Request) -> None:
        raise GatewayError(404, "not_found", f"no {request.method} here in the control API")

    async def _not_allowed(self, request: Request) -> None:
        raise GatewayError(405, "method_not_allowed", f"no {request.method} on this path of the control API")

    async def openapi(self, request: Request) -> dict[str, Any]:
        return description()

    async def state(self, request: Request) -> dict[str, Any]:
        return await self._state.describe()

    async def namespaces(self, request: Request) -> dict[str, Any]:
        infos = await self._control.namespaces()
        shown = [
            {
                "name": info.name,
                "policy": info.policy,
                "live": sorted(info.generations.live),
                "purges": [
                    {"id": purge.id, "at_ms": purge.at_ms, "state": purge.state, "entries": purge.entries} for purge in info.undoable
                ],
            }
            for info in infos
        ]
        return {"namespaces": shown}

    async def preview(self, request: Request) -> Any:
        return await self._control.preview(_namespace(request.query_params.get("namespace")))

    async def visible(self, request: Request) -> dict[str, Any]:
        visible = await self._control.count_visible(_namespace(request.query_params.get("namespace")))
        return {"visible": visible, "control_token": self._state.cache.view.token}

    async def stored(self, request: Request) -> dict[str, Any]:
        body = await self._body(request)
        keys = body.get("keys")
        if not isinstance(keys, list) or len(keys) > MAX_KEYS or not all(isinstance(key, str) and _KEY.fullmatch(key) for key in keys):
            raise InvalidRequest(f"keys must be a list of at most {MAX_KEYS} keys of lookups, each 64 hex digits")
        return {"stored": await self._control.stored(_namespace(body.get("namespace")), keys)}

    async def purge(self, request: Request) -> Any:
        body = await self._body(request)
        return await self._control.purge(_namespace(body.get("namespace")), operation_id=_text(body, "operation_id"))

    async def undo(self, request: Request) -> Any:
        body = await self._body(request)
        _optional(body, "operation_id")
        return await self._control.undo(_text(body, "purge_id"))

    async def reclaim(self, request: Request) -> dict[str, int]:
        body = await self._body(request)
        _optional(body, "operation_id")
        batch = _whole({"batch": 500, **body}, "batch", least=1, most=MAX_BATCH)
        deleted, remaining = await self._control.reclaim(_text(body, "purge_id"), batch=batch)
        return {"deleted": deleted, "remaining": remaining}

    async def policy(self, request: Request) -> dict[str, Any]:
        body = await self._body(request)
        changes, version = body.get("changes"), _whole(body, "expected_version", least=0, most=2**53)
        if not isinstance(changes, dict):
            raise InvalidRequest("changes must be an object")
        policy = await self._control.set_policy(
            _namespace(body.get("namespace")), changes, expected_version=version, operation_id=_text(body, "operation_id")
        )
        return {"policy": policy}

    async def warm(self, request: Request) -> dict[str, Any]:
        body = await self._body(request)
        asked = body.get("body")
        if not isinstance(asked, dict):
            raise InvalidRequest("body must be the chat request, an object")
        asked = {name: value for name, value in asked.items() if name not in ("stream", "stream_options")}
        # As a client names them in headers, which stay here.
        named = zip(NAMED, (_optional(body, name, least=0) for name in ("adapter", "retrieval_version")), strict=True)
        inbound = Inbound(
            raw=[(b"user-agent", b"cachescope-warmup")],
            credentials=[],
            keyed=tuple((header, value.encode()) for header, value in named if value),
            authorization="",
            namespace=_namespace(body.get("namespace")),
            model_version=_optional(body, "model_version", least=0),
            no_store=False,
            refresh=False,
            traceparent=request.headers.get("traceparent", ""),
            client="cachescope-warmup",
            query=b"",
            content_length=None,
        )
        _optional(body, "operation_id")
        identity = Identity(_text(body, "tenant"), self._auth.upstream_authorization, scope=_optional(body, "scope", least=0))
        return await self._chat.warm(inbound, identity, asked)

    async def keys(self, request: Request) -> dict[str, Any]:
        return {"keys": [_shown(key) for key in await self._control.key_list()]}

    async def key_create(self, request: Request) -> dict[str, Any]:
        body = await self._body(request)
        key, token = await self._control.key_create(
            _text(body, "tenant"),
            namespaces=_texts(body, "namespaces"),
            model_versions=_texts(body, "model_versions"),
            scope=_optional(body, "scope", least=0),
        )
        return {**_shown(key), "key": token}

    async def key_revoke(self, request: Request) -> dict[str, Any]:
        return _shown(await self._control.key_revoke(request.path_params["key_id"]))

    async def gateways(self, request: Request) -> dict[str, Any]:
        token = await self._state.store.control_token()
        known = await self._control.gateways()
        return {"control_token": token, "gateways": [{**asdict(info), "applied": info.token == token} for info in known]}


def _shown(key: TenantKey) -> dict[str, Any]:
    """Return what may be seen of a key: all but the hash of its secret."""
    return {name: value for name, value in asdict(key).items() if name != "hash"}


def _namespace(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidRequest("namespace is missing")
    return checked_name(value, "namespace")


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidRequest(f"{name} must be a text")
    return checked_name(value, name)


def _optional(body: dict[str, Any], name: str, *, least: int = 1) -> str:
    """Return a text that may be absent; '' then. least: the characters that it has when it is there."""
    return _text(body, name) if name in body and (least or body[name] != "") else ""


def _whole(body: dict[str, Any], name: str, *, least: int, most: int) -> int:
    """Return a whole number; 7.0 is one, as JSON has a single kind of number, and true is none."""
    value = body.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1 or not least <= value <= most:
        raise InvalidRequest(f"{name} must be a whole number from {least} to {most}")
    return int(value)


def _texts(body: dict[str, Any], name: str) -> tuple[str, ...]:
    value = body.get(name, ["*"])
    if not isinstance(value, list) or not value or not all(isinstance(item, str) and item for item in value):
        raise InvalidRequest(f"{name} must be a list of texts")
    return tuple(checked_name(item, name) for item in value)
