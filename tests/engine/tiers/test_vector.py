"""The vector tier against brute force, over a real store."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine.errors import EmbedderMismatch, TierUnavailable
from engine.tiers import open_store
from engine.tiers.base import StoreTier
from engine.tiers.vector import PartitionedVectorTier
from tests.conformance.samples import FakeClock, entry, key_of, unit

P = "p" * 32
G = "0000000000001-0000000000000001"
LIVE = frozenset({G})


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def store(tmp_path: Path, clock: FakeClock) -> AsyncIterator[StoreTier]:
    made = open_store(f"sqlite:///{tmp_path}/cache.db", timeout_s=30, clock=clock)
    yield made
    await made.close()


def tier_of(store: StoreTier, clock: FakeClock, **changes: Any) -> PartitionedVectorTier:
    settings = {"dimension": 3, "hnsw_above": 20_000} | changes
    return PartitionedVectorTier(store, embedder_id="test/3", clock=clock, **settings)


def q(*numbers: float) -> np.ndarray:
    return np.frombuffer(unit(*numbers), dtype="<f4")


async def settled(tier: PartitionedVectorTier, timeout_s: float = 60) -> None:
    deadline = time.monotonic() + timeout_s
    while tier.building:
        assert time.monotonic() < deadline, "an index was not built in time"
        await asyncio.sleep(0.02)


async def test_a_search_sees_what_was_just_stored_nearest_first(store: StoreTier, clock: FakeClock) -> None:
    tier = tier_of(store, clock)
    assert await tier.search(P, q(1, 0, 0), k=5, live=LIVE) == []
    assert tier.partitions == 0
    await store.put(entry("far", vector=unit(-1, 0, 0)))
    await store.put(entry("near", vector=unit(1, 0.1, 0)))
    await store.put(entry("other", vector=unit(1, 0, 0), partition="q" * 32))
    found = await tier.search(P, q(2, 0, 0), k=5, live=LIVE)
    assert [near.key for near in found] == [key_of("near"), key_of("far")]
    assert found[0].similarity == pytest.approx(1 / np.sqrt(1.01), abs=1e-6)
    assert found[1].similarity == pytest.approx(-1)
    await store.put(entry("nearest"))
    assert [near.key for near in await tier.search(P, q(1, 0, 0), k=1, live=LIVE)] == [key_of("nearest")]
    await tier.close()


async def test_while_it_is_fresh_a_partition_is_asked_for_again_only_after_a_write_from_here(store: StoreTier, clock: FakeClock) -> None:
    tier = tier_of(store, clock, fresh_s=3600.0)
    await store.put(entry("first"))
    assert len(await tier.search(P, q(1, 0, 0), k=5, live=LIVE)) == 1
    await store.put(entry("another gateway's"))
    assert len(await tier.search(P, q(1, 0, 0), k=5, live=LIVE)) == 1
    tier.written("q" * 32)
    assert len(await tier.search(P, q(1, 0, 0), k=5, live=LIVE)) == 1
    tier.written(P)
    assert len(await tier.search(P, q(1, 0, 0), k=5, live=LIVE)) == 2
    await tier.close()


@pytest.mark.parametrize("count", [3, 40])
async def test_no_neighbour_is_below_the_floor(store: StoreTier, clock: FakeClock, count: int) -> None:
    tier = tier_of(store, clock)
    angles = np.linspace(0, np.pi / 2, count)
    for number, angle in enumerate(angles):
        await store.put(entry(number, vector=unit(np.cos(angle), np.sin(angle), 0)))
    found = await tier.search(P, q(1, 0, 0), k=100, live=LIVE, floor=0.9)
    assert [near.similarity for near in found] == pytest.approx([np.cos(angle) for angle in angles if np.cos(angle) >= 0.9], abs=1e-6)
    nearest = await tier.search(P, q(1, 0, 0), k=2, live=LIVE, floor=0.5)
    assert [near.key for near in nearest] == [key_of(0), key_of(1)]
    assert await tier.search(P, q(0, 0, 1), k=5, live=LIVE, floor=0.9) == []
    await tier.close()


async def test_only_live_unexpired_newest_rows_are_seen(store: StoreTier, clock: FakeClock) -> None:
    tier = tier_of(store, clock)
    await store.put(entry("old", generation="g0"))
    await store.put(entry("short", expires_ms=clock() + 5))
    await store.put(entry("twice", vector=unit(1, 0, 0)))
    assert len(await tier.search(P, q(1, 0, 0), k=9, live=LIVE)) == 2
    assert len(await tier.search(P, q(1, 0, 0), k=9, live=LIVE | {"g0"})) == 3
    assert await tier.search(P, q(1, 0, 0), k=9, live=frozenset()) == []
    again = entry("twice", vector=unit(0, 1, 0))
    await store.put(again)
    clock.now_ms += 5
    [only] = await tier.search(P, q(1, 0, 0), k=9, live=LIVE)
    assert (only.key, only.entry_id) == (again.key, again.entry_id)
    assert only.similarity == pytest.approx(0)
    await tier.close()


async def test_foreign_and_broken_vectors_are_ignored_and_counted(store: StoreTier, clock: FakeClock) -> None:
    tier = tier_of(store, clock)
    await store.put(entry("a", embedder="other/3"))
    await store.put(entry("b", vector=unit(1, 2)))
    await store.put(entry("c", vector=np.array([np.nan, 0, 0], dtype="<f4").tobytes()))
    await store.put(entry("d", vector=np.zeros(3, dtype="<f4").tobytes()))
    await store.put(entry("e", vector=np.array([3, 0, 0], dtype="<f4").tobytes()))
    [only] = await tier.search(P, q(1, 0, 0), k=9, live=LIVE)
    assert only.key == key_of("e")
    assert only.similarity == pytest.approx(1)
    assert tier.counts == {"ignored_embedder": 1, "ignored_dimension": 1, "ignored_value": 2}
    for bad in (np.zeros(3), np.ones(4), np.array([np.inf, 0, 0])):
        with pytest.raises(EmbedderMismatch):
            await tier.search(P, bad.astype(np.float32), k=1, live=LIVE)
    await tier.close()


async def test_partitions_are_bounded_in_bytes(store: StoreTier, clock: FakeClock) -> None:
    tier = tier_of(store, clock, max_bytes=9_000)
    for number in range(8):
        await store.put(entry(number, partition=f"{number:032x}"))
        assert await tier.search(f"{number:032x}", q(1, 0, 0), k=1, live=LIVE)
        assert tier.bytes <= 9_000
    assert tier.counts["dropped"] > 0
    assert await tier.search(f"{0:032x}", q(1, 0, 0), k=1, live=LIVE)  # read again
    await tier.close()
    assert tier.bytes == 0


@pytest.mark.parametrize("hnsw_above", [20_000, 40])
async def test_a_partition_that_alone_is_too_large_lets_its_oldest_go_and_sees_what_is_new(
    store: StoreTier, clock: FakeClock, hnsw_above: int
) -> None:
    tier = tier_of(store, clock, max_bytes=60_000, hnsw_above=hnsw_above)
    for number in range(300):
        await store.put(entry(number, vector=unit(1, number / 300, 0)))
        if number % 20 == 0:
            [newest] = await tier.search(P, q(1, number / 300, 0), k=1, live=LIVE)
            assert newest.key == key_of(number)
            await settled(tier)
    assert tier.bytes <= 60_000
    assert tier.counts["truncated"] > 100
    found = await tier.search(P, q(1, 1, 0), k=300, live=LIVE)
    assert {near.key for near in found} == {key_of(number) for number in range(300 - len(found), 300)}
    assert await tier.search(P, q(1, 0.5, 0), k=300, live=LIVE | {"another"})
    assert not tier.counts["rebuilt"]
    await tier.close()


async def test_a_vector_whose_entry_is_gone_is_not_found_again_but_a_newer_one_of_its_key_is(store: StoreTier, clock: FakeClock) -> None:
    tier = tier_of(store, clock)
    await store.put(entry("a"))
    await store.put(entry("b"))
    [first, second] = await tier.search(P, q(1, 0, 0), k=2, live=LIVE)
    tier.gone(P, [first])
    assert await tier.search(P, q(1, 0, 0), k=2, live=LIVE) == [second]
    await store.put(entry("a", vector=unit(1, 0.1, 0)))
    tier.gone(P, [first])
    assert {near.key for near in await tier.search(P, q(1, 0, 0), k=2, live=LIVE)} == {key_of("a"), key_of("b")}
    tier.gone(P, [first])
    tier.gone("q" * 32, [second])
    assert len(await tier.search(P, q(1, 0, 0), k=2, live=LIVE)) == 2
    await tier.close()


async def test_an_undone_purge_brings_back_rows_that_were_let_go(store: StoreTier, clock: FakeClock) -> None:
    tier = tier_of(store, clock)
    for number in range(400):
        await store.put(entry(number))
    assert len(await tier.search(P, q(1, 0, 0), k=500, live=LIVE)) == 400
    assert await tier.search(P, q(1, 0, 0), k=500, live=frozenset({"g2"})) == []
    assert len(await tier.search(P, q(1, 0, 0), k=500, live=LIVE | {"g2"})) == 400
    assert tier.counts["rebuilt"] == 1
    await tier.close()


async def test_a_store_made_anew_is_read_from_its_start(store: StoreTier, clock: FakeClock, tmp_path: Path) -> None:
    tier = tier_of(store, clock)
    await store.put(entry("lost"))
    await tier.search(P, q(1, 0, 0), k=9, live=LIVE)
    tier._held[P].rows.cursor += 10**9  # as after a far longer life of the lost store
    await store.put(entry("new"))
    found = await tier.search(P, q(1, 0, 0), k=9, live=LIVE)
    assert {near.key for near in found} == {key_of("lost"), key_of("new")}
    assert tier.counts["rebuilt"] == 1
    await tier.close()


async def test_a_store_that_does_not_answer_is_told(store: StoreTier, clock: FakeClock) -> None:
    tier = tier_of(store, clock)
    await store.close()
    with pytest.raises(TierUnavailable):
        await tier.search(P, q(1, 0, 0), k=1, live=LIVE)
    await tier.close()


async def test_flat_and_indexed_answers_follow_writes_and_purges(store: StoreTier, clock: FakeClock) -> None:
    rng = np.random.default_rng(3)
    tier = tier_of(store, clock, dimension=8, hnsw_above=200)
    vectors: dict[str, np.ndarray] = {}
    for round_ in range(6):
        for number in range(150):
            vector = rng.standard_normal(8).astype(np.float32)
            vector /= np.linalg.norm(vector)
            made = entry((round_ % 4, number), vector=vector.tobytes())
            vectors[made.key] = vector
            await store.put(made)
        for _ in range(10):
            query = rng.standard_normal(8).astype(np.float32)
            found = await tier.search(P, query, k=5, live=LIVE)
            query /= np.linalg.norm(query)
            best = sorted(vectors, key=lambda key: -float(vectors[key] @ query))[:5]
            assert [near.key for near in found] == best
        await settled(tier)
    assert tier.counts["built"] >= 2
    assert tier.counts["build_failed"] == 0
    assert await tier.search(P, query, k=5, live=frozenset({"g2"})) == []
    assert len(await tier.search(P, query, k=5, live=LIVE)) == 5
    await tier.close()


@pytest.mark.slow
async def test_recall_of_the_index_on_25000_vectors(store: StoreTier, clock: FakeClock) -> None:
    rng = np.random.default_rng(5)
    centres = rng.standard_normal((400, 32)).astype(np.float32)
    vectors = centres[rng.integers(0, 400, 25_000)] + 0.5 * rng.standard_normal((25_000, 32)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    keys = []
    for number, vector in enumerate(vectors):
        made = entry(number, vector=vector.tobytes(), body=b"")
        keys.append(made.key)
        await store.put(made)
    tier = tier_of(store, clock, dimension=32)
    await tier.search(P, vectors[0], k=1, live=LIVE)
    await settled(tier)
    await tier.search(P, vectors[0], k=1, live=LIVE)
    await settled(tier)
    assert tier.counts["built"] == 1
    queries = vectors[:200] + 0.1 * rng.standard_normal((200, 32)).astype(np.float32)
    right = 0
    for query in queries:
        [near] = await tier.search(P, query, k=1, live=LIVE)
        right += near.key == keys[int(np.argmax(vectors @ query))]
    assert right >= 196, f"recall@1 {right / 200}"
    assert tier.counts["flat_fallback"] == 0
    await tier.close()
