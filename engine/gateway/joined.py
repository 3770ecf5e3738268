"""A transport for httpx that sends a request's head together with the beginning of its body: one write, and one read for the server."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import httpcore
import httpx


class _Stream(httpcore.AsyncNetworkStream):
    """Holds what is written first after a read, a request's head, until more is written or an answer is read."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._held = b""
        self._holds = True

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore's signature
        if self._held:
            # As httpcore does: a server may answer, and close, before it has read all.
            with suppress(httpcore.WriteError):
                await self._flush(b"", timeout)
        self._holds = True
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        if self._holds and buffer:
            self._held, self._holds = bytes(buffer), False
        elif buffer:
            await self._flush(buffer, timeout)

    async def _flush(self, buffer: bytes, timeout: float | None) -> None:  # noqa: ASYNC109
        held, self._held = self._held, b""
        await self._stream.write(held + buffer if held else buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        return _Stream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore.AnyIOBackend):
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        return _Stream(await super().connect_tcp(host, port, timeout, local_address, socket_options))


class JoinedTransport(httpx.AsyncHTTPTransport):
    """As its base, without a proxy."""

    def __init__(self, limits: httpx.Limits) -> None:
        super().__init__(limits=limits)
        if isinstance(getattr(self, "_pool", None), httpcore.AsyncConnectionPool):  # else another version of httpx, which writes twice
            self._pool = httpcore.AsyncConnectionPool(
                ssl_context=httpx.create_ssl_context(),
                max_connections=limits.max_connections,
                max_keepalive_connections=limits.max_keepalive_connections,
                keepalive_expiry=limits.keepalive_expiry,
                network_backend=_Backend(),
            )
