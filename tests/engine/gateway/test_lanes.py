"""Each model at the upstream has its own breaker and bound; while hits have stopped, one bound is over all that work."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from engine.breaker import Breaker, State
from engine.gateway.lanes import Lanes
from tests.support.polling import eventually


class World:
    def __init__(self, *, most: int = 64, wait_s: float = 3_600.0) -> None:
        self.stopped = False
        self.waits: list[bool] = []
        self.leave = asyncio.Event()
        self.under_way: list[str] = []
        self.lanes = Lanes(Breaker, hits_stopped=lambda: self.stopped, waited=self.waits.append, most=most, least=2, wait_s=wait_s)

    def fail(self, model: str) -> None:
        for _ in range(3):
            self.lanes.of(model).breaker.failed()

    async def begin(self, model: str, count: int, *, in_a_herd: bool = False) -> list[asyncio.Task[None]]:
        async def call() -> None:
            async with self.lanes.place(model, in_a_herd=in_a_herd):
                self.under_way.append(model)
                await self.leave.wait()

        tasks = [asyncio.create_task(call()) for _ in range(count)]
        await asyncio.sleep(0)
        return tasks

    async def end(self, *tasks: asyncio.Task[None]) -> None:
        self.leave.set()
        async with asyncio.timeout(60):
            await asyncio.gather(*tasks)


async def test_a_model_that_fails_waits_for_itself_alone_whether_hits_come_or_not() -> None:
    for stopped in (False, True):
        world = World()
        world.stopped = stopped
        world.fail("bad")
        bad = await world.begin("bad", 5)
        assert world.lanes.of("bad").throttle.waiting == 3
        good = await world.begin("good", 2)
        assert world.under_way == ["bad", "bad", "good", "good"]
        assert (world.lanes.may_answer("bad"), world.lanes.may_answer("good"), world.lanes.may_answer("new")) == (False, True, True)
        await world.end(*bad, *good)


async def test_while_hits_have_stopped_one_bound_is_over_all_models() -> None:
    world = World()
    world.stopped = True
    calls = [*await world.begin("a", 2), *await world.begin("b", 2), *await world.begin("c", 1, in_a_herd=True)]
    assert world.under_way == ["a", "a"]
    await world.end(*calls)
    assert world.waits == [True] * 3
    assert world.lanes.of("b").throttle.limit == 2, "calls of an outage are no measure of what is usual"


async def test_a_herd_waits_for_its_own_model() -> None:
    world = World()
    herds = [*await world.begin("a", 4, in_a_herd=True), *await world.begin("b", 3, in_a_herd=True), *await world.begin("a", 1)]
    assert world.under_way == ["a", "a", "b", "b", "a"]
    await world.end(*herds)


async def test_a_call_waits_once_however_many_bounds_there_are() -> None:
    world = World(wait_s=0.01)
    world.fail("bad")
    bad = await world.begin("bad", 3)
    world.lanes.of("bad").breaker.state = State.CLOSED
    world.stopped = True
    others = await world.begin("good", 2)
    await eventually(lambda: world.under_way.count("bad") == 3, what="the third goes, once it has waited for its own model")
    assert world.waits == [False]
    await world.end(*bad, *others)


async def test_the_models_are_bounded_and_those_that_fail_or_work_are_forgotten_last() -> None:
    world = World(most=3)
    world.fail("bad")
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(world.lanes.place("busy"))
        for number in range(50):
            world.lanes.of(f"invented {number}")
        assert len(world.lanes) == 3
        assert list(world.lanes.failing) == ["bad"]
        assert world.lanes.of("busy").throttle.in_flight == 1
    assert (world.lanes.state, world.lanes.opened) == (State.OPEN, 1)
    for number in range(3):
        world.fail(f"also bad {number}")
    assert (len(world.lanes), world.lanes.opened, "bad" in world.lanes.failing) == (3, 4, False)
    assert world.lanes.of("x" * 1_000) is world.lanes.of("x" * 2_000), "a name costs a bounded number of bytes"
