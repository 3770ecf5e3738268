"""The gateway as a process: its start, its refusals, its end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.engine.gateway.conftest import ask
from tests.support.servers import free_port, wait_for
from tests.support.upstream import StubUpstream

RUN = """
import sys
from engine.gateway import server
from engine.settings import EngineSettings, GatewaySettings
cache_url, bind, upstream_url, grace_s = sys.argv[1:5]
server.GRACE_S = int(grace_s) or server.GRACE_S
# A slow machine is not a fault.
engine = EngineSettings(cache_url=cache_url, secret=b"s" * 32, embedder="none", store_timeout_s=30, control_max_age_s=30)
sys.exit(server.run(GatewaySettings(engine=engine, bind=bind, upstream_url=upstream_url, upstream_connect_timeout_s=30)))
"""


def begin(cache_url: str, bind: str, upstream_url: str = "", *, grace_s: int = 0) -> subprocess.Popen[str]:
    """Start a gateway. grace_s: how long it lets requests finish at its end, 0 = as long as the product does."""
    words = [sys.executable, "-c", textwrap.dedent(RUN), cache_url, bind, upstream_url, str(grace_s)]
    return subprocess.Popen(words, stderr=subprocess.PIPE, text=True)


def answers(port: int) -> bool:
    with contextlib.suppress(httpx.HTTPError):
        return httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
    return False


@contextlib.contextmanager
def running(sqlite_url: str, upstream: StubUpstream, *, grace_s: int = 0) -> Iterator[tuple[subprocess.Popen[str], int]]:
    port = free_port()
    started = begin(sqlite_url, f"127.0.0.1:{port}", upstream.url, grace_s=grace_s)
    try:
        wait_for(lambda: answers(port), what="the gateway process is ready")
        yield started, port
    finally:
        started.kill()
        started.wait(timeout=60)
        if started.stderr is not None:
            started.stderr.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_is_in_flight_finish_and_exits_with_0(sqlite_url: str, upstream: StubUpstream, number: signal.Signals) -> None:
    hold = threading.Event()
    upstream.behave(hold=hold)
    with running(sqlite_url, upstream, grace_s=60) as (started, port), ThreadPoolExecutor(1) as pool:
        asked = pool.submit(httpx.post, f"http://127.0.0.1:{port}/v1/chat/completions", json=ask(), timeout=120)
        wait_for(lambda: len(upstream.chats) == 1, what="the request is in flight")
        os.kill(started.pid, number)
        wait_for(lambda: not _listens(port), what="no new connection is accepted")
        hold.set()
        assert asked.result(timeout=60).status_code == 200
        assert started.wait(timeout=60) == 0
        assert "Traceback" not in started.communicate()[1]


def test_what_does_not_finish_in_time_is_cut_and_the_exit_is_still_0(sqlite_url: str, upstream: StubUpstream) -> None:
    upstream.behave(mode="hang")
    with running(sqlite_url, upstream) as (started, port), ThreadPoolExecutor(1) as pool:
        asked = pool.submit(httpx.post, f"http://127.0.0.1:{port}/v1/chat/completions", json=ask(), timeout=120)
        wait_for(lambda: len(upstream.chats) == 1, what="the request is in flight")
        started.terminate()
        assert started.wait(timeout=60) == 0  # the client would wait for longer, and the upstream does not answer
        with contextlib.suppress(httpx.HTTPError):
            asked.result(timeout=60)


def test_a_taken_port_is_one_line_and_exit_code_3(sqlite_url: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        started = begin(sqlite_url, f"127.0.0.1:{taken.getsockname()[1]}")
        told = started.communicate(timeout=60)[1]
    assert started.returncode == 3
    assert len(told.strip().splitlines()) == 1
    assert "taken" in told


@pytest.mark.parametrize("bind", ["0.0.0.0:{port}", "[::]:{port}"])
def test_a_bind_beyond_this_machine_needs_a_tenant_key(sqlite_url: str, bind: str) -> None:
    started = begin(sqlite_url, bind.format(port=free_port()))
    told = started.communicate(timeout=60)[1]
    assert started.returncode == 3
    assert len(told.strip().splitlines()) == 1
    assert "cachescope key create" in told


def test_settings_that_cannot_work_are_one_line(tmp_path: Path) -> None:
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"no database " * 1000)
    for cache_url, bind in (
        (f"sqlite:///{broken}", f"127.0.0.1:{free_port()}"),
        ("http://nowhere", f"127.0.0.1:{free_port()}"),
        (f"sqlite:///{tmp_path / 'cache.db'}", "nonsense"),
    ):
        started = begin(cache_url, bind)
        told = started.communicate(timeout=60)[1]
        assert started.returncode == 3, told
        assert len(told.strip().splitlines()) == 1, told


def _listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
