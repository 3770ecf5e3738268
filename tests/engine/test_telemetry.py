"""Every lookup is counted before it is sent, and told from what was lost."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import hypothesis
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import generate_latest

from engine import semconv
from engine.attributes import attributes_of
from engine.lookup import ADAPTER, RETRIEVAL_VERSION, SCOPE, Lookup
from engine.metrics import Metrics
from engine.settings import EngineSettings, GatewaySettings
from engine.telemetry import Telemetry, parent_of
from engine.types import Namespace, Outcome, Purpose, Usage
from tests.engine.rig import SECRET, chat, rig, settings
from tests.support.polling import eventually
from tests.support.servers import free_port

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


class Collector:
    """A real OTLP endpoint on a port of its own."""

    def __init__(self) -> None:
        self.requests: list[ExportTraceServiceRequest] = []
        self.authorizations: list[str] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.requests.append(ExportTraceServiceRequest.FromString(body))
                outer.authorizations.append(self.headers.get("authorization", ""))
                self.send_response(200 if self.path == "/v1/traces" else 404)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def spans(self) -> list[Any]:
        return [s for r in self.requests for rs in r.resource_spans for ss in rs.scope_spans for s in ss.spans]


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    yield made
    made.server.shutdown()
    made.server.server_close()


class Stuck(SpanExporter):
    """An exporter whose collector does not answer until it is let go."""

    def __init__(self) -> None:
        self.free = threading.Event()

    def export(self, spans: Any) -> SpanExportResult:
        self.free.wait(60)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self.free.set()


def config(**changes: Any) -> GatewaySettings:
    return GatewaySettings(EngineSettings("sqlite:///x", SECRET), **changes)


def lookup(outcome: Outcome = Outcome.MISS, **changes: Any) -> Lookup:
    from engine.lookup import CacheRequest

    made = Lookup(CacheRequest(chat(), "faq", "acme"), time.time_ns(), time.perf_counter(), Namespace("faq"), outcome=outcome)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def spans_by(telemetry: Telemetry) -> dict[str, float]:
    prefix = f'{semconv.METRIC_SPANS}_total{{result="'
    return {key[len(prefix) : -2]: value for key, value in telemetry.counters().items() if key.startswith(prefix)}


async def _one(tmp_path: Path, exporter: InMemorySpanExporter, **changes: Any) -> dict[str, list[ReadableSpan]]:
    """Record a miss, an exact hit and a semantic hit through a real cache."""
    telemetry = Telemetry(GatewaySettings(settings(tmp_path, **changes), demo=True), exporter=exporter, instance_id="gw")
    async with rig(tmp_path, **changes) as it:
        for text in ("How do I reset my password?", "How do I reset my password?", "How do I reset my passwords?"):
            made = await it.ask(text, client="openai-python")
            if not made.hit:
                made.usage, made.upstream_ms = Usage(10, 5, 4, 0.002), 300.0
                await it.keep(made)
            telemetry.record(made, parent_context=CALLER, duration_ms=12.5)
            it.clock.now_ms += 5_000
    await telemetry.close()
    found: dict[str, list[ReadableSpan]] = {}
    for span in exporter.get_finished_spans():
        assert span.attributes is not None
        found.setdefault(str(span.attributes[semconv.OUTCOME]), []).append(span)
    return found


async def test_each_lookup_is_one_span_with_all_that_is_known(tmp_path: Path) -> None:
    found = await _one(tmp_path, InMemorySpanExporter())
    miss, exact, semantic = (dict(found[name][0].attributes or {}) for name in ("miss", "exact_hit", "semantic_hit"))
    always = {
        semconv.NAMESPACE, semconv.TENANT, semconv.KEY, semconv.PARTITION, semconv.FINGERPRINT, semconv.PROMPT_HASH, semconv.PURPOSE,
        semconv.PROMPT_SIMHASH, semconv.PROMPT_CHARS, semconv.PROMPT, semconv.REQUEST_BODY, semconv.ENTRY_ID, semconv.STEPS,
        semconv.LOOKUP_MS, semconv.POLICY_VERSION, semconv.SWITCH, semconv.THRESHOLD, semconv.EMBEDDER, semconv.HOLDOUT_PROPENSITY,
        semconv.CLIENT, semconv.VERIFY_MODE, semconv.GENAI_REQUEST_MODEL, semconv.GENAI_OPERATION, semconv.HTTP_STATUS,
    }  # fmt: skip
    for attributes in (miss, exact, semantic):
        assert always <= attributes.keys()
    assert miss[semconv.STORED] is True
    assert [step[0] for step in orjson.loads(miss[semconv.STEPS])] == [
        "canonicalise", "exact", "embed", "parse", "search", "upstream", "store",
    ]  # fmt: skip
    assert (miss[semconv.COST_USD], miss[semconv.GENAI_CACHE_READ_TOKENS], miss[semconv.UPSTREAM_MS]) == (0.002, 4, 300.0)
    assert (exact[semconv.TIER], exact[semconv.ENTRY_AGE_S], exact[semconv.COST_USD]) == ("memory", 5.0, 0.0)
    assert exact[semconv.SAVED_USD] == 0.002
    assert 0 < exact[semconv.SAVED_MS] <= 300
    assert exact[semconv.ENTRY_TTL_S] > 0
    assert semantic[semconv.CANDIDATE_ID] == exact[semconv.ENTRY_ID] == miss[semconv.ENTRY_ID]
    assert semantic[semconv.CANDIDATE_PROMPT] == "How do I reset my password?"
    assert semantic[semconv.CANDIDATE_PASSED] is True
    assert semantic[semconv.CANDIDATES] == 1
    assert semantic[semconv.ENTRY_AGE_S] == 10.0
    known = {value for name, value in vars(semconv).items() if name.isupper()}
    assert miss.keys() | exact.keys() | semantic.keys() <= known


async def test_without_leave_to_record_no_prompt_leaves(tmp_path: Path) -> None:
    found = await _one(tmp_path, InMemorySpanExporter(), record_prompts=False)
    everything = repr([dict(span.attributes or {}) for spans in found.values() for span in spans])
    assert "password" not in everything
    assert semconv.PROMPT_HASH in everything


async def test_the_prompt_of_a_no_store_request_is_on_no_span(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    telemetry = Telemetry(GatewaySettings(settings(tmp_path)), exporter=exporter, instance_id="gw")
    async with rig(tmp_path) as it:
        await it.keep(await it.ask("How do I reset my password?"))
        for text in ("How do I reset my passwords?", "How do I reset my secret pass phrase?"):
            telemetry.record(await it.ask(text, no_store=True), parent_context="", duration_ms=1.0)
    await telemetry.close()
    spans = [dict(span.attributes or {}) for span in exporter.get_finished_spans()]
    assert [span[semconv.OUTCOME] for span in spans] == ["semantic_hit", "miss"]
    assert semconv.CANDIDATE_ID in spans[0]
    assert "password" not in repr(spans)
    assert "phrase" not in repr(spans)
    assert all(semconv.PROMPT_HASH in span for span in spans)


async def test_the_callers_trace_goes_on_and_the_upstream_sees_our_span(tmp_path: Path) -> None:
    exporter = InMemorySpanExporter()
    telemetry = Telemetry(config(), exporter=exporter)
    made = lookup()
    forwarded = telemetry.trace_context(made, parent=CALLER)
    telemetry.record(made, parent_context=CALLER, duration_ms=1)
    fresh = lookup()
    alone = telemetry.trace_context(fresh, parent="00-garbage")
    telemetry.record(fresh, parent_context="00-garbage", duration_ms=1)
    await telemetry.close()
    first, second = exporter.get_finished_spans()
    assert first.context is not None
    assert first.parent is not None
    assert forwarded == f"00-0af7651916cd43dd8448eb211c80319c-{first.context.span_id:016x}-00"
    assert (first.parent.span_id, first.context.trace_id) == (0xB7AD6B7169203331, 0x0AF7651916CD43DD8448EB211C80319C)
    assert second.parent is None
    assert second.context is not None
    assert alone == f"00-{second.context.trace_id:032x}-{second.context.span_id:016x}-01"


@pytest.mark.parametrize(
    "value",
    ["", "x", CALLER[:-1], "ff" + CALLER[2:], CALLER + "-x", CALLER.upper(), f"00-{'0' * 32}-b7ad6b7169203331-01", "\ud800"],
)
def test_a_traceparent_that_is_not_valid_is_none(value: str) -> None:
    assert parent_of(value) is None
    assert parent_of("cc" + CALLER[2:] + "-later") is not None


async def test_spans_reach_a_real_collector_and_close_flushes(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.telemetry.FLUSH_S", 60)
    telemetry = Telemetry(config(otlp_endpoint=collector.url + "/", otlp_token="tok", demo=True), instance_id="gw-1")
    for _ in range(700):
        telemetry.record(lookup(prompt="a\ud800", error_type="x" if _ % 2 else ""), duration_ms=1)
    await telemetry.close()
    assert len(collector.spans()) == 700
    assert set(collector.authorizations) == {"Bearer tok"}
    resource = {a.key: a.value for a in collector.requests[0].resource_spans[0].resource.attributes}
    assert resource["service.name"].string_value == "cachescope-gateway"
    assert resource["service.instance.id"].string_value == "gw-1"
    assert resource[semconv.DEMO].bool_value is True
    assert collector.requests[0].resource_spans[0].scope_spans[0].scope.name == semconv.SCOPE
    assert spans_by(telemetry) == {"created": 700, "exported": 700, "failed": 0, "dropped": 0}


async def test_a_collector_that_is_gone_costs_no_more_than_the_flush_and_is_counted() -> None:
    telemetry = Telemetry(config(otlp_endpoint=f"http://127.0.0.1:{free_port()}"))
    for _ in range(20):
        telemetry.record(lookup(), duration_ms=1)
    started = time.monotonic()
    await telemetry.close()
    assert time.monotonic() - started < 25  # an export by itself goes on for 30 s
    assert spans_by(telemetry) == {"created": 20, "exported": 0, "failed": 20, "dropped": 0}


async def test_what_the_queue_cannot_hold_is_dropped_and_counted() -> None:
    exporter = Stuck()
    telemetry = Telemetry(config(), exporter=exporter, queue_spans=50)
    for _ in range(80):
        telemetry.record(lookup(), duration_ms=1)
    assert spans_by(telemetry)["dropped"] == 30
    exporter.free.set()
    await eventually(lambda: spans_by(telemetry)["exported"] == 50, what="the held spans leave")
    telemetry.record(lookup(), duration_ms=1)
    await telemetry.close()
    assert spans_by(telemetry) == {"created": 81, "exported": 51, "failed": 0, "dropped": 30}


async def test_the_queue_is_bounded_in_bytes_too() -> None:
    exporter = Stuck()
    telemetry = Telemetry(config(), exporter=exporter, queue_bytes=20_000)
    for _ in range(200):
        telemetry.record(lookup(), duration_ms=1)
    dropped = spans_by(telemetry)["dropped"]
    assert 0 < dropped < 200
    exporter.free.set()
    await eventually(lambda: spans_by(telemetry)["exported"] == 200 - dropped, what="the held spans leave")
    telemetry.record(lookup(), duration_ms=1)
    await telemetry.close()
    assert spans_by(telemetry) == {"created": 201, "exported": 201 - dropped, "failed": 0, "dropped": dropped}


async def test_without_an_endpoint_no_span_is_made_and_everything_is_counted() -> None:
    telemetry = Telemetry(config())
    made = lookup(upstream_ms=12.0, store_reason="cut_answer")
    telemetry.record(made, duration_ms=1)
    telemetry.record(made, duration_ms=1)  # twice is once
    telemetry.fault("store", "get")
    telemetry.watch(entries=lambda: 3, size_bytes=lambda: 9, control_age_s=lambda: 0.2)
    await telemetry.close()
    text = generate_latest(telemetry.registry).decode()
    assert 'cachescope_lookups_total{namespace="faq",outcome="miss",purpose="traffic"} 1.0' in text
    assert 'cachescope_stores_total{result="cut_answer"} 1.0' in text
    assert 'cachescope_cache_faults_total{operation="get",tier="store"} 1.0' in text
    assert "cachescope_memory_entries 3.0" in text
    assert "cachescope_control_age_seconds 0.2" in text
    assert spans_by(telemetry)["created"] == 0


async def test_a_request_is_recorded_unless_a_header_parts_its_key_whose_value_is_not(tmp_path: Path) -> None:
    ours, others = ((ADAPTER, b"lora"), (RETRIEVAL_VERSION, b"7"), (SCOPE, b"ward")), ((b"x-portkey-provider", b"openai"),)
    async with rig(tmp_path, semantic=False) as it:
        for keyed, recorded in (((), True), (ours, True), (others, False), ((*others, *ours), False)):
            found = attributes_of(await it.ask("What is a cache?", keyed=keyed), settings(tmp_path), provider="")
            assert (semconv.REQUEST_BODY in found) is recorded
            assert (found.get(semconv.ADAPTER), found.get(semconv.AUTHORISATION_SCOPE)) == (
                ("lora", "ward") if ours[0] in keyed else (None, None)
            )


@hypothesis.settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(Outcome)), st.sampled_from(list(Purpose)), st.sampled_from(["a", "b"])), max_size=40))
def test_the_outcomes_add_up_to_the_lookups(script: list[tuple[Outcome, Purpose, str]]) -> None:

    telemetry = Telemetry(config())
    for outcome, purpose, namespace in script:
        made = lookup(outcome, reason="r")
        made.request = made.request._replace(purpose=purpose, namespace=namespace)
        telemetry.record(made, duration_ms=1)
    counted = {k: v for k, v in telemetry.counters().items() if k.startswith("cachescope_lookups_total")}
    assert sum(counted.values()) == len(script)
    by_outcome = Counter(outcome for outcome, _, _ in script)
    for outcome, count in by_outcome.items():
        assert sum(value for key, value in counted.items() if f'outcome="{outcome.value}"' in key) == count
    bypasses = telemetry.counters().get('cachescope_bypasses_total{reason="r"}', 0)
    assert bypasses == by_outcome[Outcome.BYPASS]


def test_namespaces_beyond_the_bound_share_a_label_and_the_counters_add_up() -> None:
    made = Metrics(max_namespaces=2)
    for number in range(3):
        made.lookup(f"refused {number}", Outcome.BYPASS, Purpose.TRAFFIC, reason="too_many_namespaces", lookup_s=0.001)
    for name in ("a", "b", "c", "d", "a"):
        made.lookup(name, Outcome.MISS, Purpose.TRAFFIC, reason="", lookup_s=0.001)
    assert {k: v for k, v in made.counters().items() if "lookups" in k} == {
        'cachescope_lookups_total{namespace="a",outcome="miss",purpose="traffic"}': 2.0,
        'cachescope_lookups_total{namespace="b",outcome="miss",purpose="traffic"}': 1.0,
        'cachescope_lookups_total{namespace="(other)",outcome="miss",purpose="traffic"}': 2.0,
        'cachescope_lookups_total{namespace="(other)",outcome="bypass",purpose="traffic"}': 3.0,
    }
