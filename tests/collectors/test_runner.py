"""The collector's process: addresses, exit codes, health."""

from __future__ import annotations

import socket
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from collectors.errors import BindFailed, UnsafeBind
from collectors.runner import address, check_bind
from tests.collectors import process
from tests.collectors.support import running, settings
from tests.support.servers import free_port


def finished(started: subprocess.Popen[bytes]) -> tuple[int, str]:
    _, told = started.communicate(timeout=60)
    return started.returncode, told.decode()


@pytest.mark.parametrize("bind", ["0.0.0.0:4318", "[::]:4318", "10.0.0.7:4318", "collector.example:4318"])
def test_an_address_open_to_others_needs_a_token(bind: str) -> None:
    with pytest.raises(UnsafeBind, match="token"):
        check_bind(bind, token="")
    check_bind(bind, token="t")
    check_bind(bind, token="", insecure=True)


@pytest.mark.parametrize("bind", ["127.0.0.1:1", "localhost:1", "[::1]:1", "127.9.9.9:1"])
def test_a_loopback_address_needs_none(bind: str) -> None:
    check_bind(bind, token="")


@pytest.mark.parametrize("bind", ["4318", ":4318", "host:", "host:99999", "host:http"])
def test_what_is_no_address_is_named(bind: str) -> None:
    with pytest.raises(BindFailed, match="host:port"):
        address(bind)


@pytest.mark.parametrize("which", ["http_bind", "grpc_bind"])
def test_a_taken_port_is_one_clear_line_and_exit_code_3(tmp_path: Path, which: str) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        bind = f"127.0.0.1:{taken.getsockname()[1]}"
        code, told = finished(process.start(settings(tmp_path, **{which: bind})))
    assert code == 3
    (line,) = [line for line in told.splitlines() if "cachescope" in line]
    assert bind in line
    assert "Traceback" not in told


def test_two_collectors_cannot_share_the_grpc_port(tmp_path: Path) -> None:
    first = settings(tmp_path / "a")
    with process.collecting(first):
        second = replace(settings(tmp_path / "b"), grpc_bind=first.grpc_bind)
        assert finished(process.start(second))[0] == 3


def test_an_open_bind_without_a_token_exits_with_3(tmp_path: Path) -> None:
    code, told = finished(process.start(settings(tmp_path, http_bind=f"0.0.0.0:{free_port()}")))
    assert (code, "token" in told) == (3, True)


def test_a_file_that_is_no_database_is_one_line_and_exit_code_3(tmp_path: Path) -> None:
    (tmp_path / "telemetry.db").write_bytes(b"hello, I am no database" * 100)
    code, told = finished(process.start(settings(tmp_path)))
    assert (code, "Traceback" in told) == (3, False)
    assert "telemetry.db" in told


async def test_healthz_says_ok_and_metrics_has_the_queue(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        assert (await it.client.get("/healthz")).text == "ok"
        assert "cachescope_collector_queue_bytes 0.0" in (await it.client.get("/metrics")).text
