"""Gateways that share one Redis: a purge reaches both, its loss costs hits and nothing else."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
import redis

from tests.engine.gateway.conftest import Start, ask, cache_status, misses_within, settings_for
from tests.engine.gateway.test_chat import plain
from tests.support.servers import RedisServer, wait_for
from tests.support.upstream import StubUpstream

pytestmark = pytest.mark.redis


def test_two_gateways_share_entries_and_a_purge_is_seen_by_both_within_a_second(
    start: Start, redis_server: RedisServer, upstream: StubUpstream
) -> None:
    one, two = (start(cache_url=redis_server.url, control_max_age_s=1) for _ in range(2))
    wait_for(lambda: cache_status(plain(one.openai(), **ask())[1]).get("hit"), what="it is stored")
    client = two.openai()
    wait_for(lambda: cache_status(plain(client, **ask())[1]).get("hit"), what="the other gateway hits")
    plain(client, **ask())  # now in the second gateway's memory too
    one.control("POST", "/purge", json={"namespace": "default", "operation_id": "op"})
    purged = time.monotonic()
    misses_within(1.0, client, purged=purged)
    wait_for(lambda: cache_status(plain(one.openai(), **ask("else"))[1]).get("hit"), what="what comes after the purge is kept")


@pytest.mark.parametrize("servers", ["redis_server", "redis_cluster"])
def test_gateways_hear_of_a_purge_before_they_ask(
    start: Start, upstream: StubUpstream, servers: str, request: pytest.FixtureRequest
) -> None:
    url = request.getfixturevalue(servers).url
    # Polls far apart: what is known sooner was pushed.
    engine = replace(settings_for(url, upstream.url).engine, control_poll_s=40.0, control_max_age_s=120.0)
    one, two = (start(cache_url=url, engine=engine) for _ in range(2))
    plain(one.openai(), **ask())
    wait_for(lambda: cache_status(plain(two.openai(), **ask())[1]).get("hit"), what="the other gateway hits")
    one.control("POST", "/purge", json={"namespace": "default", "operation_id": "op"})
    wait_for(lambda: "op" in two.state.cache.view.purges, what="the other gateway was told", timeout_s=30)
    assert cache_status(plain(two.openai(), **ask())[1]).get("fwd") == "miss"


def test_after_a_lost_generation_key_nothing_old_is_served(start: Start, redis_server: RedisServer, upstream: StubUpstream) -> None:
    gateways = [start(cache_url=redis_server.url) for _ in range(2)]
    clients = [gateway.openai() for gateway in gateways]
    for client in clients:
        plain(client, **ask())
    store = redis.Redis.from_url(redis_server.url)
    for key in list(store.scan_iter("*")):
        if b"ctl" in key or b"control" in key:
            store.delete(key)
    store.close()
    upstream.behave(answer="after the loss")
    wait_for(lambda: all(not g.state.cache.view.space("default").generations.live for g in gateways), what="the loss is seen")
    for client in clients:
        answer, _ = plain(client, **ask())
        assert answer.choices[0].message.content == "after the loss"


def test_redis_stopped_under_load_fails_no_request_and_hits_resume(start: Start, own_redis: RedisServer, upstream: StubUpstream) -> None:
    gateway = start(cache_url=own_redis.url, store_timeout_s=0.5, control_max_age_s=1)
    clients = [gateway.openai() for _ in range(4)]
    for number in range(10):
        plain(clients[0], **ask(f"question {number}"))
    seen: list[dict[str, str | bool]] = []
    errors: list[Exception] = []
    stop = threading.Event()

    def load(client: object, shift: int) -> None:
        number = shift
        while not stop.is_set():
            number += 1
            try:
                seen.append(cache_status(plain(client, **ask(f"question {number % 10}"))[1]))  # type: ignore[arg-type]
            except Exception as error:  # noqa: BLE001 - any failure at all is what the test looks for
                errors.append(error)

    threads = [threading.Thread(target=load, args=(client, shift)) for shift, client in enumerate(clients)]
    for thread in threads:
        thread.start()
    try:
        wait_for(lambda: sum(bool(told.get("hit")) for told in seen) > 20, what="hits under load")
        own_redis.stop()
        wait_for(lambda: not seen[-1].get("hit") and len(seen) > 50, what="misses while it is gone")
        assert gateway.http().get("/healthz").status_code == 200
        own_redis.start()
        since = len(seen)
        wait_for(lambda: sum(bool(told.get("hit")) for told in seen[since:]) > 20, what="hits resume")
    finally:
        stop.set()
        for thread in threads:
            thread.join(timeout=90)
    assert not errors


def test_redis_that_hangs_slows_requests_but_fails_none(start: Start, own_redis: RedisServer, upstream: StubUpstream) -> None:
    gateway = start(cache_url=own_redis.url, store_timeout_s=0.5, control_max_age_s=1)
    plain(gateway.openai(), **ask())
    own_redis.pause()
    try:
        begun = time.monotonic()
        for number in range(3):
            plain(gateway.openai(), **ask(f"question {number}"))
        assert time.monotonic() - begun < 30
    finally:
        own_redis.resume()
    wait_for(lambda: cache_status(plain(gateway.openai(), **ask())[1]).get("hit"), what="hits resume")


def test_a_gateway_starts_without_its_store_and_spends_nobody_elses_key(own_redis: RedisServer, upstream: StubUpstream) -> None:
    from engine.gateway.server import create_app
    from tests.engine.gateway.conftest import Gateway, settings_for
    from tests.support.upstream import serving

    own_redis.stop()
    settings = settings_for(own_redis.url, upstream.url)
    app = create_app(settings)
    gateway = Gateway(f"http://{settings.bind}", app.state.gateway, app.state.flights)
    with serving(app, int(settings.bind.rpartition(":")[2])):
        assert gateway.http().get("/healthz").status_code == 503
        assert cache_status(plain(gateway.openai("sk-mine"), **ask())[1])["fwd"] == "miss"
        assert upstream.chats[-1].headers["authorization"] == "Bearer sk-mine"
        assert gateway.http().post("/v1/chat/completions", json=ask()).status_code == 503
        own_redis.start()
        wait_for(lambda: gateway.http().get("/healthz").status_code == 200, what="the gateway is ready")
        assert gateway.http().post("/v1/chat/completions", json=ask()).status_code == 200
        for client in gateway.clients:
            client.close()
