"""What each tier does when what it stands on goes away: it says so in time, never invents an answer, and comes back by itself."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from engine.control import Control
from engine.errors import TierUnavailable
from engine.records import generations_json
from engine.tiers import open_store, wall_clock_ms
from engine.tiers.base import StoreTier
from engine.tiers.redis import RedisTier
from engine.tiers.sqlite import SqliteTier
from engine.types import Entry, Generations, RemovalCause
from tests.conformance.samples import entry, key_of
from tests.support.servers import RedisCluster, RedisServer

FAR_MS = 2**60
TIMEOUT_S = 1.0  # of the tests of what it is for
PATIENT_S = 30.0  # of all others: a slow machine is not a fault
ENDS_S = 30.0  # a call without the timeout would never end

CALLS: dict[str, Callable[[StoreTier], Awaitable[object]]] = {
    "get": lambda store: store.get(key_of(0)),
    "put": lambda store: store.put(entry(expires_ms=FAR_MS)),
    "delete": lambda store: store.delete([key_of(0)]),
    "delete_entries": lambda store: store.delete_entries({key_of(0): "0" * 32}),
    "vectors_since": lambda store: store.vectors_since("p" * 32, 0, 10),
    "scan": lambda store: store.scan("faq", "", 10),
    "namespaces": lambda store: store.namespaces(),
    "control_token": lambda store: store.control_token(),
    "control_all": lambda store: store.control_all(),
    "control_put": lambda store: store.control_put("policy:faq", "{}"),
    "control_delete": lambda store: store.control_delete("policy:faq"),
    "ping": lambda store: store.ping(),
}


async def until_it_answers(store: StoreTier, timeout_s: float = 60) -> Entry | None:
    """Poll with an ordinary call, as traffic would, until it no longer fails; return what it found."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return await store.get(key_of(0))
        except TierUnavailable:
            assert time.monotonic() < deadline, "the store did not come back"
            await asyncio.sleep(0.02)


@pytest.fixture
async def on_redis(own_redis: RedisServer) -> AsyncIterator[StoreTier]:
    store = open_store(own_redis.url, timeout_s=PATIENT_S)
    yield store
    await store.close()


@pytest.fixture
async def hasty(own_redis: RedisServer, on_redis: StoreTier) -> AsyncIterator[StoreTier]:
    """A connection that gives up soon, to a server that holds an entry."""
    await on_redis.put(entry(expires_ms=FAR_MS))
    store = open_store(own_redis.url, timeout_s=TIMEOUT_S)
    assert await until_it_answers(store) is not None
    yield store
    await store.close()


@pytest.mark.redis
@pytest.mark.parametrize("call", CALLS)
async def test_a_stopped_redis_is_told_at_once(on_redis: StoreTier, own_redis: RedisServer, call: str) -> None:
    await on_redis.put(entry(expires_ms=FAR_MS))
    own_redis.stop()
    started = time.monotonic()
    with pytest.raises(TierUnavailable) as caught:
        await CALLS[call](on_redis)
    assert caught.value.retryable
    assert time.monotonic() - started < ENDS_S


@pytest.mark.redis
async def test_after_a_failure_calls_fail_without_waiting_and_recover_by_themselves(hasty: StoreTier, own_redis: RedisServer) -> None:
    own_redis.pause()
    started = time.monotonic()
    with pytest.raises(TierUnavailable):
        await hasty.get(key_of(0))
    assert TIMEOUT_S * 0.9 < time.monotonic() - started < ENDS_S
    started = time.monotonic()
    for _ in range(200):
        with pytest.raises(TierUnavailable):
            await hasty.get(key_of(0))
    assert time.monotonic() - started < 200 * TIMEOUT_S / 5, "a paused server adds no latency to the requests that follow"
    own_redis.resume()
    assert await until_it_answers(hasty) is not None


@pytest.mark.redis
async def test_concurrent_calls_on_a_paused_redis_each_end_in_time(hasty: StoreTier, own_redis: RedisServer) -> None:
    own_redis.pause()
    started = time.monotonic()
    results = await asyncio.gather(*(hasty.get(key_of(number)) for number in range(200)), return_exceptions=True)
    assert time.monotonic() - started < ENDS_S
    assert {type(result) for result in results} == {TierUnavailable}
    own_redis.resume()
    await until_it_answers(hasty)


@pytest.mark.redis
async def test_a_redis_that_comes_back_empty_shows_another_token(on_redis: StoreTier, own_redis: RedisServer) -> None:
    for number in range(5):
        await on_redis.control_put(f"policy:{number}", "{}")
    await on_redis.put(entry(expires_ms=FAR_MS))
    before = await on_redis.control_token()
    _, cursor = await on_redis.vectors_since("p" * 32, 0, 10)
    own_redis.stop()
    with pytest.raises(TierUnavailable):
        await on_redis.ping()
    own_redis.start()
    await until_it_answers(on_redis)
    token = await on_redis.control_token()
    assert token != before
    assert await on_redis.control_token() == token
    assert await on_redis.control_all() == []
    await on_redis.put(entry("new", expires_ms=FAR_MS))
    rows, after = await on_redis.vectors_since("p" * 32, cursor, 10)
    assert after == 0 or [row.key for row in rows] == [key_of("new")], "the reader learns of the new store's entries"


