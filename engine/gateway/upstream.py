"""The upstream over HTTP. One client for all; nothing of one request is remembered for another."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from http.cookiejar import DefaultCookiePolicy
from urllib.request import getproxies

import httpx

from engine import loopback
from engine.breaker import Breaker
from engine.errors import InvalidSetting, UpstreamUnavailable
from engine.gateway.direct import DirectTransport
from engine.gateway.errors import GatewayError, RawHeaders
from engine.gateway.guard import is_loopback
from engine.gateway.lanes import Lanes
from engine.settings import GatewaySettings

# RFC 9110 section 7.6.1: these belong to one connection, not to the message.
HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
_NOT_FORWARDED = HOP_BY_HOP | {b"host", b"content-length", b"authorization", b"expect"}

# Uvicorn, a common upstream, closes idle connections after 5 s; reusing one at that moment would fail a request.
KEEPALIVE_EXPIRY_S = 4.0

_MOST_URLS = 64

CLIENT_LEFT_STATUS = 499  # what nginx logs for it; nothing of it is sent

# Held of one answer at most. A longer stream still reaches its client, but neither the cache nor the followers.
MAX_RECORD_BYTES = 32 * 1024 * 1024


def request_headers(headers: Iterable[tuple[bytes, bytes]], *, authorization: str, drop: Iterable[bytes] = ()) -> RawHeaders:
    """Return the headers that go upstream: the client's, less those of the connection and our own vocabulary."""
    source = list(headers)
    without = _NOT_FORWARDED | _named_by_connection(source) | set(drop)
    kept = [(name, value) for name, value in source if name not in without and not name.startswith(b"cachescope-")]
    if authorization:
        kept.append((b"authorization", authorization.encode("latin-1")))
    return kept


def response_headers(response: httpx.Response, *, decoded: bool) -> RawHeaders:
    """Return the upstream's headers for the client. decoded: the body is sent on uncompressed."""
    source = [(name.lower(), value) for name, value in response.headers.raw]
    without = HOP_BY_HOP | _named_by_connection(source) | {b"date", b"server"}
    if decoded:
        without |= {b"content-length", b"content-encoding"}
    return [(name, value) for name, value in source if name not in without]


async def whole_body(response: httpx.Response) -> bytes:
    """Return a complete body, counted as it is unpacked. Raises UpstreamUnavailable when it is longer than may be held."""
    parts: list[bytes] = []
    left = MAX_RECORD_BYTES
    async for part in response.aiter_bytes():
        left -= len(part)
        if left < 0:
            raise UpstreamUnavailable(
                f"the upstream's answer is larger than {MAX_RECORD_BYTES} bytes, the most that is held of one", code="upstream_too_large"
            )
        parts.append(part)
    return b"".join(parts)


def _named_by_connection(headers: Iterable[tuple[bytes, bytes]]) -> frozenset[bytes]:
    names = [value for name, value in headers if name == b"connection"]
    return frozenset(part.strip().lower() for value in names for part in value.split(b","))


