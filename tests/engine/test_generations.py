"""What a purge hides: generations, in one gateway and between two."""

from __future__ import annotations

import asyncio
from pathlib import Path

from engine.records import GENERATIONS
from tests.engine.rig import rig

PARAPHRASE = "How do I reset my passwords?"


async def test_a_purge_hides_what_was_written_before_it_and_what_is_in_flight(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        await it.teach("How do I reset my password?")
        flying = await it.ask("Where is my invoice?")
        await it.cache.control.purge("faq", operation_id="p1")
        for text in ("How do I reset my password?", PARAPHRASE):
            assert not (await it.ask(text)).hit
        assert not await it.keep(flying)
        assert flying.store_reason == "purged_meanwhile"
        assert not (await it.ask("Where is my invoice?")).hit


async def test_a_purge_elsewhere_hides_what_this_gateway_stores_before_it_knows(tmp_path: Path) -> None:
    async with rig(tmp_path) as one, rig(tmp_path) as two:
        await one.teach("How do I reset my password?")
        flying = await one.ask("Where is my invoice?")
        await two.cache.control.purge("faq", operation_id="p1")
        assert await one.keep(flying)  # written, under a generation that is no longer live
        await one.cache.view.poll()
        assert not (await one.ask("Where is my invoice?")).hit
        assert not (await two.ask("Where is my invoice?")).hit
        assert not (await one.ask("How do I reset my password?")).hit


async def test_an_answer_asked_for_before_the_first_purge_of_an_unrecorded_namespace_stays_out(tmp_path: Path) -> None:
    async with rig(tmp_path) as one, rig(tmp_path) as two:
        flying, unseen = await one.ask("Where is my invoice?"), await two.ask("Where is my invoice?")
        await one.cache.control.purge("faq", operation_id="p1")
        assert not await one.keep(flying)
        assert not await two.keep(unseen)  # its view does not know of the purge: the compare-and-set tells
        assert unseen.store_reason == "purged_meanwhile"


async def test_concurrent_first_stores_share_one_generation(tmp_path: Path) -> None:
    async with rig(tmp_path) as one, rig(tmp_path) as two:
        lookups = [(it, await it.ask(f"q{n}")) for n in range(8) for it in (one, two)]
        assert all(await asyncio.gather(*(it.keep(lookup) for it, lookup in lookups)))
        assert len(await one.store.control_all(GENERATIONS)) == 1
        assert all([(await two.ask(f"q{n}")).hit for n in range(8)])


async def test_a_lost_generation_serves_nothing_old(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        await it.teach("How do I reset my password?")
        await it.store.control_delete(f"{GENERATIONS}faq")
        await it.cache.view.poll()
        assert not (await it.ask("How do I reset my password?")).hit
        await it.teach("Where is my invoice?")
        assert not (await it.ask("How do I reset my password?")).hit
        assert not (await it.ask(PARAPHRASE)).hit
        assert (await it.ask("Where is my invoice?")).hit


# Holdout
