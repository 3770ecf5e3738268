"""Leases, single control records and the push of their changes, on every store."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable

import pytest

from engine.leases import Leases
from engine.tiers.base import StoreTier
from engine.types import LeaseState
from tests.support.polling import eventually

MINE, HELD, DONE, VOID, FREE = LeaseState.MINE, LeaseState.HELD, LeaseState.DONE, LeaseState.VOID, LeaseState.FREE


async def test_one_owner_holds_a_lease_and_what_it_leaves_is_told(open_another: Callable[[], StoreTier]) -> None:
    one, two = open_another(), open_another()
    assert await one.lease("k", "a", 60_000) is MINE
    assert await two.lease("k", "b", 60_000) is HELD
    assert await one.lease("k", "a", 60_000) is MINE
    assert await two.lease("other", "b", 60_000) is MINE
    await two.lease_end("k", "b", FREE, 0)
    assert await two.lease("k", "b", 60_000) is HELD, "nobody ends another's lease"
    for left in (DONE, VOID):
        await one.lease(left, "a", 60_000)
        await one.lease_end(left, "a", left, 60_000)
        assert await two.lease(left, "b", 60_000) is left
        assert await one.lease(left, "a", 60_000) is left
    await one.lease_end("k", "a", FREE, 0)
    assert await two.lease("k", "b", 60_000) is MINE


async def test_a_lease_that_is_not_renewed_runs_out(store: StoreTier, clock: Callable[[], int]) -> None:
    assert await store.lease("k\0\ud800", "a", 30) is MINE
    deadline = time.monotonic() + 60
    while await store.lease("k\0\ud800", "b", 30) is not MINE:
        clock.now_ms += 10  # type: ignore[attr-defined]  # SQLite's time; Redis has its own
        assert time.monotonic() < deadline
        await asyncio.sleep(0.005)


async def test_only_one_of_many_gets_it(open_another: Callable[[], StoreTier]) -> None:
    stores = [open_another() for _ in range(3)]
    states = await asyncio.gather(
        *(store.lease("k", f"{number}:{turn}", 60_000) for turn in range(10) for number, store in enumerate(stores))
    )
    assert Counter(states) == {MINE: 1, HELD: 29}


async def test_a_control_record_is_read_by_its_exact_key(store: StoreTier) -> None:
    assert await store.control_get("policy:faq") is None
    made = await store.control_put("policy:faq", '{"a":":1"}')
    await store.control_put("policy:faq\0x", "{}")
    assert await store.control_get("policy:faq") == made
    assert await store.control_get("policy:fa") is None
    await store.control_delete("policy:faq")
    assert await store.control_get("policy:faq") is None


async def test_waiting_for_a_change_ends_in_time(store: StoreTier) -> None:
    async with asyncio.timeout(60):
        await store.control_changed(0.01)


@pytest.mark.parametrize("store_url", [pytest.param(name, marks=pytest.mark.redis) for name in ("redis", "redis_cluster")], indirect=True)
async def test_a_change_is_pushed(open_another: Callable[[], StoreTier]) -> None:
    one, two = open_another(), open_another()
    await one.control_token()
    heard: list[bool] = []

    async def listen() -> None:
        while True:
            begun = time.monotonic()
            await one.control_changed(600)
            heard.append(time.monotonic() - begun < 60)

    listener = asyncio.create_task(listen())
    await eventually(lambda: heard == [True], what="it listens: what was said before is not known")
    await two.control_put("gateway:g", "{}")
    await two.control_put("policy:faq", "{}")
    await eventually(lambda: len(heard) == 2, what="the change is heard, and no heartbeat")
    await two.control_delete("policy:faq")
    await eventually(lambda: len(heard) == 3, what="the removal is heard")
    listener.cancel()
    await asyncio.gather(listener, return_exceptions=True)


class Gateways:
    """Several owners of leases on one store, and what each made or got."""

    def __init__(self, open_another: Callable[[], StoreTier]) -> None:
        self.stored: list[str] = []
        self.faults: Counter[tuple[str, str]] = Counter()
        self._open = open_another

    def gateway(self, name: str, lease_ms: int = 60_000) -> Leases:
        return Leases(self._open(), owner=name, faults=lambda tier, operation: self.faults.update([(tier, operation)]), lease_ms=lease_ms)

    async def found(self) -> str | None:
        return self.stored[-1] if self.stored else None


@pytest.fixture
def world(open_another: Callable[[], StoreTier], monkeypatch: pytest.MonkeyPatch) -> Gateways:
    monkeypatch.setattr("engine.leases.DONE_MS", 60_000)  # a machine that stands still for seconds must not forget an end
    return Gateways(open_another)


async def test_the_second_waits_and_gets_what_the_first_made(world: Gateways) -> None:
    one, two, three = (world.gateway(name) for name in "abc")
    assert await one.lead("k", world.found, give_up_s=60) is None
    waiting = [asyncio.create_task(other.lead("k", world.found, give_up_s=60)) for other in (two, three)]
    await asyncio.sleep(0)
    world.stored.append("answer")
    one.end("k", done=True)
    assert await asyncio.gather(*waiting) == ["answer", "answer"]
    late = world.gateway("late")
    assert await late.lead("k", world.found, give_up_s=60) == "answer", "one that missed before it was stored and comes after"
    for gateway in (one, two, three, late):
        await gateway.close()
    assert not world.faults


@pytest.mark.parametrize("done", [False, None])
async def test_when_nothing_came_of_it_the_others_work_themselves(world: Gateways, done: bool | None) -> None:
    one, two = world.gateway("a"), world.gateway("b")
    assert await one.lead("k", world.found, give_up_s=60) is None
    waiting = asyncio.create_task(two.lead("k", world.found, give_up_s=60))
    await asyncio.sleep(0)
    one.end("k", done=done)
    assert await waiting is None
    await one.close()
    await two.close()


async def test_a_dead_holder_is_found_out_and_a_living_one_is_not(world: Gateways, clock: Callable[[], int]) -> None:
    """The holder renews while it lives; without that another takes over when the lease has run out."""
    one, two = world.gateway("a", lease_ms=150), world.gateway("b", lease_ms=150)
    assert await one.lead("k", world.found, give_up_s=60) is None
    waiting = asyncio.create_task(two.lead("k", world.found, give_up_s=60))
    begun = time.monotonic()

    def tick() -> bool:
        clock.now_ms += 10  # type: ignore[attr-defined]
        return time.monotonic() - begun > 0.5

    assert one._renewing
    one._renewing.cancel()  # the process is gone
    await eventually(lambda: tick() and waiting.done(), what="the other takes over")
    assert await waiting is None
    assert await world.gateway("c").lead("k", world.found, give_up_s=0) is None, "it does not wait for ever for one that lives"
    await two.close()


async def test_a_store_that_is_gone_holds_nobody(world: Gateways, open_another: Callable[[], StoreTier]) -> None:
    store = open_another()
    leases = Leases(store, owner="a", faults=lambda tier, operation: world.faults.update([(tier, operation)]))
    await store.close()
    if type(store).__name__ == "SqliteTier":
        assert await leases.lead("k", world.found, give_up_s=60) is None
        assert world.faults == {("store", "lease"): 1}
    await leases.close()
