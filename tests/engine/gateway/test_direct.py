"""The transport to the upstream against real sockets: what leaves, what an answer may look like, and when a connection is used again."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import httpx
import pytest
import trustme
import uvloop

from engine.breaker import Breaker
from engine.gateway.direct import MAX_HEAD_BYTES, MAX_HELD_BYTES, DirectTransport
from engine.gateway.lanes import Lanes
from engine.gateway.upstream import Upstream
from engine.settings import EngineSettings, GatewaySettings

LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=4, keepalive_expiry=60)
PATIENT = {"timeout": {"connect": 60.0, "read": 60.0, "write": 60.0}}
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Served:
    """url: of the server. connections: accepted so far. heads: of the requests that were read. ended: connections that the client ended."""

    def __init__(self) -> None:
        self.url = ""
        self.connections = 0
        self.heads: list[bytes] = []
        self.ended = 0


@contextlib.asynccontextmanager
async def serving(handler: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Served]:
    served = Served()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.connections += 1
        with contextlib.suppress(ConnectionError):
            await handler(reader, writer)
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    served.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield served
    finally:
        server.close()


@contextlib.asynccontextmanager
async def answering(*answers: bytes, end: bool = False) -> AsyncIterator[Served]:
    """Answer the n-th request with the n-th of these bytes, or the last; end: and close the connection then."""
    count = 0

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        while True:
            try:
                served.heads.append(await reader.readuntil(b"\r\n\r\n"))
            except asyncio.IncompleteReadError:
                served.ended += 1
                return
            writer.write(answers[min(count, len(answers) - 1)])
            count += 1
            await writer.drain()
            if end:
                return

    async with serving(handler) as served:
        yield served


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.005)


async def get(transport: DirectTransport, url: str, method: str = "GET") -> tuple[httpx.Response, bytes]:
    answer = await transport.handle_async_request(httpx.Request(method, url, extensions=PATIENT))
    return answer, await answer.aread()


@pytest.fixture
async def transport() -> AsyncIterator[DirectTransport]:
    made = DirectTransport(LIMITS)
    yield made
    await made.aclose()


# What leaves


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_head_and_body_are_one_piece_on_a_kept_connection(
    loop: Callable[[], asyncio.AbstractEventLoop], scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = None
    if scheme == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(_in_one_piece(context))


async def _in_one_piece(context: ssl.SSLContext | None) -> None:
    pieces: list[bytes] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(65_536):
            pieces.append(piece)
            if b"end" in piece:
                writer.write(OK)

    async def slowly() -> AsyncIterator[bytes]:
        yield b"first"
        # What came first has left while the rest is not there yet.
        await until(lambda: any(b"5\r\nfirst\r\n" in piece for piece in pieces))
        yield b"end"

    transport = DirectTransport(LIMITS, tls=httpx.create_ssl_context())
    async with serving(handler, tls=context) as served:
        for number in range(3):
            request = httpx.Request("POST", f"{served.url}/{number}", content=b"x" * 2_000 + b"end", extensions=PATIENT)
            assert await (await transport.handle_async_request(request)).aread() == b"ok"
        assert [piece.split(b" ", 2)[1] for piece in pieces] == [b"/0", b"/1", b"/2"]
        assert all(piece.endswith(b"xend") for piece in pieces)
        assert (await get(transport, f"{served.url}/end"))[1] == b"ok"
        pieces.clear()
        streamed = await transport.handle_async_request(httpx.Request("POST", served.url, content=slowly(), extensions=PATIENT))
        assert await streamed.aread() == b"ok"
        await until(lambda: pieces[-1].endswith(b"3\r\nend\r\n0\r\n\r\n") or pieces[-1] == b"0\r\n\r\n")
        assert served.connections == 1
        await transport.aclose()


@pytest.mark.parametrize(
    ("headers", "content"),
    [
        ([(b"x", b"a\r\nhost: other")], b""),
        ([(b"x", b"a\nb")], b""),
        ([(b"x", b"a\0b")], b""),
        ([(b"content-length", b"3")], b"four"),
        ([(b"content-length", b"5")], b"four"),
    ],
)
async def test_what_would_be_read_as_another_request_is_not_sent(
    transport: DirectTransport, headers: list[tuple[bytes, bytes]], content: bytes
) -> None:
    async def body() -> AsyncIterator[bytes]:
        yield content

    async with answering(OK) as served:
        await get(transport, served.url)
        with pytest.raises(httpx.LocalProtocolError):
            await transport.handle_async_request(httpx.Request("POST", served.url, headers=headers, content=body(), extensions=PATIENT))
        assert (await get(transport, served.url))[1] == b"ok"
        assert all(b"other" not in head.replace(b": a", b"") for head in served.heads)


# What comes

CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-late\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nx-late: 1\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "ends", "status", "body", "kept"),
    [
        (OK, False, 200, b"ok", True),
        (CHUNKED, False, 200, b"abcde", True),
        (b"HTTP/1.1 100 Continue\r\nx: 1\r\n\r\nHTTP/1.1 103 Hints\r\n\r\n" + OK, False, 200, b"ok", True),
        (b"HTTP/1.1 204 No Content\r\n\r\n", False, 204, b"", True),
        (b"HTTP/1.1 304 Not Modified\r\ncontent-length: 9\r\n\r\n", False, 304, b"", True),
        (b"HTTP/1.1 500 Oh\r\nx-empty:\r\ncontent-length: 0 \r\n\r\n", False, 500, b"", True),
        (b"HTTP/1.1 200 OK\r\nupgrade: h2\r\nconnection: upgrade, keep-alive\r\ncontent-length: 2\r\n\r\nok", False, 200, b"ok", True),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok", False, 200, b"ok", False),
        (b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok", False, 200, b"ok", False),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", True, 200, b"until the end", False),
        (OK + b"HTTP/1.1 200 OK\r\nx-stray: 1\r\ncontent-length: 5\r\n\r\nstray", False, 200, b"ok", False),
        (OK + b"\0garbage", False, 200, b"ok", False),
    ],
)
async def test_an_answer_of_any_framing_comes_whole(answer: bytes, ends: bool, status: int, body: bytes, kept: bool) -> None:
    transport = DirectTransport(LIMITS)
    async with answering(answer, OK, end=ends) as served:
        first, got = await get(transport, served.url)
        assert (first.status_code, got) == (status, body)
        second, got = await get(transport, served.url)
        assert (second.status_code, got) == (200, b"ok"), "nothing of one answer is in the next"
        assert second.headers.raw == [(b"content-length", b"2")]
        assert served.connections == (1 if kept else 2)


async def test_the_answer_to_a_head_has_a_length_and_no_body(transport: DirectTransport) -> None:
    async with answering(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n", OK) as served:
        answer, body = await get(transport, served.url, "HEAD")
        assert (answer.headers["content-length"], body) == ("1000", b"")
        assert (await get(transport, served.url))[1] == b"ok"
        assert served.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\ncontent-le",
        b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nabc",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\nok",
        b"HTTP/1.1 101 Other\r\nupgrade: other\r\nconnection: upgrade\r\n\r\n",
        b"SSH-2.0-server\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * (MAX_HEAD_BYTES // 6 + 1),
    ],
)
async def test_an_answer_that_is_cut_or_none_is_an_error_and_never_a_whole_one(transport: DirectTransport, answer: bytes) -> None:
    async with answering(answer, end=True) as served:
        with pytest.raises(httpx.RemoteProtocolError):
            await get(transport, served.url)


async def test_an_answer_before_the_request_was_read_is_taken(transport: DirectTransport) -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Large\r\ncontent-length: 5\r\nconnection: close\r\n\r\nlarge")
        await writer.drain()
        writer.write_eof()
        while await reader.read(65_536):
            pass

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 65_536

    async with serving(handler) as served:
        answer = await transport.handle_async_request(httpx.Request("POST", served.url, content=endless(), extensions=PATIENT))
        assert (answer.status_code, await answer.aread()) == (413, b"large")


async def test_no_more_is_held_of_a_body_than_is_taken(transport: DirectTransport) -> None:
    size = 32 * 1024 * 1024

    async with answering(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % size + bytes(size)) as served:
        answer = await transport.handle_async_request(httpx.Request("GET", served.url, extensions=PATIENT))
        largest = total = 0
        async for part in answer.aiter_raw():
            largest, total = max(largest, len(part)), total + len(part)
            for _ in range(20):  # turns in which it would go on reading
                await asyncio.sleep(0)
        assert total == size
        assert largest <= MAX_HELD_BYTES + 256 * 1024, "more than what was held and one read"


# How long, and how it ends


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


@pytest.mark.parametrize(
    ("phase", "content", "error"), [("read", b"x", httpx.ReadTimeout), ("write", bytes(16 * 1024 * 1024), httpx.WriteTimeout)]
)
async def test_each_phase_has_its_own_time_out(transport: DirectTransport, phase: str, content: bytes, error: type[Exception]) -> None:
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await until(lambda: served.ended)

    async with serving(deaf) as served:
        limits = {"timeout": {**PATIENT["timeout"], phase: 0.05}}
        with pytest.raises(error):
            await transport.handle_async_request(httpx.Request("POST", served.url, content=content, extensions=limits))
        served.ended = 1


async def test_who_is_cancelled_or_leaves_a_body_closes_the_connection(transport: DirectTransport) -> None:
    gone = asyncio.Event()

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        served.heads.append(head)
        if b"/begun" in head:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nbegun")
        assert await reader.read() == b""
        gone.set()

    async with serving(handler) as served, asyncio.timeout(60):
        asked = asyncio.create_task(get(transport, f"{served.url}/silent"))
        await until(lambda: served.heads)
        asked.cancel()
        await gone.wait()
        gone.clear()
        begun = await transport.handle_async_request(httpx.Request("GET", f"{served.url}/begun", extensions=PATIENT))
        async for part in begun.aiter_raw():
            assert part == b"begun"
            break
        await begun.aclose()
        await gone.wait()
    with pytest.raises(asyncio.CancelledError):
        await asked


async def test_a_connection_that_ended_or_waited_too_long_is_not_used_again() -> None:
    async with answering(OK, end=True) as served:
        transport = DirectTransport(LIMITS)
        for _ in range(3):
            assert (await get(transport, served.url))[1] == b"ok"
            (held,) = transport._idle.values()
            await until(lambda held=held: held[-1][1].ended)
        assert served.connections == 3
    async with answering(OK) as served:
        transport = DirectTransport(httpx.Limits(max_keepalive_connections=4, keepalive_expiry=0))
        await get(transport, served.url)
        await get(transport, served.url)
        assert served.connections == 2
        await until(lambda: served.ended == 2)


async def test_only_so_many_idle_connections_are_kept() -> None:
    transport = DirectTransport(httpx.Limits(max_keepalive_connections=2, keepalive_expiry=60))
    async with answering(OK) as served:
        await asyncio.gather(*(get(transport, served.url) for _ in range(5)))
        assert served.connections == 5
        await until(lambda: served.ended == 3)
        await get(transport, served.url)
        assert served.connections == 5
        await transport.aclose()
        await until(lambda: served.ended == 5)


async def test_a_server_that_is_gone_or_speaks_no_tls_is_an_error_of_the_connection(transport: DirectTransport) -> None:
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    with pytest.raises(httpx.ConnectError):
        await get(transport, f"http://127.0.0.1:{port}")

    async def plainly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(OK)

    async with serving(plainly) as served:
        with pytest.raises(httpx.ConnectError):
            await get(DirectTransport(LIMITS, tls=httpx.create_ssl_context()), served.url.replace("http", "https"))
    with pytest.raises(httpx.UnsupportedProtocol):
        await get(transport, "ftp://127.0.0.1")


def upstream(url: str) -> Upstream:
    lanes = Lanes(Breaker, hits_stopped=lambda: False, waited=lambda in_time: None)
    return Upstream(GatewaySettings(EngineSettings(cache_url="", secret=b"s" * 32), upstream_url=url), lanes)


async def test_a_compressed_answer_is_unpacked_where_it_is_read() -> None:
    packed = gzip.compress(b"plain" * 1_000)
    async with answering(b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(packed) + packed) as served:
        asked = upstream(served.url)
        _, body = await asked.call("GET", asked.url("/v1/models", b""), [], b"")
        assert body == b"plain" * 1_000
        async with asked.open("GET", asked.url("/v1/models", b"a=b"), [], b"") as response:
            assert b"".join([part async for part in response.aiter_raw()]) == packed
        assert [head.split(b" ")[1] for head in served.heads] == [b"/v1/models", b"/v1/models?a=b"]
        await asked.close()


async def test_a_redirect_is_the_client_s_to_follow_and_a_cookie_stays_out() -> None:
    moved = b"HTTP/1.1 302 Found\r\nlocation: /elsewhere\r\nset-cookie: session=one\r\ncontent-length: 0\r\n\r\n"
    async with answering(moved) as served:
        asked = upstream(served.url)
        for _ in range(2):
            response, _ = await asked.call("POST", asked.url("/v1/x", b""), [], b"")
            assert response.status_code == 302
        assert len(served.heads) == 2
        assert not any(b"cookie" in head for head in served.heads)
        await asked.close()


async def test_a_proxy_is_asked_for_other_machines_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async with answering(OK) as proxy, answering(OK) as served:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("NO_PROXY", "")
        for url in ("http://upstream.invalid/v1", served.url):
            asked = upstream(url)
            _, body = await asked.call("GET", asked.url("/v1/models", b""), [], b"")
            assert body == b"ok"
            await asked.close()
        assert [head.split(b" ")[1] for head in proxy.heads] == [b"http://upstream.invalid/v1/models"]
        assert [head.split(b" ")[1] for head in served.heads] == [b"/v1/models"]
