"""Sampling a real Redis: what it counts, its slow commands without their arguments, and what the keyspace is made of."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from collectors.keyspace import Sample, shape
from collectors.metrics import CollectorMetrics
from collectors.pipeline import Pipeline
from collectors.prometheus.sink import StoreSink
from collectors.redis_sampler import RedisSampler, _slow
from collectors.settings import RedisTarget
from storage.settings import StorageSettings
from storage.store import Store, open_telemetry
from tests.collectors.support import running, until
from tests.conftest import SHARED
from tests.support.servers import RedisCluster, RedisServer, free_port

pytestmark = pytest.mark.redis

SUMS = """SELECT s.name, round(sum(m.increase)), sum(m.resets), sum(m.anomalies) FROM counter_minutes m
          JOIN counter_series s ON s.id = m.series_id WHERE s.labels = '{}' GROUP BY s.id ORDER BY s.name"""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_telemetry(StorageSettings(f"sqlite:///{tmp_path}/t.db", f"sqlite:///{tmp_path}/o.db", busy_timeout_s=60), write=True)
    yield opened
    opened.close()


def rows(store: Store, query: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(store.path)) as connection:
        return connection.execute(query).fetchall()


def topic(store: Store, name: str) -> dict[str, Any]:
    ((body,),) = rows(store, f"SELECT body FROM source_snapshots WHERE topic = '{name}'")
    return json.loads(body)


def sums(store: Store) -> dict[str, tuple[float, int, int]]:
    return {name: (grew, resets, anomalies) for name, grew, resets, anomalies in rows(store, SUMS)}


@contextlib.asynccontextmanager
async def sampling(store: Store, url: str, **changes: Any) -> AsyncIterator[RedisSampler]:
    pipeline = Pipeline(lambda batches: (), queue_bytes=1000, metrics=CollectorMetrics())
    pipeline.start()
    # A large budget of time: how many keys are looked at must not hang on how busy this machine is.
    target = RedisTarget(url, **({"timeout_s": 60, "budget_ms": 60_000} | changes))
    clock = iter(range(1_795_953_600_000, 1_795_960_000_000, 1_000))
    sampler = RedisSampler(target, StoreSink(store, pipeline), CollectorMetrics(), now_ms=lambda: next(clock))
    try:
        yield sampler
    finally:
        await sampler.close()
        await pipeline.close()


def client(server: RedisServer) -> redis.Redis:
    return redis.Redis.from_url(server.url)


async def test_hits_misses_evictions_and_expirations_are_counted_exactly(store: Store, own_redis: RedisServer) -> None:
    with client(own_redis) as keys:
        keys.set("a", 1)
        async with sampling(store, own_redis.url) as sampler:
            await sampler.once()
            for _ in range(30):
                keys.get("a")
            for _ in range(10):
                keys.get("nothing")
            keys.set("short", 1, px=1)
            while keys.exists("short"):
                time.sleep(0.005)
            await sampler.once()
            found = sums(store)
            looked = 1  # EXISTS of a key that is gone is a miss too, as Redis counts
            assert found["redis_keyspace_hits_total"][0] >= 30
            assert found["redis_keyspace_misses_total"][0] == 10 + looked
            assert found["redis_expired_keys_total"] == (1, 0, 0)
            assert found["redis_evicted_keys_total"] == (0, 0, 0)
            commands = dict(
                rows(
                    store,
                    """SELECT json_extract(s.labels, '$.cmd'), sum(m.increase) FROM counter_minutes m JOIN counter_series s
                       ON s.id = m.series_id WHERE s.name = 'redis_commands_total' GROUP BY s.id""",
                )
            )
            assert commands["get"] == 40
            assert topic(store, "server")["redis_mode"] == "standalone"
            assert rows(store, "SELECT kind, service, last_error FROM sources") == [("redis", own_redis.url, "")]
            gauges = dict(rows(store, "SELECT name, max(value) FROM metric_samples GROUP BY name"))
            assert gauges["redis_memory_used_bytes"] > 100_000
            assert gauges["redis_db_keys"] == 1


async def test_what_the_sampling_itself_looks_up_is_no_hit_of_anybody(store: Store, own_redis: RedisServer) -> None:
    with client(own_redis) as keys:
        for number in range(300):
            keys.set(f"shop:entry:{number}", "x")
        async with sampling(store, own_redis.url) as sampler:
            for _ in range(4):
                await sampler.once()
        raw = keys.info("stats")["keyspace_hits"]
        assert raw >= 4 * 200  # the server counted every TYPE and PTTL
        assert sums(store)["redis_keyspace_hits_total"] == (0, 0, 0)
        # A sampler that starts anew knows from the store what the last one made.
        async with sampling(store, own_redis.url) as sampler:
            await sampler.once()
            await sampler.once()
        assert sums(store).get("redis_keyspace_hits_total", (0, 0, 0)) == (0, 0, 0)


async def test_a_node_of_a_cluster_is_sampled_too(store: Store, redis_cluster: RedisCluster) -> None:
    node = redis_cluster.masters[0]
    with redis.RedisCluster.from_url(node.url) as keys:
        for number in range(200):
            keys.set(f"shop:entry:{number}", "x")
    async with sampling(store, node.url) as sampler:
        for _ in range(3):
            await sampler.once()
    assert rows(store, "SELECT last_error FROM sources") == [("",)]
    found = topic(store, "keyspace")
    assert found["whole"]
    assert 30 < found["looked_at"] == found["keys"] < 120
    assert sums(store)["redis_keyspace_hits_total"] == (0, 0, 0)


async def test_a_restart_is_a_reset_and_reset_statistics_are_an_anomaly(store: Store, own_redis: RedisServer) -> None:
    async with sampling(store, own_redis.url, keys_per_tick=0) as sampler:
        with client(own_redis) as keys:
            keys.set("a", 1)
            for _ in range(5):
                keys.get("a")
            await sampler.once()
            for _ in range(3):
                keys.get("a")
            await sampler.once()
            assert sums(store)["redis_keyspace_hits_total"] == (3, 0, 0)
            keys.config_resetstat()
            keys.get("a")
            await sampler.once()
            assert sums(store)["redis_keyspace_hits_total"] == (3, 0, 1)
        own_redis.stop()
        await sampler.once()
        assert "ConnectionError" in rows(store, "SELECT last_error FROM sources")[0][0]
        own_redis.start()
        with client(own_redis) as keys:
            keys.set("a", 1)
            for _ in range(7):
                keys.get("a")
            await sampler.once()
            assert sums(store)["redis_keyspace_hits_total"] == (10, 1, 1)


async def test_slow_commands_are_told_without_their_arguments(store: Store, redis_server: RedisServer) -> None:
    with client(redis_server) as keys:
        keys.config_set("slowlog-log-slower-than", 0)
        try:
            keys.slowlog_reset()
            keys.set("user:ann@example.com", "a secret answer")
            keys.execute_command("MSET", *[f"secret{number}" for number in range(100)])
        finally:
            keys.config_set("slowlog-log-slower-than", 1_000_000)
    async with sampling(store, redis_server.url, slowlog_entries=64) as sampler:
        await sampler.once()
    found = topic(store, "slowlog")
    told = {entry["command"]: entry for entry in found["entries"]}
    assert told["SET"]["arguments"] == 2
    assert told["MSET"]["arguments"] == 100
    assert told["SET"]["duration_us"] >= 0
    assert "secret" not in json.dumps(found)
    assert "ann" not in json.dumps(found)


def test_a_name_that_is_no_command_is_not_told() -> None:
    assert _slow([7, 1, 9, [b"my secret", b"x"]])["command"] == "(other)"
    assert _slow([7, 1, 9, [b"FT.SEARCH", b"x", b"... (5 more arguments)"]])["command"] == "FT.SEARCH"
    assert _slow([7, 1, 9, [b"FT.SEARCH", b"x", b"... (5 more arguments)"]])["arguments"] == 6
    assert _slow([7, 1, 9, []]) == {"id": 7, "at_s": 1, "duration_us": 9, "command": "(other)", "arguments": 0}


async def test_the_keyspace_is_sampled_by_shape_type_and_lifetime(store: Store, redis_server: RedisServer) -> None:
    with client(redis_server) as keys, keys.pipeline() as pipe:
        for number in range(60):
            pipe.set(f"litellm.caching:{number:0>60}beef", "x" * 100, ex=59)
            pipe.hset(f"shop:entry:{number:08x}-0000-4000-8000-000000000000", "f", "v")
        pipe.set("higress-ai-cache:what is my balance, ann?", "…", ex=7200)
        pipe.set("这是一个问题", "…")
        pipe.execute()
    async with sampling(store, redis_server.url, keys_per_tick=50) as sampler:
        for _ in range(6):
            await sampler.once()
            assert topic(store, "keyspace")["looked_at"] <= 50 * 6 + 50
    found = topic(store, "keyspace")
    assert (found["keys"], found["whole"]) == (122, True)
    groups = {(group["shape"], group["type"]): group for group in found["groups"]}
    assert groups.keys() == {
        ("litellm.caching:<hex>", "string"),
        ("shop:entry:<uuid>", "hash"),
        ("higress-ai-cache:<text>", "string"),
        ("<text>", "string"),
    }
    assert groups["litellm.caching:<hex>", "string"]["lifetimes"] == {"< 1 min": 60}
    assert groups["shop:entry:<uuid>", "hash"]["lifetimes"] == {"none": 60}
    assert groups["litellm.caching:<hex>", "string"]["size_bytes"] > 60 * 100
    assert "balance" not in json.dumps(found)


async def test_a_tick_is_bounded_on_a_large_keyspace(store: Store, redis_server: RedisServer) -> None:
    with client(redis_server) as keys:
        with keys.pipeline(transaction=False) as pipe:
            for number in range(5_000):
                pipe.set(f"k:{number}", number)
            pipe.execute()
        before = keys.info("stats")["total_commands_processed"]
        async with sampling(store, redis_server.url, keys_per_tick=100) as sampler:
            await sampler.once()
        spent = keys.info("stats")["total_commands_processed"] - before
    found = topic(store, "keyspace")
    assert 100 <= found["looked_at"] <= 200
    assert found["whole"] is False
    assert spent < 1_000  # three commands a key, and a few for each batch


async def test_what_a_user_may_not_see_is_said_and_the_rest_is_kept(store: Store, own_redis: RedisServer) -> None:
    with client(own_redis) as keys:
        keys.execute_command("ACL", "SETUSER", "watcher", "on", ">pass-word", "+info", "+ping", "+client|setname")
    url = own_redis.url.replace("redis://", "redis://watcher:pass-word@")
    async with sampling(store, url) as sampler:
        await sampler.once()
    ((service, error, accepted),) = rows(store, "SELECT service, last_error, accepted FROM sources")
    assert service == own_redis.url
    assert "the keyspace sample is hidden" in error
    assert "SLOWLOG is hidden" in error
    assert accepted > 5
    assert "pass-word" not in error
    async with sampling(store, own_redis.url.replace("redis://", "redis://watcher:wrong-one@")) as sampler:
        await sampler.once()
    ((error,),) = rows(store, "SELECT last_error FROM sources")
    assert "AuthenticationError" in error
    assert "wrong-one" not in error


async def test_the_user_that_the_documentation_makes_sees_everything(store: Store, own_redis: RedisServer) -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "telemetry.md").read_text()
    rule = re.search(r"`ACL SETUSER watcher on >… ([^`]+)`", text)
    assert rule
    with client(own_redis) as keys:
        keys.set("a", 1)
        keys.execute_command("ACL", "SETUSER", "watcher", "on", ">pass-word", *rule[1].split())
    async with sampling(store, own_redis.url.replace("redis://", "redis://watcher:pass-word@")) as sampler:
        await sampler.once()
    assert rows(store, "SELECT last_error FROM sources") == [("",)]
    assert {name for (name,) in rows(store, "SELECT topic FROM source_snapshots")} == {"server", "sampler", "slowlog", "keyspace"}


async def test_a_server_that_hangs_or_is_away_is_a_failure_in_time(store: Store, own_redis: RedisServer) -> None:
    own_redis.pause()
    try:
        async with sampling(store, own_redis.url, timeout_s=0.3, budget_ms=10) as sampler:
            await sampler.once()
    finally:
        own_redis.resume()
    assert "did not answer in time" in rows(store, "SELECT last_error FROM sources")[0][0]
    async with sampling(store, f"redis://127.0.0.1:{free_port()}/0") as sampler:
        await sampler.once()
    assert ("ConnectionError",) in [(error.rsplit(": ")[-1],) for (error,) in rows(store, "SELECT last_error FROM sources")]


async def test_the_collector_samples_its_servers(tmp_path: Path, redis_server: RedisServer) -> None:
    async with running(tmp_path, redis=(RedisTarget(redis_server.url, timeout_s=60, interval_s=0.1),)) as it:
        await until(it, "SELECT count(*) > 0 FROM counter_minutes", [(1,)])


# Shapes of names


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("litellm.caching:" + "a1" * 32, "litellm.caching:<hex>"),
        ("support_cache:entry:0b5f8c1e-1111-4222-8333-444455556666", "support_cache:entry:<uuid>"),
        ("support_cache:__stats", "support_cache:__stats"),
        ("agent_a:session:thread-7:field", "agent_a:session:<text>:<text>"),
        ("ai-cache:l1:route=r1:consumer=ann:deadbeef", "ai-cache:l1:<text>:<text>:…"),
        ("user:42", "user:<number>"),
        ("hello", "<text>"),
        ("d41d8cd98f00b204e9800998ecf8427e", "<hex>"),
        ("d41d8cd98f00b204e9800998ecf8427e:0123456789abcdef", "<hex>:<hex>"),
        ("ann@example.com:cart", "<text>:<text>"),
        ("what is my balance:5", "<text>:<number>"),
        ("", ""),
        ("a:", "a:"),
        ("{tag}:x", "{tag}:<text>"),
    ],
)
def test_shapes(key: str, expected: str) -> None:
    assert shape(key.encode()) == expected


def test_a_name_that_is_no_text_has_a_shape() -> None:
    assert shape(b"\xff\xfe\x00:\x80") == "<text>:<text>"


@pytest.mark.shared_data
def test_shapes_of_a_captured_keyspace() -> None:
    """One Redis shared by LiteLLM and BetterDB."""
    listed = json.loads((SHARED / "data" / "captured" / "keyspace" / "shared_redis_litellm_plus_betterdb.json").read_text())
    sample = Sample()
    for one in listed:
        sample.add(one["key"].encode(), one["type"], ttl_ms=one["ttl"] * 1000 if one["ttl"] >= 0 else -1, size_bytes=None)
    sample.whole()
    told = sample.told(keys=len(listed))
    assert told["looked_at"] == len(listed)
    assert {(group["shape"], group["type"]): group["keys"] for group in told["groups"]} == {
        ("litellm.caching:<hex>", "string"): 21,
        ("litellm.caching:<text>:<text>:<text>", "string"): 10,
        ("litellm.caching:<text>:<text>:<text>:…", "string"): 3,
        ("litellm.caching:<text>:<hex>:<text>:…", "string"): 2,
        ("support_cache:embed:<hex>", "string"): 21,
        ("support_cache:__stats", "hash"): 1,
        ("support_cache:__similarity_window", "zset"): 1,
        ("agent_a:llm:<hex>", "string"): 7,
        ("agent_a:session:<text>:<text>", "string"): 4,
        ("agent_a:__stats", "hash"): 1,
        ("agent_a:__tool_policies", "hash"): 1,
        ("__betterdb:caches", "hash"): 1,
    }
    assert "alice" not in json.dumps(told)


def test_groups_are_bounded_and_a_new_sample_begins_after_a_whole_walk() -> None:
    sample = Sample()
    for number in range(200):
        sample.add(f"name{chr(97 + number % 26)}{chr(97 + number // 26)}:x".encode(), "string", ttl_ms=-1, size_bytes=10)
    told = sample.told(keys=500)
    assert len(told["groups"]) == 61
    assert sum(group["keys"] for group in told["groups"]) == 200
    sample.whole()
    sample.add(b"a:x", "string", ttl_ms=5, size_bytes=None)
    assert sample.told(keys=500)["looked_at"] == 200  # the last one, while the new one is smaller
