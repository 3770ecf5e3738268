"""A stream from the upstream, sent on as it comes, recorded, and stored once its terminal event is there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import suppress
from dataclasses import replace

import httpx
import orjson
from starlette.types import Receive, Send

from engine.errors import UpstreamUnavailable
from engine.gateway.answers import Answer, cache_headers, failed
from engine.gateway.boundary import Boundary
from engine.gateway.completions import Completions
from engine.gateway.errors import GatewayError, error_body, send_response
from engine.gateway.exchange import JSON_TYPE, Exchange, fail, note
from engine.gateway.inbound import client_left
from engine.gateway.stream import DONE, Assembler, EventParser
from engine.gateway.upstream import CLIENT_LEFT_STATUS, MAX_RECORD_BYTES, response_headers, whole_body

# How long the rest of a finished response is read for, so that the connection can be used again.
_DRAIN_S = 0.25


class Relay:
    """One streamed upstream call. land: gives the complete answer, or the error, to the followers.

    instead: sends what was held out, when the upstream failed before anything was sent; returns whether it did.
    """

    def __init__(
        self,
        exchange: Exchange,
        send: Send,
        *,
        completions: Completions,
        boundary: Boundary,
        land: Callable[[Answer], None],
        instead: Callable[[], Awaitable[bool]],
        now_ms: Callable[[], int],
    ) -> None:
        self._exchange = exchange
        self._send = send
        self._completions = completions
        self._boundary = boundary
        self._land = land
        self._instead = instead
        self._now_ms = now_ms
        self._own_usage = False
        self._parser = EventParser()
        self._assembler = Assembler(max_bytes=MAX_RECORD_BYTES)
        self._begun = False
        self._endless = False  # no event is so long: the stream has none, and what came of it was not sent on
        # The upstream has said all. From then on nothing is cancelled: the answer is being stored, and once its last byte is sent
        # the server reports every client as gone, which says nothing about the client.
        self._complete = False

    async def run(self, receive: Receive, *, waited_for: Callable[[], bool]) -> None:
        """Relay to the end. When the client leaves before it and nobody else waits for the answer, the upstream call is cancelled."""
        pump = asyncio.create_task(self._pump())
        left = asyncio.create_task(client_left(receive))
        try:
            await asyncio.wait({pump, left}, return_when=asyncio.FIRST_COMPLETED)
            if not (pump.done() or self._complete or waited_for()):
                pump.cancel()
                await asyncio.wait({pump})
            if pump.cancelled():
                fail(self._exchange.lookup, "client_left", CLIENT_LEFT_STATUS)
            else:
                await pump
        finally:
            left.cancel()
            pump.cancel()
            await asyncio.gather(pump, left, return_exceptions=True)

    async def _pump(self) -> None:
        started = time.perf_counter()
        try:
            async with self._completions.stream(self._exchange) as (response, self._own_usage):
                content_type = response.headers.get("content-type", "")
                if response.status_code == 200 and content_type.startswith("text/event-stream"):
                    await self._relay(response, started)
                else:
                    await self._whole(response, started)
        except UpstreamUnavailable as error:
            await self._break(failed(error, upstream_ms=(time.perf_counter() - started) * 1000))

    async def _whole(self, response: httpx.Response, started: float) -> None:
        """Answer with what came instead of a stream: an error, or a complete answer."""
        headers = response_headers(response, decoded=True)
        body = await whole_body(response)
        self._complete = True
        answer = self._completions.judged(self._exchange, response.status_code, body, headers, started)
        await self._boundary.store(self._exchange.lookup, answer)
        self._finish(answer)
        if not answer.error_type or not await self._instead():
            await send_response(self._send, answer.status, [*headers, *self._status()], body)

    async def _relay(self, response: httpx.Response, started: float) -> None:
        headers = [*response_headers(response, decoded=True), *self._status()]
        self._begun = True
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        chunks = response.aiter_bytes()
        async for data in chunks:
            await self._forward(self._parser.feed(data))
            if self._parser.waiting > MAX_RECORD_BYTES:
                self._endless = True
            if self._assembler.done or self._endless:
                break
        else:
            await self._forward([rest + b"\n\n"] if (rest := self._parser.rest()).strip() else [])
        self._complete = True
        await self._end(started)
        # The lookup ends with its answer, not when the upstream lets go of the connection.
        self._boundary.record(self._exchange.lookup, self._exchange.inbound)
        await self._drain(chunks)

    async def _forward(self, events: Iterable[bytes]) -> None:
        """Send the events on, all but the terminal one, which waits until the answer is stored."""
        sent: list[bytes] = []
        for event in events:
            usage_only = self._assembler.add(event)
            if self._assembler.done:
                break
            if not (usage_only and self._own_usage):
                sent.append(event)
        if sent:
            await self._send({"type": "http.response.body", "body": b"".join(sent), "more_body": True})

    async def _end(self, started: float) -> None:
        assembler, lookup = self._assembler, self._exchange.lookup
        if self._endless:
            await self._break(_error_answer("upstream_garbage", "the upstream's stream has no events", started))
        elif assembler.failed:
            await self._break(_error_answer("upstream_error", "the upstream's stream ended in an error", started), event=False)
        elif assembler.garbled:
            await self._break(_error_answer("upstream_garbage", "the upstream's stream cannot be understood", started), event=False)
        elif assembler.oversize or (assembler.odd and (assembler.done or assembler.finished)):
            # The client has it whole, and may know what to make of it; here it is no answer to keep or to share.
            lookup.store_reason = "too_large" if assembler.oversize else "upstream_garbage"
            self._finish(Answer(200, b"", store_reason=lookup.store_reason, upstream_ms=(time.perf_counter() - started) * 1000))
            await self._close()
        elif not assembler.finished:
            await self._break(_error_answer("upstream_cut", "the upstream's stream ended before its end", started))
        else:
            body = orjson.dumps(assembler.answer())
            answer = self._completions.judged(self._exchange, 200, body, [JSON_TYPE], started)
            if assembler.done:
                await self._boundary.store(lookup, answer)
            else:
                answer = replace(answer, store_reason="no_terminal_event")
                lookup.store_reason = answer.store_reason
            self._finish(answer)
            await self._close()

    def _finish(self, answer: Answer) -> None:
        self._land(answer)
        note(self._exchange.lookup, answer, shared=False)

    async def _close(self) -> None:
        await self._send({"type": "http.response.body", "body": DONE if self._assembler.done else b""})

    async def _break(self, answer: Answer, *, event: bool = True) -> None:
        """End in an error: as a response of its own when nothing was sent yet, else as the stream's last event."""
        self._complete = True
        self._exchange.lookup.store_reason = answer.store_reason
        self._finish(answer)
        if not self._begun:
            if await self._instead():
                return
            await send_response(self._send, answer.status, [*answer.headers, *self._status()], answer.body)
            return
        # The client has its 200 already; without an event it would take a cut answer for a whole one.
        fail(self._exchange.lookup, answer.error_type, 200)
        if event:
            await self._send({"type": "http.response.body", "body": b"data: " + answer.body + b"\n\n", "more_body": True})
        await self._close()

    def _status(self) -> list[tuple[bytes, bytes]]:
        return cache_headers(self._exchange.lookup, self._exchange.forwarded, now_ms=self._now_ms())

    @staticmethod
    async def _drain(chunks: AsyncIterator[bytes]) -> None:
        with suppress(httpx.HTTPError, TimeoutError):
            async with asyncio.timeout(_DRAIN_S):
                async for _ in chunks:
                    pass


def _error_answer(code: str, message: str, started: float) -> Answer:
    error = GatewayError(502, code, message)
    upstream_ms = (time.perf_counter() - started) * 1000
    return Answer(502, error_body(error), [JSON_TYPE], store_reason=code, error_type=code, upstream_ms=upstream_ms)
