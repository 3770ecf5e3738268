"""Several processes of one gateway on one port: they act as one, and the death of one costs what it had in hand."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from engine.gateway.siblings import Siblings
from engine.metrics import Metrics
from tests.engine.gateway.conftest import ADMIN, ask, cache_status
from tests.support.servers import free_port, wait_for
from tests.support.upstream import StubUpstream

RUN = """
import sys
from engine.gateway.server import run
from engine.settings import EngineSettings, GatewaySettings
cache_url, bind, upstream_url, admin_token = sys.argv[1:]
engine = EngineSettings(
    cache_url=cache_url, secret=b"s" * 32, embedder="none", store_timeout_s=30, control_max_age_s=30, holdout_ratio=0
)
sys.exit(run(GatewaySettings(engine=engine, bind=bind, upstream_url=upstream_url, admin_token=admin_token, processes=2)))
"""
CHAT = "/v1/chat/completions"


@dataclass
class Pair:
    """A gateway of two processes."""

    port: int
    parent: subprocess.Popen[str]
    clients: list[httpx.Client] = field(default_factory=list)

    def client(self, **options: Any) -> httpx.Client:
        client = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}", timeout=60, headers={"Authorization": f"Bearer {ADMIN}"}, trust_env=False, **options
        )
        self.clients.append(client)
        return client

    def processes(self) -> dict[int, int]:
        """Return process -> pid of those that answer."""
        with self.client() as client:
            return {one["process"]: one["pid"] for one in client.get("/control/v1/state").json()["processes"] if one["up"]}

    def is_whole(self, *without: int) -> bool:
        """Return whether both processes answer, none of them one of these."""
        with contextlib.suppress(httpx.HTTPError):
            found = set(self.processes().values())
            return len(found) == 2 and not found & set(without)
        return False

    def connect(self, pid: int, **options: Any) -> httpx.Client:
        """Return a client with a kept connection to this process: while the other is stopped, only this one accepts."""
        (other,) = set(self.processes().values()) - {pid}
        os.kill(other, signal.SIGSTOP)
        try:
            client = self.client(**options)
            assert client.get("/healthz").status_code == 200
        finally:
            os.kill(other, signal.SIGCONT)
        return client


def lookups(client: httpx.Client) -> dict[str, int]:
    """Return process -> lookups, as the page that this connection's process makes tells them."""
    found = {"0": 0, "1": 0}
    for line in client.get("/metrics").text.splitlines():
        if line.startswith("cachescope_lookups_total{") and (match := re.search(r'process="(\d)".*\} (\S+)', line)):
            found[match[1]] += int(float(match[2]))
    return found


def told(client: httpx.Client, text: str) -> dict[str, str | bool]:
    answer = client.post(CHAT, json=ask(text))
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"].startswith(f"Answer to: {text}")
    return cache_status(answer.headers)


@contextlib.contextmanager
def running(cache_url: str, upstream_url: str, folder: Path) -> Iterator[Pair]:
    port = free_port()
    command = [sys.executable, "-c", RUN, cache_url, f"127.0.0.1:{port}", upstream_url, ADMIN]
    parent = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(folder)})
    pair = Pair(port, parent)
    try:
        wait_for(pair.is_whole, what="both processes serve")
        yield pair
    finally:
        for client in pair.clients:
            client.close()
        parent.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            parent.communicate(timeout=90)
        parent.kill()
        parent.wait(timeout=60)


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.redis)])
def pair(request: pytest.FixtureRequest, sqlite_url: str, upstream: StubUpstream) -> Iterator[Pair]:
    url = request.getfixturevalue("redis_server").url if request.param == "redis" else sqlite_url
    with tempfile.TemporaryDirectory(prefix="cachescope-test-") as folder, running(url, upstream.url, Path(folder)) as pair:
        yield pair


def test_two_processes_act_as_one_gateway_and_the_death_of_one_costs_what_it_had_in_hand(pair: Pair, upstream: StubUpstream) -> None:
    act_as_one(pair, upstream)
    upstream.behave()
    lose_one(pair)


