"""A store that refuses, hangs or flaps costs hits and little time; it fails no request, and what it was is told."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
import redis

from engine.tiers.sqlite import SqliteTier
from tests.engine.gateway.conftest import Gateway, Start, ask, cache_status
from tests.engine.gateway.test_chat import plain
from tests.support.servers import RedisServer, wait_for
from tests.support.upstream import StubUpstream

pytestmark = pytest.mark.redis


def breaker(gateway: Gateway, dependency: str, operation: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = gateway.control("GET", "/state")["breakers"]
    return next(held for held in found if (held["dependency"], held["operation"]) == (dependency, operation))


@pytest.mark.parametrize("fault", ["read-only", "full"])
def test_a_store_that_takes_no_writes_goes_on_serving_and_recovers(start: Start, own_redis: RedisServer, fault: str) -> None:
    gateway = start(cache_url=own_redis.url)
    client, server = gateway.openai(), redis.Redis.from_url(own_redis.url)
    plain(client, **ask("known"))
    if fault == "full":
        server.config_set("maxmemory", 1)
    else:
        server.replicaof("127.0.0.1", 1)  # type: ignore[no-untyped-call]
    for number in range(5):
        assert cache_status(plain(client, **ask(f"question {number}"))[1]) == {"fwd": "miss"}
    assert breaker(gateway, "store", "write")["opened"] > 0
    assert breaker(gateway, "store", "read")["state"] == "closed"
    assert cache_status(plain(client, **ask("known"))[1])["hit"]
    text = httpx.get(f"{gateway.url}/metrics", timeout=60).text
    assert 'cachescope_breaker_changes_total{dependency="store",operation="write",state="open"}' in text
    assert 'cachescope_breaker_state{dependency="store",operation="read"} 0.0' in text
    if fault == "full":
        server.config_set("maxmemory", 0)
    else:
        server.replicaof("NO", "ONE")  # type: ignore[no-untyped-call]
    server.close()
    numbers = iter(range(10**6))
    wait_for(lambda: "stored" in cache_status(plain(client, **ask(f"after {next(numbers)}"))[1]), what="answers are stored again")


@pytest.mark.parametrize("fault", ["read-only", "full"])
def test_a_cache_file_that_takes_no_writes_goes_on_serving_and_recovers(start: Start, sqlite_url: str, fault: str) -> None:
    gateway = start(cache_url=sqlite_url)
    client = gateway.openai()
    plain(client, **ask("known"))
    store = gateway.state.store
    assert isinstance(store, SqliteTier)

    def say(pragma: str) -> int:
        with store._lock:
            return int((store._connection.execute(f"PRAGMA {pragma}").fetchone() or [0])[0])

    say(f"max_page_count = {say('page_count')}" if fault == "full" else "query_only = ON")
    status: dict[str, str | bool] = {}
    for number in range(100):  # the pages that are there take some yet
        status = cache_status(plain(client, **ask(f"question {number} " + "word " * 300))[1])
        if "stored" not in status:
            break
    assert status == {"fwd": "miss"}
    # What takes a lease of some bytes takes no entry: leases close nothing.
    for number in range(3):
        assert cache_status(plain(client, **ask(f"another {number} " + "word " * 300))[1]) == {"fwd": "miss"}
    writes = breaker(gateway, "store", "write")
    assert (writes["opened"] > 0, writes["refused"] > 0) == (True, True), "it is asked by few probes only"
    assert breaker(gateway, "store", "read")["state"] == "closed"
    assert cache_status(plain(client, **ask("known"))[1])["hit"]
    if fault == "full":
        gateway.control("POST", "/purge", json={"namespace": "another", "operation_id": "op"})
        assert [row["name"] for row in gateway.control("GET", "/namespaces")["namespaces"]] == ["another", "default"]
    say("max_page_count = 1000000" if fault == "full" else "query_only = OFF")
    numbers = iter(range(10**6))
    wait_for(lambda: "stored" in cache_status(plain(client, **ask(f"after {next(numbers)}"))[1]), what="answers are stored again")


def test_a_store_that_flaps_fails_nothing_and_adds_bounded_time(start: Start, own_redis: RedisServer, upstream: StubUpstream) -> None:
    gateway = start(cache_url=own_redis.url, store_timeout_s=0.5)
    client = gateway.openai()
    plain(client, **ask("known"))
    slowest, asked = 0.0, 0
    for turn in range(2):
        own_redis.pause()
        while asked < 12 * (turn + 1):
            begun = time.monotonic()
            plain(client, **ask(f"question {asked}"))
            slowest, asked = max(slowest, time.monotonic() - begun), asked + 1
        own_redis.resume()
        wait_for(lambda: cache_status(plain(client, **ask("known"))[1]).get("hit"), what="hits resume")
    # One wait for the store a request, of 0.5 s; the rest is the machine's.
    assert slowest < 30.0
    assert len(upstream.chats) >= asked


def test_an_upstream_that_fails_is_told_and_still_asked(start: Start, upstream: StubUpstream, sqlite_url: str) -> None:
    gateway = start(cache_url=sqlite_url)
    upstream.behave(mode="error", status=503)
    with gateway.http() as client:
        for number in range(5):
            assert client.post("/v1/chat/completions", json=ask(f"question {number}")).status_code == 503
        assert breaker(gateway, "upstream", "call")["opened"] > 0
        upstream.behave()
        for number in range(5):
            assert client.post("/v1/chat/completions", json=ask(f"question {number}")).status_code == 200
    numbers = iter(range(10**6))

    def closed() -> bool:
        plain(gateway.openai(), **ask(f"after {next(numbers)}"))
        return bool(breaker(gateway, "upstream", "call")["state"] == "closed")

    wait_for(closed, what="the upstream's breaker closes")


def test_a_model_that_fails_holds_back_its_own_calls_and_no_others(start: Start, upstream: StubUpstream, sqlite_url: str) -> None:
    gateway = start(cache_url=sqlite_url)
    gateway.state.lanes._least, gateway.state.lanes._wait_s = 2, 3_600  # who waits is not answered before the test's end
    hold, chat = threading.Event(), "/v1/chat/completions"

    def failing() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = gateway.control("GET", "/state")["upstream"]["failing"]
        return found

    with gateway.http() as client, ThreadPoolExecutor(4) as pool:
        upstream.behave(mode="error", status=503, model="bad")
        for number in range(4):
            assert client.post(chat, json=ask(f"question {number}", model="bad")).status_code == 503
        upstream.behave(mode="error", status=503, model="bad", hold=hold)
        held = [pool.submit(client.post, chat, json=ask(f"held {number}", model="bad")) for number in range(4)]
        try:
            wait_for(lambda: [(one["in_flight"], one["waiting"]) for one in failing()] == [(2, 2)], what="two of its calls wait")
            for number in range(3):
                assert client.post(chat, json=ask(f"question {number}")).status_code == 200
            (shown,) = failing()
            assert (shown["model"], shown["opened"] > 0) == ("bad", True)
            assert breaker(gateway, "upstream", "call")["state"] in {"open", "half_open"}
            page = client.get("/metrics").text
        finally:
            hold.set()
        assert [one.result(timeout=90).status_code for one in held] == [503] * 4
        assert "cachescope_upstream_failing_models 1.0" in page
        assert 'cachescope_breaker_changes_total{dependency="upstream",operation="call",state="open"}' in page
        assert "bad" not in page, "a client's word is no label"
        upstream.behave()
        numbers = iter(range(10**6))

        def closed() -> bool:
            assert client.post(chat, json=ask(f"after {next(numbers)}", model="bad")).status_code == 200
            return not failing()

        wait_for(closed, what="its breaker closes")
    assert breaker(gateway, "upstream", "call")["state"] == "closed"
