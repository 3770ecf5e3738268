"""Every store against a dict: any sequence of calls gives what a plain model gives."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from engine.tiers import open_store
from engine.tiers.base import StoreTier, Tier
from engine.tiers.memory import MemoryTier
from engine.types import Entry
from tests.conformance.samples import FakeClock, entry, key_of, unit
from tests.support.servers import RedisCluster, RedisServer

T = TypeVar("T")

NAMES = st.sampled_from("abcdef")
NAMESPACES = st.sampled_from(["faq", "f*", "a[1]*?\\", "\0", "😀"])
PARTITIONS = st.sampled_from(["p" * 32, "q" * 32])
VECTORS = st.sampled_from([b"", unit(1, 0, 0), unit(0, 1, 0)])
CONTROL_KEYS = st.sampled_from(["policy:faq", "policy:f*", "generations:faq", "gateway:1", "key:%"])
QUICK = settings(max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)


class TierMachine(RuleBasedStateMachine):
    """Set `make` before running: the tier under test, emptied."""

    make: Callable[[FakeClock], Tier]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = FakeClock()
        self.tier = type(self).make(self.clock)
        self.entries: dict[str, Entry] = {}
        self.count = 0

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        self.run(self.tier.close())
        self.loop.close()

    def living(self) -> dict[str, Entry]:
        return {key: held for key, held in self.entries.items() if held.expires_ms > self.clock()}

    @rule(name=NAMES, namespace=NAMESPACES, partition=PARTITIONS, vector=VECTORS, ttl=st.integers(0, 2_000))
    def put(self, name: str, namespace: str, partition: str, vector: bytes, ttl: int) -> None:
        self.count += 1
        made = entry(
            name,
            namespace=namespace,
            partition=partition,
            vector=vector,
            body=b"%d" % self.count,
            expires_ms=self.clock() + 100_000 * ttl,
        )
        self.run(self.tier.put(made))
        self.entries.pop(made.key, None)  # put again: last in order
        self.entries[made.key] = made

    @rule(names=st.lists(NAMES, max_size=4))
    def delete(self, names: list[str]) -> None:
        keys = [key_of(name) for name in names]
        assert self.run(self.tier.delete(keys)) == len(set(keys) & self.living().keys())
        for key in keys:
            self.entries.pop(key, None)

    @rule(step=st.integers(1, 500))
    def time_passes(self, step: int) -> None:
        self.clock.now_ms += 100_000 * step

    @rule(name=NAMES)
    def get(self, name: str) -> None:
        assert self.run(self.tier.get(key_of(name))) == self.living().get(key_of(name))


class StoreMachine(TierMachine):
    def __init__(self) -> None:
        super().__init__()
        self.control: dict[str, tuple[str, int]] = {}
        self.token = self.run(self.store.control_token())

    @property
    def store(self) -> StoreTier:
        return self.tier  # type: ignore[return-value]

    @rule(namespace=NAMESPACES, limit=st.integers(1, 4))
    def scan(self, namespace: str, limit: int) -> None:
        found, cursor = self.run(self.store.scan(namespace, "", limit))
        keys = [head.key for head in found]
        while cursor:
            found, cursor = self.run(self.store.scan(namespace, cursor, limit))
            keys += [head.key for head in found]
        assert keys == [key for key, held in self.living().items() if held.namespace == namespace]

    @rule(partition=PARTITIONS, limit=st.integers(1, 4))
    def vectors(self, partition: str, limit: int) -> None:
        keys: list[str] = []
        cursor = 0
        while True:
            rows, after = self.run(self.store.vectors_since(partition, cursor, limit))
            keys += [row.key for row in rows]
            if after == cursor:
                break
            cursor = after
        assert keys == [key for key, held in self.living().items() if held.partition == partition and held.vector]

    @rule(key=CONTROL_KEYS, expected=st.sampled_from([None, 0, 1, 2]))
    def control_put(self, key: str, expected: int | None) -> None:
        version = self.control.get(key, ("", 0))[1]
        self.count += 1
        doc = self.run(self.store.control_put(key, str(self.count), expected=expected))
        if expected is not None and expected != version:
            assert doc is None
            return
        assert doc is not None
        assert doc.version == version + 1
        self.control[key] = (str(self.count), version + 1)
        self.token_changed(key)

    @precondition(lambda self: self.control)
    @rule(key=CONTROL_KEYS)
    def control_delete(self, key: str) -> None:
        there = self.control.pop(key, None)
        assert self.run(self.store.control_delete(key)) == (there is not None)
        if there:
            self.token_changed(key)

    def token_changed(self, key: str) -> None:
        if not key.startswith("gateway:"):
            token = self.run(self.store.control_token())
            assert token != self.token
            self.token = token

    @invariant()
    def control_is_the_models(self) -> None:
        assert {doc.key: (doc.value, doc.version) for doc in self.run(self.store.control_all())} == self.control
        assert self.run(self.store.control_token()) == self.token


def machine(base: type[TierMachine], make: Callable[[FakeClock], Tier]) -> type[TierMachine]:
    return type("Machine", (base,), {"make": staticmethod(make)})


def test_memory_is_a_dict() -> None:
    run_state_machine_as_test(machine(TierMachine, lambda clock: MemoryTier(10_000_000, clock=clock)), settings=QUICK)  # type: ignore[no-untyped-call]


def test_sqlite_is_a_dict(tmp_path: Path) -> None:
    def make(clock: FakeClock) -> Tier:
        folder = tempfile.mkdtemp(dir=tmp_path)
        return open_store(f"sqlite:///{folder}/cache.db", timeout_s=20, clock=clock)

    run_state_machine_as_test(machine(StoreMachine, make), settings=QUICK)  # type: ignore[no-untyped-call]


@pytest.mark.redis
def test_a_cluster_is_a_dict(redis_cluster: RedisCluster) -> None:
    def make(clock: FakeClock) -> Tier:
        redis_cluster.empty()
        return open_store(redis_cluster.url, timeout_s=20, clock=clock)

    few = settings(QUICK, max_examples=8)
    run_state_machine_as_test(machine(StoreMachine, make), settings=few)  # type: ignore[no-untyped-call]


@pytest.mark.redis
def test_redis_is_a_dict(redis_server: RedisServer) -> None:
    import redis

    def make(clock: FakeClock) -> Tier:
        client = redis.Redis.from_url(redis_server.url)
        client.flushall()
        client.close()
        return open_store(redis_server.url, timeout_s=20, clock=clock)

    run_state_machine_as_test(machine(StoreMachine, make), settings=QUICK)  # type: ignore[no-untyped-call]
