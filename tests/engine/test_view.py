"""The view follows the store, or says that it cannot."""

from __future__ import annotations

from pathlib import Path

from engine.records import GENERATIONS, KEY, POLICY
from engine.types import Generations, Policy, Switch
from engine.view import ControlView
from tests.engine.rig import rig
from tests.support.polling import eventually


async def test_unknown_namespaces_have_the_defaults_and_see_nothing(tmp_path: Path) -> None:
    async with rig(tmp_path, ttl_s=77.0) as it:
        space = it.cache.view.space("never seen")
        assert (space.policy, space.generations) == (Policy(ttl_s=77.0), Generations())


async def test_the_age_counts_from_the_start_of_the_last_read(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        now = [0.0]

        def monotonic() -> float:
            now[0] += 0.25
            return now[0]

        view = ControlView(
            it.store, poll_s=0.25, max_age_s=1.0, defaults=Policy(), faults=lambda tier, operation: None, monotonic=monotonic
        )
        assert not view.usable()
        assert not view.loaded
        assert await view.poll()
        assert view.loaded
        assert view.age_s == 0.5  # the read itself took a quarter, and it began before that
        assert view.usable()
        now[0] = 10.0
        assert not view.usable()


async def test_a_store_that_fails_leaves_the_last_view_and_its_age(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        await it.cache.control.set_policy("faq", {"threshold": 0.5})
        await it.store.close()
        assert not await it.cache.view.poll()
        assert it.faults[("control", "read")] == 1
        assert it.cache.view.space("faq").policy.threshold == 0.5
        it.monotonic[0] += 1.01
        assert not it.cache.view.usable()


async def test_records_that_cannot_be_read_serve_nothing(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        await it.teach("hi")
        await it.store.control_put(f"{POLICY}docs", '{"switch": "sideways"}')
        await it.store.control_put(f"{GENERATIONS}faq", "[]")
        await it.store.control_put(f"{KEY}k1", "{}")
        await it.store.control_put("something:else", "from a later version")
        assert await it.cache.view.poll()
        view = it.cache.view
        assert view.space("docs").policy.switch is Switch.OFF
        assert view.space("faq").generations == Generations()
        assert view.keys["k1"].revoked_ms is not None  # a key that nobody holds keeps authentication on
        assert it.faults[("control", "decode")] == 2
        assert not (await it.ask("hi")).hit


async def test_the_poll_brings_another_gateways_act(tmp_path: Path) -> None:
    async with rig(tmp_path, control_poll_s=0.02) as one, rig(tmp_path) as two:
        await one.cache.start()
        await two.teach("hi")
        await eventually(lambda: one.cache.view.space("faq").generations.write != "", what="the new generation is seen")
        assert (await one.ask("hi")).hit
        purge = await two.cache.control.purge("faq", operation_id="p1")
        await eventually(lambda: one.cache.view.space("faq").generations.live == {purge.new}, what="the purge is seen")
        assert one.cache.view.token == await one.store.control_token()
        assert not (await one.ask("hi")).hit
