"""When a breaker opens, what it lets through then, and how it closes again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.breaker import Breaker, BreakerSettings, State, wilson_lower
from engine.errors import TierUnavailable
from engine.tiers import open_store
from engine.tiers.guarded import GuardedStore
from tests.conformance.samples import entry, key_of

QUICK = BreakerSettings()


class World:
    """A breaker whose time moves when told to."""

    def __init__(self, seed: int = 1) -> None:
        self.now = 1_000.0
        self.states: list[State] = []
        self.denied = 0
        self.breaker = Breaker(QUICK, changed=self.states.append, denied=self._deny, clock=lambda: self.now, rng=random.Random(seed))

    def _deny(self) -> None:
        self.denied += 1

    def run(self, *results: bool) -> None:
        for good in results:
            assert self.breaker.allow()
            self.breaker.succeeded() if good else self.breaker.failed()

    def until_probe(self) -> float:
        """Move on until a probe is allowed; return the seconds that it took."""
        begun = self.now
        while not self.breaker.allow():
            self.now += 0.01
            assert self.now - begun < 60
        return self.now - begun


def test_wilson_s_lower_bound() -> None:
    assert wilson_lower(0, 0) == 0.0
    # 5 of 10, one-sided 95 %: the closed form gives 0.2693.
    assert wilson_lower(5, 10) == pytest.approx(0.2693, abs=2e-4)
    assert wilson_lower(10, 10) == pytest.approx(0.787, abs=1e-3)


def test_few_failures_open_nothing_a_run_of_them_does() -> None:
    world = World()
    world.run(*[True] * 100, False, False, True, False, False, True)
    assert world.breaker.state is State.CLOSED
    world.run(False, False, False)
    assert world.breaker.state is State.OPEN
    assert not world.breaker.allow()
    assert (world.breaker.refused, world.denied, world.breaker.opened) == (1, 1, 1)


def test_a_share_of_failures_beyond_chance_opens_it_and_old_ones_do_not_count() -> None:
    world = World()
    world.run(*[False, False, True] * 3)
    assert world.breaker.state is State.CLOSED, "two of three may be chance in nine calls"
    world.now += QUICK.window_s + 1
    world.run(*[False, False, True] * 3)
    assert world.breaker.state is State.CLOSED, "the first nine are forgotten"
    with pytest.raises(AssertionError):
        world.run(*[False, False, True] * 20)
    assert world.breaker.state is State.OPEN


def test_one_probe_at_a_time_and_two_good_ones_close_it() -> None:
    world = World()
    world.run(False, False, False)
    world.until_probe()
    assert world.breaker.state is State.HALF_OPEN
    assert not world.breaker.allow(), "a second call waits for what the probe finds"
    world.breaker.succeeded()
    assert world.breaker.state is State.HALF_OPEN
    assert world.breaker.allow()
    world.breaker.dropped()
    world.run(True)
    assert world.breaker.state is State.CLOSED
    assert world.states == [State.OPEN, State.HALF_OPEN, State.CLOSED]


def test_pauses_double_are_jittered_bounded_and_begin_anew_after_a_good_while() -> None:
    pauses: list[list[float]] = []
    for seed in range(20):
        world = World(seed)
        world.run(False, False, False)
        found = [world.until_probe()]
        for _ in range(8):
            world.breaker.failed()
            found.append(world.until_probe())
        pauses.append(found)
    for step, expected in enumerate((0.25, 0.5, 1.0, 2.0, 4.0, 5.0, 5.0, 5.0, 5.0)):
        waited = [found[step] for found in pauses]
        assert expected * 0.5 - 0.02 <= min(waited) < max(waited) <= expected * 1.5 + 0.02
        assert len({round(wait, 2) for wait in waited}) > 5, "gateways on one store do not probe together"
    world.breaker.succeeded()
    world.run(True)
    world.run(False, False, False)
    assert world.until_probe() > 2, "it flaps: the pause stays long"
    world.breaker.succeeded()
    world.run(True)
    world.now += QUICK.window_s + 1
    world.run(False, False, False)
    assert world.until_probe() < 0.4


async def test_a_call_is_judged_by_its_end_and_its_time() -> None:
    world = World()
    breaker, refusal = world.breaker, TierUnavailable("refused")

    async def ask(work: Callable[[], object]) -> object:
        async def run() -> object:
            return work()

        return await breaker.call(run, refusal=refusal, failures=TierUnavailable, slow_s=0.2)

    def fail() -> object:
        raise TierUnavailable("down")

    def slow() -> object:
        world.now += 0.3
        return "late"

    assert await ask(lambda: "ok") == "ok"
    with pytest.raises(ZeroDivisionError):
        await ask(lambda: 1 / 0)  # a bug of the caller's tells nothing of the dependency
    with pytest.raises(TierUnavailable, match="down"):
        await ask(fail)
    assert await ask(slow) == "late"
    assert await ask(slow) == "late"
    with pytest.raises(TierUnavailable, match="refused"):
        await ask(lambda: "ok")


async def test_a_call_aside_opens_it_and_closes_nothing() -> None:
    world, refusal = World(), TierUnavailable("refused")

    async def aside(*, good: bool) -> None:
        async def run() -> None:
            if not good:
                raise TierUnavailable("down")

        await world.breaker.call_aside(run, refusal=refusal, failures=TierUnavailable, slow_s=1)

    for _ in range(2):
        world.run(False)
        await aside(good=True)
    with pytest.raises(TierUnavailable, match="down"):
        await aside(good=False)
    assert world.breaker.state is State.OPEN
    world.until_probe()
    world.breaker.dropped()
    with pytest.raises(TierUnavailable, match="refused"):
        await aside(good=True)
    assert world.breaker.state is State.HALF_OPEN
    world.run(True, True)
    await aside(good=True)
    assert world.breaker.state is State.CLOSED


async def test_a_cancelled_probe_makes_place_for_the_next() -> None:
    world = World()
    world.run(False, False, False)
    world.now += 10
    never = asyncio.Event()
    probe = asyncio.create_task(world.breaker.call(never.wait, refusal=TierUnavailable("refused"), failures=TierUnavailable, slow_s=1))
    await asyncio.sleep(0)
    assert not world.breaker.allow()
    probe.cancel()
    await asyncio.gather(probe, return_exceptions=True)
    assert world.breaker.allow()


async def test_a_store_that_refuses_writes_still_serves_reads_and_acts(tmp_path: Path) -> None:
    inner = open_store(f"sqlite:///{tmp_path / 'cache.db'}", timeout_s=0.05)
    read, write = Breaker(), Breaker()
    store = GuardedStore(inner, read=read, write=write, slow_s=5)
    await store.put(entry(expires_ms=2**60))
    other = open_store(f"sqlite:///{tmp_path / 'cache.db'}", timeout_s=0.05)
    blocker = other._connection  # type: ignore[attr-defined]
    blocker.execute("BEGIN IMMEDIATE")
    for _ in range(6):
        with pytest.raises(TierUnavailable):
            await store.put(entry("new", expires_ms=2**60))
    assert (write.state, write.refused > 0, read.state) == (State.OPEN, True, State.CLOSED)
    assert await store.get(key_of(0)) is not None
    blocker.execute("COMMIT")
    assert await store.control_put("policy:faq", "{}") is not None, "an operator's act is not refused"
    assert await store.delete([key_of(0)]) == 1
    await store.close()
    await other.close()
