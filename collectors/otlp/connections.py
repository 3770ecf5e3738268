"""The HTTP server's connections: how many, how long one may take over a request, how much it may say beside its body.

uvicorn bounds none of these. Slow bodies are the receiver's to judge, which knows how to answer them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, ClassVar

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from collectors.otlp.decode import JSON
from collectors.otlp.status import (
    GONE_QUIET,
    HEADERS_TOO_LARGE,
    NO_HTTP,
    RETRY_AFTER_S,
    TOO_MANY_CONNECTIONS,
    Answer,
    encoded,
    status_message,
)

MAX_CONNECTIONS = 768  # below the 1,024 open files that a process gets by default
HEADERS_TIMEOUT_S = 10.0
DRAIN_TIMEOUT_S = 15.0  # after an early refusal, for the rest of its body: a sender that is still writing would not see the answer
MAX_HEADER_BYTES = 64 * 1024
_UPGRADE_HEADERS = frozenset({b"upgrade", b"connection", b"http2-settings"})
_CHUNK_FRAME = 8  # bytes of chunked framing allowed to each byte of body: the smallest chunk has five or six


class GuardedConnection(HttpToolsProtocol):
    """One connection. What breaks a bound is answered, closed and counted by `count`; others are not disturbed."""

    count: ClassVar[Callable[[str], None]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._timer: asyncio.TimerHandle | None = None
        self._in_body = False
        self._body_bytes = 0
        self._other_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MAX_CONNECTIONS:
            self._refuse(TOO_MANY_CONNECTIONS, "too_many_connections", f"more than {MAX_CONNECTIONS} connections are open")
        else:
            self._wait(HEADERS_TIMEOUT_S)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if not self._in_body and self._timer is None:
            self._wait(HEADERS_TIMEOUT_S)
        self._other_bytes += len(data)
        self._unset_keepalive_if_required()
        try:
            self._feed(data)
        except httptools.HttpParserError:
            self.send_400_response("this is no HTTP/1.1 request")
            return
        if self._other_bytes > MAX_HEADER_BYTES + _CHUNK_FRAME * self._body_bytes:
            self._refuse(HEADERS_TOO_LARGE, "headers_too_large", f"the headers are larger than {MAX_HEADER_BYTES} bytes")

    def _feed(self, data: bytes) -> None:
        """Parse. An offer to upgrade (h2c, from Java's clients) is declined by taking the request as it is.

        The parser would skip the body of such a request: it is asked again, without the offer. Otherwise a request full of spans would be
        answered as an empty one.
        """
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as stopped:
            lines = [b"%s %s HTTP/1.1" % (self.parser.get_method(), self.url)]
            lines += [b"%s: %s" % pair for pair in self.headers if pair[0] not in _UPGRADE_HEADERS]
            self.parser = httptools.HttpRequestParser(self)
            self.parser.feed_data(b"\r\n".join([*lines, b"", b""]))
            self.parser.feed_data(data[stopped.args[0] :])

    def on_headers_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._in_body = True
        self._stop_waiting()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._other_bytes -= len(body)
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            return
        self._in_body = False
        self._body_bytes = self._other_bytes = 0
        self._stop_waiting()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._in_body and not self.transport.is_closing():
            self._wait(DRAIN_TIMEOUT_S)

    def send_400_response(self, msg: str) -> None:
        self._refuse(NO_HTTP, "no_http", msg)

    def _wait(self, seconds: float) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(seconds, self._gone_quiet)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _gone_quiet(self) -> None:
        self._timer = None
        if self._in_body:
            self.transport.close()  # its answer was sent long ago
        else:
            self._refuse(GONE_QUIET, "slow_headers", f"no request came within {HEADERS_TIMEOUT_S:.0f} s")

    def _refuse(self, answer: Answer, reason: str, message: str) -> None:
        if self.transport.is_closing():
            return
        self._stop_waiting()
        type(self).count(reason)
        # A request before this one may still be without its answer: nothing may stand in that answer's place.
        if self.cycle is None or self.cycle.response_complete:
            body = encoded(status_message(answer, message), JSON)
            head = [f"HTTP/1.1 {answer.http} {answer.phrase}", f"content-type: {JSON}", f"content-length: {len(body)}"]
            if answer.retry:
                head.append(f"retry-after: {RETRY_AFTER_S}")
            self.transport.write("\r\n".join([*head, "connection: close", "", ""]).encode() + body)
        self.transport.close()


def guarded(count: Callable[[str], None]) -> type[GuardedConnection]:
    """Return the class of connections that count what they refuse. count: takes the reason, one of a few words."""
    return type("CountedConnection", (GuardedConnection,), {"count": staticmethod(count)})
