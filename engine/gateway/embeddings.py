"""POST /v1/embeddings: passed through untouched, and seen as a lookup that never asked the cache."""

from __future__ import annotations

import orjson
from starlette.types import Message, Receive, Scope, Send

from engine.errors import EngineError
from engine.gateway.auth import Auth
from engine.gateway.boundary import Boundary
from engine.gateway.exchange import fail
from engine.gateway.inbound import inbound_of
from engine.gateway.passthrough import Passthrough
from engine.lookup import CacheRequest

STATUS = [(b"cache-status", b"cachescope; fwd=bypass; detail=embeddings")]
_PEEK_BYTES = 1024 * 1024


class Embeddings:
    """The ASGI endpoint."""

    def __init__(self, *, auth: Auth, boundary: Boundary, passthrough: Passthrough) -> None:
        self._auth = auth
        self._boundary = boundary
        self._passthrough = passthrough

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            inbound = inbound_of(scope)
            identity = self._auth.identify(inbound.authorization, inbound.credentials)
        except EngineError:
            # The passthrough answers it; a request of nobody is no lookup.
            await self._passthrough.forward(scope, receive, send, status=STATUS)
            return
        request = CacheRequest({}, inbound.namespace, identity.tenant, inbound.model_version, client=inbound.client)
        lookup = self._boundary.bypass(request, "embeddings")
        seen = bytearray()

        async def peeked() -> Message:
            message = await receive()
            if len(seen) < _PEEK_BYTES:
                seen.extend(message.get("body", b""))
            return message

        status, error_type = await self._passthrough.forward(scope, peeked, send, status=STATUS)
        lookup.model = _model_of(bytes(seen))
        lookup.status = status
        if error_type:
            fail(lookup, error_type, status)
        self._boundary.record(lookup, inbound)


def _model_of(raw: bytes) -> str:
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return ""
    model = body.get("model") if isinstance(body, dict) else None
    return model if isinstance(model, str) else ""
