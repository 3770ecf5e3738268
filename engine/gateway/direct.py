"""A transport for httpx without a proxy, made for the upstream: HTTP/1.1 as a protocol of the event loop, parsed by httptools.

httpx's own takes three times the processor's time for the same call, much of it in turns of the event loop between its layers. What a
miss waits for is here one write, one read and one timer. A request's head leaves together with the beginning of its body.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import NamedTuple

import httptools
import httpx

from engine.gateway.connecting import connected
from engine.gateway.errors import RawHeaders

MAX_HEAD_BYTES = 100 * 1024  # of an answer; httpx's bound
MAX_HELD_BYTES = 64 * 1024  # of a body that nobody takes: above it nothing more is read from the connection

_Origin = tuple[str, str, int]


class _Answer:
    """One response as httptools tells it. Each has a parser of its own: nothing behind one response gets into the next.

    status: 0 until its head is whole. keeps: whether the connection can be used again.
    """

    def __init__(self, *, bodiless: bool) -> None:
        self.status = 0
        self.headers: RawHeaders = []
        self.parts: list[bytes] = []
        self.held_bytes = self._head_bytes = 0
        self.whole = self.keeps = False
        self.fault: httpx.TransportError | None = None
        self._bodiless = bodiless  # a HEAD's answer, whose length is not its own
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)

    def feed(self, data: bytes) -> None:
        if self._parser is None:
            self.keeps = False
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail(httpx.RemoteProtocolError(f"not HTTP/1.1: {type(error).__name__}"))
        if not self.status:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES:
                self._fail(httpx.RemoteProtocolError(f"a head of more than {MAX_HEAD_BYTES} bytes"))
        if self.whole or self.fault is not None:
            self._parser = None  # which holds this in turn

    def end(self, error: Exception | None) -> None:
        """The connection has ended, in an error or as the server wished."""
        if error is not None:
            self._fail(httpx.ReadError(str(error)))
        elif self.status and self._ends_with_connection():
            self.whole = True
        else:
            self._fail(httpx.RemoteProtocolError("the server closed the connection before its answer was whole"))
        self.keeps = False
        self._parser = None

    def take(self) -> bytes:
        """Return what has come of the body, b"" = nothing since."""
        data = b"".join(self.parts)
        self.parts.clear()
        self.held_bytes = 0
        return data

    def _fail(self, fault: httpx.TransportError) -> None:
        self.keeps = False
        if not self.whole:  # what comes behind an answer does not spoil it
            self.fault = self.fault or fault

    def _ends_with_connection(self) -> bool:
        named = {name.lower(): value.lower() for name, value in self.headers}
        return b"content-length" not in named and not named.get(b"transfer-encoding", b"").rstrip().endswith(b"chunked")

    # Called by the parser, also for what comes behind the answer in the same read

    def on_message_begin(self) -> None:
        if self.whole:
            self.keeps = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self.status:  # else a trailer
            self.headers.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        if self.status or self._parser is None:
            return
        status = self._parser.get_status_code()
        if status < 200:  # the answer proper comes after it
            self.headers.clear()
            return
        self.status = status
        self.keeps = self._parser.should_keep_alive()
        self.whole = self._bodiless

    def on_body(self, data: bytes) -> None:
        if self.status and not self.whole:
            self.parts.append(data)
            self.held_bytes += len(data)

    def on_message_complete(self) -> None:
        if self.status:
            self.whole = True


class _Head(NamedTuple):
    """A request's head as it is sent. length: of its body, None = in chunks, which tell theirs."""

    written: bytes
    length: int | None


