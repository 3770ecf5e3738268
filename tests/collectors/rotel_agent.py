"""rotel, a real OpenTelemetry collector, between a sender and ours."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import rotel

from tests.support.servers import free_port, wait_for


@dataclass
class Agent:
    """grpc: where it takes OTLP. flush(): stop it, when it has sent on all that it took."""

    process: subprocess.Popen[bytes]
    grpc: str

    def flush(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=60) == 0


@contextlib.contextmanager
def agent(folder: Path, *, to: str, protocol: str, token: str = "", batch: int = 100) -> Iterator[Agent]:
    """Start an agent that sends to the URL `to` over 'grpc' or 'http'."""
    grpc, http = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    command = [str(Path(rotel.__file__).parent / "rotel-agent"), "start"]
    options = {
        "otlp-grpc-endpoint": grpc,
        "otlp-http-endpoint": http,
        "exporter": "otlp",
        "otlp-exporter-endpoint": to,
        "otlp-exporter-protocol": protocol,
        "otlp-exporter-retry-max-elapsed-time": "120s",
        "batch-max-size": str(batch),
        "batch-timeout": "100ms",
    }
    if token:
        options["otlp-exporter-custom-headers"] = f"authorization=Bearer {token}"
    log = folder / f"rotel-{protocol}.log"
    with log.open("wb") as output:
        process = subprocess.Popen([*command, *(f"--{name}={value}" for name, value in options.items())], stdout=output, stderr=output)
    try:
        wait_for(lambda: process.poll() is not None or _listens(grpc), what="rotel listens")
        assert process.poll() is None, log.read_text()
        yield Agent(process, grpc)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(timeout=60)


def _listens(where: str) -> bool:
    host, _, port = where.rpartition(":")
    with contextlib.suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
        return True
    return False
