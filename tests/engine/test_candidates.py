"""Which of several candidates serves."""

from __future__ import annotations

import json
from pathlib import Path

from engine import semconv
from engine.attributes import attributes_of
from engine.settings import EngineSettings
from engine.types import Outcome
from tests.engine.rig import answer, rig


async def test_the_next_candidate_serves_after_a_veto_for_a_value_and_not_after_one_for_another_question(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        await it.cache.control.set_policy("faq", {"threshold": 0.5})
        await it.teach("Can I keep 3 backups of my files?", "Yes.")
        await it.teach("May I keep 4 backups of my file?", "No.")
        hit = await it.ask("Can I keep 4 backups of my files?")  # the nearest has another number, the next one the right one
        assert hit.outcome is Outcome.SEMANTIC_HIT
        assert hit.entry
        assert hit.entry.body == answer("No.")
        assert hit.candidate
        (other,) = hit.others
        assert (other.vetoed_by, other.similarity > hit.candidate.similarity) == ("number", True)
        await it.teach("Please tell me: how could one export one's contracts?", "As a file.")
        assert (await it.ask("How do I export my contracts?")).hit
        await it.teach("How do I export my invoices?", "By mail.")
        miss = await it.ask("How do I export my contracts?")  # nearer by now: another question
        assert (miss.outcome, miss.reason, miss.entry) == (Outcome.MISS, "vetoed", None)
        assert miss.candidate
        assert "replaced" in {verdict.rule for verdict in miss.candidate.verdicts if verdict.veto}
        assert miss.candidates == 1 + len(miss.others) > 1
        assert {other.vetoed_by for other in miss.others} == {""}, "they were not looked at"
        assert miss.candidate.similarity >= miss.others[0].similarity
        said = attributes_of(miss, EngineSettings(cache_url="", secret=b""), provider="")[semconv.CANDIDATE_OTHERS]
        assert json.loads(str(said))[0] == [miss.others[0].entry_id, round(miss.others[0].similarity, 4), ""]


async def test_neighbours_that_are_gone_from_the_store_do_not_keep_the_living_from_being_found(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        await it.cache.control.set_policy("faq", {"threshold": 0.5})
        asked = "How do I reset my password?"
        gone = [await it.teach(text) for text in (f"How do I reset my password{end}" for end in ("!", "!!", "...", " ??", "?!"))]
        await it.teach("How do I reset my passwords?", "Living.")
        assert await it.store.delete([lookup.key for lookup in gone]) == 5
        await it.memory.delete([lookup.key for lookup in gone])
        hit = await it.ask(asked)
        assert hit.entry, hit.reason
        assert hit.entry.body == answer("Living.")
        again = await it.ask(asked)
        assert (again.candidates, again.hit) == (1, True)
