"""How far the answer held out and the upstream's agree."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from engine import semconv
from engine.agreement import agreement
from engine.gateway.answers import Answer
from engine.gateway.boundary import Boundary
from engine.gateway.inbound import inbound_of
from engine.leases import Leases
from engine.lookup import CacheRequest
from engine.settings import EngineSettings, GatewaySettings
from engine.telemetry import Telemetry
from tests.engine.rig import SECRET, chat, rig


def answer(text: object) -> bytes:
    return orjson.dumps({"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Reset it in the settings.", "reset it, in the SETTINGS!", 1.0),
        ("Yes, within 30 days.", "Yes, within 60 days.", 0.75),
        ("Yes", "No", 0.0),
        ("退货需三十天", "退货需六十天", 10 / 12),
        ("a b", "a b c d e f", 0.5),
    ],
)
def test_agreement_is_the_share_of_words_in_common(one: str, other: str, expected: float) -> None:
    assert agreement(answer(one), answer(other)) == pytest.approx(expected)


@pytest.mark.parametrize("without", [b"", b"{", b"[]", answer(None), answer(""), answer("!?"), answer(["parts"]), b'{"choices": []}'])
def test_what_has_no_text_has_no_agreement(without: bytes) -> None:
    assert agreement(answer("Yes"), without) is None
    assert agreement(without, answer("Yes")) is None


@given(st.text(max_size=200), st.text(max_size=200))
def test_agreement_is_symmetric_and_a_ratio(one: str, other: str) -> None:
    found = agreement(answer(one), answer(other))
    assert found == agreement(answer(other), answer(one))
    assert found is None or 0 <= found <= 1


async def test_a_held_out_hit_tells_on_its_span_how_far_the_answers_agree(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    telemetry = Telemetry(GatewaySettings(EngineSettings("sqlite:///x", SECRET)), exporter=exporter)
    inbound = inbound_of({"type": "http", "headers": [], "query_string": b""})
    async with rig(tmp_path) as it:
        leases = Leases(it.store, owner="gw-1", faults=lambda tier, operation: it.faults.update([(tier, operation)]))
        boundary = Boundary(it.cache, telemetry, leases, give_up_s=5)
        await it.teach("May I return it?", "Yes, within 30 days.")
        await it.cache.control.set_policy("faq", {"holdout_ratio": 1.0})
        for status, text in ((200, "Yes, within 60 days."), (500, "Yes, within 60 days.")):
            lookup = await boundary.lookup(CacheRequest(chat("May I return it?"), "faq", "acme"))
            await boundary.store(lookup, Answer(status, answer(text), store_reason="" if status == 200 else "error_status"))
            boundary.record(lookup, inbound)
    await telemetry.close()
    told, failed = ((span.attributes or {}).get(semconv.HOLDOUT_AGREEMENT) for span in exporter.get_finished_spans())
    assert told == pytest.approx(0.75)
    assert failed is None
