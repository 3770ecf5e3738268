"""A request leaves in one piece, over TLS as well, and what is streamed is not held back."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import trustme

from engine.gateway.joined import JoinedTransport

LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=4, keepalive_expiry=60)


class Server(asyncio.Protocol):
    """Notes each piece that comes and answers what ends in `end`."""

    pieces: list[bytes]
    connections: int

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        type(self).connections += 1
        self.transport: asyncio.Transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        self.pieces.append(data)
        if b"end" in data:
            self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")


@pytest.fixture
def authority(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> trustme.CA:
    made = trustme.CA()
    made.cert_pem.write_to_path(tmp_path / "ca.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    return made


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_head_and_body_are_one_piece_on_a_kept_connection(scheme: str, authority: trustme.CA) -> None:
    class Heard(Server):
        pieces: list[bytes] = []  # noqa: RUF012 - of this test alone
        connections = 0

    context = None
    if scheme == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
    server = await asyncio.get_running_loop().create_server(Heard, "127.0.0.1", 0, ssl=context)
    url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    chunk_came = asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield b"first"
        # What came first has left while the rest is not there yet.
        async with asyncio.timeout(60):
            while not any(b"first" in piece for piece in Heard.pieces):
                await asyncio.sleep(0.01)
        chunk_came.set()
        yield b"end"

    transport = JoinedTransport(LIMITS)
    try:
        for number in range(3):
            answer = await transport.handle_async_request(httpx.Request("POST", f"{url}/{number}", content=b"x" * 2_000 + b"end"))
            assert await answer.aread() == b"ok"
        assert [piece.split(b" ", 2)[1] for piece in Heard.pieces] == [b"/0", b"/1", b"/2"]
        assert all(piece.endswith(b"xend") for piece in Heard.pieces)
        without_body = await transport.handle_async_request(httpx.Request("GET", f"{url}/end"))
        assert await without_body.aread() == b"ok"
        Heard.pieces.clear()
        streamed = await transport.handle_async_request(httpx.Request("POST", url, content=slowly()))
        assert await streamed.aread() == b"ok"
        assert chunk_came.is_set()
        assert Heard.connections == 1
    finally:
        await transport.aclose()
        server.close()


async def test_a_server_that_is_gone_is_an_error_of_the_connection() -> None:
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    transport = JoinedTransport(LIMITS)
    with pytest.raises(httpx.ConnectError):
        await transport.handle_async_request(httpx.Request("GET", f"http://127.0.0.1:{port}"))
    await transport.aclose()
