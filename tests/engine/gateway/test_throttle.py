"""While hits have stopped, upstream calls queue for a place; none is refused."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from engine.gateway.throttle import HALF_LIFE_S, HEADROOM, Throttle
from tests.support.polling import eventually


class World:
    def __init__(self, *, least: int = 3, wait_s: float = 60.0) -> None:
        self.engaged = False
        self.waits: list[bool] = []
        self.leave = asyncio.Event()
        self.throttle = Throttle(lambda: self.engaged, waited=self.waits.append, least=least, wait_s=wait_s)

    async def call(self) -> None:
        async with self.throttle.place():
            await self.leave.wait()

    async def begin(self, count: int) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(self.call()) for _ in range(count)]
        await asyncio.sleep(0)
        return tasks


async def test_without_an_outage_nothing_waits_and_the_peak_is_remembered() -> None:
    world = World()
    tasks = await world.begin(10)
    assert (world.throttle.in_flight, world.throttle.waiting) == (10, 0)
    assert int(HEADROOM * 10) - 1 <= world.throttle.limit <= HEADROOM * 10
    world.leave.set()
    await asyncio.gather(*tasks)
    assert world.throttle.in_flight == 0


async def test_in_an_outage_the_rest_wait_for_a_place_in_their_order() -> None:
    world = World()
    world.engaged = True
    done: list[int] = []
    gates = [asyncio.Event() for _ in range(9)]

    async def call(number: int) -> None:
        async with world.throttle.place():
            done.append(number)
            await gates[number].wait()

    tasks = [asyncio.create_task(call(number)) for number in range(9)]
    await asyncio.sleep(0)
    assert (done, world.throttle.waiting) == ([0, 1, 2], 6)
    gates[1].set()
    await eventually(lambda: done == [0, 1, 2, 3], what="the next one goes")
    tasks[4].cancel()  # its client left while it waited
    gates[0].set()
    await eventually(lambda: done == [0, 1, 2, 3, 5], what="the one after it goes")
    world.engaged = False
    gates[2].set()
    await eventually(lambda: len(done) == 8, what="hits are back: nobody waits any more")
    for gate in gates:
        gate.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert (world.throttle.in_flight, world.throttle.waiting, set(world.waits)) == (0, 0, {True})


async def test_one_that_waited_long_enough_goes_all_the_same() -> None:
    world = World(wait_s=0.01)
    world.engaged = True
    tasks = await world.begin(5)
    await eventually(lambda: world.throttle.in_flight == 5, what="all five are on their way")
    assert world.waits == [False, False]
    world.leave.set()
    await asyncio.gather(*tasks)


async def test_the_peak_fades_while_hits_come_and_not_in_an_outage() -> None:
    now = [1_000.0]
    world = World()
    throttle = Throttle(lambda: world.engaged, waited=world.waits.append, least=1, clock=lambda: now[0])
    async with AsyncExitStack() as stack:
        for _ in range(16):
            await stack.enter_async_context(throttle.place())
    now[0] += HALF_LIFE_S
    assert throttle.limit == HEADROOM * 8
    world.engaged = True
    for _ in range(3):
        assert throttle.limit == HEADROOM * 8, "what is not learned is not forgotten"
        now[0] += 10 * HALF_LIFE_S
    world.engaged = False
    assert throttle.limit == HEADROOM * 8
    now[0] += HALF_LIFE_S
    assert throttle.limit == HEADROOM * 4


async def test_a_herd_waits_for_places_though_hits_come_and_others_do_not() -> None:
    world = World()

    async def one_of_many() -> None:
        async with world.throttle.place(in_a_herd=True):
            await world.leave.wait()

    herd = [asyncio.create_task(one_of_many()) for _ in range(8)]
    await asyncio.sleep(0)
    assert (world.throttle.in_flight, world.throttle.waiting) == (3, 5)
    others = await world.begin(2)
    assert (world.throttle.in_flight, world.throttle.waiting) == (5, 5)
    world.leave.set()
    await asyncio.gather(*herd, *others)
    assert (world.throttle.in_flight, world.throttle.waiting, set(world.waits)) == (0, 0, {True})