class Upstream:
    """Sends requests to the configured upstream. Raises UpstreamUnavailable (502, 504) when it does not answer.

    Raises InvalidSetting for a URL with a user and password in it.
    """

    def __init__(self, settings: GatewaySettings, lanes: Lanes) -> None:
        self._lanes = lanes
        base = settings.upstream_url.strip().rstrip("/")
        self.base = base.removesuffix("/v1")
        self.host = httpx.URL(self.base).host if self.base else ""
        if self.base and httpx.URL(self.base).userinfo:
            raise InvalidSetting(
                "upstream_url holds a user's name or password, which are not sent; expected a URL without them, and the upstream's key "
                "in upstream_api_key, or in the client's own Authorization header"
            )
        self.timeout_s = settings.upstream_timeout_s
        timeout = httpx.Timeout(settings.upstream_timeout_s, connect=settings.upstream_connect_timeout_s, pool=None)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64, keepalive_expiry=KEEPALIVE_EXPIRY_S)
        self._extensions = {"timeout": timeout.as_dict()}
        # Where no proxy is named, requests go to a transport of ours: what a client does beyond it (cookies, redirects, authentication,
        # history) is not wanted here.
        proxied = not is_loopback(self.host) and any(getproxies().get(scheme) for scheme in ("http", "https", "all"))
        self._way: httpx.AsyncClient | DirectTransport = _client(timeout, limits) if proxied else _transport(self.base, limits)
        self._urls: dict[str, httpx.URL] = {}  # of a path without a query, of which few are asked for often

    @property
    def configured(self) -> bool:
        return bool(self.base)

    def url(self, path: str, query: bytes) -> httpx.URL:
        """Return the upstream's URL of a path that starts with /v1. Raises a 503 when no upstream is configured."""
        if not self.base:
            raise GatewayError(503, "no_upstream", "no upstream is configured: set CACHESCOPE_UPSTREAM_URL")
        if query:
            return httpx.URL(f"{self.base}{path}?{query.decode('latin-1')}")
        url = self._urls.get(path)
        if url is None:
            url = httpx.URL(f"{self.base}{path}")
            if len(self._urls) < _MOST_URLS:
                self._urls[path] = url
        return url

    @asynccontextmanager
    async def open(
        self, method: str, url: httpx.URL, headers: RawHeaders, content: bytes | AsyncIterator[bytes], *, model: str = ""
    ) -> AsyncIterator[httpx.Response]:
        """Open a response whose body is still to be read. Errors of the transport, also while reading, are UpstreamUnavailable.

        model: whose breaker is told how it went, '' = none is known.
        """
        try:
            response = await self._send(method, url, headers, content, self._lanes.of(model).breaker)
            try:
                yield response
            finally:
                await response.aclose()
        except httpx.ConnectTimeout as error:
            raise UpstreamUnavailable("the upstream could not be reached in time", status=504) from error
        except httpx.TimeoutException as error:
            raise UpstreamUnavailable(f"the upstream did not answer within {self.timeout_s:g} s", status=504) from error
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            raise UpstreamUnavailable(f"the upstream failed: {type(error).__name__}", status=502) from error

    async def _ask(self, method: str, url: httpx.URL, headers: RawHeaders, content: bytes | AsyncIterator[bytes]) -> httpx.Response:
        way = self._way
        if isinstance(way, httpx.AsyncClient):
            return await way.send(way.build_request(method, url, headers=headers, content=content), stream=True)
        request = httpx.Request(method, url, headers=headers, content=content, extensions=self._extensions)
        response = await way.handle_async_request(request)
        response.request = request
        return response

    async def _send(
        self, method: str, url: httpx.URL, headers: RawHeaders, content: bytes | AsyncIterator[bytes], breaker: Breaker
    ) -> httpx.Response:
        # The breaker is told how it went and never asked: what the upstream would have answered is never refused.
        judged = breaker.judges()
        told = breaker.dropped
        try:
            response = await self._ask(method, url, headers, content)
            told = breaker.succeeded if response.status_code < 500 else breaker.failed
        except httpx.HTTPError:
            told = breaker.failed
            raise
        finally:
            if judged:
                told()
        return response

    async def call(
        self, method: str, url: httpx.URL, headers: RawHeaders, content: bytes, *, model: str = ""
    ) -> tuple[httpx.Response, bytes]:
        """Return a response and its complete body, within the timeout as a whole: a trickle of bytes does not extend it."""
        try:
            async with asyncio.timeout(self.timeout_s), self.open(method, url, headers, content, model=model) as response:
                return response, await whole_body(response)
        except TimeoutError as error:
            raise UpstreamUnavailable(f"the upstream did not answer within {self.timeout_s:g} s", status=504) from error

    async def close(self) -> None:
        await self._way.aclose()


def _transport(base: str, limits: httpx.Limits) -> DirectTransport:
    # Without https none is made: a context takes a moment and some memory.
    return DirectTransport(limits, tls=httpx.create_ssl_context() if base.lower().startswith("https:") else None)


def _client(timeout: httpx.Timeout, limits: httpx.Limits) -> httpx.AsyncClient:
    client = httpx.AsyncClient(timeout=timeout, follow_redirects=False, limits=limits, mounts=loopback.direct())
    # A cookie that the upstream sets for one tenant must never be sent with another's request.
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    # The client's own headers are the only ones: httpx would add its user-agent and accept-encoding.
    client.headers = httpx.Headers()
    return client
