"""A copy in memory has no vector, and nothing is poorer for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine.copies import Copies, hashed
from engine.tiers.memory import MemoryTier
from engine.types import Outcome
from tests.conformance.samples import FakeClock, entry
from tests.engine.rig import rig

PROMPT, PARAPHRASE = "How do I reset my password?", "How do I reset my passwords?"


async def test_a_copy_holds_its_vectors_simhash_in_the_vectors_place_and_is_counted_so() -> None:
    clock = FakeClock()
    tier = MemoryTier(1_000_000, clock=clock)
    copies = Copies(tier, ttl_s=60, clock=clock)
    given = entry(1, expires_ms=clock() + 1_000)
    await copies.put(given)
    held = await copies.get(given.key)  # type: ignore[arg-type]
    assert given.vector
    assert held == replace(given, vector=b"", simhash=hashed(given).simhash)
    assert held.comparable
    assert tier.bytes == held.size_bytes == given.size_bytes - len(given.vector)
    exact = entry(2, vector=b"", embedder="", expires_ms=clock() + 1_000)
    await copies.put(exact)
    assert await copies.get(exact.key) is exact  # type: ignore[arg-type]
    assert not exact.comparable


async def test_a_semantic_hit_is_served_from_a_copy_as_from_the_store(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        taught = await it.teach(PROMPT)
        assert [held.vector for held, _ in it.memory._entries.values()] == [b""]
        from_memory = await it.ask(PARAPHRASE)
        await it.memory.delete([taught.key])
        from_store = await it.ask(PARAPHRASE)
        assert from_memory.outcome is from_store.outcome is Outcome.SEMANTIC_HIT
        assert from_memory.candidate == from_store.candidate


async def test_a_copy_that_was_held_out_is_stored_again_with_the_stores_vector_and_found_by_it(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        taught = await it.teach(PROMPT)
        await it.cache.control.set_policy("faq", {"holdout_ratio": 1.0})
        held = await it.ask(PROMPT)
        assert (held.held_out, held.vector, held.simhash) == (True, taught.vector, taught.simhash)
        assert await it.keep(held, "Another answer.")
        await it.cache.control.set_policy("faq", {"holdout_ratio": 0.0})
        hit = await it.ask(PARAPHRASE)
        assert (hit.outcome, hit.entry and hit.entry.entry_id) == (Outcome.SEMANTIC_HIT, held.stored_entry_id)


async def test_a_held_out_copy_whose_vector_cannot_be_read_is_not_stored_over_the_comparable_entry(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        await it.teach(PROMPT)
        await it.cache.control.set_policy("faq", {"holdout_ratio": 1.0})
        await it.store.close()
        held = await it.ask(PROMPT)
        assert (held.held_out, held.storable, held.store_reason) == (True, False, "tier_fault")
        assert not await it.keep(held)
        assert held.store_reason == "tier_fault"


async def test_a_vector_of_another_embedder_is_not_stored_again_as_this_ones(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        taught = await it.teach(PROMPT)
        await it.cache.control.set_policy("faq", {"holdout_ratio": 1.0})
        it.embedder.id = "trigram/2/256"
        held = await it.ask(PROMPT)
        assert held.held_out
        assert held.vector == b"" != taught.vector
        assert await it.keep(held)
        stored = await it.store.get(taught.key)
        assert stored is not None
        assert (stored.vector, stored.embedder) == (b"", "")
