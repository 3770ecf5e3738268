"""Faults that were reported in public against other caches, put to this one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import redis

from engine.control import Control
from engine.tiers import open_store
from engine.types import Outcome, Purpose
from tests.conformance.samples import FakeClock, entry
from tests.engine.rig import chat, rig
from tests.support.servers import RedisServer

KEYSPACE = Path(__file__).parents[1] / "golden" / "keyspace" / "shared_redis.json"


def _fill(client: Any) -> dict[bytes, bytes | None]:
    """Put another system's keys into Redis; return every key with its serialised value."""
    for row in json.loads(KEYSPACE.read_text()):
        match row["type"]:
            case "string":
                client.set(row["key"], row["value"], ex=row["ttl"] if row["ttl"] > 0 else None)
            case "hash":
                client.hset(row["key"], "field", "value")
            case kind:
                assert kind == "zset"
                client.zadd(row["key"], {"member": 1.0})
    return {key: client.dump(key) for key in client.scan_iter()}


@pytest.mark.redis
@pytest.mark.parametrize("namespace", ["litellm.caching", "a[1]*?\\", "*", "agent_a"])
async def test_a_purge_on_a_shared_redis_touches_no_other_key(redis_server: RedisServer, namespace: str) -> None:
    """CERT-Polska/Artemis#3137: a flush of one cache took queues, locks and other caches with it."""
    with redis.Redis.from_url(redis_server.url) as client:
        foreign = _fill(client)
        clock = FakeClock()
        store = open_store(redis_server.url, timeout_s=30, clock=clock)
        try:
            control = Control(store, clock=clock)
            mine = [entry(number, namespace=namespace) for number in range(5)]
            near = entry(9, namespace="a1x")
            for one in (*mine, near):
                await store.put(one)
            assert await store.get(mine[0].key) is not None
            purge = await control.purge(namespace, operation_id="op")
            while (await control.reclaim(purge.id))[1]:
                pass
            assert [await store.get(one.key) for one in mine] == [None] * 5
            assert await store.get(near.key) is not None
        finally:
            await store.close()
        assert {key: client.dump(key) for key in foreign} == foreign


async def test_a_popular_answer_dies_at_its_ttl(tmp_path: Path) -> None:
    """redis/redis-vl-python#603: each hit lengthened a life, so that a popular stale answer never died."""
    async with rig(tmp_path, semantic=False) as it:
        await it.cache.control.set_policy("faq", {"ttl_s": 60})
        stored = ages = 0
        for _ in range(120):  # an hour, asked every 30 s
            found = await it.ask("What is the refund policy?")
            if found.entry is not None:
                ages = max(ages, it.clock.now_ms - found.entry.created_ms)
            else:
                stored += await it.keep(found)
            it.clock.now_ms += 30_000
        assert 0 < ages <= 66_000  # since the store; the TTL is spread by a tenth
        assert stored >= 40


async def test_a_warm_up_of_a_thousand_lines_writes_each_prompt_once_and_spreads_their_ends(tmp_path: Path) -> None:
    """zio/zio-cache#40: preloaded entries shared one TTL and expired together."""
    async with rig(tmp_path, semantic=False) as it:
        written = []
        for _ in range(2):
            before = len(written)
            for line in range(1_000):
                found = await it.ask(chat(f"question {line % 300}"), purpose=Purpose.WARMUP)
                if found.outcome is Outcome.MISS and await it.keep(found):
                    kept = await it.store.get(found.key)
                    assert kept is not None
                    written.append(kept.expires_ms - kept.created_ms)
            assert len(written) - before == (0 if before else 300)
        assert (max(written) - min(written)) / max(written) >= 0.1
