"""Dialects: attributes to canonical fields, tokens normalised by rule, calls counted once. Golden rows from captured spans.

The bodies in tests/golden/otlp are small pieces of requests that were captured from the named libraries against a stub
upstream; native.json is our own vocabulary in full. Refresh the rows with `REFRESH_GOLDEN=1` and review the difference.
"""

from __future__ import annotations

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from collectors import dialects
from collectors.dialects import values
from collectors.dialects.base import count
from collectors.dialects.native import OUTCOMES
from collectors.otlp.decode import JSON, PROTOBUF, decode_traces
from engine import semconv as sc
from engine.types import Outcome
from storage.payloads import unpack
from storage.rows import LookupRow, SourceBatch, SpanRow
from tests.collectors.support import put, request
from tests.collectors.test_decode import SETTINGS, from_protobuf

GOLDEN = Path(__file__).parents[1] / "golden" / "otlp"


def plain(batch: SourceBatch) -> dict[str, Any]:
    """A batch as JSON can show it: ids in hex, payloads opened."""

    def row(given: SpanRow | LookupRow) -> dict[str, Any]:
        fields = given._asdict()
        for name, value in fields.items():
            if name == "payload":
                fields[name] = sorted(json.loads(unpack(value))["attributes"])
            elif isinstance(value, bytes):
                fields[name] = value.hex()
        return {name: value for name, value in fields.items() if value not in (None, "")}

    return {
        "source": batch.source._asdict(),
        "spans": [row(span) for span in batch.spans],
        "lookups": [row(lookup) for lookup in batch.lookups],
        "missing": dict(batch.missing),
    }


GOLDEN_NAMES = sorted(path.name.removesuffix(".rows.json") for path in GOLDEN.glob("*.rows.json"))


@pytest.mark.parametrize("name", GOLDEN_NAMES)
def test_golden_rows(name: str) -> None:
    (body,) = [path for path in GOLDEN.glob(f"{name}.*") if path.name.count(".") == 1]
    decoded = decode_traces(body.read_bytes(), JSON if body.suffix == ".json" else PROTOBUF, SETTINGS)
    rows = json.loads(json.dumps([plain(batch) for batch in decoded.batches]))
    golden = GOLDEN / f"{name}.rows.json"
    if os.environ.get("REFRESH_GOLDEN"):
        golden.write_text(json.dumps(rows, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    assert rows == json.loads(golden.read_text())


@pytest.mark.parametrize(
    ("value", "expected"),
    [(5, 5), ("5", 5), (5.0, 5), (0, 0), (-1, None), (True, None), (5.5, None), ("x", None), (10**12, None), (2**60, None), (None, None)],
)
def test_what_is_no_count_is_none(value: object, expected: int | None) -> None:
    assert count(value) == expected


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e308, -1e308, 2**63 - 1, True, "1.5", [1.5], {"a": 1.5}, b"1", None])
def test_what_no_call_can_have_is_not_known(value: object) -> None:
    assert (values.number(value), values.money(value)) == (None, None)


def test_a_lookup_of_impossible_values_is_a_lookup_all_the_same() -> None:
    told = {"cachescope.outcome": "exact_hit", "cachescope.saved_usd": 1e9, "cachescope.saved_ms": math.nan, "cachescope.lookup_ms": 2}
    told |= {"cachescope.cost_usd": math.inf, "gen_ai.usage.input_tokens": 2**62, "cachescope.entry.bytes": -1}
    (batch,) = from_protobuf(request(scope="cachescope.engine", attributes=told)).batches
    (row,) = batch.lookups
    assert (row.saved_usd, row.saved_ms, row.cost_usd, row.input_tokens, row.entry_bytes) == (None,) * 5
    assert (row.outcome, row.lookup_ms) == ("exact_hit", 2.0)


