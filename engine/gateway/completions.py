"""The upstream's chat completions: the plain call, and the opening of a stream that also tells what it used."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import orjson

from engine.errors import UpstreamUnavailable
from engine.gateway.answers import Answer, failed, judge
from engine.gateway.boundary import Boundary
from engine.gateway.errors import RawHeaders
from engine.gateway.exchange import JSON_TYPE, Exchange
from engine.gateway.lanes import Lanes
from engine.gateway.upstream import Upstream, request_headers, response_headers, whole_body
from engine.settings import GatewaySettings

PATH = "/v1/chat/completions"

# An upstream that refused `stream_options`, and took the same request without, is asked without it for so long.
_REFUSED_S = 600.0
_USAGE_FIRST = b'{"stream_options":{"include_usage":true},'

# Replaced: the trace goes on from our span, and the answer must come in an encoding that can be read here.
_REPLACED = (b"traceparent", b"accept-encoding", b"content-type")


class Completions:
    """Asks the upstream for one exchange's answer."""

    def __init__(self, *, settings: GatewaySettings, upstream: Upstream, boundary: Boundary, lanes: Lanes) -> None:
        self._lanes = lanes
        self._settings = settings
        self._upstream = upstream
        self._boundary = boundary
        self._usage_refused_until_s = 0.0  # on the monotonic clock

    async def fetch(self, exchange: Exchange) -> Answer:
        """Return the plain answer, or the error answer when none came. Raises a 503 when no upstream is configured."""
        url, headers = self._target(exchange)
        async with self._lanes.place(exchange.lookup.model, in_a_herd=exchange.in_a_herd):
            return await self._fetch(exchange, url, headers)

    async def _fetch(self, exchange: Exchange, url: httpx.URL, headers: RawHeaders) -> Answer:
        started = time.perf_counter()
        try:
            response, body = await self._upstream.call("POST", url, headers, exchange.raw, model=exchange.lookup.model)
        except UpstreamUnavailable as error:
            return failed(error, upstream_ms=(time.perf_counter() - started) * 1000)
        return self.judged(exchange, response.status_code, body, response_headers(response, decoded=True), started)

    def judged(self, exchange: Exchange, status: int, body: bytes, headers: RawHeaders, started: float) -> Answer:
        """Return the judged answer of a call that began at `started` (perf_counter) and ends now."""
        upstream_ms = (time.perf_counter() - started) * 1000
        model = exchange.lookup.model
        return judge(status=status, body=body, headers=headers, upstream_ms=upstream_ms, model=model, prices=self._settings.prices)

    @asynccontextmanager
    async def stream(self, exchange: Exchange) -> AsyncIterator[tuple[httpx.Response, bool]]:
        """Open the streamed answer; yield it and whether its usage chunk is ours alone, not the client's to see."""
        url, headers = self._target(exchange)
        place = self._lanes.place(exchange.lookup.model, in_a_herd=exchange.in_a_herd)
        async with place, self._opened(exchange, url, headers) as opened:
            yield opened

    @asynccontextmanager
    async def _opened(self, exchange: Exchange, url: httpx.URL, headers: RawHeaders) -> AsyncIterator[tuple[httpx.Response, bool]]:
        body, own_usage = self._stream_body(exchange)
        model = exchange.lookup.model
        async with self._upstream.open("POST", url, headers, body, model=model) as response:
            if not own_usage or response.status_code not in (400, 422):
                yield response, own_usage
                return
            refusal = await whole_body(response)
            if b"stream_options" not in refusal:
                headers = response_headers(response, decoded=True)
                yield httpx.Response(response.status_code, headers=headers, content=refusal), own_usage
                return
        async with self._upstream.open("POST", url, headers, exchange.raw, model=model) as response:
            if response.status_code == 200:
                self._usage_refused_until_s = time.monotonic() + _REFUSED_S
            yield response, False

    def _stream_body(self, exchange: Exchange) -> tuple[bytes, bool]:
        """Return the bytes to send, and whether they ask for the usage though the client does not."""
        raw, body = exchange.raw, exchange.body
        if exchange.wants_usage or time.monotonic() < self._usage_refused_until_s:
            return raw, False
        if "stream_options" not in body:
            # Put before what is there already: the rest goes on as it came, names that come twice and long numbers too.
            return raw.replace(b"{", _USAGE_FIRST, 1), True
        options = body["stream_options"]
        if exchange.lookup.request.bypass or not isinstance(options, dict | None):
            return raw, False
        return orjson.dumps({**body, "stream_options": {**(options or {}), "include_usage": True}}), True

    def _target(self, exchange: Exchange) -> tuple[httpx.URL, RawHeaders]:
        url = self._upstream.url(PATH, exchange.inbound.query)
        drop = exchange.identity.withheld(exchange.inbound.credentials).union(_REPLACED)
        headers = request_headers(exchange.inbound.raw, authorization=exchange.identity.authorization, drop=drop)
        traceparent = self._boundary.traceparent(exchange.lookup, exchange.inbound)
        if traceparent:
            headers.append((b"traceparent", traceparent.encode("latin-1")))
        return url, [*headers, (b"accept-encoding", b"gzip, deflate"), JSON_TYPE]
