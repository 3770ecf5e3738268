"""The whole of Cachescope as a person runs it: `cachescope up` in a home of its own, on free ports, stopped and waited for."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from app.demo.stub_model import create_app
from tests.support.servers import free_port, wait_for

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Stack:
    """A running stack. home: the data folder in use."""

    process: subprocess.Popen[str]
    home: Path
    environment: Mapping[str, str]
    gateway: str
    console: str
    output: list[str]

    def cli(self, *words: str, demo: bool = False) -> Any:
        """Run a command of the CLI with --json in this stack's environment; return what it printed, decoded."""
        place = "--demo" if demo else "--no-demo"
        done = subprocess.run(
            [sys.executable, "-m", "app.cli", *words, place, "--json"],
            env=dict(self.environment),
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, f"{words}: exit {done.returncode}\n{done.stdout}\n{done.stderr}"
        return json.loads(done.stdout)

    def control(self, path: str, **query: str) -> Any:
        """GET from the gateway's control API."""
        token = (self.home / "admin_token").read_text().strip()
        answer = httpx.get(f"{self.gateway}/control/v1{path}", params=query, headers={"authorization": f"Bearer {token}"}, timeout=60)
        answer.raise_for_status()
        return answer.json()

    def rows(self, database: str, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Read one of the databases past all of our own code."""
        with contextlib.closing(sqlite3.connect(f"file:{self.home / database}?mode=ro", uri=True)) as connection:
            return connection.execute(query, values).fetchall()


@contextlib.contextmanager
def running_stub(*, speed: float = 20.0) -> Iterator[str]:
    """The bundled stub model in a thread; yields its URL."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(create_app(speed=speed), port=port, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_for(lambda: server.started, what="the stub model starts")
    try:
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.should_exit = True
        thread.join(timeout=60)


@contextlib.contextmanager
def console_alone(environment: Mapping[str, str]) -> Iterator[str]:
    """A console in this environment whose gateway does not run; yields its URL."""
    binds = {name: f"127.0.0.1:{free_port()}" for name in ("CACHESCOPE_GATEWAY_BIND", "CACHESCOPE_CONSOLE_BIND")}
    url = f"http://{binds['CACHESCOPE_CONSOLE_BIND']}"
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "console", "--no-demo"],
        env={**environment, **binds},
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

    def healthy() -> bool:
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"{url}/_stcore/health", timeout=2, trust_env=False).text == "ok"
        return False

    try:
        wait_for(healthy, what="the console is healthy", timeout_s=180)
        yield url
    finally:
        process.terminate()
        process.wait(timeout=60)


@contextlib.contextmanager
def running_stack(folder: Path, *, demo: bool, **settings: str) -> Iterator[Stack]:
    """`cachescope up` with an empty HOME in `folder`; yields when it says that it is ready."""
    ports = {name: free_port() for name in ("GATEWAY", "OTLP_GRPC", "OTLP_HTTP", "CONSOLE", "STUB")}
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        **{f"CACHESCOPE_{name}_BIND": f"127.0.0.1:{port}" for name, port in ports.items()},
        **{f"CACHESCOPE_{name.upper()}": value for name, value in settings.items()},
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "app.cli", "up", "--demo" if demo else "--no-demo"],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output: list[str] = []
    reader = threading.Thread(target=lambda: output.extend(process.stdout or ()), daemon=True)
    reader.start()
    base = folder / ".local/share/cachescope"
    stack = Stack(
        process,
        base / "demo" if demo else base,
        environment,
        f"http://127.0.0.1:{ports['GATEWAY']}",
        f"http://127.0.0.1:{ports['CONSOLE']}",
        output,
    )
    try:
        # It gives up by itself when its services take too long.
        wait_for(
            lambda: process.poll() is not None or any(line.startswith("ready in") for line in output),
            what="the stack is ready",
            timeout_s=180,
        )
        assert process.poll() is None, "".join(output)
        yield stack
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        process.wait(timeout=90)
        reader.join(timeout=60)
