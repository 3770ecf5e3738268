"""The gateway's application and process: constructs the parts, serves until a signal, stops cleanly."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext

import uvicorn
import uvloop
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from engine import embedders, tiers
from engine.breaker import Breakers, State
from engine.cache import Cache
from engine.embedders.base import Embedder
from engine.errors import EngineError
from engine.gateway.auth import Auth
from engine.gateway.boundary import Boundary
from engine.gateway.chat import Chat
from engine.gateway.completions import PATH as CHAT_PATH
from engine.gateway.completions import Completions
from engine.gateway.control_api import ControlApi
from engine.gateway.embeddings import Embeddings
from engine.gateway.errors import GatewayError, error_body
from engine.gateway.flights import Flights
from engine.gateway.guard import Guard, host_of, is_loopback
from engine.gateway.hits import HitShare
from engine.gateway.lanes import Lanes
from engine.gateway.passthrough import Passthrough
from engine.gateway.processes import Place
from engine.gateway.processes import run as run_processes
from engine.gateway.siblings import Siblings
from engine.gateway.state import UPSTREAM, GatewayState, new_gateway_id
from engine.gateway.upstream import Upstream
from engine.judge import Judge
from engine.leases import Leases
from engine.settings import GatewaySettings
from engine.telemetry import Telemetry
from engine.tiers.guarded import GuardedStore
from engine.tiers.memory import MemoryTier
from engine.tiers.null import NullTier
from engine.tiers.vector import PartitionedVectorTier

EXIT_OK = 0
EXIT_CANNOT_START = 3
GRACE_S = 5
# For another gateway's upstream call, at most: where the upstream hangs, a request's own time-out is still to come.
LEASE_WAIT_S = 30.0
# What another gateway stored may go unseen by semantic lookups for so long: a miss more at most, and a question to the store less.
VECTORS_FRESH_S = 0.02

logger = logging.getLogger("cachescope.gateway")


def create_app(settings: GatewaySettings, place: Place | None = None) -> Starlette:
    """Return the gateway's application; its parts start and stop with its lifespan.

    place: which of several processes this is, None = the only one.
    Raises InvalidSetting and StoreCorrupt. `app.state.gateway` is the GatewayState.
    """
    gateway_id = new_gateway_id()
    state = _build(settings, gateway_id, place)
    cache, telemetry, upstream = state.cache, state.telemetry, state.upstream
    auth = Auth(
        cache.view,
        secret=settings.engine.secret,
        upstream_api_key=settings.upstream_api_key,
        admin_token=settings.admin_token,
        keys_required=not settings.insecure and not is_loopback(host_of(settings.bind)),
    )
    boundary = Boundary(cache, telemetry, state.leases, give_up_s=min(LEASE_WAIT_S, settings.upstream_timeout_s))
    flights = Flights(cache.flights, boundary)

    chat = Chat(
        boundary=boundary,
        auth=auth,
        completions=Completions(settings=settings, upstream=upstream, boundary=boundary, lanes=state.lanes),
        flights=flights,
        max_body_bytes=settings.max_body_bytes,
        now_ms=tiers.wall_clock_ms,
        hits=state.hits,
        ignored_headers=settings.key_ignored_headers,
    )
    passthrough = Passthrough(
        auth=auth,
        upstream=upstream,
        max_body_bytes=settings.max_body_bytes,
        bypassed=telemetry.metrics.bypassed,
        all_paths=settings.passthrough_all,
    )
    control = ControlApi(auth=auth, state=state, chat=chat, max_body_bytes=settings.max_body_bytes)
    pages = Pages(auth=auth, state=state)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        await state.start()
        try:
            yield
        finally:
            await state.close()

    app = Starlette(
        routes=[
            Route(CHAT_PATH, chat, methods=["POST"]),
            Route("/v1/embeddings", Embeddings(auth=auth, boundary=boundary, passthrough=passthrough), methods=["POST"]),
            Route("/v1/{rest:path}", passthrough),
            Route("/healthz", pages.healthz),
            Route("/metrics", pages.metrics),
            *control.routes(),
        ],
        middleware=[Middleware(Guard, bind=settings.bind, straight={CHAT_PATH: chat})],
        lifespan=lifespan,
        exception_handlers={HTTPException: _refused, Exception: _broken},
    )
    app.router.redirect_slashes = False
    app.state.gateway = state
    app.state.flights = flights
    return app


def _build(settings: GatewaySettings, gateway_id: str, place: Place | None) -> GatewayState:
    engine = settings.engine
    embedder, reason = embedders.build(engine)
    telemetry = Telemetry(settings, instance_id=gateway_id)
    breakers = Breakers(changed=telemetry.metrics.breaker_changed, denied=telemetry.metrics.breaker_denied)
    unguarded = tiers.open_store(
        engine.cache_url, timeout_s=engine.store_timeout_s, max_bytes=engine.store_bytes, removed=telemetry.metrics.store_removal
    )
    store = GuardedStore(
        unguarded,
        read=breakers.store_read,
        write=breakers.store_write,
        # Half of what is given up on: a store that is always about to time out costs more than it saves.
        slow_s=engine.store_timeout_s / 2,
    )

    def vectors_of(embedder: Embedder) -> PartitionedVectorTier:
        return PartitionedVectorTier(
            store,
            embedder_id=embedder.id,
            dimension=embedder.dimension,
            clock=tiers.wall_clock_ms,
            hnsw_above=engine.hnsw_above,
            max_bytes=engine.vector_bytes,
            fresh_s=VECTORS_FRESH_S,
        )

    memory: MemoryTier | NullTier = NullTier()
    if engine.memory_bytes:
        memory = MemoryTier(engine.memory_bytes, telemetry.metrics.memory_removal, clock=tiers.wall_clock_ms, eviction=engine.eviction)
    judge = Judge(engine, breaker=breakers.judge, counted=telemetry.metrics.judged)
    hits = HitShare()

    def hits_stopped() -> bool:
        return breakers.store_read.state is not State.CLOSED or not cache.view.usable() or hits.fell()

    lanes = Lanes(lambda: breakers.made(*UPSTREAM), hits_stopped=hits_stopped, waited=telemetry.metrics.upstream_waited)
    telemetry.metrics.watch_breakers({**breakers.named(), UPSTREAM: lanes}, failing_models=lambda: len(lanes.failing))
    upstream = Upstream(settings, lanes)
    cache = Cache(
        settings=engine,
        store=store,
        memory=memory,
        vector=vectors_of(embedder) if embedder is not None else None,
        embedder=embedder,
        judge=judge,
        faults=telemetry.fault,
        embedder_breaker=breakers.embedder,
        clock=tiers.wall_clock_ms,
        may_hold_out=lambda model: upstream.configured and lanes.may_answer(model),
    )
    telemetry.metrics.watch(entries=lambda: len(memory), size_bytes=lambda: memory.bytes, control_age_s=lambda: cache.view.age_s)
    siblings = None
    if place is not None:
        siblings = Siblings(
            telemetry.metrics, number=place.number, count=place.count, folder=place.folder, gateway_id=gateway_id, pid=os.getpid()
        )
    return GatewayState(
        settings,
        gateway_id=gateway_id,
        store=unguarded,
        cache=cache,
        telemetry=telemetry,
        upstream=upstream,
        breakers=breakers,
        lanes=lanes,
        hits=hits,
        leases=Leases(store, owner=gateway_id, faults=telemetry.fault),
        embedder=embedder,
        embedder_reason=reason,
        siblings=siblings,
        vectors_of=vectors_of,
    )


class Pages:
    """What the gateway answers of itself without a tenant: health and metrics."""

    def __init__(self, *, auth: Auth, state: GatewayState) -> None:
        self._auth = auth
        self._state = state

    async def healthz(self, request: Request) -> Response:
        """Return 200 `ok` once the gateway can do all that it is configured for."""
        missing = self._state.not_ready
        return PlainTextResponse(missing or "ok", 503 if missing else 200)

    async def metrics(self, request: Request) -> Response:
        """Return the Prometheus metrics, to this machine or to a bearer of the admin token."""
        if request.client is None or not is_loopback(request.client.host):
            try:
                self._auth.admin(request.headers.get("authorization", ""))
            except GatewayError as error:
                return _json_error(error)
        siblings = self._state.siblings
        page = generate_latest(self._state.telemetry.registry) if siblings is None else await siblings.exposition()
        return Response(page, media_type=CONTENT_TYPE_LATEST)


def _json_error(error: GatewayError) -> Response:
    return Response(error_body(error), error.status, media_type="application/json")


async def _refused(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 500
    code = "not_found" if status == 404 else "method_not_allowed"
    return _json_error(GatewayError(status, code, "nothing here answers this; the API is under /v1"))


async def _broken(request: Request, error: Exception) -> Response:
    return _json_error(GatewayError(500, "internal_error", "the gateway failed; its log says more"))


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, place: Place | None) -> None:
        super().__init__(config)
        self._place = place

    def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]
        """Leave the signals to `_serve`: uvicorn would raise them again at its end, and the process would not exit with 0."""
        return nullcontext()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started and self._place is not None:
            self._place.tell_up()


def run(settings: GatewaySettings) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code. What prevents a start is one line on stderr."""
    try:
        host, port = _parse_bind(settings.bind)
        listener = _listen(host, port)
    except _Refusal as refusal:
        print(f"cachescope gateway: {refusal}", file=sys.stderr)  # noqa: T201 - the one line that a person reads
        return refusal.exit_code
    # What is there now stays: a full collection need not walk it again, and the processes that are forked share it.
    gc.freeze()
    with listener:
        if settings.processes > 1:
            return run_processes(settings.processes, listener, lambda place: _run_one(settings, host, listener, place))
        return _run_one(settings, host, listener, None)


