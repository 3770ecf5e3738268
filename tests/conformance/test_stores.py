"""What SQLite and Redis do beyond a tier: vectors, scans, control records, several processes at once."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.tiers import open_store
from engine.tiers.base import StoreTier
from engine.types import EntryHead
from tests.conformance.conftest import STORES
from tests.conformance.samples import ODD_NAMESPACES, FakeClock, entry, key_of, unit

PARTITION = "p" * 32


async def scan_all(store: StoreTier, namespace: str, limit: int = 7) -> list[EntryHead]:
    heads: list[EntryHead] = []
    cursor = ""
    while True:
        found, cursor = await store.scan(namespace, cursor, limit)
        heads += found
        if not cursor:
            return heads


async def vectors_all(store: StoreTier, partition: str, cursor: int = 0, limit: int = 5) -> tuple[list[str], int]:
    keys: list[str] = []
    while True:
        rows, after = await store.vectors_since(partition, cursor, limit)
        keys += [row.key for row in rows]
        if after == cursor:
            return keys, cursor
        assert after > cursor
        cursor = after


async def test_two_connections_see_each_others_writes_at_once(open_another: Callable[[], StoreTier]) -> None:
    one, two = open_another(), open_another()
    for number in range(20):
        await one.put(entry(number))
        assert await two.get(key_of(number)) is not None
        await two.delete([key_of(number)])
        assert await one.get(key_of(number)) is None


async def test_vectors_since_gives_each_stored_vector_once_in_order(store: StoreTier) -> None:
    for number in range(23):
        await store.put(entry(number, vector=unit(1, number, 0)))
    keys, cursor = await vectors_all(store, PARTITION)
    assert keys == [key_of(number) for number in range(23)]
    assert await store.vectors_since(PARTITION, cursor, 5) == ([], cursor)
    await store.put(entry(23))
    rows, after = await store.vectors_since(PARTITION, cursor, 5)
    assert [row.key for row in rows] == [key_of(23)]
    assert after > cursor


async def test_a_key_stored_again_appears_again_after_its_older_row(store: StoreTier) -> None:
    for name in "abc":
        await store.put(entry(name))
    _, cursor = await vectors_all(store, PARTITION)
    await store.put(entry("a", vector=unit(0, 1, 0), generation="g2"))
    rows, _ = await store.vectors_since(PARTITION, cursor, 10)
    assert [(row.key, row.vector, row.generation, row.embedder) for row in rows] == [(key_of("a"), unit(0, 1, 0), "g2", "test/3")]
    assert (await vectors_all(store, PARTITION))[0] == [key_of("b"), key_of("c"), key_of("a")]


async def test_entries_without_a_vector_and_of_other_partitions_do_not_appear(store: StoreTier, clock: FakeClock) -> None:
    await store.put(entry("a", vector=b"", embedder=""))
    await store.put(entry("b", partition="q" * 32))
    await store.put(entry("c"))
    await store.put(entry("c", vector=b"", embedder=""))
    await store.put(entry("d", expires_ms=clock() + 5))
    await store.put(entry("e"))
    await store.delete([key_of("e")])
    await store.put(entry("e", vector=b"", embedder=""))
    clock.now_ms += 5
    assert (await vectors_all(store, PARTITION))[0] == []
    assert (await vectors_all(store, "q" * 32))[0] == [key_of("b")]


async def test_a_cursor_from_ahead_of_the_store_starts_anew(store: StoreTier) -> None:
    await store.put(entry())
    rows, cursor = await store.vectors_since(PARTITION, 2**53 - 1, 10)
    assert (rows, cursor) == ([], 0)


async def test_cursors_are_not_reused_after_a_delete(store: StoreTier) -> None:
    await store.put(entry("a"))
    _, first = await vectors_all(store, PARTITION)
    await store.delete([key_of("a")])
    await store.put(entry("b"))
    rows, second = await store.vectors_since(PARTITION, first, 10)
    assert [row.key for row in rows] == [key_of("b")]
    assert second > first


async def test_a_scan_sees_exactly_its_namespace(store: StoreTier, clock: FakeClock) -> None:
    for number, namespace in enumerate(ODD_NAMESPACES):
        for copy in range(3):
            await store.put(entry((number, copy), namespace=namespace))
        await store.put(entry((number, "expired"), namespace=namespace, expires_ms=clock() + 1))
    clock.now_ms += 1
    for number, namespace in enumerate(ODD_NAMESPACES):
        heads = await scan_all(store, namespace, limit=2)
        assert sorted(head.key for head in heads) == sorted(key_of((number, copy)) for copy in range(3))
        assert {head.namespace for head in heads} == {namespace}
    assert await scan_all(store, "a1") == []
    assert await store.namespaces() == sorted(ODD_NAMESPACES)


async def test_a_head_tells_what_its_entry_is(store: StoreTier) -> None:
    put = entry(prompt="常见", body=b"x" * 1000)
    await store.put(put)
    [head] = await scan_all(store, "faq")
    assert head == EntryHead(
        entry_id=put.entry_id,
        key=put.key,
        partition=put.partition,
        namespace=put.namespace,
        tenant=put.tenant,
        model=put.model,
        generation=put.generation,
        created_ms=put.created_ms,
        expires_ms=put.expires_ms,
        size_bytes=put.size_bytes,
        cost_usd=0.25,
        prompt="常见",
    )


async def test_a_scan_during_writes_and_deletes_sees_all_that_stayed(store: StoreTier) -> None:
    rng = random.Random(7)
    for number in range(200):
        await store.put(entry(number))
    seen: set[str] = set()
    cursor, turn = "", 0
    while True:
        heads, cursor = await store.scan("faq", cursor, 10)
        seen |= {head.key for head in heads}
        turn += 1
        await store.put(entry(("new", turn)))
        await store.put(entry(rng.randrange(0, 200, 2), body=b"again"))
        await store.delete([key_of(rng.randrange(1, 200, 2))])
        if not cursor or turn > 500:
            break
    assert turn <= 500, "a scan ends although entries are stored meanwhile"
    assert {key_of(number) for number in range(0, 200, 2)} <= seen


async def test_deleting_what_a_scan_found_empties_the_namespace(store: StoreTier) -> None:
    for number in range(50):
        await store.put(entry(number))
    await store.put(entry("other", namespace="other"))
    heads = await scan_all(store, "faq")
    assert await store.delete(head.key for head in heads) == 50
    assert await scan_all(store, "faq") == []
    assert await store.namespaces() == ["other"]


async def test_deleting_an_entry_spares_what_was_stored_anew_under_its_key(store: StoreTier, clock: FakeClock) -> None:
    old, other, gone = entry("a", body=b"old"), entry("b"), entry("c", expires_ms=clock() + 50_000)
    for held in (old, other, gone):
        await store.put(held)
    new = entry("a", body=b"new")
    await store.put(new)
    assert new.entry_id != old.entry_id
    assert await store.delete_entries({old.key: old.entry_id, other.key: other.entry_id, key_of("nobody"): "0" * 32}) == 1
    assert await store.get(new.key) == new
    assert await store.get(other.key) is None
    assert await store.delete_entries({new.key: "", gone.key: gone.entry_id[:-1]}) == 0
    assert {head.entry_id for head in (await store.scan("faq", "", 10))[0]} == {new.entry_id, gone.entry_id}
    clock.now_ms += 50_000
    assert await store.delete_entries({new.key: new.entry_id, gone.key: gone.entry_id}) == 1
    assert await store.get(new.key) is None
    assert await store.delete_entries({}) == 0


async def test_a_namespace_with_a_record_is_known_without_entries(store: StoreTier) -> None:
    await store.control_put("policy:a[1]*?\\", "{}")
    await store.control_put("generations:b\0", "{}")
    await store.control_put("key:k", "{}")
    assert await store.namespaces() == ["a[1]*?\\", "b\0"]
    await store.control_delete("policy:a[1]*?\\")
    assert await store.namespaces() == ["a[1]*?\\", "b\0"]


async def test_control_records_are_versioned_and_compared(store: StoreTier) -> None:
    made = await store.control_put("policy:faq", '{"a":1}', expected=0)
    assert made is not None
    assert made.version == 1
    assert await store.control_put("policy:faq", "{}", expected=0) is None
    assert await store.control_put("policy:faq", "{}", expected=2) is None
    second = await store.control_put("policy:faq", '{"a":":2"}', expected=1)
    third = await store.control_put("policy:faq", '{"a":":3"}')
    assert second is not None
    assert third is not None
    assert (second.version, third.version) == (2, 3)
    assert await store.control_all() == [third]
    assert await store.control_delete("policy:faq")
    assert not await store.control_delete("policy:faq")
    assert await store.control_all() == []


async def test_control_all_takes_the_prefix_literally(store: StoreTier) -> None:
    for namespace in ODD_NAMESPACES:
        await store.control_put(f"policy:{namespace}", repr(namespace))
    await store.control_put("policies:x", "no")
    await store.control_put("Policy:x", "no")
    assert {doc.key for doc in await store.control_all("policy:")} == {f"policy:{name}" for name in ODD_NAMESPACES}
    assert {doc.key for doc in await store.control_all("policy:a[")} == {"policy:a[1]*?\\"}
    assert [doc.key for doc in await store.control_all("policy:faq\0")] == ["policy:faq\0x"]
    assert [doc.key for doc in await store.control_all("policy:%")] == ["policy:%"]
    assert {doc.key for doc in await store.control_all("policy:😀")} == {"policy:😀 常见"}
    assert len(await store.control_all()) == len(ODD_NAMESPACES) + 2


async def test_the_token_moves_with_every_change_but_heartbeats(open_another: Callable[[], StoreTier]) -> None:
    one, two = open_another(), open_another()
    seen = [await one.control_token()]
    assert await two.control_token() == seen[0]
    await one.control_put("policy:faq", "{}")
    seen.append(await two.control_token())
    await two.control_put("key:k", "{}")
    seen.append(await one.control_token())
    await one.control_delete("key:k")
    seen.append(await two.control_token())
    assert len(set(seen)) == 4
    await one.control_put("gateway:g", "{}")
    await one.control_put("policy:faq", "{}", expected=9)
    await one.control_delete("key:k")
    await one.control_delete("gateway:g")
    await one.put(entry())
    assert await two.control_token() == seen[-1]


def _count_up(url: str, times: int) -> int:
    """Add one `times` times, each by compare-and-set; return how often another was faster."""

    async def run() -> int:
        store = open_store(url, timeout_s=30)
        lost = 0
        try:
            done = 0
            while done < times:
                docs = await store.control_all("policy:count")
                version, value = (docs[0].version, int(docs[0].value)) if docs else (0, 0)
                if await store.control_put("policy:count", str(value + 1), expected=version):
                    done += 1
                else:
                    lost += 1
        finally:
            await store.close()
        return lost

    return asyncio.run(run())


def _claim(url: str) -> bool:
    async def run() -> bool:
        store = open_store(url, timeout_s=30)
        try:
            return await store.control_put("purge:one", "{}", expected=0) is not None
        finally:
            await store.close()

    return asyncio.run(run())


def test_of_many_threads_that_set_the_same_version_one_wins(store_url: str) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(_claim, [store_url] * 8)) == 1


# Not on the cluster: the record is one key there, and the script is the same.
@pytest.mark.parametrize("store_url", STORES[:2], indirect=True)
def test_no_compare_and_set_of_several_processes_is_lost(store_url: str) -> None:
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        pool.starmap(_count_up, [(store_url, 30)] * 3)

    async def total() -> str:
        store = open_store(store_url, timeout_s=30)
        try:
            [doc] = await store.control_all("policy:count")
            assert doc.version == 90
            return doc.value
        finally:
            await store.close()

    assert asyncio.run(total()) == "90"


async def test_ping_returns_when_the_store_answers(store: StoreTier) -> None:
    await store.ping()


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "mysql://user:hidden@host/x",
        "redis://host:port",
        "redis+cluster://u:hidden@host:port",
        "cache.db",
        "",
    ],
)
def test_a_url_that_cannot_work_is_refused_without_its_password(url: str) -> None:
    from engine.errors import InvalidSetting

    with pytest.raises(InvalidSetting) as caught:
        open_store(url, timeout_s=1)
    assert "hidden" not in str(caught.value)


async def test_a_scan_for_expired_entries_shows_the_living_too(store: StoreTier) -> None:
    await store.put(entry(1))
    heads, _ = await store.scan(entry(1).namespace, "", 10, expired=True)
    assert [head.key for head in heads] == [key_of(1)]
