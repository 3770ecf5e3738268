"""The collector's process: receivers, scraper, writer and store, started and stopped together."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import logging
import signal
import socket
import ssl
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import uvicorn
import uvloop

from collectors.errors import BindFailed, CollectorError, TlsUnusable, UnsafeBind
from collectors.metrics import CollectorMetrics
from collectors.otlp.connections import GuardedConnection, guarded
from collectors.otlp.intake import Intake
from collectors.otlp.receiver_grpc import GrpcReceiver
from collectors.otlp.receiver_http import create_app
from collectors.pipeline import Batch, Pipeline
from collectors.prometheus.families import load as load_families
from collectors.prometheus.scrape import Scraper
from collectors.prometheus.sink import StoreSink
from collectors.settings import CollectorSettings, Tls
from collectors.sweeping import Sweeping
from storage import points as stored_points
from storage import spans
from storage.errors import StorageError, StoreMissing
from storage.retention import Sweeper
from storage.rows import MetricBatch, SourceBatch, WriteResult
from storage.store import Store, open_telemetry

EXIT_CANNOT_START = 3  # the CLI's code for it, whatever is in the way
_GRACE_S = 8.0  # for running requests at a stop; below the ten seconds that most supervisors wait
# Exporters send every 5 s, some every 30 or 60: a connection that closes at just that moment costs them a retry.
_KEEP_ALIVE_S = 75
_log = logging.getLogger("cachescope.collector")


def run(settings: CollectorSettings) -> int:
    """Run until SIGTERM or SIGINT; return the exit code: 0 drained, 3 an address cannot be had or the store cannot be used."""
    # Decoding makes many short-lived objects without cycles: at the default threshold a third of the time goes to the collector.
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(_serve(settings))
    except (CollectorError, StorageError) as error:
        sys.stderr.write(f"cachescope collect: {error}\n")
        return EXIT_CANNOT_START
    return 0


async def _serve(settings: CollectorSettings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with contextlib.AsyncExitStack() as stack:
        collector = Collector(settings)
        stack.push_async_callback(collector.stop)
        await collector.start()
        _log.info("collecting: OTLP/gRPC on %s, OTLP/HTTP on %s", settings.grpc_bind, settings.http_bind)
        await stop.wait()
        _log.info("stopping: what was taken is being committed")


class Looker(Protocol):
    """What goes and looks at sources by itself, from start() to stop()."""

    def start(self) -> None: ...

    async def stop(self) -> None: ...


class Collector:
    """start() raises CollectorError or StorageError; stop() drains and may be called after a failed start.

    Raises BadFamilies for a families file that cannot be used.
    """

    def __init__(self, settings: CollectorSettings) -> None:
        self._settings = settings
        self._families = load_families(Path(settings.families_file) if settings.families_file else None)
        self._since_ms = 0  # when listening began
        self.metrics = CollectorMetrics()
        self._store: Store | None = None
        self._pipeline = Pipeline(self._write, queue_bytes=settings.queue_bytes, metrics=self.metrics)
        self._intake = Intake(settings, self._pipeline, self.metrics, self._families)
        self._grpc: GrpcReceiver | None = None
        self._http: _HttpServer | None = None
        self._http_task: asyncio.Task[None] | None = None
        self._lookers: list[Looker] = []

    async def start(self) -> None:
        settings = self._settings
        for bind in (settings.grpc_bind, settings.http_bind):
            check_bind(bind, token=settings.token, insecure=settings.insecure)
        check_tls(settings.tls)
        listening = listen(settings.http_bind)
        try:
            self._grpc = GrpcReceiver(self._intake, settings.grpc_bind, tls=settings.tls)
            self._store = await asyncio.to_thread(open_telemetry, settings.storage, write=True)
            self._pipeline.start()
            self._since_ms = now_ms()
            await self._grpc.start()
        except BaseException:
            listening.close()
            raise
        connection = guarded(lambda reason: self.metrics.failures.labels("http", reason).inc())
        self._http = _HttpServer(create_app(self._intake, health=self.health), connection, settings.tls)
        self._http_task = asyncio.create_task(self._http.serve(sockets=[listening]), name="http")
        sink = StoreSink(self._store, self._pipeline)
        self._lookers = [Scraper(settings.targets, sink, self.metrics, families=self._families, now_ms=now_ms)]
        if settings.servers:
            from collectors.prometheus.servers import ServerReaders  # noqa: PLC0415 - its client library takes 0.4 s to import

            self._lookers.append(ServerReaders(settings.servers, sink, self.metrics, families=self._families, now_ms=now_ms))
        if settings.redis:
            from collectors.redis_sampler import RedisSamplers  # noqa: PLC0415 - its client library takes 0.3 s to import

            self._lookers.append(RedisSamplers(settings.redis, sink, self.metrics, now_ms=now_ms))
        self._lookers.append(Sweeping(Sweeper(self._store, settings.storage), self._pipeline, self.metrics, now_ms=now_ms))
        for looker in self._lookers:
            looker.start()

    async def stop(self) -> None:
        """Take no more, commit what was taken, close the store."""
        for looker in self._lookers:
            await looker.stop()
        if self._http and self._http_task:
            self._http.should_exit = True
            await self._http_task
        if self._grpc and self._grpc.up:
            await self._grpc.stop(_GRACE_S)
        await self._pipeline.close()
        await self._intake.close()
        if self._store:
            self._store.close()

    def health(self) -> str:
        """Return what is wrong, '' when spans are taken over both protocols and the last commit was good."""
        if self._store is None:
            return "the store is not open"
        if self._grpc is None or not self._grpc.up:
            return "gRPC is not up"
        if self._pipeline.fault:
            return f"the last commit failed: {self._pipeline.fault}"
        return ""

    def _write(self, batches: Sequence[Batch]) -> Sequence[WriteResult]:
        """Commit spans, then points. Should the second fail, all are sent again, and the first are duplicates."""
        if self._store is None:
            raise StoreMissing("the store is not open yet")
        now = now_ms()
        of_spans = iter(spans.write(self._store, [batch for batch in batches if isinstance(batch, SourceBatch)], now_ms=now))
        points = [batch for batch in batches if isinstance(batch, MetricBatch)]
        of_points = iter(stored_points.write(self._store, points, now_ms=now, since_ms=self._since_ms))
        return [next(of_points if isinstance(batch, MetricBatch) else of_spans) for batch in batches]


class _HttpServer(uvicorn.Server):
    """uvicorn without its own signal handlers: the process stops all its parts in order."""

    def __init__(self, app: object, connection: type[GuardedConnection], tls: Tls | None) -> None:
        super().__init__(
            uvicorn.Config(
                app,  # type: ignore[arg-type]
                http=connection,
                ws="none",
                lifespan="off",
                access_log=False,
                log_level="error",  # its warnings are one for each bad request, which are counted
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=int(_GRACE_S),
                ssl_certfile=tls.certificate if tls else None,
                ssl_keyfile=tls.key if tls else None,
            )
        )

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def address(bind: str) -> tuple[str, int]:
    """Return host and port of 'host:port' or '[v6]:port'. Raises BindFailed."""
    host, _, port = bind.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise BindFailed(f"{bind!r} is no address; expected host:port, such as 127.0.0.1:4318")
    return host.strip("[]"), int(port)


def check_bind(bind: str, *, token: str, insecure: bool = False) -> None:
    """Refuse an address that others can reach when no token keeps them out and nobody answers for that. Raises UnsafeBind."""
    host, _ = address(bind)
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback and not token and not insecure:
        raise UnsafeBind(
            f"{bind} can be reached by others and no token is set; set CACHESCOPE_OTLP_TOKEN, or bind 127.0.0.1, "
            "or set CACHESCOPE_INSECURE=1 if something else asks who is there"
        )


def check_tls(tls: Tls | None) -> None:
    """Raises TlsUnusable when the files cannot be read, or the key is not the certificate's."""
    if tls is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(tls.certificate, tls.key)
    except OSError as error:  # ssl.SSLError is one
        raise TlsUnusable(
            f"the certificate {tls.certificate} and the key {tls.key} cannot be used ({error.strerror or error}); "
            "expected a PEM chain and its unencrypted private key"
        ) from error


def listen(bind: str) -> socket.socket:
    """Return a listening socket. Raises BindFailed in one line when the address is taken."""
    host, port = address(bind)
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind, protocol)
    except OSError as error:
        raise BindFailed(f"cannot listen on {bind} for OTLP/HTTP: {error.strerror or error}") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(where)
        listening.listen(1024)
    except OSError as error:
        listening.close()
        raise BindFailed(f"cannot listen on {bind} for OTLP/HTTP: {error.strerror or error}") from error
    listening.setblocking(False)
    return listening
