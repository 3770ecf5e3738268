"""Everything under /v1 that is no chat completion: to the upstream and back, untouched."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from urllib.parse import unquote

from starlette.types import Receive, Scope, Send

from engine.errors import EngineError, InvalidRequest, UpstreamUnavailable
from engine.gateway.auth import Auth, Identity
from engine.gateway.errors import GatewayError, RawHeaders, from_engine, send_error
from engine.gateway.inbound import Inbound, check_whole, client_left, inbound_of
from engine.gateway.upstream import CLIENT_LEFT_STATUS, Upstream, request_headers, response_headers

_NOT_CACHED = "not_cached"
_STATUS = [(b"cache-status", f"cachescope; fwd=bypass; detail={_NOT_CACHED}".encode())]
_DOT_SEGMENT = re.compile(r"(^|[/\\])\.{1,2}([/\\]|$)")

# What names no object that another tenant with the same upstream key has made.
_STATELESS = re.compile(
    r"POST /v1/(chat/completions|completions|embeddings|moderations|audio/[^/]+|images/[^/]+)|(GET|HEAD) /v1/models(/.+)?"
)


@dataclass(slots=True)
class _Course:
    """One request on its way. taken: its body has been read. begun, ended: the response's head, its last byte were sent."""

    inbound: Inbound
    identity: Identity
    status: RawHeaders
    taken: asyncio.Event = field(default_factory=asyncio.Event)
    begun: bool = False
    ended: bool = False


class Passthrough:
    """ASGI endpoint. Request and response bodies stream through; only the headers of the connection are left out.

    all_paths: tenants with keys may use every path, though they share the upstream's key. bypassed: called with a reason for each
    POST that is sent on and is no lookup.
    """

    def __init__(
        self, *, auth: Auth, upstream: Upstream, max_body_bytes: int, bypassed: Callable[[str], None], all_paths: bool = False
    ) -> None:
        self._bypassed = bypassed
        self._all_paths = all_paths
        self._auth = auth
        self._upstream = upstream
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.forward(scope, receive, send, status=_STATUS, counted=scope["method"] == "POST")

    async def forward(self, scope: Scope, receive: Receive, send: Send, *, status: RawHeaders, counted: bool = False) -> tuple[int, str]:
        """Send the request on and the response back. Return its status and an error type ('' = the upstream answered).

        counted: as a bypass, once it is known whose it is.
        """
        course: _Course | None = None
        try:
            inbound = inbound_of(scope)
            identity = self._auth.identify(inbound.authorization, inbound.credentials)
            identity.check(namespace=inbound.namespace, model_version=inbound.model_version)
            path = self._path(scope, identity)
            course = _Course(inbound, identity, status)
            if counted:
                self._bypassed(_NOT_CACHED)
            pump = asyncio.create_task(self._pump(scope["method"], path, receive, send, course))
            left = asyncio.create_task(self._left(receive, course))
            try:
                await asyncio.wait({pump, left}, return_when=asyncio.FIRST_COMPLETED)
                if left.done() and not (pump.done() or course.ended):
                    return CLIENT_LEFT_STATUS, "client_left"
                return await pump
            finally:
                left.cancel()
                pump.cancel()
                await asyncio.gather(pump, left, return_exceptions=True)
        except EngineError as error:
            shown = from_engine(error)
            if course is not None and course.begun and isinstance(error, UpstreamUnavailable):
                # Left without its end, the server drops the connection: the client must see that the body is not whole.
                return shown.status, shown.code
            await send_error(send, shown, status if isinstance(error, UpstreamUnavailable) else ())
            return shown.status, shown.code

    def _path(self, scope: Scope, identity: Identity) -> str:
        path: str = scope.get("raw_path", scope["path"].encode()).decode("latin-1")
        if _DOT_SEGMENT.search(unquote(path)):
            raise InvalidRequest("the path holds a dot segment", code="invalid_path")
        if identity.by_key and not self._all_paths and not _STATELESS.fullmatch(f"{scope['method']} {path}"):
            raise GatewayError(
                403,
                "passthrough_not_allowed",
                "all tenants share the upstream's key, so this path could reach another tenant's objects; passthrough_all allows it",
            )
        return path

    @staticmethod
    async def _left(receive: Receive, course: _Course) -> None:
        await course.taken.wait()
        await client_left(receive)

    async def _pump(self, method: str, path: str, receive: Receive, send: Send, course: _Course) -> tuple[int, str]:
        inbound, identity = course.inbound, course.identity
        if inbound.content_length is not None and inbound.content_length > self._max_body_bytes:
            raise self._too_large()
        url = self._upstream.url(path, inbound.query)
        headers = request_headers(inbound.raw, authorization=identity.authorization, drop=identity.withheld(inbound.credentials))
        content: bytes | AsyncIterator[bytes] = b""
        if inbound.content_length is not None:
            headers.append((b"content-length", str(inbound.content_length).encode()))
        if inbound.content_length or any(name == b"transfer-encoding" for name, _ in inbound.raw):
            content = self._chunks(receive, inbound.content_length, course)
        else:
            course.taken.set()
        async with self._upstream.open(method, url, headers, content) as response:
            course.begun = True
            answer = [*response_headers(response, decoded=False), *course.status]
            await send({"type": "http.response.start", "status": response.status_code, "headers": answer})
            async for data in response.aiter_raw():
                await send({"type": "http.response.body", "body": data, "more_body": True})
            # After the last byte the server reports every client as gone, which says nothing about the client.
            course.ended = True
            await send({"type": "http.response.body", "body": b""})
            return response.status_code, "" if response.status_code < 400 else f"upstream_{response.status_code}"

    def _too_large(self) -> InvalidRequest:
        return InvalidRequest(
            f"the body is larger than {self._max_body_bytes} bytes, the limit of this gateway", status=413, code="body_too_large"
        )

    async def _chunks(self, receive: Receive, content_length: int | None, course: _Course) -> AsyncIterator[bytes]:
        left = self._max_body_bytes
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise InvalidRequest("the request ended before its body", code="incomplete_body")
            data = message.get("body", b"")
            left -= len(data)
            if left < 0:
                raise self._too_large()
            if data:
                yield data
            if not message.get("more_body"):
                check_whole(self._max_body_bytes - left, content_length)
                course.taken.set()
                return