@pytest.mark.redis
async def test_a_restarted_redis_costs_no_failed_call(on_redis: StoreTier, own_redis: RedisServer) -> None:
    await asyncio.gather(*(on_redis.get(key_of(number)) for number in range(20)))
    own_redis.stop()
    own_redis.start()
    for number in range(20):
        await on_redis.get(key_of(number))


@pytest.mark.redis
async def test_a_gateway_may_start_before_its_redis(own_redis: RedisServer) -> None:
    own_redis.stop()
    store = open_store(own_redis.url, timeout_s=PATIENT_S)
    try:
        with pytest.raises(TierUnavailable):
            await store.control_token()
        own_redis.start()
        await until_it_answers(store)
    finally:
        await store.close()


@pytest.mark.redis
async def test_a_refusal_does_not_stop_reads(own_redis: RedisServer) -> None:
    import redis

    store = open_store(own_redis.url, timeout_s=PATIENT_S)
    assert isinstance(store, RedisTier)
    client = redis.Redis.from_url(own_redis.url)
    try:
        await store.put(entry(expires_ms=FAR_MS))
        client.config_set("maxmemory", "1")
        with pytest.raises(TierUnavailable, match="refused"):
            await store.put(entry("b", expires_ms=FAR_MS))
        assert await store.get(key_of(0)) is not None
        assert store.faults == {"error": 1}
    finally:
        client.close()
        await store.close()


def _bound_memory(server: RedisServer | RedisCluster, *, max_bytes: int) -> None:
    import redis

    for one in server.masters if isinstance(server, RedisCluster) else [server]:
        client = redis.Redis(port=one.port)
        client.config_set("maxmemory", str(max_bytes))
        client.close()


def _used(server: RedisServer) -> int:
    import redis

    client = redis.Redis.from_url(server.url)
    try:
        return int(client.info("memory")["used_memory"])
    finally:
        client.close()


@pytest.mark.redis
@pytest.mark.parametrize("kind", ["redis_server", "redis_cluster", "valkey_server"])
async def test_a_full_redis_takes_every_act_of_an_operator(request: pytest.FixtureRequest, kind: str) -> None:
    server: RedisServer | RedisCluster = request.getfixturevalue(kind)
    store = open_store(server.url, timeout_s=PATIENT_S)
    control = Control(store)
    try:
        generations = Generations("g1", frozenset({"g1"}))
        await store.control_put("generations:faq", generations_json(generations))
        key, _ = await control.key_create("acme")
        for number in range(20):
            await store.put(entry(number, generation="g1", expires_ms=FAR_MS))
        token = await store.control_token()
        _bound_memory(server, max_bytes=1)
        with pytest.raises(TierUnavailable, match="refused"):
            await store.put(entry("one more", expires_ms=FAR_MS))
        purge = await control.purge("faq", operation_id="op-1")
        assert purge.entries == 20
        assert await store.control_token() != token
        assert (await control.undo(purge.id)).state == "undone"
        await control.set_policy("faq", {"switch": "off"})
        assert (await control.key_revoke(key.id)).revoked_ms is not None
        assert await store.get(key_of(0)) is not None, "no entry had to go for it"
        again = await control.purge("faq", operation_id="op-2")
        deleted, remaining = await control.reclaim(again.id)
        while remaining:
            more, remaining = await control.reclaim(again.id)
            deleted += more
        assert deleted == 20
        assert await store.get(key_of(0)) is None
    finally:
        _bound_memory(server, max_bytes=0)
        await store.close()


class _AsOnRedis6(RedisTier):
    """What is left when the server did not know the scripts' first line."""

    def _register(self) -> None:
        super()._register()
        self._even_full.clear()


@pytest.mark.redis
async def test_where_a_full_server_cannot_be_told_to_take_it_the_oldest_entries_make_room(redis_server: RedisServer) -> None:
    store = _AsOnRedis6(redis_server.url, timeout_s=PATIENT_S, clock=wall_clock_ms)
    control = Control(store)
    try:
        await store.control_put("generations:faq", generations_json(Generations("g1", frozenset({"g1"}))))
        await store.put(entry("elsewhere", namespace="another", expires_ms=FAR_MS))
        for number in range(600):
            await store.put(entry(number, generation="g1", body=b"x" * 10_000, expires_ms=FAR_MS))
        await store.control_token()
        _bound_memory(redis_server, max_bytes=_used(redis_server) - 500_000)
        with pytest.raises(TierUnavailable, match="refused"):
            await store.put(entry("one more", expires_ms=FAR_MS))
        purge = await control.purge("faq", operation_id="op-1")
        assert purge.state == "hidden"
        assert await store.get(key_of(0)) is None, "the oldest of its namespace made room"
        assert await store.get(key_of(599)) is not None
        assert await store.get(key_of("elsewhere")) is not None
        assert store.faults["made_room"] > 0
    finally:
        _bound_memory(redis_server, max_bytes=0)
        await store.close()


