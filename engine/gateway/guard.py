"""Requests that a page in somebody's browser made: refused, since the gateway may pay for them and answers without a login."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import lru_cache

from starlette.types import ASGIApp, Receive, Scope, Send

from engine.gateway.errors import GatewayError, send_error


def host_of(bind: str) -> str:
    """Return the host of `host:port`, `[::1]:port` or a host alone, in lower case."""
    host, colon, port = bind.strip().lower().rpartition(":")
    if not colon or (port and not port.isdigit()) or (":" in host and not host.endswith("]")):
        host = bind.strip().lower()
    return host.removeprefix("[").removesuffix("]").removesuffix(".")


@lru_cache(maxsize=64)
def _host_of_header(value: bytes) -> str:
    return host_of(value.decode("latin-1"))


@lru_cache(maxsize=64)
def is_loopback(host: str) -> bool:
    """Return whether the host is this machine itself."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """ASGI middleware of all routes. Clients of the API send none of what it looks for.

    straight: by path, what is posted most: it goes there past the router, which would come to the same.
    """

    def __init__(self, app: ASGIApp, *, bind: str, straight: Mapping[str, ASGIApp]) -> None:
        self._app = app
        self._straight = straight
        self._bound = host_of(bind)
        # A gateway for other machines is reached by names that are not known here; it asks for keys.
        self._local = is_loopback(self._bound)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = self._refusal(scope["headers"]) if scope["type"] == "http" else None
        if error is not None:
            await send_error(send, error)
            return
        app = self._app
        if scope["type"] == "http" and scope["method"] == "POST":
            app = self._straight.get(scope["path"], app)
        await app(scope, receive, send)

    def _refusal(self, headers: list[tuple[bytes, bytes]]) -> GatewayError | None:
        for name, value in headers:
            if name == b"sec-fetch-site" and value.strip().lower() == b"cross-site":
                return GatewayError(403, "cross_site", "a page of another site made this request in a browser; call the gateway yourself")
            if name == b"host" and self._local:
                host = _host_of_header(value)
                if host != self._bound and not is_loopback(host):
                    # A name of somebody else that was made to point to this machine.
                    return GatewayError(
                        403, "host_not_allowed", "this gateway listens on this machine alone; call it as localhost or by its address"
                    )
        return None
