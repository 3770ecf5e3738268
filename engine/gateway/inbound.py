"""What a client's request says, checked: headers in, body within the limit, one JSON object."""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Any, NamedTuple

import orjson
from starlette.types import Receive, Scope

from engine.errors import InvalidRequest
from engine.gateway.errors import RawHeaders
from engine.gateway.headers import NAMED, NO_HEADERS, read
from engine.gateway.nesting import MAX_NESTING, too_deep
from engine.naming import fault

DEFAULT_NAMESPACE = "default"

# How much of a body above the limit is still read before the answer: a client that is writing would not see it otherwise.
_DRAIN_RATIO = 4
_DRAIN_S = 5.0


class Inbound(NamedTuple):
    """A request's head. raw: all headers, lower-case names. client: the first product token of its user agent.

    credentials, keyed: those of the headers that say who asks, and those that are part of the key.
    """

    raw: RawHeaders
    credentials: RawHeaders
    keyed: tuple[tuple[bytes, bytes], ...]
    authorization: str
    namespace: str
    model_version: str
    no_store: bool
    refresh: bool
    traceparent: str
    client: str
    query: bytes
    content_length: int | None


def inbound_of(scope: Scope, *, ignored: frozenset[bytes] = NO_HEADERS) -> Inbound:
    """Return what the head says. ignored: headers that are not for the key. Raises InvalidRequest for one that cannot be meant."""
    raw: RawHeaders = scope["headers"]
    headers = dict(raw)
    directives: set[str] = set()
    if b"cache-control" in headers:
        # A list may come in several lines, which stand for one (RFC 9110 section 5.3).
        control = b",".join(value for name, value in raw if name == b"cache-control").decode("latin-1").lower()
        directives = {part.partition("=")[0].strip() for part in control.split(",")}
    length = headers.get(b"content-length", b"")
    credentials, keyed = read(raw, headers, ignored=ignored)
    for name in NAMED:
        if name in headers and (value := _name(headers, name)):
            keyed = (*keyed, (name, value.encode()))
    return Inbound(
        raw=raw,
        credentials=credentials,
        keyed=keyed,
        authorization=headers.get(b"authorization", b"").decode("latin-1"),
        namespace=_name(headers, b"cachescope-namespace") or DEFAULT_NAMESPACE,
        model_version=_name(headers, b"cachescope-model-version"),
        no_store="no-store" in directives,
        refresh="no-cache" in directives,
        traceparent=headers.get(b"traceparent", b"").decode("latin-1"),
        client=_client(headers.get(b"user-agent", b"")),
        query=scope.get("query_string", b""),
        content_length=int(length) if length.isdigit() else None,
    )


@lru_cache(maxsize=256)
def _client(agent: bytes) -> str:
    return agent[:1_000].decode("latin-1").split(" ", 1)[0].partition("/")[0][:80]


def _name(headers: dict[bytes, bytes], header: bytes) -> str:
    if header not in headers:
        return ""
    try:
        value = headers[header].decode("utf-8").strip()
    except UnicodeDecodeError:
        raise InvalidRequest(f"the header {_title(header)} is not UTF-8", code="invalid_header") from None
    return checked_name(value, _title(header))


def _title(header: bytes) -> str:
    return header.decode().title()


def checked_name(value: str, what: str) -> str:
    """Return the name as it stands. Raises InvalidRequest when it is too long or holds control characters."""
    wrong = fault(value)
    if wrong:
        raise InvalidRequest(f"{what} {wrong}", code="invalid_header")
    return value


async def read_body(receive: Receive, *, content_length: int | None, max_bytes: int) -> bytes:
    """Return the whole body. Raises InvalidRequest (413) when it is longer than max_bytes, counted while reading."""
    if content_length is not None and content_length > max_bytes:
        await _drain(receive, left=max_bytes * _DRAIN_RATIO)
        raise _too_large(max_bytes)
    parts: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise InvalidRequest("the request ended before its body", code="incomplete_body")
        part = message.get("body", b"")
        size += len(part)
        if size > max_bytes:
            if message.get("more_body"):
                await _drain(receive, left=max_bytes * _DRAIN_RATIO)
            raise _too_large(max_bytes)
        if not message.get("more_body"):
            check_whole(size, content_length)
            return b"".join((*parts, part)) if parts else bytes(part)
        parts.append(part)


def check_whole(size: int, content_length: int | None) -> None:
    """Raise InvalidRequest when less came than was announced: the server drops the body of a request for another protocol."""
    if content_length is not None and size < content_length:
        raise InvalidRequest(
            f"{size} of {content_length} bytes of the body came; a request for another protocol (Upgrade, CONNECT) loses it",
            code="incomplete_body",
        )


def _too_large(max_bytes: int) -> InvalidRequest:
    return InvalidRequest(f"the body is larger than {max_bytes} bytes, the limit of this gateway", status=413, code="body_too_large")


async def _drain(receive: Receive, *, left: int) -> None:
    try:
        async with asyncio.timeout(_DRAIN_S):
            while left > 0:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body"):
                    return
                left -= len(message.get("body", b""))
    except TimeoutError:
        return


def json_object(raw: bytes) -> dict[str, Any]:
    """Return the body as a JSON object. Raises InvalidRequest; the message holds nothing of the body."""
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"the body is not UTF-8 (at byte {error.start})", code="invalid_utf8") from None
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"the body is not JSON (line {error.lineno}, column {error.colno})", code="invalid_json") from None
    if not isinstance(body, dict):
        raise InvalidRequest("the body must be a JSON object", code="invalid_json")
    if too_deep(raw, body):
        raise InvalidRequest(f"the body is nested deeper than {MAX_NESTING} levels")
    return body


async def client_left(receive: Receive) -> None:
    """Return when the client has closed its connection. Only after the body was read."""
    while (await receive())["type"] != "http.disconnect":
        pass
