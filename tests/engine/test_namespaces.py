"""Namespaces: how many may be on record, whatever names clients send, and what a policy of their own overrides."""

from __future__ import annotations

import asyncio
from pathlib import Path

from engine.types import Outcome
from tests.engine.rig import rig


async def test_a_namespace_too_many_is_a_bypass_and_those_on_record_go_on(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False, max_namespaces=2) as it:
        await it.teach("q", namespace="one")
        await it.cache.control.set_policy("two", {"ttl_s": 60})
        refused = await it.ask("q", namespace="three")
        assert (refused.outcome, refused.reason) == (Outcome.BYPASS, "too_many_namespaces")
        assert not await it.keep(refused)
        assert refused.store_reason == "bypass"
        assert (await it.ask("q", namespace="one")).hit
        await it.teach("q", namespace="two")
        assert await it.store.namespaces() == ["one", "two"]
        # An operator's word counts for more than the bound.
        await it.cache.control.set_policy("three", {"ttl_s": 60})
        await it.teach("q", namespace="three")


async def test_many_new_namespaces_at_once_do_not_exceed_the_bound(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False, max_namespaces=3) as it:
        lookups = [await it.ask("q", namespace=f"new {number}") for number in range(12)]
        assert {lookup.outcome for lookup in lookups} == {Outcome.MISS}
        kept = await asyncio.gather(*(it.keep(lookup) for lookup in lookups))
        assert sum(kept) == 3
        assert {lookup.store_reason for lookup in lookups if not lookup.stored} == {"too_many_namespaces"}
        assert len(await it.store.control_all("generations:")) == len(await it.store.namespaces()) == 3


async def test_a_policy_of_its_own_overrides_the_installations_holdout_down_to_none(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False, holdout_ratio=1.0) as it:
        await it.teach("How do I reset my password?")
        assert it.cache.view.space("faq").policy.holdout_ratio is None
        assert (await it.ask("How do I reset my password?")).held_out
        await it.cache.control.set_policy("faq", {"holdout_ratio": 0})
        assert (await it.ask("How do I reset my password?")).hit
        await it.cache.control.set_policy("faq", {"holdout_ratio": None})
        assert (await it.ask("How do I reset my password?")).held_out
