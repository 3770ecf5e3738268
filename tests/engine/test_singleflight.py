"""One leader a key, whoever fails or leaves."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.singleflight import SingleFlight


async def _spin(rounds: int = 5) -> None:
    for _ in range(rounds):
        await asyncio.sleep(0)


async def test_followers_get_what_the_leader_publishes() -> None:
    flights = SingleFlight()
    leader = flights.join("k")
    followers = [flights.join("k") for _ in range(31)]
    assert leader.leader
    assert not any(flight.leader for flight in followers)
    tasks = [asyncio.create_task(flight.result()) for flight in followers]
    await _spin()
    assert leader.waiting == 31
    leader.publish("answer")
    assert await asyncio.gather(*tasks) == ["answer"] * 31
    assert len(flights) == 0
    assert leader.waiting == 0


async def test_a_cancelled_follower_takes_nobody_with_it() -> None:
    flights = SingleFlight()
    leader, gone, stays = (flights.join("k") for _ in range(3))
    leaving, staying = asyncio.create_task(gone.result()), asyncio.create_task(stays.result())
    await _spin()
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    leader.publish(1)
    assert await staying == 1


async def test_exactly_one_follower_takes_over_an_abandoned_flight() -> None:
    flights = SingleFlight()
    leaders: list[int] = []

    async def ask(name: int, *, fails: bool) -> object:
        while True:
            with flights.join("k") as flight:
                if not flight.leader:
                    value = await flight.result()
                    if value is not None:
                        return value
                    continue
                leaders.append(name)
                await _spin()
                if fails:
                    raise RuntimeError("the upstream died")
                flight.publish("answer")
                return "answer"

    first = asyncio.create_task(ask(0, fails=True))
    rest = [asyncio.create_task(ask(name, fails=False)) for name in range(1, 8)]
    results = await asyncio.gather(first, *rest, return_exceptions=True)
    assert isinstance(results[0], RuntimeError)
    assert results[1:] == ["answer"] * 7
    assert len(leaders) == 2


async def test_a_follower_cannot_end_the_flight_and_an_end_is_final() -> None:
    flights = SingleFlight()
    leader, follower = flights.join("k"), flights.join("k")
    follower.publish("wrong")
    follower.abandon()
    leader.publish("right")
    leader.abandon()
    assert await follower.result() == "right"
    # A new flight of this key is not the old leader's to end.
    again = flights.join("k")
    leader.abandon()
    assert again.leader
    assert not flights.join("k").leader


async def test_above_the_bound_callers_lead_alone() -> None:
    flights = SingleFlight(max_flights=1)
    first, second, third = flights.join("a"), flights.join("b"), flights.join("b")
    assert first.leader
    assert second.leader
    assert third.leader
    second.publish(1)
    assert len(flights) == 1


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(["publish", "fail", "cancel"]), st.integers(0, 4)), max_size=12))
def test_any_mix_of_failures_leaves_no_flight_and_one_leader_at_a_time(script: list[tuple[str, str, int]]) -> None:
    async def run() -> None:
        flights = SingleFlight()
        leading: dict[str, int] = {"a": 0, "b": 0}

        async def ask(key: str, end: str, rounds: int) -> object:
            while True:
                with flights.join(key) as flight:
                    if not flight.leader:
                        value = await flight.result()
                        if value is not None:
                            return value
                        continue
                    leading[key] += 1
                    assert leading[key] == 1
                    try:
                        await _spin(rounds)
                        if end == "fail":
                            raise RuntimeError
                        flight.publish(key)
                        return key
                    finally:
                        leading[key] -= 1

        tasks = [asyncio.create_task(ask(*step)) for step in script]
        for task, (_, end, rounds) in zip(tasks, script, strict=True):
            if end == "cancel":
                await _spin(rounds)
                task.cancel()
        async with asyncio.timeout(60):
            results = await asyncio.gather(*tasks, return_exceptions=True)
        assert len(flights) == 0
        for (key, end, _), result in zip(script, results, strict=True):
            assert result == key or (end != "publish" and isinstance(result, RuntimeError | asyncio.CancelledError))

    asyncio.run(run())
