"""What is kept of a body is what would be made of it anew, and it is bounded."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from engine import semconv
from engine.errors import InvalidRequest
from engine.gateway.recent import MAX_BODY_BYTES, Recent
from engine.lookup import CacheRequest
from engine.settings import GatewaySettings
from engine.telemetry import Telemetry
from tests.engine.rig import chat, rig, settings


def body(text: str) -> bytes:
    return orjson.dumps(chat(text))


def test_the_same_bytes_are_read_once_and_the_oldest_leave() -> None:
    recent = Recent(max_bodies=2, max_bytes=10_000)
    first = recent.read(body("a"))
    assert recent.read(body("a")) is first
    recent.read(body("b"))
    recent.read(body("a"))
    recent.read(body("c"))  # b was asked for longest ago
    assert recent.read(body("a")) is first
    assert len(recent) == 2
    assert recent.bytes == len(body("a")) + len(body("c"))
    recent.read(body("d" * 9_950))
    assert (len(recent), recent.bytes) == (0, 0)  # longer than all that may be kept
    roomy = Recent()
    roomy.read(body("e" * MAX_BODY_BYTES))
    assert len(roomy) == 0


def test_what_is_no_request_is_refused_each_time_and_not_kept() -> None:
    recent = Recent()
    for _ in range(2):
        with pytest.raises(InvalidRequest):
            recent.read(b"[1]")
    assert len(recent) == 0


async def test_a_kept_body_has_the_keys_and_the_span_of_a_fresh_one_for_every_tenant_and_namespace(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    telemetry = Telemetry(GatewaySettings(settings(tmp_path)), exporter=exporter, instance_id="gw")
    raw = body("How do I reset my password?")
    recent = Recent()
    asked = [
        CacheRequest(orjson.loads(raw), namespace, tenant, model_version, no_store=no_store, client=client)
        for _ in range(2)
        for namespace, tenant, model_version, no_store, client in (
            ("faq", "acme", "", False, "a"),
            ("faq", "globex", "", False, "a"),
            ("help", "acme", "", False, "a"),
            ("faq", "acme", "canary", False, "b"),
            ("faq", "acme", "", True, "a"),
            ("faq", "acme", "", False, "b"),
        )
    ]
    keys = []
    async with rig(tmp_path) as it:
        for request in asked:
            known = recent.read(raw)
            made = [await it.cache.lookup(request), await it.cache.lookup(request._replace(body=known.body, known=known))]
            keys.append([(one.key, one.partition, one.prompt, one.prompt_hash, one.fingerprint) for one in made])
            for one in made:
                telemetry.record(one, duration_ms=1)
    await telemetry.close()
    assert all(fresh == kept for fresh, kept in keys)
    assert len({fresh[0] for fresh, _ in keys}) == 4
    varying = {semconv.STEPS, semconv.LOOKUP_MS}
    spans = [{k: v for k, v in (span.attributes or {}).items() if k not in varying} for span in exporter.get_finished_spans()]
    assert spans[0::2] == spans[1::2]
    assert [semconv.PROMPT in span for span in spans[::2]] == [not request.no_store for request in asked]
    assert [span[semconv.CLIENT] for span in spans[::2]] == [request.client for request in asked]