@pytest.mark.parametrize(
    ("scope", "name"),
    [
        ("cachescope.engine", "native"),
        ("opentelemetry.instrumentation.openai.v1", "openllmetry"),
        ("opentelemetry.instrumentation.openai_v2", "genai"),
        ("opentelemetry.instrumentation.genai.openai", "genai"),
        ("openinference.instrumentation.langchain", "openinference"),
        ("@arizeai/openinference-instrumentation-openai", "openinference"),
        ("@betterdb/semantic-cache", "betterdb"),
        ("openlit.instrumentation.litellm", "openlit"),
        ("litellm", "litellm"),
        ("langfuse-sdk", "langfuse"),
        ("langsmith", "langsmith"),
        ("pydantic-ai", "pydantic_ai"),
        ("logfire", "pydantic_ai"),
        ("strands.telemetry.tracer", "strands"),
        ("vllm.llm_engine", "vllm"),
        ("opentelemetry.instrumentation.redis", "redis"),
    ],
)
def test_the_scope_decides_the_dialect(scope: str, name: str) -> None:
    known = dialects.of_scope(scope)
    assert known is not None
    assert known.name == name


def test_an_unknown_scope_is_told_by_its_attributes_and_a_span_without_any_is_kept() -> None:
    batches = from_protobuf(request(scope="mine", attributes={"http.route": "/"})).batches
    assert [(batch.source.dialect, len(batch.spans)) for batch in batches] == [("", 1)]
    for name, dialect in (
        ("openinference.span.kind", "openinference"),
        ("traceloop.span.kind", "openllmetry"),
        ("ai.operationId", "vercel"),
        ("sentry.op", "sentry"),
        ("gen_ai.latency.e2e", "vllm"),
        ("langfuse.observation.type", "langfuse"),
        ("litellm.call_id", "litellm"),
        ("cache_status", "higress"),
        ("gen_ai.system", "genai"),
    ):
        attributes = {"gen_ai.request.model": "m", name: "LLM"}
        batches = from_protobuf(request(scope="mine", attributes=attributes)).batches
        assert batches[0].source.dialect == dialect
        wide = attributes | {f"x{number}": 1 for number in range(100)}
        assert from_protobuf(request(scope="mine", attributes=wide)).batches[0].source.dialect == dialect


def lookups_of(scope: str, *, status: int = 0, **attributes: Any) -> list[LookupRow]:
    message = request(scope=scope, attributes=attributes)
    message.resource_spans[0].scope_spans[0].spans[0].status.code = status
    (batch,) = from_protobuf(message).batches
    return list(batch.lookups)


CACHED_CHAT = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 30, "gen_ai.usage.cache_read.input_tokens": 10}


def test_three_kinds_of_cache_are_told_apart() -> None:
    (provider,) = lookups_of("opentelemetry.instrumentation.openai_v2", **CACHED_CHAT, **{"gen_ai.provider.name": "openai"})
    (server,) = lookups_of("opentelemetry.instrumentation.openai_v2", **CACHED_CHAT, **{"gen_ai.provider.name": "vllm"})
    (spans,) = lookups_of(
        "vllm.llm_engine", **{"gen_ai.usage.prompt_tokens": 30, "gen_ai.usage.cached_tokens": 10, "gen_ai.latency.e2e": 0.5}
    )
    (response,) = lookups_of("litellm", **CACHED_CHAT, **{"litellm.cache_hit": True})
    assert [row.cache_kind for row in (provider, server, spans, response)] == ["provider_prompt", "kv_prefix", "kv_prefix", "response"]
    assert [row.outcome for row in (provider, server, spans, response)] == ["partial_hit", "partial_hit", "partial_hit", "exact_hit"]
    assert (spans.provider, provider.raw_input_tokens, provider.token_rule) == ("vllm", 30, "inclusive")


def test_litellm_says_hit_or_miss_or_nothing() -> None:
    assert [row.outcome for row in lookups_of("litellm", **CACHED_CHAT, **{"litellm.cache_hit": False})] == ["miss"]
    # It did not say: the response cache is unknown, and what the provider told is still told.
    assert [(row.cache_kind, row.outcome) for row in lookups_of("litellm", **CACHED_CHAT)] == [("provider_prompt", "partial_hit")]
    assert lookups_of("litellm", status=2, **CACHED_CHAT, **{"litellm.cache_hit": True}) == []
    (batch,) = from_protobuf(request(scope="litellm", attributes=CACHED_CHAT | {"litellm.cache_hit": True})).batches
    assert [(span.call_role, span.is_call) for span in batch.spans] == [("cached", False)]
    assert batch.lookups[0].cost_usd == 0


