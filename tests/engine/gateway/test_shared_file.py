"""Gateways that share one SQLite file: a purge reaches both, and a gateway that is killed leaves nothing broken behind."""

from __future__ import annotations

import os
import signal
import sqlite3
import threading
import time
from functools import partial
from pathlib import Path

import httpx
import orjson
import pytest

from tests.engine.gateway.conftest import Start, ask, cache_status, misses_within
from tests.engine.gateway.test_chat import plain
from tests.engine.gateway.test_run import answers, begin
from tests.support.servers import free_port, wait_for
from tests.support.upstream import StubUpstream

PATH = "/v1/chat/completions"


def test_two_gateways_on_one_file_share_entries_and_a_purge_is_seen_by_both_within_a_second(start: Start, upstream: StubUpstream) -> None:
    one, two = start(control_max_age_s=1), start(control_max_age_s=1)
    wait_for(lambda: cache_status(plain(one.openai(), **ask())[1]).get("hit"), what="it is stored")
    client = two.openai()
    wait_for(lambda: cache_status(plain(client, **ask())[1]).get("hit"), what="the other gateway hits")
    plain(client, **ask())  # now in the second gateway's memory too
    one.control("POST", "/purge", json={"namespace": "default", "operation_id": "op"})
    purged = time.monotonic()
    misses_within(1.0, client, purged=purged)
    wait_for(lambda: cache_status(plain(one.openai(), **ask("else"))[1]).get("hit"), what="what comes after the purge is kept")


@pytest.mark.parametrize("rounds", [5])
def test_a_gateway_killed_under_load_leaves_whole_entries_and_serves_nothing_wrong(
    sqlite_url: str, upstream: StubUpstream, rounds: int
) -> None:
    """Each answer says which question it is for, so a wrong one shows; each acknowledged store must be there after the kill."""
    stored: set[int] = set()
    asked = iter(range(10**9))

    def load(port: int, stop: threading.Event, wrong: list[str]) -> None:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            while not stop.is_set():
                number = next(asked)
                text = f"question {number} " + "x" * (number % 7 * 900)
                try:
                    answer = client.post(PATH, json=ask(text, stream=number % 3 == 0))
                except httpx.HTTPError:
                    continue  # the gateway is gone
                if number % 3 == 0:
                    continue
                if not answer.json()["choices"][0]["message"]["content"].startswith(f"Answer to: question {number} "):
                    wrong.append(text)
                elif cache_status(answer.headers).get("stored"):
                    stored.add(number)

    for _ in range(rounds):
        port, stop = free_port(), threading.Event()
        wrong: list[str] = []
        process = begin(sqlite_url, f"127.0.0.1:{port}", upstream.url)
        threads = [threading.Thread(target=load, args=(port, stop, wrong)) for _ in range(4)]
        try:
            wait_for(partial(answers, port), what="the gateway is ready")
            for thread in threads:
                thread.start()
            wait_for(partial(has_grown, stored, len(stored) + 15), what="answers are being stored")
            os.kill(process.pid, signal.SIGKILL)
            process.wait(timeout=60)
        finally:
            stop.set()
            for thread in threads:
                thread.join(timeout=90)
            process.kill()
            process.communicate(timeout=60)
        assert not wrong
        _check_whole(sqlite_url)

    _serves_all(sqlite_url, upstream, stored)


def has_grown(stored: set[int], least: int) -> bool:
    return len(stored) >= least


def _check_whole(sqlite_url: str) -> None:
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = connection.execute("SELECT prompt, body, size_bytes FROM entries").fetchall()
    connection.close()
    assert rows
    for prompt, body, size_bytes in rows:
        said = orjson.loads(body)["choices"][0]["message"]["content"]
        assert said.startswith("Answer to: " + prompt[:40].decode())
        assert size_bytes >= len(body)


def _serves_all(sqlite_url: str, upstream: StubUpstream, stored: set[int]) -> None:
    """A gateway started after the kills serves every answer that was acknowledged as stored, and each to its own question."""
    port = free_port()
    process = begin(sqlite_url, f"127.0.0.1:{port}", upstream.url)
    try:
        wait_for(lambda: answers(port), what="the gateway is ready")
        calls = len(upstream.chats)
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            for number in stored:
                answer = client.post(PATH, json=ask(f"question {number} " + "x" * (number % 7 * 900)))
                assert cache_status(answer.headers).get("hit") is True, number
                assert answer.json()["choices"][0]["message"]["content"].startswith(f"Answer to: question {number} ")
        assert len(upstream.chats) == calls
    finally:
        process.kill()
        process.communicate(timeout=60)