def act_as_one(pair: Pair, upstream: StubUpstream) -> None:
    pids = list(pair.processes().values())
    one, two = (pair.connect(pid) for pid in pids)
    assert told(one, "a")["stored"]
    wait_for(lambda: told(two, "a").get("hit"), what="the other process hits")
    assert told(one, "a").get("hit")
    # Whichever is asked shows all, and says whose it is.
    shown = lookups(one)
    assert shown == lookups(two)
    assert shown["0"] == 2
    assert shown["1"] >= 1
    counters = two.get("/control/v1/state").json()["counters"]
    assert sum(value for name, value in counters.items() if name.startswith("cachescope_lookups_total")) == sum(shown.values())
    wait_for(
        lambda: {row["pid"] for row in one.get("/control/v1/gateways").json()["gateways"]} == set(pids), what="both give a sign of life"
    )
    # A miss that the other works on is waited for.
    hold, sent, before = threading.Event(), threading.Event(), len(upstream.chats)
    upstream.behave(hold=hold)
    follower = pair.connect(pids[1], event_hooks={"request": [lambda request: sent.set()]})
    sent.clear()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(told, one, "b")
        wait_for(lambda: len(upstream.chats) == before + 1, what="the first asks")
        second = pool.submit(told, follower, "b")
        assert sent.wait(30)
        for _ in range(3):
            assert told(two, "a").get("hit")  # its process has looked at what came before
        hold.set()
        assert first.result(timeout=90)["stored"]
        assert second.result(timeout=90).get("collapsed") or second.result().get("hit")
    assert len(upstream.chats) == before + 1
    # A purge that one was asked for hides in both.
    assert one.post("/control/v1/purge", json={"namespace": "default", "operation_id": "op"}).status_code == 200
    assert told(one, "a").get("fwd") == "miss"
    wait_for(lambda: told(two, "b").get("hit") is None, what="the other process misses")


def lose_one(pair: Pair) -> None:
    answered: list[int] = []
    failed: list[Exception] = []
    stop = threading.Event()

    def load(client: httpx.Client, number: int) -> None:
        while not stop.is_set():
            number += 1
            try:
                told(client, f"question {number % 25}")
                answered.append(number)
            except httpx.TransportError as error:
                failed.append(error)

    clients = [pair.client(limits=httpx.Limits(max_connections=1)) for _ in range(4)]
    threads = [threading.Thread(target=load, args=(client, number * 100)) for number, client in enumerate(clients)]
    processes = pair.processes()
    killed = processes[0]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: len(answered) > 50, what="answers under load")
        os.kill(killed, signal.SIGKILL)
        since = len(answered)
        wait_for(lambda: len(answered) > since + 50, what="the other process goes on")
        wait_for(lambda: pair.is_whole(killed), what="another is started in its stead")
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=90)
    # One connection each, which broke once at most.
    assert len(failed) <= len(threads)
    assert pair.processes()[1] == processes[1]
    pair.parent.terminate()
    said = pair.parent.communicate(timeout=90)[1]
    assert pair.parent.returncode == 0
    assert f"process 0 (pid {killed}) was ended by SIGKILL; it is started again" in said
    assert "Traceback" not in said


def test_a_scrape_says_which_process_does_not_answer_and_without_the_parent_all_stop(
    sqlite_url: str, upstream: StubUpstream, tmp_path: Path
) -> None:
    with tempfile.TemporaryDirectory(prefix="cachescope-test-") as folder, running(sqlite_url, upstream.url, Path(folder)) as pair:
        pids = pair.processes()
        client = pair.connect(pids[0])
        os.kill(pids[1], signal.SIGSTOP)
        try:
            page = client.get("/metrics").text
        finally:
            os.kill(pids[1], signal.SIGCONT)
        assert 'cachescope_process_up{process="0"} 1.0' in page
        assert 'cachescope_process_up{process="1"} 0.0' in page
        wait_for(pair.is_whole, what="the stopped process is heard again")
        pair.parent.kill()
        wait_for(lambda: not _lives(pids[0]) and not _lives(pids[1]), what="the processes stop")
        assert not list(Path(folder).iterdir())


async def test_a_process_without_a_sign_of_life_is_asked_but_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.gateway.siblings.ANSWER_S", 3_600)
    with tempfile.TemporaryDirectory(prefix="cachescope-test-") as name, socket.socket(socket.AF_UNIX) as stopped:
        folder = Path(name)
        stopped.bind(str(folder / "1.sock"))
        stopped.listen()  # the kernel takes what comes, and nobody answers
        os.utime(folder / "1.sock", (0, 0))
        one, three = (Siblings(Metrics(), number=number, count=4, folder=folder, gateway_id=f"gw{number}", pid=number) for number in (0, 2))
        await one.start()
        await three.start()
        os.utime(folder / "2.sock", (0, 0))  # it has not got to it for long, and answers
        try:
            async with asyncio.timeout(60):
                found = await one.all()
        finally:
            await one.close()
            await three.close()
    assert [figures.families is not None for figures in found] == [True, False, True, False]
    assert [figures.gateway_id for figures in found] == ["gw0", "", "gw2", ""]


def _lives(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except OSError:
        return False


def test_what_prevents_the_start_is_one_line_and_one_exit_code(tmp_path: Path) -> None:
    broken = tmp_path / "broken.db"
    broken.write_bytes(b"no database " * 1000)
    command = [sys.executable, "-c", RUN, f"sqlite:///{broken}", f"127.0.0.1:{free_port()}", "", ADMIN]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 3
    assert len(ended.stderr.strip().splitlines()) == 1, ended.stderr