@pytest.mark.parametrize(("word", "outcome"), [("hit", "exact_hit"), ("miss", "miss"), ("skip", "bypass"), ("perhaps", None)])
def test_higress_tells_by_one_word(word: str, outcome: str | None) -> None:
    assert [row.outcome for row in lookups_of("higress", cache_status=word)] == ([outcome] if outcome else [])


def test_openlit_s_cost_of_nothing_is_no_cost() -> None:
    for cost, stored in ((0, None), (0.25, 0.25)):
        (batch,) = from_protobuf(
            request(scope="openlit.instrumentation.openai", attributes=CACHED_CHAT | {"gen_ai.usage.cost": cost})
        ).batches
        assert batch.spans[0].cost_usd == stored


@pytest.mark.parametrize("name", ["langchain", "litellm"])
@pytest.mark.parametrize("record_prompts", [True, False])
def test_hits_of_an_answer_s_own_cache_are_no_calls_and_have_no_rate(name: str, record_prompts: bool) -> None:
    settings = replace(SETTINGS, record_prompts=record_prompts)
    decoded = decode_traces((GOLDEN / f"{name}.binpb").read_bytes(), PROTOBUF, settings)
    spans = [span for batch in decoded.batches for span in batch.spans]
    lookups = [row for batch in decoded.batches for row in batch.lookups]
    hits = [row for row in lookups if row.cache_kind == "response_hits"]
    assert {row.outcome for row in hits} == {"exact_hit"}
    assert {row.span_id for row in hits} == {span.span_id for span in spans if span.call_role == "cached"} != set()
    assert all(row.cost_usd == 0 for row in hits)
    assert not any(row.cache_kind == "response" for row in lookups)


def test_native_outcomes_are_the_engine_s() -> None:
    assert {outcome.value for outcome in Outcome} == OUTCOMES


NATIVE = {
    sc.OUTCOME: "semantic_hit",
    sc.REASON: "r",
    sc.PURPOSE: "probe",
    sc.TIER: "vector",
    sc.NAMESPACE: "faq",
    sc.TENANT: "acme",
    sc.MODEL_VERSION: "v1",
    sc.CLIENT: "curl",
    sc.KEY: "k" * 64,
    sc.PARTITION: "p" * 32,
    sc.FINGERPRINT: "f" * 16,
    sc.PROMPT_HASH: "h" * 32,
    sc.PROMPT_SIMHASH: "s" * 16,
    sc.PROMPT: "how?",
    sc.ENTRY_ID: "e" * 32,
    sc.ENTRY_AGE_S: 3.5,
    sc.ENTRY_BYTES: 900,
    sc.CANDIDATES: 4,
    sc.CANDIDATE_ID: "c" * 32,
    sc.CANDIDATE_SIMILARITY: 0.93,
    sc.CANDIDATE_PASSED: True,
    sc.CANDIDATE_VERDICTS: "[]",
    sc.CANDIDATE_PROMPT: "how so?",
    sc.THRESHOLD: 0.9,
    sc.POLICY_VERSION: 7,
    sc.SWITCH: "on",
    sc.GENERATION: "g",
    sc.HOLDOUT_PROPENSITY: 0.98,
    sc.HELD_OUT: False,
    sc.LOOKUP_MS: 1.25,
    sc.UPSTREAM_MS: 800.0,
    sc.SAVED_MS: 700.0,
    sc.SAVED_USD: 0.01,
    sc.COST_USD: 0.02,
    sc.GENAI_OPERATION: "chat",
    sc.GENAI_PROVIDER: "openai",
    sc.GENAI_REQUEST_MODEL: "m",
    sc.GENAI_INPUT_TOKENS: 30,
    sc.GENAI_OUTPUT_TOKENS: 5,
    sc.GENAI_CACHE_READ_TOKENS: 10,
}


