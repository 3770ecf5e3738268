"""Processor time of a cached answer, and of a miss, through uvicorn's own protocol, without sockets, beside a bare Starlette application's.

Run it with `python -m tests.bench.gateway_cpu` (half a minute). The applications run in this process and answer the same request in turn,
in short blocks of which the least counts, so that what else the machine does hardly shows: this is the figure to compare two versions by.
A span is counted from the lookup until it has left over HTTP; a miss asks an upstream in a process of its own, whose time is not counted,
over one kept connection. `--profile "gateway"` says where the time goes instead.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import cProfile
import gc
import pstats
import tempfile
import time
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import uvicorn
import uvloop
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from engine.gateway.server import create_app
from engine.settings import EngineSettings, GatewaySettings
from tests.bench.gateway_bench import ANSWER, KNOWN, bare, chat, process
from tests.bench.http_load import head
from tests.support.servers import free_port

BARE, PLAIN, WITH_SPANS, MISS = "bare Starlette", "gateway", "gateway, one span a request", "gateway, a miss"
PORT = 9_000  # told in the request, never opened
SINK = """
import sys, uvicorn
async def app(scope, receive, send):
    while scope["path"] != "/healthz" and (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="critical", lifespan="off", timeout_keep_alive=600)
"""


class Transport(asyncio.Transport):
    """Takes what is written, and tells when an answer is whole."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 40_000), "sockname": ("127.0.0.1", PORT)})
        self.whole = asyncio.Event()
        self.got = b""

    def write(self, data: Any) -> None:
        self.got += data
        if len(self.got.partition(b"\r\n\r\n")[2]) >= len(ANSWER):
            self.whole.set()

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def close(self) -> None: ...


class Asker:
    """One connection to an application. settled: called at the end of a block, for what the answers left to be done.

    anew: each request asks something else.
    """

    def __init__(self, app: ASGIApp, settled: Callable[[], Awaitable[None]] | None = None, *, anew: bool = False) -> None:
        config = uvicorn.Config(app, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False)
        self._protocol = HttpToolsProtocol(config, ServerState(), {})
        self._transport = Transport()
        self._protocol.connection_made(self._transport)
        self._request = head(PORT, len(chat(KNOWN))) + chat(KNOWN)
        self._anew = count() if anew else None
        self._settled = settled

    async def ask(self) -> bytes:
        """Return the answer's bytes, its head among them."""
        transport = self._transport
        transport.got = b""
        transport.whole.clear()
        request = self._request
        if self._anew is not None:
            body = chat(f"What is the difference between item {next(self._anew)} and the one before it?")
            request = head(PORT, len(body)) + body
        self._protocol.data_received(request)
        await transport.whole.wait()
        return transport.got

    async def block(self, answers: int) -> float:
        """Return the microseconds of this process that an answer takes."""
        begun = time.process_time_ns()
        for _ in range(answers):
            await self.ask()
        if self._settled is not None:
            await self._settled()
        return (time.process_time_ns() - begun) / answers / 1000


async def _bare(request: Request) -> Response:
    await request.body()
    return Response(ANSWER, media_type="application/json")


@contextlib.asynccontextmanager
async def gateway(upstream: int, collector: int, *, misses: bool = False) -> Any:
    """Yield a connection to a gateway that has the answer, or (misses) never has. collector: its port, 0 = no spans."""
    with tempfile.TemporaryDirectory() as folder:
        engine = EngineSettings(cache_url=f"sqlite:///{folder}/cache.db", secret=b"s" * 32, embedder="none")
        endpoint = f"http://127.0.0.1:{collector}" if collector else ""
        app = create_app(
            GatewaySettings(engine, bind=f"127.0.0.1:{PORT}", upstream_url=f"http://127.0.0.1:{upstream}/v1", otlp_endpoint=endpoint)
        )
        state = app.state.gateway
        async with app.router.lifespan_context(app):
            asker = Asker(app, state.telemetry.flush if collector else None, anew=misses)
            await asker.ask()
            if (b"fwd=miss; stored" if misses else b"; hit;") not in await asker.ask():
                raise SystemExit("not what was to be measured")
            yield asker


async def measure(rounds: int, answers: int, profiled: str) -> None:
    async with contextlib.AsyncExitStack() as stack:
        port = free_port()
        upstream = stack.enter_context(bare())
        sink = stack.enter_context(process(SINK, port, str(port)))
        askers = {
            BARE: Asker(Starlette(routes=[Route("/v1/chat/completions", _bare, methods=["POST"])])),
            PLAIN: await stack.enter_async_context(gateway(upstream.port, 0)),
            WITH_SPANS: await stack.enter_async_context(gateway(upstream.port, sink.port)),
            MISS: await stack.enter_async_context(gateway(upstream.port, 0, misses=True)),
        }
        gc.freeze()
        if profiled:
            profile = cProfile.Profile(time.process_time)
            await askers[profiled].block(answers)
            profile.enable()
            await askers[profiled].block(answers * 10)
            profile.disable()
            pstats.Stats(profile).sort_stats("tottime").print_stats(45)
            return
        found: dict[str, list[float]] = {name: [] for name in askers}
        for _ in range(rounds):
            for name, asker in askers.items():
                found[name].append(await asker.block(answers))
        least = {name: min(values) for name, values in found.items()}
        for name, value in least.items():
            print(f"{name:32}{value:9.1f} µs{value / least[BARE]:8.2f} of bare{value - least[BARE]:9.1f} µs more")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--answers", type=int, default=500, help="in a block")
    parser.add_argument("--profile", choices=["", BARE, PLAIN, WITH_SPANS, MISS], default="")
    given = parser.parse_args()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(measure(given.rounds, given.answers, given.profile))


if __name__ == "__main__":
    main()
