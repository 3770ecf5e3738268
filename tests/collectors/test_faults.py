"""Hostile and unlucky clients, a store that cannot commit, a stop under load: defined outcomes, nothing acknowledged lost."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import resource
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from google.rpc import status_pb2
from grpc import aio

from collectors.otlp import connections, receiver_grpc
from collectors.runner import Collector
from storage.errors import StoreReadOnly
from tests.collectors import process
from tests.collectors.support import JSON, PROTOBUF, Running, request, rows, running, settings
from tests.collectors.wires import GRPC, WIRES, send
from tests.support.polling import eventually
from tests.support.servers import wait_for

TWO_GB = 2_000_000_000


class Raw:
    """A client that says exactly what it is told to."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        """Return status, headers and body. Fails when the connection closes before they are complete."""
        async with asyncio.timeout(60):
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
            return int(head[0].split()[1]), headers, await self.reader.readexactly(int(headers["content-length"]))

    async def closed(self) -> bool:
        async with asyncio.timeout(60):
            return await self.reader.read() == b""


@contextlib.asynccontextmanager
async def raw(it: Running) -> AsyncIterator[Raw]:
    host, _, port = it.settings.http_bind.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Raw(reader, writer)
    finally:
        writer.close()


def head(*lines: str, kind: str = "application/x-protobuf") -> bytes:
    return "\r\n".join(["POST /v1/traces HTTP/1.1", "Host: x", f"Content-Type: {kind}", *lines, "", ""]).encode()


async def test_two_gigabytes_announced_are_refused_before_they_come(tmp_path: Path) -> None:
    async with running(tmp_path) as it, raw(it) as client:
        await client.say(head(f"Content-Length: {TWO_GB}"))
        status, headers, body = await client.answer()
        assert (status, headers["content-type"]) == (413, "application/x-protobuf")
        assert str(TWO_GB) in status_pb2.Status.FromString(body).message
        assert "cachescope_collector_queue_bytes 0.0" in (await it.client.get("/metrics")).text


async def test_the_rest_of_a_refused_body_is_thrown_away_for_a_while_and_then_the_connection_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "DRAIN_TIMEOUT_S", 0.2)
    async with running(tmp_path) as it, raw(it) as client:
        await client.say(head(f"Content-Length: {TWO_GB}") + b"x" * 100_000)
        assert (await client.answer())[0] == 413
        assert await client.closed()


@pytest.mark.parametrize("length", ["Transfer-Encoding: chunked", "Content-Length: 8000000"])
async def test_a_sender_that_is_still_writing_sees_why_it_was_refused(tmp_path: Path, length: str) -> None:
    body = b"x" * 8_000_000
    sent = head(length) + (b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if "chunked" in length else body)

    def blocking(bind: str) -> int:
        host, _, port = bind.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(sent)  # reads nothing until all is written, as a plain client does
            answer = http.client.HTTPResponse(connection)
            answer.begin()
            return answer.status

    async with running(tmp_path, max_body_bytes=1_000_000) as it:
        assert await asyncio.to_thread(blocking, it.settings.http_bind) == 413


async def test_clients_that_drip_their_headers_are_told_so_and_disturb_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADERS_TIMEOUT_S", 3.0)
    async with running(tmp_path) as it, contextlib.AsyncExitStack() as stack:
        assert (await it.client.get("/healthz")).status_code == 200  # its connection is there before any is slow
        slow = [await stack.enter_async_context(raw(it)) for _ in range(60)]
        for client in slow[1:]:
            with contextlib.suppress(ConnectionError):  # on a slow machine it was told already
                await client.say(b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nX-")
        for number in range(20):
            assert (await it.post(request(1, first=number).SerializeToString())).status_code == 200
        for client in slow:  # one of them never said a word
            status, headers, _ = await client.answer()
            assert (status, headers["connection"]) == (408, "close")
            assert await client.closed()
        assert 'cachescope_collector_failures_total{place="http",reason="slow_headers"} 60.0' in (await it.client.get("/metrics")).text


@pytest.mark.parametrize("part", ["headers", "trailers"])
async def test_headers_without_end_are_refused(tmp_path: Path, part: str) -> None:
    async with running(tmp_path) as it, raw(it) as client:
        if part == "headers":
            await client.say(head().removesuffix(b"\r\n"))
        else:
            await client.say(head("Transfer-Encoding: chunked") + b"0\r\n")
        with contextlib.suppress(ConnectionError):
            for number in range(3_000):
                await client.say(b"X-%d: %s\r\n" % (number, b"y" * 100))
        if part == "headers":
            assert (await client.answer())[0] == 431
        else:
            with contextlib.suppress(ConnectionError):
                assert await client.closed()
        counted = it.collector.metrics.failures.labels("http", "headers_too_large")
        await eventually(lambda: counted._value.get() == 1, what="it is counted")


async def test_a_body_in_chunks_of_one_byte_is_no_flood_of_headers(tmp_path: Path) -> None:
    body = request(3, attributes={"pad": "x" * 40_000}).SerializeToString()
    async with running(tmp_path) as it, raw(it) as client:
        await client.say(head("Transfer-Encoding: chunked") + b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")
        assert (await client.answer())[0] == 200
        assert await it.rows("SELECT count(*) FROM spans") == [(3,)]


async def test_one_connection_too_many_is_asked_to_come_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 3)
    async with running(tmp_path) as it, contextlib.AsyncExitStack() as stack:
        for _ in range(3):
            client = await stack.enter_async_context(raw(it))
            await client.say(head("Content-Length: 0"))
            assert (await client.answer())[0] == 200
        one_more = await stack.enter_async_context(raw(it))
        status, headers, _ = await one_more.answer()
        assert (status, int(headers["retry-after"]) >= 1) == (503, True)


@pytest.mark.parametrize(
    "noise",
    [b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"\0" * 100, b"POST /v1/tr\xff HTTP/1.1\r\n\r\n", b"POST http://[ HTTP/1.1\r\n\r\n"],
    ids=["tls", "half", "zeros", "path", "url"],
)
async def test_what_is_no_http_is_400_and_closed(tmp_path: Path, noise: bytes) -> None:
    async with running(tmp_path) as it, raw(it) as client:
        await client.say(noise)
        status, headers, body = await client.answer()
        assert (status, headers["content-type"], b"message" in body) == (400, "application/json", True)


async def test_a_request_that_offers_an_upgrade_is_taken_as_it_is(tmp_path: Path) -> None:
    body = request(2).SerializeToString()
    async with running(tmp_path) as it, raw(it) as client:
        offer = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
        await client.say(head(f"Content-Length: {len(body)}", *offer))
        await client.say(body)
        assert (await client.answer())[0] == 200
        assert await it.rows("SELECT count(*) FROM spans") == [(2,)]


async def test_a_grpc_message_that_does_not_come_is_let_go_and_too_many_of_them_are_asked_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiver_grpc, "_MESSAGE_TIMEOUT_S", 2.0)
    monkeypatch.setattr(receiver_grpc, "_MAX_READING", 4)
    # Small messages: all four may be read at once.
    async with running(tmp_path, max_body_bytes=1024 * 1024) as it, aio.insecure_channel(it.settings.grpc_bind) as channel:
        method = channel.stream_unary(f"/{receiver_grpc._SERVICES['traces']}/Export")
        never = asyncio.Event()

        async def nothing() -> AsyncIterator[bytes]:
            await never.wait()
            yield b""

        async def overloaded(waiting: list[asyncio.Future[bytes]]) -> bool:
            """Ask until it is too much, or those that wait were let go: a machine that stood still saw neither."""
            while not all(one.done() for one in waiting):
                if (await send(it, GRPC, request(1))).code == 14:
                    return True
            return False

        async with asyncio.timeout(60):
            while not await overloaded(waiting := [asyncio.ensure_future(method(nothing())) for _ in range(4)]):
                await asyncio.gather(*waiting, return_exceptions=True)
        errors = await asyncio.gather(*waiting, return_exceptions=True)
        assert {error.code().name for error in errors if isinstance(error, aio.AioRpcError)} == {"ABORTED"}
        assert (await send(it, GRPC, request(1))).code == 0

        async def ends() -> AsyncIterator[bytes]:
            return
            yield b""

        with pytest.raises(aio.AioRpcError) as caught:
            await method(ends())
        assert caught.value.code().name == "INVALID_ARGUMENT"


async def test_a_token_is_asked_for_before_a_grpc_message_is_read(tmp_path: Path) -> None:
    async with running(tmp_path, token="t") as it, aio.insecure_channel(it.settings.grpc_bind) as channel:
        never = asyncio.Event()

        async def nothing() -> AsyncIterator[bytes]:
            await never.wait()
            yield b""

        with pytest.raises(aio.AioRpcError) as caught:
            await channel.stream_unary(f"/{receiver_grpc._SERVICES['traces']}/Export")(nothing(), timeout=60)
        assert caught.value.code().name == "UNAUTHENTICATED"


def test_a_full_disk_is_503_until_there_is_room_and_nothing_acknowledged_is_missing(tmp_path: Path) -> None:
    """The limit on a file's size stands for the disk: `python -m tests.bench.otlp_faults` fills a real one."""
    given = settings(tmp_path)
    with process.collecting(given) as collector, httpx.Client(base_url=f"http://{given.http_bind}", timeout=60) as client:

        def post(number: int) -> httpx.Response:
            body = request(200, first=number * 200, attributes={"pad": os.urandom(300).hex()}).SerializeToString()
            return client.post("/v1/traces", content=body, headers=PROTOBUF)

        acknowledged = [number for number in range(3) if post(number).status_code == 200]
        largest = max(file.stat().st_size for file in tmp_path.iterdir())
        resource.prlimit(collector.pid, resource.RLIMIT_FSIZE, (largest, resource.RLIM_INFINITY))
        full = [post(number) for number in range(3, 8)]
        refused = next(answer for answer in full if answer.status_code != 200)
        assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
        acknowledged += [number for number, answer in enumerate(full, start=3) if answer.status_code == 200]
        assert "StoreFull" in client.get("/healthz").text
        resource.prlimit(collector.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        acknowledged += [number for number in range(3, 8) if post(number).status_code == 200]
        assert client.get("/healthz").text == "ok"
        assert set(acknowledged) == set(range(8))
    assert rows(tmp_path, "SELECT count(*) FROM spans") == [(1600,)]
    assert rows(tmp_path, "PRAGMA integrity_check") == [("ok",)]


@pytest.fixture
def nobodys_folder() -> Iterator[Path]:
    """A folder that another user may enter: pytest's own is closed to all but its owner."""
    folder = Path(tempfile.mkdtemp(prefix="cachescope-collector-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


async def test_a_read_only_file_stops_the_start_and_says_which(nobodys_folder: Path) -> None:
    async with running(nobodys_folder) as it:
        assert (await it.post(request(1).SerializeToString())).status_code == 200
    (nobodys_folder / "telemetry.db").chmod(0o444)
    root = os.geteuid() == 0  # whom no file's mode stops
    if root:
        os.seteuid(65534)
    try:
        collector = Collector(settings(nobodys_folder))
        with pytest.raises(StoreReadOnly, match=r"telemetry\.db"):
            await collector.start()
        await collector.stop()
    finally:
        if root:
            os.seteuid(0)


async def test_a_file_that_is_deleted_while_it_is_open_is_503_not_a_lie(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        assert (await it.post(request(1).SerializeToString())).status_code == 200
        (tmp_path / "telemetry.db").unlink()
        for wire in WIRES:
            assert (await send(it, wire, request(1, first=5))).code == 14
        assert "StoreGone" in (await it.client.get("/healthz")).text


def test_a_newer_schema_stops_the_start_and_changes_nothing(tmp_path: Path) -> None:
    given = settings(tmp_path)
    with process.collecting(given):
        pass
    with contextlib.closing(sqlite3.connect(tmp_path / "telemetry.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'telemetry_9999'")
        connection.commit()
    started = process.start(given)
    _, told = started.communicate(timeout=60)
    assert (started.returncode, b"Traceback" in told) == (3, False)
    assert b"newer program" in told
    assert rows(tmp_path, "SELECT version_num FROM alembic_version") == [("telemetry_9999",)]


def test_sigterm_with_a_full_queue_commits_what_was_taken_and_answers_everyone(tmp_path: Path) -> None:
    bodies = [request(50, first=number * 50).SerializeToString() for number in range(30)]
    given = settings(tmp_path, queue_bytes=10 * len(bodies[0]))
    given = replace(given, storage=replace(given.storage, busy_timeout_s=120))
    answers: dict[int, int] = {}

    def post(number: int) -> None:
        url = f"http://{given.http_bind}/v1/traces"
        answers[number] = httpx.post(url, content=bodies[number], headers=PROTOBUF, timeout=120).status_code

    with process.collecting(given) as collector:
        with contextlib.closing(sqlite3.connect(tmp_path / "telemetry.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            threads = [threading.Thread(target=post, args=(number,)) for number in range(len(bodies))]
            for thread in threads:
                thread.start()
            wait_for(lambda: len(answers) >= len(bodies) - 10, what="the queue is full")  # all that do not fit were refused
            collector.send_signal(signal.SIGTERM)
            with pytest.raises(subprocess.TimeoutExpired):
                collector.wait(timeout=0.5)  # what was taken is not thrown away
            other.execute("ROLLBACK")
        assert collector.wait(timeout=120) == 0
        for thread in threads:
            thread.join(timeout=120)
    assert len(answers) == len(bodies)
    assert set(answers.values()) == {200, 503}
    taken = {number for number, status in answers.items() if status == 200}
    stored = {(int.from_bytes(trace_id, "big") - 1) // 50 for (trace_id,) in rows(tmp_path, "SELECT trace_id FROM spans")}
    assert taken == stored


async def test_json_of_a_thousand_levels_is_400_and_a_deep_value_is_cut(tmp_path: Path) -> None:
    value = b'{"arrayValue":{"values":[' * 300 + b"]}}" * 300
    deep = b'{"resourceSpans":[{"resource":{"attributes":[{"key":"k","value":' + value + b"}]}}]}"
    async with running(tmp_path) as it:
        assert (await it.post(b"[" * 200_000, JSON)).status_code == 400
        for signal_path in ("/v1/traces", "/v1/metrics", "/v1/logs"):
            answer = await it.post(deep.replace(b"resourceSpans", f"resource{signal_path[4:].title()}".encode()), JSON, path=signal_path)
            assert answer.status_code in {200, 400}
        assert (await it.post(request(1).SerializeToString())).status_code == 200