class _Connection(asyncio.Protocol):
    """One connection, and the request that is on it, if any. Whatever goes wrong with it ends it."""

    def __init__(self) -> None:
        self.ended = False
        self.answer: _Answer | None = None
        self._loop = asyncio.get_running_loop()
        self._sent = self._lost = False
        self._full = self._paused = False
        self._waiter: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport

    # Called by the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        answer = self.answer
        if answer is None:  # nobody asked
            self.abort()
            return
        answer.feed(data)
        if answer.held_bytes > MAX_HELD_BYTES and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> None:
        self._end(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._end(exc)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._wake()

    # Called by the transport

    def begin(self, *, bodiless: bool) -> _Answer:
        """Begin with a request; return its answer, of which nothing is there yet."""
        self._sent = False
        self.answer = _Answer(bodiless=bodiless)
        if self.ended:
            self.answer.end(None)
        return self.answer

    async def send(self, head: _Head, body: AsyncIterator[bytes], timeout_s: float | None) -> None:
        """Send the request. Returns early when the server has ended the connection: it may have answered.

        Raises httpx.LocalProtocolError for a body of another length than the head says, httpx.WriteTimeout.
        """
        held, left = head.written, head.length
        async for part in body:
            if not part:
                continue
            if left is not None and (left := left - len(part)) < 0:
                break
            self._write(held + (b"%x\r\n%b\r\n" % (len(part), part) if left is None else part))
            held = b""
            while self._full and not self.ended:
                await self._happens(timeout_s, httpx.WriteTimeout)
            if self.ended:
                return
        if left:
            raise httpx.LocalProtocolError("the request's body has not the length that its head says")
        if left is None:
            held += b"0\r\n\r\n"
        if held:
            self._write(held)
        self._sent = not self.ended

    async def head(self, answer: _Answer, timeout_s: float | None) -> None:
        """Return when the answer's head is there. Raises httpx.TransportError."""
        while not answer.status:
            if answer.fault is not None:
                raise answer.fault
            await self._happens(timeout_s, httpx.ReadTimeout)

    async def body(self, answer: _Answer, timeout_s: float | None) -> AsyncIterator[bytes]:
        """Yield the answer's body as it comes. Raises httpx.TransportError."""
        while True:
            if data := answer.take():
                if self._paused and not self.ended:
                    self._paused = False
                    self._transport.resume_reading()
                yield data
            elif answer.fault is not None:
                raise answer.fault
            elif answer.whole:
                return
            else:
                await self._happens(timeout_s, httpx.ReadTimeout)

    def release(self) -> bool:
        """End the request; return whether the connection can be used for another. If not it is closed."""
        answer = self.answer
        if self.ended or answer is None or not (answer.whole and answer.keeps and self._sent):
            self.abort()
            return False
        self.answer = None
        if self._paused:
            self._paused = False
            self._transport.resume_reading()
        return True

    def abort(self) -> None:
        """Close the connection at once. Who still reads from it gets an error."""
        self._end(ConnectionAbortedError("closed by the gateway"))
        if not self._lost:
            self._transport.abort()

    def _write(self, data: bytes) -> None:
        if not self.ended:
            self._transport.write(data)

    def _end(self, error: Exception | None) -> None:
        if not self.ended:
            self.ended = True
            if self.answer is not None:
                self.answer.end(error)
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _happens(self, timeout_s: float | None, late: type[httpx.TimeoutException]) -> None:
        """Return when anything came, there is room to write, or the connection has ended."""
        waiter = self._waiter = self._loop.create_future()
        timer = None if timeout_s is None else self._loop.call_later(timeout_s, _expire, waiter, late)
        try:
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()


def _expire(waiter: asyncio.Future[None], late: type[httpx.TimeoutException]) -> None:
    if not waiter.done():
        waiter.set_exception(late("nothing happened in time"))


class _Body(httpx.AsyncByteStream):
    """A response's body. Closed before its end it closes the connection."""

    def __init__(self, connection: _Connection, answer: _Answer, timeout_s: float | None, released: Callable[[], None]) -> None:
        self._connection = connection
        self._answer = answer
        self._timeout_s = timeout_s
        self._released: Callable[[], None] | None = released

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._connection.body(self._answer, self._timeout_s)

    async def aclose(self) -> None:
        released, self._released = self._released, None
        if released is not None:
            released()


class DirectTransport(httpx.AsyncBaseTransport):
    """As httpx's own over HTTP/1.1, without a bound of connections. Of `limits` those of idle connections count.

    tls: what https is spoken with, None = only http is. Raises httpx's errors: connect, read and write each have the request's
    time-out of that name.
    """

    def __init__(self, limits: httpx.Limits, *, tls: ssl.SSLContext | None = None) -> None:
        self._most_idle = limits.max_keepalive_connections or 0
        self._idle_s = limits.keepalive_expiry or 0.0
        self._idle: dict[_Origin, deque[tuple[float, _Connection]]] = {}
        self._closed = False
        self._tls = tls
        if tls is not None:
            tls.set_alpn_protocols(["http/1.1"])

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url, timeout_s = request.url, request.extensions.get("timeout", {})
        origin = (url.scheme, url.raw_host.decode("ascii"), url.port or (443 if url.scheme == "https" else 80))
        head = _head(request.method, url.raw_path, request.headers.raw)
        connection = self._kept(origin) or await self._connect(origin, timeout_s.get("connect"))
        answer = connection.begin(bodiless=request.method == "HEAD")
        try:
            body = request.stream
            if not isinstance(body, httpx.AsyncByteStream):
                raise httpx.LocalProtocolError("the request's body cannot be read asynchronously")
            await connection.send(head, body.__aiter__(), timeout_s.get("write"))
            await connection.head(answer, timeout_s.get("read"))
        except BaseException:
            connection.abort()
            raise
        stream = _Body(connection, answer, timeout_s.get("read"), lambda: self._release(origin, connection))
        return httpx.Response(answer.status, headers=answer.headers, stream=stream)

    async def aclose(self) -> None:
        self._closed = True
        for held in self._idle.values():
            for _, connection in held:
                connection.abort()
        self._idle.clear()

    async def _connect(self, origin: _Origin, timeout_s: float | None) -> _Connection:
        scheme, host, port = origin
        tls = self._tls if scheme == "https" else None
        if scheme != "http" and tls is None:
            raise httpx.UnsupportedProtocol(f"the scheme {scheme!r} is unknown; expected http or https")
        try:
            async with asyncio.timeout(timeout_s):
                sock = await connected(host, port)
            async with asyncio.timeout(timeout_s):
                loop = asyncio.get_running_loop()
                _, connection = await loop.create_connection(_Connection, sock=sock, ssl=tls, server_hostname=host if tls else None)
        except TimeoutError as error:
            raise httpx.ConnectTimeout("no connection in time") from error
        except (OSError, UnicodeError) as error:  # those of TLS as well, and a name that cannot be one
            raise httpx.ConnectError(str(error)) from error
        return connection

    def _kept(self, origin: _Origin) -> _Connection | None:
        """Return the connection that was used last, if it is still good."""
        held, now = self._idle.get(origin), time.monotonic()
        while held:
            until, connection = held.pop()
            if now < until and not connection.ended:
                return connection
            connection.abort()
        return None

    def _release(self, origin: _Origin, connection: _Connection) -> None:
        if not connection.release():
            return
        held, now = self._idle.setdefault(origin, deque()), time.monotonic()
        held.append((now + self._idle_s, connection))
        while held and (self._closed or len(held) > self._most_idle or held[0][0] <= now):
            held.popleft()[1].abort()


def _head(method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> _Head:
    """Return the head of a request. Raises httpx.LocalProtocolError."""
    lines, length, chunked = [b"%b %b HTTP/1.1" % (method.encode("ascii"), target)], 0, False
    for name, value in headers:
        lines.append(b"%b: %b" % (name, value))
        lower = name.lower()
        chunked = chunked or lower == b"transfer-encoding"
        if lower == b"content-length":
            length = int(value)
    written = b"\r\n".join(lines)
    breaks = len(lines) - 1
    if written.count(b"\n") != breaks or written.count(b"\r") != breaks or b"\0" in written or lines[0].count(b" ") != 2:
        raise httpx.LocalProtocolError("a header, the path or the method holds a line break, a NUL or a space")
    return _Head(written + b"\r\n\r\n", None if chunked else length)
