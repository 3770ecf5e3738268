"""A closed loop of HTTP requests over kept connections, in a process of its own: as many answers as a server gives.

`python -m tests.bench.http_load PORT CONNECTIONS SECONDS`, the request's body on standard input; prints what it found as JSON.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import dataclass

import uvloop

PATH = "/v1/chat/completions"


@dataclass(frozen=True)
class Load:
    """What a server gave: answers a second, and milliseconds an answer."""

    per_s: float
    p50_ms: float
    p99_ms: float
    answers: int


class _Connection(asyncio.Protocol):
    """Asks, and asks again when the answer is whole, until the deadline."""

    def __init__(self, request: bytes, until: float, taken: list[float]) -> None:
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._request = request
        self._until = until
        self._taken = taken
        self._got = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.Transport = transport  # type: ignore[assignment]
        self._ask()

    def _ask(self) -> None:
        self._got = b""
        self._begun = time.perf_counter()
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._got += data
        head, end, body = self._got.partition(b"\r\n\r\n")
        if not end:
            return
        lines = head.lower().split(b"\r\n")
        length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), None)
        if length is None or not head.startswith(b"HTTP/1.1 200"):
            self._fail(f"a server answered {head[:200]!r}")
        elif len(body) >= length:
            now = time.perf_counter()
            self._taken.append(now - self._begun)
            if now < self._until:
                self._ask()
            else:
                self._transport.close()

    def _fail(self, why: str) -> None:
        if not self.ended.done():
            self.ended.set_exception(RuntimeError(why))
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            if exc is None:
                self.ended.set_result(None)
            else:
                self.ended.set_exception(exc)


def head(port: int, length: int) -> bytes:
    """Return the head of the request, for a body of this length."""
    return (
        f"POST {PATH} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-type: application/json\r\nauthorization: Bearer sk-test\r\n"
        f"content-length: {length}\r\n\r\n"
    ).encode()


async def _run(port: int, connections: int, seconds: float, body: bytes) -> Load:
    request = head(port, len(body)) + body
    taken: list[float] = []
    begun = time.perf_counter()
    loop = asyncio.get_running_loop()
    made = [
        await loop.create_connection(lambda: _Connection(request, begun + seconds, taken), "127.0.0.1", port) for _ in range(connections)
    ]
    await asyncio.gather(*(protocol.ended for _, protocol in made))
    spent = time.perf_counter() - begun
    taken.sort()
    return Load(len(taken) / spent, taken[len(taken) // 2] * 1e3, taken[int(len(taken) * 0.99)] * 1e3, len(taken))


def load(port: int, *, connections: int, seconds: float, body: bytes) -> Load:
    """Return what the server on this port gives for this body, asked from another process."""
    command = [sys.executable, "-m", "tests.bench.http_load", str(port), str(connections), str(seconds)]
    ended = subprocess.run(command, input=body, capture_output=True, timeout=seconds + 120, check=False)
    if ended.returncode:
        raise SystemExit(ended.stderr.decode())
    return Load(**json.loads(ended.stdout))


def main() -> None:
    port, connections, seconds = sys.argv[1:]
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(_run(int(port), int(connections), float(seconds), sys.stdin.buffer.read()))
    print(json.dumps(vars(found)))


if __name__ == "__main__":
    main()
