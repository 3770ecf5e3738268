"""What a client of the gateway sees when something fails: always OpenAI-shaped, never a stack trace, never prompt text.

GatewayError            an answer of our own: status, code and a message that names the next step
    (raised by auth, request parsing and upstream; the engine's own errors are mapped by `from_engine`)
"""

from __future__ import annotations

from collections.abc import Iterable

import orjson
from starlette.types import Send

from engine.errors import (
    Conflict,
    EmbedderUnavailable,
    EngineError,
    InvalidRequest,
    InvalidSetting,
    TierUnavailable,
    UpstreamUnavailable,
)

RawHeaders = list[tuple[bytes, bytes]]

# OpenAI's clients decide by status whether to retry and which exception to raise; the type is for people.
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}

_ANSWERS: dict[type[EngineError], tuple[int, str]] = {
    Conflict: (409, "conflict"),
    InvalidSetting: (400, "invalid_setting"),
    TierUnavailable: (503, "store_unavailable"),
    EmbedderUnavailable: (503, "embedder_unavailable"),
}


class GatewayError(EngineError):
    """An error that is answered to the client as it stands."""

    def __init__(self, status: int, code: str, message: str, *, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param


def from_engine(error: EngineError) -> GatewayError:
    """Return the answer that belongs to one of the engine's errors."""
    if isinstance(error, GatewayError):
        return error
    if isinstance(error, InvalidRequest):
        return GatewayError(error.status, error.code, str(error))
    if isinstance(error, UpstreamUnavailable):
        code = error.code or ("upstream_timeout" if error.status == 504 else "upstream_unavailable")
        return GatewayError(error.status, code, str(error))
    status, code = next((answer for kind, answer in _ANSWERS.items() if isinstance(error, kind)), (500, "internal_error"))
    return GatewayError(status, code, str(error))


def error_body(error: GatewayError) -> bytes:
    """Return the error as OpenAI shapes it."""
    kind = _TYPES.get(error.status) or ("invalid_request_error" if error.status < 500 else "api_error")
    return orjson.dumps({"error": {"message": error.message, "type": kind, "code": error.code, "param": error.param}})


async def send_response(send: Send, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
    """Send a complete response in one go."""
    await send(
        {
            "type": "http.response.start",
            "status": status,
            "headers": [*headers, (b"content-length", str(len(body)).encode())],
        }
    )
    await send({"type": "http.response.body", "body": body})


async def send_error(send: Send, error: GatewayError, extra: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """Send an error of our own. A 413 closes the connection: the rest of the body is not wanted."""
    headers: RawHeaders = [(b"content-type", b"application/json"), *extra]
    if error.status == 413:
        headers.append((b"connection", b"close"))
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send_response(send, error.status, headers, error_body(error))
