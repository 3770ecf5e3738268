"""What the Redis tier leaves on the server, and what it makes of what it does not know."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any, ClassVar

import pytest
import redis as driver
import redis.asyncio
from redis.exceptions import TimeoutError as RedisTimeoutError

from engine.errors import TierUnavailable
from engine.tiers import open_store
from engine.tiers.redis import RedisTier
from engine.tiers.redis_push import Announcements, listening_pool
from engine.types import RemovalCause
from tests.conformance.samples import FakeClock, entry, key_of
from tests.support.polling import eventually
from tests.support.servers import RedisServer, wait_for

pytestmark = pytest.mark.redis


@pytest.fixture
def server(redis_server: RedisServer) -> Iterator[driver.Redis]:
    client = driver.Redis.from_url(redis_server.url)
    yield client
    client.close()


@pytest.fixture
async def store(redis_server: RedisServer) -> AsyncIterator[RedisTier]:
    made = RedisTier(redis_server.url, timeout_s=30, clock=FakeClock())
    yield made
    await made.close()


async def test_every_key_has_the_prefix_and_all_but_the_fixed_ones_expire(store: RedisTier, server: driver.Redis) -> None:
    await store.put(entry(namespace="a[1]*?\\"))
    await store.control_put("policy:faq", "{}")
    lasting = {key for key in server.scan_iter() if server.ttl(key) == -1}
    assert lasting == {b"cs1:names", b"cs1:seq", b"cs1:control"}
    assert all(key.startswith(b"cs1:") for key in server.scan_iter())


async def test_indexes_vanish_with_their_entries(store: RedisTier, server: driver.Redis) -> None:
    clock = FakeClock()
    for number in range(20):
        await store.put(entry(number, expires_ms=clock() + 50))
    wait_for(lambda: server.dbsize() == 2, what="only the sequence and the names are left")
    assert await store.namespaces() == []
    assert server.dbsize() == 1


async def test_dead_members_do_not_pile_up(store: RedisTier, server: driver.Redis) -> None:
    clock = FakeClock()
    await store.put(entry("lasting", expires_ms=clock() + 10**9))
    for number in range(600):
        await store.put(entry(number, expires_ms=clock() + 1))
    assert server.zcard("cs1:n:faq") < 150
    assert server.zcard(b"cs1:p:" + b"p" * 32) < 150


async def test_an_entry_of_another_version_is_a_counted_miss(store: RedisTier, server: driver.Redis) -> None:
    await store.put(entry())
    server.hset(f"cs1:e:{key_of(0)}", "h", b"\xffnewer")
    assert await store.get(key_of(0)) is None
    assert (await store.scan("faq", "", 10))[0] == []
    assert store.undecodable == 2


async def test_a_get_is_one_command(store: RedisTier, server: driver.Redis) -> None:
    await store.get(key_of(0))
    before = server.info("stats")["total_commands_processed"]
    await store.get(key_of(0))
    assert server.info("stats")["total_commands_processed"] - before == 2  # the get, and the INFO before it


async def test_the_probe_outlives_whatever_fails_in_it(own_redis: RedisServer) -> None:
    class Failing(RedisTier):
        """Cannot let go of its connections at first."""

        failures: ClassVar[list[Exception]] = [AttributeError("no writer"), RedisTimeoutError("closing took too long")]

        async def _drop_idle(self) -> None:
            if self.failures:
                raise self.failures.pop(0)
            await super()._drop_idle()

    store = Failing(own_redis.url, timeout_s=30, clock=FakeClock())
    await store.put(entry())
    store._went_down()
    with pytest.raises(TierUnavailable):
        await store.get(key_of(0))
    await eventually(lambda: not store._down, what="the server is found to be back")
    assert await store.get(key_of(0)) is not None
    assert store.faults["probe"] == 1
    await store.close()


async def test_a_probe_that_is_gone_is_begun_anew_by_the_next_call(redis_server: RedisServer) -> None:
    store = RedisTier(redis_server.url, timeout_s=30, clock=FakeClock())
    store._went_down()
    assert store._probe is not None
    store._probe.cancel()
    await asyncio.gather(store._probe, return_exceptions=True)
    with pytest.raises(TierUnavailable):
        await store.get(key_of(0))
    await eventually(lambda: not store._down, what="the server is found to be back")
    await store.close()


async def test_listening_goes_on_after_whatever_ended_it(redis_server: RedisServer) -> None:
    connects: list[int] = []

    def connect() -> Any:
        connects.append(1)
        if len(connects) == 1:
            raise AttributeError("no writer")
        return driver.asyncio.Redis(connection_pool=listening_pool(redis_server.url, 30))

    announcements = Announcements(connect)
    await announcements.wait(0.01)
    await eventually(lambda: announcements.listening, what="it listens")
    assert announcements.faults == 1
    await announcements.close()


@pytest.mark.parametrize("kind", ["redis_server", "redis_cluster"])
async def test_what_is_replaced_and_deleted_is_told_by_cause(request: pytest.FixtureRequest, kind: str) -> None:
    told: list[tuple[RemovalCause, int]] = []
    url = request.getfixturevalue(kind).url
    made = open_store(url, timeout_s=30, clock=FakeClock(), removed=lambda cause, count: told.append((cause, count)))
    await made.put(entry())
    await made.put(entry())
    await made.delete([key_of(0), key_of("nobody")])
    assert told == [(RemovalCause.REPLACED, 1), (RemovalCause.EXPLICIT, 1)]
    await made.close()
