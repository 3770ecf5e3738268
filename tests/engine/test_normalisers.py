"""A namespace's normaliser decides which entries a lookup can see, and stands on its span."""

from __future__ import annotations

from pathlib import Path

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from engine import semconv
from engine.settings import GatewaySettings
from engine.telemetry import Telemetry
from engine.types import Outcome
from tests.engine.rig import answer, rig, settings


async def test_a_normaliser_s_entries_are_seen_under_it_alone(tmp_path: Path) -> None:
    one, two = "SELECT a FROM t", "select  a\nfrom t;"
    async with rig(tmp_path, semantic=False) as it:
        await it.teach(one, "sent")
        await it.cache.control.set_policy("faq", {"normaliser": "sql"})
        found = await it.ask(one)
        assert (found.outcome, found.normaliser.split("/")[0], found.normalised) == (Outcome.MISS, "sql", True)
        await it.keep(found, "normal")
        again = await it.ask(two)
        assert again.outcome is Outcome.EXACT_HIT
        assert again.entry is not None
        assert again.entry.body == answer("normal")
        assert (await it.ask("select A from t")).outcome is Outcome.MISS
        assert (await it.ask("How are you?")).normalised is False
        await it.cache.control.set_policy("faq", {"normaliser": "none"})
        back = await it.ask(one)
        assert back.entry is not None
        assert back.entry.body == answer("sent")
        assert back.normaliser == ""
        assert (await it.ask(two)).outcome is Outcome.MISS


async def test_near_prompts_are_never_compared_across_normalisers(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        await it.teach("How do I reset my password?")
        near = "How do I reset my password??"
        assert (await it.ask(near)).outcome is Outcome.SEMANTIC_HIT
        await it.cache.control.set_policy("faq", {"normaliser": "whitespace"})
        found = await it.ask(near)
        assert (found.outcome, found.candidates) == (Outcome.MISS, 0)


async def test_the_normaliser_and_whether_it_applied_are_on_the_span(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    telemetry = Telemetry(GatewaySettings(settings(tmp_path)), exporter=exporter, instance_id="gw")
    async with rig(tmp_path, semantic=False) as it:
        telemetry.record(await it.ask("SELECT 1"), parent_context="", duration_ms=1.0)
        await it.cache.control.set_policy("faq", {"normaliser": "sql"})
        for text in ("SELECT 1", "Which is it?"):
            telemetry.record(await it.ask(text), parent_context="", duration_ms=1.0)
    await telemetry.close()
    told = [span.attributes or {} for span in exporter.get_finished_spans()]
    assert [semconv.NORMALISER in attributes for attributes in told] == [False, True, True]
    assert [attributes.get(semconv.NORMALISED) for attributes in told] == [None, True, False]
    assert str(told[1][semconv.NORMALISER]).startswith("sql/")
