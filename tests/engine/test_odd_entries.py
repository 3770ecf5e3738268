"""Entries that are not what this gateway would store today: a broken body, a vector of another embedder, a parse of another version."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.types import Entry, Outcome
from engine.verify import is_current, parse
from tests.engine.rig import Rig, rig

QUESTION, PARAPHRASE = "How do I reset my password?", "How do I reset my passwords?"


async def stored(it: Rig, question: str = QUESTION) -> Entry:
    lookup = await it.teach(question)
    entry = await it.store.get(lookup.key)
    assert entry is not None
    await it.memory.delete([lookup.key])
    return entry


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"null", b"{}", b'{"choices":[]}', b'{"choices":[{"message":null}]}', b'{"choices":[{"me']
)
async def test_a_broken_body_is_a_counted_miss_and_is_stored_over(tmp_path: Path, body: bytes) -> None:
    async with rig(tmp_path) as it:
        await it.store.put(replace(await stored(it), body=body))
        for question in (QUESTION, PARAPHRASE):
            lookup = await it.ask(question)
            assert (lookup.outcome, lookup.entry) == (Outcome.MISS, None)
        assert it.faults[("store", "broken_entry")] >= 2
        await it.teach(QUESTION)
        assert (await it.ask(QUESTION)).outcome is Outcome.EXACT_HIT
        assert (await it.ask(PARAPHRASE)).outcome is Outcome.SEMANTIC_HIT


async def test_a_held_out_hit_is_not_stored_again_with_another_embedders_vector(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        old = await stored(it)
        assert old.embedder == it.embedder.id
        await it.cache.control.set_policy("faq", {"holdout_ratio": 1.0})
        again = await it.ask(QUESTION)
        assert (again.held_out, again.vector) == (True, old.vector)
        await it.store.put(replace(old, embedder="another/1/256"))
        await it.memory.delete([old.key])
        again = await it.ask(QUESTION)
        assert (again.held_out, again.vector, again.simhash) == (True, b"", "")
        assert await it.keep(again)
        kept = await it.store.get(again.key)
        assert kept is not None
        assert (kept.vector, kept.embedder) == (b"", "")


async def test_a_parse_of_another_version_is_made_anew(tmp_path: Path) -> None:
    assert is_current(parse(QUESTION))
    async with rig(tmp_path) as it:
        old = await stored(it)
        await it.cache.control.set_policy("faq", {"holdout_ratio": 1.0})
        await it.store.put(replace(old, parse='{"v":1,"l":"en"}'))
        again = await it.ask(QUESTION)
        assert again.held_out
        assert await it.keep(again)
        kept = await it.store.get(again.key)
        assert kept is not None
        assert (kept.vector, kept.parse) == (old.vector, parse(QUESTION))


async def test_what_a_clock_a_day_ahead_stored_does_not_outlive_its_lifetime_once_the_clock_is_right(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        it.clock.now_ms += 86_400_000
        await it.teach(QUESTION)
        assert (await it.ask(QUESTION)).hit
        it.clock.now_ms -= 86_400_000
        for text in (QUESTION, PARAPHRASE):
            assert not (await it.ask(text)).hit
        await it.teach(QUESTION)
        assert (await it.ask(QUESTION)).hit
