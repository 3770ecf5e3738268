"""What every tier does, whatever it is made of."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.tiers.base import Tier
from engine.tiers.null import NullTier
from engine.types import Usage
from tests.conformance.samples import ODD_NAMESPACES, FakeClock, entry, key_of, unit


async def test_an_unknown_key_is_a_miss(tier: Tier) -> None:
    assert await tier.get(key_of("nobody")) is None


async def test_an_entry_comes_back_as_it_was_put(tier: Tier) -> None:
    put = entry(prompt="¿Qué? 常见\0😀\udc00", tenant="\ud800", body=bytes(range(256)) * 10, vector=unit(1, 2, 3))
    await tier.put(put)
    assert await tier.get(put.key) == put


@pytest.mark.parametrize("usage", [Usage(), Usage(0, 0, 0, 0.0), Usage(2**40, None, 3, 1e-9)])
async def test_absent_usage_is_not_zero_usage(tier: Tier, usage: Usage) -> None:
    await tier.put(entry(usage=usage, vector=b"", embedder="", prompt="", parse=""))
    found = await tier.get(key_of(0))
    assert found is not None
    assert found.usage == usage


@pytest.mark.parametrize("namespace", ODD_NAMESPACES)
async def test_any_text_may_be_a_namespace(tier: Tier, namespace: str) -> None:
    await tier.put(entry(namespace=namespace))
    found = await tier.get(key_of(0))
    assert found is not None
    assert found.namespace == namespace


async def test_a_key_put_again_is_replaced(tier: Tier) -> None:
    await tier.put(entry(body=b"old"))
    await tier.put(entry(body=b"new"))
    found = await tier.get(key_of(0))
    assert found is not None
    assert found.body == b"new"


async def test_an_expired_entry_is_a_miss_from_its_very_millisecond(tier: Tier, clock: FakeClock) -> None:
    put = entry(expires_ms=clock() + 1000)
    await tier.put(put)
    clock.now_ms += 999
    assert await tier.get(put.key) is not None
    clock.now_ms += 1
    assert await tier.get(put.key) is None


async def test_an_entry_put_too_late_is_never_seen_and_ends_the_older_one(tier: Tier, clock: FakeClock) -> None:
    await tier.put(entry(body=b"old"))
    await tier.put(entry(body=b"late", expires_ms=clock()))
    assert await tier.get(key_of(0)) is None


async def test_an_expiry_far_away_is_kept(tier: Tier) -> None:
    await tier.put(entry(expires_ms=2**62))
    assert await tier.get(key_of(0)) is not None


async def test_delete_counts_what_was_there(tier: Tier, clock: FakeClock) -> None:
    await tier.put(entry("a"))
    await tier.put(entry("b"))
    await tier.put(entry("gone", expires_ms=clock() + 1))
    clock.now_ms += 1
    assert await tier.delete([key_of("a"), key_of("a"), key_of("nobody"), key_of("gone")]) == 1
    assert await tier.delete([]) == 0
    assert await tier.get(key_of("a")) is None
    assert await tier.get(key_of("b")) is not None


async def test_many_keys_are_deleted_in_one_call(tier: Tier) -> None:
    for number in range(1_203):
        await tier.put(entry(number))
    assert await tier.delete(key_of(number) for number in range(1_203)) == 1_203


async def test_nonsense_usage_does_not_break_the_store(tier: Tier) -> None:
    await tier.put(replace(entry(), usage=Usage(10**30, -(10**30), 1, float("nan")), upstream_ms=float("inf")))
    found = await tier.get(key_of(0))
    assert found is not None
    assert found.usage.cached_input_tokens == 1


async def test_the_null_tier_forgets_everything() -> None:
    tier = NullTier()
    await tier.put(entry())
    assert await tier.get(key_of(0)) is None
    assert await tier.delete([key_of(0)]) == 0
    await tier.close()
