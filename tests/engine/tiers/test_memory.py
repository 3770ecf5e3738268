"""Bounds and causes of the memory tier."""

from __future__ import annotations

import pytest

from engine.errors import InvalidSetting
from engine.eviction import POLICIES
from engine.tiers.memory import MemoryTier
from engine.types import RemovalCause
from tests.conformance.samples import FakeClock, entry, key_of


async def test_every_removal_is_reported_with_its_cause() -> None:
    clock = FakeClock()
    gone: list[tuple[str, RemovalCause]] = []
    size = entry("a").size_bytes
    tier = MemoryTier(3 * size, lambda left, cause: gone.append((left.key, cause)), clock=clock, eviction="lru")
    for name in "abc":
        await tier.put(entry(name))
    await tier.get(key_of("a"))
    await tier.put(entry("d"))  # b is the least recently used
    await tier.put(entry("d"))
    await tier.delete([key_of("c")])
    await tier.put(entry("e", expires_ms=clock() + 1))
    clock.now_ms += 1
    await tier.get(key_of("e"))
    await tier.put(entry("huge", body=b"x" * (4 * size)))
    assert gone == [
        (key_of("b"), RemovalCause.SIZE),
        (key_of("d"), RemovalCause.REPLACED),
        (key_of("c"), RemovalCause.EXPLICIT),
        (key_of("e"), RemovalCause.EXPIRED),
        (key_of("huge"), RemovalCause.SIZE),
    ]
    assert sum(tier.removals.values()) == 5
    assert (len(tier), tier.bytes) == (2, 2 * size)


@pytest.mark.parametrize("eviction", POLICIES)
async def test_bytes_stay_within_the_bound_and_expired_entries_leave_first(eviction: str) -> None:
    clock = FakeClock()
    tier = MemoryTier(20_000, clock=clock, eviction=eviction)
    for number in range(2_000):
        await tier.put(entry(number % 300, body=b"x" * (number % 700), expires_ms=clock() + 1 + number % 7))
        clock.now_ms += number % 3 == 0
        assert tier.bytes <= 20_000
        assert len(tier._due) <= 2 * len(tier) + 66
    assert tier.removals[RemovalCause.EXPIRED] > 0
    await tier.close()
    assert tier.bytes == 0


async def test_a_copy_read_anew_keeps_its_standing() -> None:
    size = entry("a").size_bytes
    tier = MemoryTier(3 * size, clock=FakeClock(), eviction="lfu")
    for name in "aabc":
        await tier.put(entry(name))  # `a` twice: replaced, and so used
    await tier.put(entry("d"))
    assert await tier.get(key_of("a")) is not None
    assert tier.removals == {RemovalCause.REPLACED: 1, RemovalCause.SIZE: 1}


async def test_one_that_grew_makes_room_for_itself() -> None:
    size = entry("a").size_bytes
    tier = MemoryTier(3 * size, clock=FakeClock(), eviction="lru")
    for name in "abc":
        await tier.put(entry(name))
    await tier.put(entry("a", body=b"x" * (size + 14)))
    assert await tier.get(key_of("a")) is not None
    assert tier.bytes <= tier.max_bytes


def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="s3-fifo"):
        MemoryTier(1, clock=FakeClock(), eviction="random")
