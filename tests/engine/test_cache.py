"""Exact, semantic, miss; what is stored; what a purge in between hides; a fault is a miss."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import InvalidRequest
from engine.types import Outcome, Purpose, RemovalCause
from tests.engine.rig import answer, chat, rig

PARAPHRASE = "How do I reset my passwords?"


async def test_the_same_request_is_an_exact_hit_from_memory_then_from_the_store(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        miss = await it.teach("How do I reset my password?")
        assert (miss.outcome, miss.stored) == (Outcome.MISS, True)
        hit = await it.ask("How do I reset my password?")
        assert (hit.outcome, hit.tier, hit.entry and hit.entry.entry_id) == (Outcome.EXACT_HIT, "memory", miss.stored_entry_id)
        await it.memory.delete([hit.key])
        again = await it.ask("How do I reset my password?")
        assert again.tier == "store"
        assert (await it.ask("How do I reset my password?")).tier == "memory"
        assert again.simhash == miss.simhash != ""


async def test_a_paraphrase_is_a_semantic_hit_and_another_number_is_not(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        await it.teach("How do I reset my password?")
        hit = await it.ask(PARAPHRASE)
        assert (hit.outcome, hit.tier) == (Outcome.SEMANTIC_HIT, "vector")
        assert hit.candidate is not None
        assert hit.candidate.passed
        assert hit.threshold is not None
        assert hit.candidate.similarity >= hit.threshold
        await it.teach("Can I keep 3 backups of my files?")
        near = await it.ask("Can I keep 4 backups of my files?")
        assert near.outcome is Outcome.MISS
        assert near.candidate is not None
        assert not near.candidate.passed
        assert any(verdict.veto for verdict in near.candidate.verdicts)
        assert near.candidate.similarity > near.threshold  # type: ignore[operator]


async def test_a_candidate_below_the_threshold_is_recorded_on_the_miss(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        await it.cache.control.set_policy("faq", {"threshold": 0.999})
        await it.teach("How do I reset my password?")
        miss = await it.ask(PARAPHRASE)
        assert miss.outcome is Outcome.MISS
        assert miss.candidate is not None
        assert miss.candidate.passed
        assert miss.threshold == 0.999
        assert [step.name for step in miss.steps] == ["canonicalise", "exact", "embed", "parse", "search", "verify"]


@pytest.mark.parametrize(
    "changes",
    [{"namespace": "docs"}, {"tenant": "globex"}, {"model_version": "v2"}],
)
async def test_another_scope_is_a_miss(tmp_path: Path, changes: dict[str, str]) -> None:
    async with rig(tmp_path) as it:
        await it.teach("How do I reset my password?")
        for text in ("How do I reset my password?", PARAPHRASE):
            other = await it.ask(text, **changes)
            assert (other.outcome, other.candidate) == (Outcome.MISS, None)


@pytest.mark.parametrize("fields", [{"system": "Be brief."}, {"temperature": 0}, {"tools": [{"type": "function"}]}, {"model": "gpt-other"}])
async def test_another_request_around_the_prompt_is_a_miss(tmp_path: Path, fields: dict[str, Any]) -> None:
    async with rig(tmp_path) as it:
        await it.teach("How do I reset my password?")
        assert (await it.ask(chat("How do I reset my password?", **fields))).outcome is Outcome.MISS
        assert (await it.ask(chat(PARAPHRASE, **fields))).candidate is None


# Switches and directives


async def test_switch_off_is_a_bypass_and_exact_only_skips_the_semantic_lookup(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        await it.teach("How do I reset my password?")
        await it.cache.control.set_policy("faq", {"switch": "exact-only"})
        assert (await it.ask("How do I reset my password?")).outcome is Outcome.EXACT_HIT
        skipped = await it.ask(PARAPHRASE)
        assert (skipped.outcome, skipped.semantic_skipped) == (Outcome.MISS, "exact_only")
        await it.cache.control.set_policy("faq", {"switch": "off"})
        off = await it.ask("How do I reset my password?")
        assert (off.outcome, off.reason, off.storable) == (Outcome.BYPASS, "switch_off", False)
        assert not await it.keep(off)
        assert off.store_reason == "bypass"


async def test_a_stale_view_touches_no_tier_and_stores_nothing(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        await it.teach("How do I reset my password?")
        it.monotonic[0] += 1.5
        await it.store.close()
        faults = sum(it.faults.values())
        stale = await it.ask("How do I reset my password?")
        assert (stale.outcome, stale.reason, stale.store_reason) == (Outcome.MISS, "control_stale", "control_stale")
        assert not await it.keep(stale)
        # The one overdue read of the view failed; no tier was asked.
        assert it.faults[("control", "read")] == sum(it.faults.values()) - faults == 1
        assert (await it.ask("How do I reset my password?")).reason == "control_stale"
        assert it.faults[("control", "read")] == 1


async def test_an_overdue_view_is_read_before_the_cache_is_given_up(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        await it.teach("How do I reset my password?")
        it.monotonic[0] += 60
        assert (await it.ask("How do I reset my password?")).outcome is Outcome.EXACT_HIT


async def test_refresh_is_not_served_and_stores_anew(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        first = await it.teach("How do I reset my password?")
        again = await it.ask("How do I reset my password?", refresh=True)
        assert (again.outcome, again.reason, again.vector) == (Outcome.MISS, "request", first.vector)
        assert await it.keep(again, "Newer.")
        assert (await it.ask("How do I reset my password?")).entry.body == answer("Newer.")  # type: ignore[union-attr]


async def test_no_store_may_be_served_and_is_not_stored(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        lookup = await it.ask("How do I reset my password?", no_store=True)
        assert not await it.keep(lookup)
        assert lookup.store_reason == "no_store"
        await it.teach("How do I reset my password?")
        assert (await it.ask("How do I reset my password?", no_store=True)).hit


async def test_long_prompts_tool_turns_and_a_missing_embedder_are_exact_only(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        long = "word " * 40_000
        assert (await it.teach(long)).semantic_skipped == "too_long"
        assert it.embedder.calls == 0
        assert (await it.ask(long)).outcome is Outcome.EXACT_HIT
        turn = {"model": "m", "messages": [{"role": "user", "content": "x"}, {"role": "tool", "content": "y", "tool_call_id": "1"}]}
        assert (await it.teach(turn)).semantic_skipped == "no_user_turn"
        assert (await it.ask(turn)).outcome is Outcome.EXACT_HIT
    async with rig(tmp_path, semantic=False) as it:
        assert (await it.ask("hi")).semantic_skipped == "no_embedder"


async def test_a_malformed_body_raises_and_an_odd_one_bypasses(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        with pytest.raises(InvalidRequest):
            await it.ask({"model": "m"})
        odd = await it.ask(chat(retrieval="x"))
        assert (odd.outcome, odd.reason, odd.storable) == (Outcome.BYPASS, "unknown_field", False)


# What is stored


@pytest.mark.parametrize(
    ("finish", "body", "reason"),
    [
        (("tool_calls",), answer(), "tool_call_answer"),
        (("length",), answer(), "cut_answer"),
        (("content_filter",), answer(), "content_filter"),
        (("odd",), answer(), "unknown_finish"),
        ((), answer(), "unfinished"),
        (("stop",), answer(""), "empty_answer"),
        (("stop",), b"<html>", "invalid_answer"),
        (("stop",), b'{"choices":[]}', "invalid_answer"),
        (("stop",), b'{"choices":[{"message":{"content":"x","tool_calls":[{}]}}]}', "tool_call_answer"),
        (("stop",), b'{"error":{"code":1},"choices":[{"message":{"content":"x"}}]}', "error_in_answer"),
        (("stop",), b'{"error":null,"choices":[{"message":{"content":"x"},"error":"late"}]}', "error_in_answer"),
        (("stop",), b'{"choices":[{"message":{"content":"x"}},{"message":{"content":"y"}}]}', "multi_choice"),
    ],
)
async def test_an_answer_that_is_not_one_whole_text_is_not_stored(
    tmp_path: Path, finish: tuple[str, ...], body: bytes, reason: str
) -> None:
    async with rig(tmp_path) as it:
        lookup = await it.ask("hi")
        assert not await it.cache.store(lookup, body=body, finish_reasons=finish)
        assert (lookup.store_reason, lookup.stored) == (reason, False)
        assert not (await it.ask("hi")).hit


async def test_an_error_status_is_not_stored(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        lookup = await it.ask("hi")
        lookup.status = 500
        assert not await it.keep(lookup)
        assert lookup.store_reason == "error_status"


async def test_entries_expire_by_their_own_jittered_ttl_counted_from_the_store(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        await it.cache.control.set_policy("faq", {"ttl_s": 60})
        lifetimes = set()
        for n in range(30):
            lookup = await it.teach(f"question number {n}")
            entry = await it.store.get(lookup.key)
            assert entry is not None
            lifetimes.add(entry.expires_ms - entry.created_ms)
        assert min(lifetimes) >= 54_000
        assert max(lifetimes) <= 66_000
        assert max(lifetimes) - min(lifetimes) > 6_000
        it.clock.now_ms += 53_000
        assert (await it.ask("question number 3")).hit  # a hit does not lengthen a life
        it.clock.now_ms += 13_001
        assert not (await it.ask("question number 3")).hit


# Purges


async def test_holdout_sends_a_share_of_would_be_hits_upstream_with_its_propensity(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        taught = await it.teach("How do I reset my password?")
        await it.cache.control.set_policy("faq", {"holdout_ratio": 0.3})
        lookups = [await it.ask("How do I reset my password?") for _ in range(400)]
        held = [lookup for lookup in lookups if lookup.held_out]
        assert 80 < len(held) < 160
        assert {lookup.holdout_propensity for lookup in lookups} == {0.7}
        assert {(lookup.outcome, lookup.reason, lookup.hit) for lookup in held} == {(Outcome.MISS, "holdout", False)}
        assert held[0].candidate is not None
        assert held[0].candidate.entry_id == taught.stored_entry_id
        # Stored again, it stays comparable.
        assert held[0].vector == taught.vector
        assert await it.keep(held[0])
        warm = [await it.ask("How do I reset my password?", purpose=Purpose.WARMUP) for _ in range(20)]
        assert all(lookup.hit and lookup.holdout_propensity == 1 for lookup in warm)
        assert (await it.ask("Never asked before, this one")).holdout_propensity == 1


# Faults


async def test_an_embedder_fault_is_a_counted_miss(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        await it.teach("How do I reset my password?")
        it.embedder.broken = True
        lookup = await it.ask(PARAPHRASE)
        assert (lookup.outcome, lookup.semantic_skipped) == (Outcome.MISS, "embedder_fault")
        assert it.faults == Counter({("embedder", "embed"): 1})
        assert await it.keep(lookup)  # exact from now on
        assert (await it.ask(PARAPHRASE)).outcome is Outcome.EXACT_HIT


async def test_a_store_that_is_gone_is_a_counted_miss_and_memory_still_serves(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        await it.teach("How do I reset my password?")
        await it.store.close()
        assert (await it.ask("How do I reset my password?")).tier == "memory"
        lookup = await it.ask(PARAPHRASE)
        assert (lookup.outcome, lookup.reason, lookup.semantic_skipped) == (Outcome.MISS, "tier_fault", "tier_fault")
        assert not await it.keep(lookup)
        assert lookup.store_reason == "tier_fault"
        assert it.faults[("store", "get")]
        assert not it.faults[("store", "put")], "it waited for the store once; whatever else it asked, it would wait again"


async def test_an_embedder_that_fails_is_not_asked_by_every_lookup(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        it.embedder.broken = True
        for number in range(10):
            assert (await it.ask(f"question {number}")).semantic_skipped == "embedder_fault"
        assert it.embedder.calls < 5


async def test_a_bug_behind_the_boundary_is_a_counted_miss(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        lookup = await it.teach("How do I reset my password?")
        stored = await it.store.get(lookup.key)
        assert stored is not None
        it.memory._entries[lookup.key] = (None, 0)  # type: ignore[assignment]  # what no tier may ever do
        broken = await it.ask("How do I reset my password?")
        assert (broken.outcome, broken.reason, broken.hit) == (Outcome.MISS, "cache_fault", False)
        assert it.faults[("cache", "lookup")] == 1
        it.memory._entries.clear()


async def test_prompts_are_not_kept_where_they_may_not_be_recorded(tmp_path: Path) -> None:
    async with rig(tmp_path, record_prompts=False) as it:
        lookup = await it.teach("How do I reset my password?")
        entry = await it.store.get(lookup.key)
        assert entry is not None
        assert entry.prompt == ""
        assert (await it.ask(PARAPHRASE)).outcome is Outcome.SEMANTIC_HIT  # the parse is enough to verify


# Properties


async def test_thirty_two_concurrent_lookups_share_one_flight(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        calls = 0

        async def serve() -> str:
            nonlocal calls
            lookup = await it.ask("How do I reset my password?")
            while not lookup.hit:
                with it.cache.flights.join(lookup.key) as flight:
                    if not flight.leader:
                        if await flight.result() is not None:
                            return "coalesced"
                        continue
                    calls += 1
                    await asyncio.sleep(0)
                    await it.keep(lookup)
                    flight.publish("answer")
                    return "miss"
            return "hit"

        outcomes = Counter(await asyncio.gather(*(serve() for _ in range(32))))
        assert (calls, outcomes["miss"], sum(outcomes.values())) == (1, 1, 32)


_WORDS = st.lists(st.sampled_from(["reset", "password", "invoice", "account", "please", "change", "my", "the"]), min_size=2, max_size=6)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(taught=st.lists(_WORDS, min_size=1, max_size=4), asked=_WORDS, low=st.floats(-1, 1), high=st.floats(-1, 1))
def test_hits_are_monotone_in_the_threshold(
    tmp_path_factory: pytest.TempPathFactory, taught: list[list[str]], asked: list[str], low: float, high: float
) -> None:
    low, high = sorted((low, high))

    async def run() -> tuple[bool, bool]:
        async with rig(tmp_path_factory.mktemp("mono")) as it:
            for words in taught:
                lookup = await it.ask(" ".join(words), refresh=True)
                await it.keep(lookup)
            hits = []
            for threshold in (low, high):
                await it.cache.control.set_policy("faq", {"threshold": threshold})
                hits.append((await it.ask(" ".join(asked))).hit)
            return hits[0], hits[1]

    loose, strict = asyncio.run(run())
    assert loose or not strict


async def test_copies_of_what_was_purged_leave_memory_at_once_and_an_undo_brings_it_back(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False) as it:
        await it.teach("purged")
        await it.teach("of another namespace", namespace="other")
        purge = await it.cache.control.purge("faq", operation_id="p1")
        assert len(it.memory) == 1
        assert it.memory.removals == {RemovalCause.EXPLICIT: 1}
        await it.cache.control.undo(purge.id)
        assert (await it.ask("purged")).tier == "store"
        assert (await it.ask("purged")).tier == "memory"
