"""What the cluster's tier leaves on its masters, and what a lookup costs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis

from engine.errors import TierUnavailable
from engine.tiers.redis_cluster import RedisClusterTier
from tests.conformance.samples import FakeClock, entry, key_of
from tests.support.servers import RedisCluster, running_cluster

pytestmark = pytest.mark.redis


@pytest.fixture
async def store(redis_cluster: RedisCluster) -> AsyncIterator[RedisClusterTier]:
    made = RedisClusterTier(redis_cluster.url, timeout_s=30, clock=FakeClock())
    yield made
    await made.close()


def commands(cluster: RedisCluster) -> dict[str, int]:
    """Return how often each command was called, on all masters together, less those of the cluster and of this question."""
    found: dict[str, int] = {}
    for master in cluster.masters:
        with redis.Redis(port=master.port) as client:
            for name, stats in client.info("commandstats").items():
                word = name.removeprefix("cmdstat_")
                if not word.startswith(("cluster", "info", "client", "command", "hello", "ping", "publish")):
                    found[word] = found.get(word, 0) + stats["calls"]
    return found


async def test_a_namespace_is_spread_over_all_masters_and_a_lookup_is_one_command(
    store: RedisClusterTier, redis_cluster: RedisCluster
) -> None:
    for number in range(60):
        await store.put(entry(number))
    for master in redis_cluster.masters:
        with redis.Redis(port=master.port) as client:
            assert 5 < sum(1 for _ in client.scan_iter("cs1:e:*")) < 40
            assert {key for key in client.scan_iter() if client.ttl(key) == -1} <= {b"cs1:names", b"cs1:control"}
    before = commands(redis_cluster)
    for number in range(60):
        assert await store.get(key_of(number)) is not None
    after = commands(redis_cluster)
    assert {name: count - before.get(name, 0) for name, count in after.items() if count != before.get(name, 0)} == {"hmget": 60}


async def test_dead_members_do_not_pile_up(store: RedisClusterTier, redis_cluster: RedisCluster) -> None:
    clock = FakeClock()
    await store.put(entry("lasting", expires_ms=clock() + 10**9))
    for number in range(200):
        await store.put(entry(number, expires_ms=clock() + 1))
    with redis.RedisCluster.from_url(f"redis://127.0.0.1:{redis_cluster.masters[0].port}") as client:
        assert client.zcard("cs1:n:faq") < 100
        assert client.zcard(b"cs1:p:" + b"p" * 32) < 100


async def test_a_cursor_outlives_the_newest_vector(store: RedisClusterTier) -> None:
    for number in range(3):
        await store.put(entry(number))
    rows, cursor = await store.vectors_since("p" * 32, 0, 10)
    assert len(rows) == 3
    await store.delete([key_of(2)])
    assert await store.vectors_since("p" * 32, 0, 10) != ([], 0)
    assert await store.vectors_since("p" * 32, cursor, 10) == ([], cursor), "no rebuild because the last one is gone"


async def test_a_stopped_master_is_the_store_being_down_until_every_slot_answers_again() -> None:
    with running_cluster() as cluster:
        store = RedisClusterTier(cluster.url, timeout_s=5, clock=FakeClock())
        for number in range(30):
            await store.put(entry(number))
        victim = cluster.masters[1]
        with redis.Redis(port=victim.port) as client:
            held = set(client.scan_iter("cs1:e:*"))
        lost = {number for number in range(30) if f"cs1:e:{key_of(number)}".encode() in held}
        kept = set(range(30)) - lost
        assert lost
        assert kept
        await store.ping()
        victim.stop()
        with pytest.raises(TierUnavailable):
            await store.get(key_of(min(lost)))
        # Nobody waits for it a second time, whatever is asked for; and the two masters that do answer do not end that.
        for _ in range(3):
            with pytest.raises(TierUnavailable):
                await store.ping()
            with pytest.raises(TierUnavailable, match="a moment ago"):
                await store.get(key_of(min(kept)))
        victim.start()
        async with asyncio.timeout(60):
            while not await _answers(store, key_of(min(kept))):  # it finds out by itself
                await asyncio.sleep(0.02)
        assert [number for number in range(30) if await store.get(key_of(number)) is None] == sorted(lost), "no persistence: those are gone"
        await store.put(entry(min(lost)))
        assert await store.get(key_of(min(lost))) is not None
        await store.close()


async def _answers(store: RedisClusterTier, key: str) -> bool:
    try:
        return await store.get(key) is not None
    except TierUnavailable:
        return False
