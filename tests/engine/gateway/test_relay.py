"""What becomes of a streamed miss whose end does not fall together: upstream, store, client and connection."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from tests.engine.gateway.conftest import Gateway, Start, ask, cache_status
from tests.engine.gateway.test_chat import plain, streamed, text
from tests.support.servers import wait_for
from tests.support.upstream import StubUpstream

PATH = "/v1/chat/completions"


def test_a_streamed_miss_is_a_miss_while_the_upstream_keeps_its_connection_open(gateway: Gateway, upstream: StubUpstream) -> None:
    linger = threading.Event()
    upstream.behave(linger=linger)
    try:
        chunks, told = streamed(gateway.openai(), **ask())
        assert text(chunks).startswith("Answer to")
        assert cache_status(told) == {"fwd": "miss"}
        gateway.counts(1)
        gateway.counts(1, outcome="miss")
        assert gateway.state.telemetry.counters()['cachescope_stores_total{result="stored"}'] == 1
        assert cache_status(plain(gateway.openai(), **ask())[1])["hit"] is True
    finally:
        linger.set()


def test_a_lookup_is_recorded_when_its_answer_is_sent_and_not_when_the_upstream_lets_go(
    gateway: Gateway, upstream: StubUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.gateway.relay._DRAIN_S", 3_600)  # what waits for it is never recorded
    linger = threading.Event()
    upstream.behave(linger=linger)
    try:
        for number in range(5):
            streamed(gateway.openai(), **ask(f"question {number}"))
            gateway.counts(number + 1, outcome="miss")
    finally:
        linger.set()


@pytest.mark.parametrize("mode", ["error", "ignore_stream", "stream_error", "garbled"])
def test_an_end_of_any_kind_is_what_it_was_and_never_a_client_that_left(gateway: Gateway, upstream: StubUpstream, mode: str) -> None:
    linger = threading.Event()
    upstream.behave(mode=mode, linger=linger)
    try:
        with gateway.http().stream("POST", PATH, json=ask(stream=True)) as answer:
            answer.read()
        gateway.counts(1)
        gateway.counts(1, outcome="miss" if mode == "ignore_stream" else "error")
        results = {name for name in gateway.state.telemetry.counters() if name.startswith("cachescope_stores_total")}
        assert not any("client_left" in name for name in results)
    finally:
        linger.set()


def test_a_client_that_leaves_while_its_answer_is_stored_loses_nothing(upstream: StubUpstream, sqlite_url: str, start: Start) -> None:
    gateway = start(store_timeout_s=60)
    plain(gateway.openai(), **ask("to begin the generation"))
    hold = threading.Event()
    upstream.behave(hold=hold)
    lock = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None, timeout=60)
    try:
        with gateway.http().stream("POST", PATH, json=ask(stream=True)) as answer:
            chunks = answer.iter_raw()  # held: dropping the iterator closes the connection
            next(chunks)  # the lookup has its lease: only the store of the answer waits for the lock
            lock.execute("BEGIN IMMEDIATE")
            hold.set()
            wait_for(lambda: len(upstream.chats) == 2 and upstream.streaming == 0, what="the upstream's answer is whole")
        for _ in range(5):  # each answer comes after the gateway saw the closed connection
            assert gateway.http().get("/healthz").status_code == 200
        lock.execute("ROLLBACK")
    finally:
        lock.close()
    gateway.counts(2)
    gateway.counts(2, outcome="miss")
    assert cache_status(gateway.http().post(PATH, json=ask()).headers)["hit"] is True
    assert len(upstream.chats) == 2