def _run_one(settings: GatewaySettings, host: str, listener: socket.socket, place: Place | None) -> int:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(_serve(settings, host, listener, place))
        except _Refusal as refusal:
            print(f"cachescope gateway: {refusal}", file=sys.stderr)  # noqa: T201
            return refusal.exit_code
    return EXIT_OK


class _Refusal(Exception):
    def __init__(self, message: str, exit_code: int = EXIT_CANNOT_START) -> None:
        super().__init__(message)
        self.exit_code = exit_code


async def _serve(settings: GatewaySettings, host: str, listener: socket.socket, place: Place | None) -> None:
    try:
        app = create_app(settings, place)
    except EngineError as error:
        raise _Refusal(str(error)) from error
    state: GatewayState = app.state.gateway
    if not is_loopback(host) and not settings.insecure and not await _has_key(state):
        await state.cache.close()
        raise _Refusal(
            f"refusing to listen on {settings.bind}: other machines could use the upstream without a key. "
            "Make one with `cachescope key create`, bind to 127.0.0.1, or set insecure = true"
        )
    config = uvicorn.Config(
        app,
        http="httptools",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=GRACE_S,
        timeout_keep_alive=75,  # longer than a client keeps an idle connection: none is closed under a request
    )
    server = _Server(config, place)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        server.should_exit = True
        if place is not None:
            loop.remove_reader(place.lifeline)

    def orphaned() -> None:
        stop()
        if place is not None:
            shutil.rmtree(place.folder, ignore_errors=True)  # the parent would have done it

    if place is not None:
        loop.add_reader(place.lifeline, orphaned)  # readable: the parent is gone
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    logger.info("listening on http://%s", settings.bind)
    await server.serve(sockets=[listener])
    logger.info("stopped")


async def _has_key(state: GatewayState) -> bool:
    try:
        return bool(await state.store.control_all("key:"))
    except EngineError as error:
        raise _Refusal(f"refusing to listen on {state.settings.bind}: the tenant keys cannot be read ({error})") from error


def _parse_bind(bind: str) -> tuple[str, int]:
    host, _, port = bind.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or int(port) > 65_535:
        raise _Refusal(f"{bind!r} is no address to listen on; expected host:port")
    return host, int(port)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(2048)  # taken now, not at the first request: a second gateway fails here, at its start
        except OSError:
            listener.close()
            raise
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise _Refusal(f"{host}:{port} is taken by another process; set CACHESCOPE_GATEWAY_BIND") from None
        raise _Refusal(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    return listener