async def test_a_full_sqlite_file_takes_every_act_of_an_operator(tmp_path: Path) -> None:
    gone: Counter[RemovalCause] = Counter()
    store = open_store(f"sqlite:///{tmp_path}/cache.db", timeout_s=PATIENT_S, removed=lambda cause, count: gone.update({cause: count}))
    assert isinstance(store, SqliteTier)
    control = Control(store)
    try:
        await store.control_put("generations:faq", generations_json(Generations("g1", frozenset({"g1"}))))
        key, _ = await control.key_create("acme")
        for number in range(900):
            await store.put(entry(number, generation="g1", body=b"x" * 2_000, expires_ms=FAR_MS + number))
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(TierUnavailable, match="takes no writes"):
            await store.put(entry("one more", namespace="another", body=b"x" * 100_000, expires_ms=FAR_MS))
        await store.control_put("gateway:a", "alive")
        for number in range(20):
            await store.control_put(f"record:{number}", "x" * 3_000)
        purge = await control.purge("faq", operation_id="op-1")
        assert (purge.state, purge.entries) == ("hidden", 900 - gone[RemovalCause.SIZE])
        assert (await control.undo(purge.id)).state == "undone"
        assert (await control.key_revoke(key.id)).revoked_ms is not None
        assert 0 < gone[RemovalCause.SIZE] <= 400, "the pages that some entries had are enough"
        assert await store.get(key_of(0)) is None, "those that expire first made room"
        assert await store.get(key_of(899)) is not None
        again = await control.purge("faq", operation_id="op-2")
        while (await control.reclaim(again.id))[1]:
            pass
        assert await store.get(key_of(899)) is None
    finally:
        await store.close()


@pytest.mark.parametrize("call", ["put", "delete", "delete_entries", "control_put", "control_delete"])
async def test_a_locked_sqlite_file_is_told_in_time_and_blocks_nobody(tmp_path: Path, call: str) -> None:
    store = open_store(f"sqlite:///{tmp_path}/cache.db", timeout_s=TIMEOUT_S)
    other = sqlite3.connect(tmp_path / "cache.db", isolation_level=None)
    try:
        await store.put(entry(expires_ms=FAR_MS))
        other.execute("BEGIN IMMEDIATE")
        started = time.monotonic()
        blocked = asyncio.ensure_future(CALLS[call](store))
        reads = 0
        while not blocked.done():
            assert await store.get(key_of(0)) is not None  # readers go on
            reads += not blocked.done()
            await asyncio.sleep(0)
        with pytest.raises(TierUnavailable, match="locked"):
            await blocked
        assert time.monotonic() - started < ENDS_S
        assert reads > 0
        other.execute("COMMIT")
        await CALLS[call](store)
    finally:
        other.close()
        await store.close()


@pytest.mark.parametrize("call", CALLS)
async def test_a_closed_sqlite_store_says_so(tmp_path: Path, call: str) -> None:
    store = open_store(f"sqlite:///{tmp_path}/cache.db", timeout_s=PATIENT_S)
    await store.close()
    with pytest.raises(TierUnavailable):
        await CALLS[call](store)


async def test_a_sqlite_file_damaged_while_open_is_unavailable_not_a_wrong_answer(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    store = open_store(f"sqlite:///{path}", timeout_s=PATIENT_S)
    for number in range(300):
        await store.put(entry(number, expires_ms=FAR_MS, body=b"x" * 5_000))
    await store.close()
    store = open_store(f"sqlite:///{path}", timeout_s=PATIENT_S)
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xa5" * (size - 8192))
    # A commit by another connection: pages that this one still has in memory are read again.
    other = sqlite3.connect(path)
    other.execute("PRAGMA user_version = 1")
    other.close()

    async def read_all() -> None:
        for number in range(300):
            found = await store.get(key_of(number))
            assert found is not None
            assert found.body == b"x" * 5_000

    try:
        with pytest.raises(TierUnavailable, match="damaged"):
            await read_all()
    finally:
        await store.close()


async def test_a_sqlite_file_moved_away_is_made_anew_with_another_token(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    store = open_store(f"sqlite:///{path}", timeout_s=PATIENT_S)
    try:
        await store.control_put("policy:faq", "{}")
        await store.put(entry(expires_ms=FAR_MS))
        before = await store.control_token()
        for file in tmp_path.glob("cache.db*"):
            file.rename(file.with_name("moved-" + file.name))
        other = open_store(f"sqlite:///{path}", timeout_s=PATIENT_S)
        await other.put(entry("of the new file", expires_ms=FAR_MS))
        token = await store.control_token()
        assert token != before
        assert token == await other.control_token()
        assert await store.control_all() == []
        assert await store.get(key_of(0)) is None
        assert await store.get(key_of("of the new file")) is not None
        await other.close()
    finally:
        await store.close()