def test_a_native_lookup_is_one_row_field_by_field() -> None:
    (batch,) = from_protobuf(request(scope=sc.SCOPE, attributes=NATIVE)).batches
    (row,) = batch.lookups
    given = {name: value for name, value in row._asdict().items() if value in (None, "")}
    # The engine's upstream tells of none; its score is a cosine; nobody sampled it.
    assert given == {"cache_write_tokens": None, "score_rule": "", "sampler": "", "kept_ratio": None}
    assert (row.cache_kind, row.outcome, row.similarity, row.threshold, row.held_out) == (
        "response",
        "semantic_hit",
        0.93,
        0.9,
        False,
    )
    assert (row.duration_ms, row.at_ms) == (5.0, 1_795_954_000_000)
    assert batch.missing == {}


def test_missing_fields_are_counted_and_an_unknown_outcome_is_no_lookup() -> None:
    attributes = {name: value for name, value in NATIVE.items() if name != sc.TENANT}
    (batch,) = from_protobuf(request(3, scope=sc.SCOPE, attributes=attributes)).batches
    assert batch.missing == {"tenant": 3}
    (batch,) = from_protobuf(request(scope=sc.SCOPE, attributes=NATIVE | {sc.OUTCOME: "hit!"})).batches
    assert (len(batch.spans), len(batch.lookups)) == (1, 0)


def nested(*spans: tuple[int, int, str, dict[str, Any]]) -> list[bool]:
    """is_call of spans in one trace, each (own number, parent's number, scope, attributes)."""
    message = request(0)
    for number, parent, scope, attributes in spans:
        scope_spans = message.resource_spans[0].scope_spans.add()
        scope_spans.scope.name = scope
        span = scope_spans.spans.add(trace_id=b"\1" * 16, span_id=bytes([number]) * 8, start_time_unix_nano=number, end_time_unix_nano=9)
        span.parent_span_id = bytes([parent]) * 8 if parent else b""
        for key, value in attributes.items():
            put(span.attributes.add(key=key).value, value)
    by_id = {span.span_id[0]: span.is_call for batch in from_protobuf(message).batches for span in batch.spans}
    return [by_id[number] for number, *_ in spans]


CHAT = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 5}
EMBED = {"gen_ai.operation.name": "embeddings", "gen_ai.usage.input_tokens": 5}


def test_the_inner_span_stands_for_a_call_told_twice_in_one_trace() -> None:
    assert nested((1, 0, "a", CHAT), (2, 1, "b", {}), (3, 2, "c", CHAT)) == [False, False, True]


def test_two_attempts_below_one_span_are_two_calls_and_an_embedding_is_another_call() -> None:
    assert nested((1, 0, "a", CHAT), (2, 1, "b", CHAT), (3, 1, "b", CHAT)) == [False, True, True]
    assert nested((1, 0, "a", CHAT), (2, 1, "b", EMBED)) == [True, True]


def test_the_outer_span_stands_for_the_call_when_it_alone_has_the_tokens() -> None:
    assert nested((1, 0, "a", CHAT), (2, 1, "b", {"gen_ai.operation.name": "chat"})) == [True, False]


def test_an_answer_replayed_later_is_not_the_same_call() -> None:
    first, second = (
        request(1, scope="a", attributes=CHAT | {"gen_ai.response.id": "r"}),
        request(1, first=1, scope="b", attributes=CHAT | {"gen_ai.response.id": "r"}),
    )
    late = second.resource_spans[0].scope_spans[0].spans[0]
    late.start_time_unix_nano += 10**10
    late.end_time_unix_nano += 10**10
    first.resource_spans.append(second.resource_spans[0])
    assert [span.is_call for batch in from_protobuf(first).batches for span in batch.spans] == [True, True]


def test_a_cycle_of_parents_ends() -> None:
    assert nested((1, 2, "a", CHAT), (2, 1, "b", CHAT)).count(True) <= 1
