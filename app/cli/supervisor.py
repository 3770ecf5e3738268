"""Starts the services as children, says when each is truly healthy, and stops them all when one dies or a person says so."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from app.cli.children import ROOT, Child, child_environ, stop_all
from app.cli.common import FAILED, OK, complain, plain, say
from app.cli.ports import Port, require_free
from app.cli.services import console_command
from app.config import Config, reachable_url
from app.errors import CannotStart

if TYPE_CHECKING:
    from app.adapters.health import Health

START_S = 60.0  # a cold start imports and loads a model from a slow disk; a warm one takes about 4 s
STOP_S = 9.0  # SIGTERM's share of the ten seconds within which all is stopped
LOOK_S = 0.05
ROOM_BYTES = 64 * 1024 * 1024  # what the first minutes write: three databases with their logs of changes, and the services' own logs


@dataclass(frozen=True, slots=True)
class Service:
    """name: of the log and in messages. probe: None = healthy while it runs. url: as a person would open it."""

    child: Child
    ports: Sequence[Port]
    probe: Callable[[], Health] | None
    url: str


class Supervisor:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._started_ms = _now_ms()
        self._signals = 0
        self._services = self._build()

    def _build(self) -> list[Service]:
        config = self._config
        config.guard("collector")
        config.guard("console")
        gateway, console = reachable_url(config.gateway_bind), reachable_url(config.console_bind)
        collector = config.collector_url
        services = [
            self._service(
                "collector",
                "collect",
                [Port("otlp_grpc_bind", config.otlp_grpc_bind), Port("otlp_http_bind", config.otlp_http_bind)],
                _page("collector", collector, "/healthz", ca=config.otlp_tls_ca),
                f"{collector} (OTLP/HTTP), {config.otlp_grpc_bind} (OTLP/gRPC)",
            ),
            self._service(
                "gateway",
                "gateway",
                [Port("gateway_bind", config.gateway_bind)],
                _page("gateway", gateway, "/healthz"),
                f"{gateway}/v1",
            ),
            self._service("worker", "worker", [], self._worker, "in the background"),
            Service(
                Child("console", console_command(config), self._log("console"), cwd=ROOT),
                [Port("console_bind", config.console_bind)],
                _page("console", console, "/_stcore/health"),
                console,
            ),
        ]
        if config.demo:
            config.guard("stub")
            stub = reachable_url(config.stub_bind)
            services.append(
                self._service(
                    "stub-model",
                    "demo --only stub",
                    [Port("stub_bind", config.stub_bind)],
                    _page("stub-model", stub, "/healthz"),
                    f"{stub}/v1",
                )
            )
        return services

    def _service(self, name: str, command: str, ports: Sequence[Port], probe: Callable[[], Health] | None, url: str) -> Service:
        # -P: the folder a person happens to stand in may hold another package called `app`.
        child = Child(name, [sys.executable, "-P", "-m", "app.cli", *command.split()], self._log(name))
        return Service(child, ports, probe, url)

    def _log(self, name: str) -> Path:
        return self._config.home / "logs" / f"{name}.log"

    def _worker(self) -> Health:
        from app.adapters import health  # loaded while the services start, not before

        return health.worker(self._config, _now_ms, since_ms=self._started_ms)

    def run(self) -> int:
        """Return the exit code: 0 stopped on request, 1 a service died. Raises CannotStart."""
        with _lock(self._config):
            _require_room(self._config.home)
            for service in self._services:
                for port in service.ports:
                    require_free(port)
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, self._on_signal)
            try:
                return self._start_and_watch()
            finally:
                self._stop()

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signals += 1

    def _start_and_watch(self) -> int:
        began = time.monotonic()
        environ = child_environ(self._config)
        if self._config.demo:
            say("demo: invented prompts, a stub model, its own folder; nothing leaves this machine")
        for service in self._services:
            service.child.start(environ)
        waiting = list(self._services)
        while not self._signals:
            if self._a_child_died():
                return FAILED
            healthy = [service for service in waiting if service.probe is None or service.probe().ok]
            for service in healthy:
                waiting.remove(service)
                say(f"{service.child.name:<11} {service.url}")
            if healthy and not waiting:
                self._all_healthy(began, environ)
            if waiting and time.monotonic() - began > START_S:
                self._too_slow(waiting)
                return FAILED
            time.sleep(LOOK_S)
        return OK

    def _all_healthy(self, began: float, environ: dict[str, str]) -> None:
        if self._config.demo and not any(service.child.name == "traffic" for service in self._services):
            traffic = self._service("traffic", "demo --only traffic", [], None, "demo traffic is playing")
            traffic.child.start(environ)
            self._services.append(traffic)
            say(f"{traffic.child.name:<11} {traffic.url}")
        say(f"ready in {time.monotonic() - began:.1f} s; logs in {self._config.home / 'logs'}; Ctrl-C stops all")

    def _a_child_died(self) -> bool:
        for service in self._services:
            code = service.child.exit_code
            if code is not None:
                how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
                self._report(service, f"{service.child.name} {how}; its last lines:")
                return True
        return False

    def _too_slow(self, waiting: Sequence[Service]) -> None:
        for service in waiting:
            detail = service.probe().detail if service.probe else ""
            self._report(service, f"{service.child.name} is not healthy after {START_S:.0f} s ({detail}); its last lines:")

    def _report(self, service: Service, message: str) -> None:
        complain(message)
        for line in service.child.tail():
            print(f"  {plain(line)}", file=sys.stderr)
        print(f"  (all of it: {service.child.log})", file=sys.stderr)

    def _stop(self) -> None:
        asked = self._signals
        children = [service.child for service in self._services]
        # The gateway sends its last spans as it ends, so the collector outlives it.
        stop_all(
            children,
            first=("traffic", "gateway", "console", "worker"),
            grace_s=STOP_S,
            hurry=lambda: self._signals > max(asked, 1),
        )
        if asked:
            say("stopped")


def _page(name: str, url: str, path: str, *, ca: str = "") -> Callable[[], Health]:
    def probe() -> Health:
        from app.adapters import health  # loaded while the services start, not before

        return health.page(name, url, path, ca=ca)

    return probe


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@contextlib.contextmanager
def _lock(config: Config) -> Iterator[None]:
    """Hold the data folder's lock. Raises CannotStart when another `up` holds it."""
    file = config.home / "up.lock"
    try:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise CannotStart(f"cannot write {file}: {error.strerror}; set CACHESCOPE_DATA_DIR to a folder you own") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CannotStart(
                f"another `cachescope up` runs on {config.home}: stop it, or set CACHESCOPE_DATA_DIR to another folder"
            ) from error
        yield
    finally:
        os.close(descriptor)


def _require_room(folder: Path) -> None:
    """Raise CannotStart when the folder's disk is so full that the services would fail one after the other."""
    free = shutil.disk_usage(folder).free
    if free < ROOM_BYTES:
        raise CannotStart(
            f"the disk of {folder} has {free / 1_048_576:.1f} MB left; expected at least {ROOM_BYTES // 1_048_576} MB: "
            "make room, or set CACHESCOPE_DATA_DIR to a folder on another disk"
        )
