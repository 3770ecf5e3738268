"""What *Sources* tells of each sender, and the cases that it must get right, through the decoder and a real store."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from app.analysis import polarity
from app.analysis.pricing import Rates, bill
from app.views import sources, understood
from app.views.sources import Sources
from collectors.otlp.decode import PROTOBUF, decode_traces
from engine import semconv as sc
from storage import spans
from storage.reads import traces
from storage.reads.traces import Search
from storage.reads.window import Scope, Window
from storage.store import Store
from tests.collectors.support import request
from tests.collectors.test_captured import CAPTURED, bodies
from tests.collectors.test_decode import SETTINGS
from tests.support import telemetry

GOLDEN = Path(__file__).parents[2] / "golden" / "otlp"
SENT_MS = 1_795_954_000_000  # when tests.collectors.support.request's spans begin
WINDOW = Window.of(SENT_MS - 60_000, SENT_MS + 7_200_000)


def send(store: Store, *messages: ExportTraceServiceRequest | bytes) -> None:
    for message in messages:
        body = message if isinstance(message, bytes) else message.SerializeToString()
        spans.write(store, decode_traces(body, PROTOBUF, SETTINGS).batches, now_ms=SENT_MS)


def load(store: Store) -> Sources:
    return sources.load(lambda: store, window=WINDOW, now_ms=SENT_MS)


def chat(scope: str, number: int, **attributes: Any) -> ExportTraceServiceRequest:
    names = {"input": "gen_ai.usage.input_tokens", "output": "gen_ai.usage.output_tokens", "read": "gen_ai.usage.cache_read.input_tokens"}
    given = {names.get(name, name.replace("__", ".")): value for name, value in attributes.items()}
    common = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    return request(1, first=number, scope=scope, attributes=common | given)


def test_case_b07_the_table_by_model_shows_one_input_total_for_both_packages(store: Store) -> None:
    send(
        store,
        chat("opentelemetry.instrumentation.anthropic", 1, input=1012, read=1000, output=40, gen_ai__provider__name="anthropic"),
        chat("opentelemetry.instrumentation.bedrock", 2, input=12, read=1000, output=40, gen_ai__provider__name="aws.bedrock"),
    )
    rows = understood.call_rows(load(store).told, {})
    told = [(row["input tokens"], row["from the provider's cache"]) for row in rows]
    assert (told, sorted(str(row["input as sent"]) for row in rows)) == ([(1012, 1000), (1012, 1000)], ["1012", "12"])
    for row in rows:
        share = row["share of input"]
        assert isinstance(share, float)
        assert share == pytest.approx(98.8, abs=0.05)
        assert share <= 100
    assert {row["rule"] for row in rows} == {understood.RULES["inclusive"], understood.RULES["additive"]}


def test_case_b08_inclusive_and_additive_counts_make_equal_rows(store: Store) -> None:
    send(
        store,
        chat("opentelemetry.instrumentation.openai.v1", 1, input=10_000, read=8_000, gen_ai__provider__name="openai"),
        chat("openlit.instrumentation.anthropic", 2, input=2_000, read=8_000, gen_ai__provider__name="anthropic"),
    )
    rows = understood.call_rows(load(store).told, {"m": Rates(1.0, 0.0, 0.0)})
    told = {(row["input tokens"], row["from the provider's cache"], row["cost by your prices"]) for row in rows}
    assert told == {(10_000, 8_000, "$0.002000")}  # 2,000 fresh tokens


def test_case_b29_the_direction_of_a_score_is_inferred_and_shown(store: Store) -> None:
    assert polarity.infer([(0.95, None, True), (0.4, None, False)]) == polarity.Polarity(polarity.HIGHER, 1, 1)
    assert polarity.infer([(0.1, 0.3, True), (0.2, 0.3, True)]).direction == polarity.LOWER
    assert polarity.infer([(0.5, None, True)]) == polarity.Polarity(polarity.UNKNOWN, 0, 0)
    assert polarity.infer([(0.1, None, True), (0.9, None, True), (0.5, None, False)]).direction == polarity.UNKNOWN
    send(store, (GOLDEN / "betterdb.binpb").read_bytes())
    (row,) = understood.score_rows(load(store).told, load(store).sources)
    assert (row["taken as"], row["its own hits say"], row["verdict"]) == (
        "cosine distance, stored as 1 − distance",
        "lower is closer",
        "as taken",
    )


@pytest.mark.shared_data
def test_case_b29_on_everything_betterdb_sent(store: Store) -> None:
    send(store, *(path.read_bytes() for path, _ in bodies("betterdb_cache")))
    view = load(store)
    (row,) = understood.score_rows(view.told, view.sources)
    assert (row["its own hits say"], row["evidence"]) == ("lower is closer", "46 of 46")
    raw = [(1 - score, None if bound is None else 1 - bound, served) for score, bound, served in view.told.scores[0].rows]
    assert polarity.infer(raw).direction == polarity.LOWER


def lookup(number: int, outcome: str, *, prompt: str = "p" * 32, **more: Any) -> ExportTraceServiceRequest:
    attributes = {
        sc.OUTCOME: outcome,
        sc.NAMESPACE: "faq",
        sc.KEY: "k" * 64,
        sc.PROMPT_HASH: prompt,
        "cachescope.streamed": True,
        sc.GENAI_OPERATION: "chat",
    } | more
    message = request(1, first=number, scope=sc.SCOPE, attributes=attributes)
    span = message.resource_spans[0].scope_spans[0].spans[0]
    span.start_time_unix_nano += number * 10**9
    span.end_time_unix_nano += number * 10**9
    if outcome == "error":
        span.status.code = 2
    return message


def found(store: Store, **search: Any) -> Sequence[traces.Found]:
    with store.read() as connection:
        return traces.find(connection, WINDOW, Scope(), Search(**search)).rows


def test_case_b35_a_streamed_miss_and_its_replay_are_one_prompt_with_one_miss_and_one_hit(store: Store) -> None:
    tokens = {sc.GENAI_INPUT_TOKENS: 9, sc.GENAI_OUTPUT_TOKENS: 4}
    left = {sc.REASON: "client_left", sc.UPSTREAM_MS: 5.0}
    cut = {sc.REASON: "upstream_cut", sc.UPSTREAM_MS: 5.0}
    send(
        store,
        lookup(1, "miss", **tokens, **{sc.UPSTREAM_MS: 90.0, "cachescope.stored": True}),
        lookup(2, "exact_hit", **tokens),
        lookup(3, "error", **left, **{sc.KEY: "a" * 64}),
        lookup(4, "error", **cut, **{sc.KEY: "b" * 64}),
    )
    rows = found(store)
    assert sorted(row.outcome for row in rows) == ["error", "error", "exact_hit", "miss"]
    with store.read() as connection:
        query = "SELECT count(DISTINCT prompt_hash) FROM lookups WHERE outcome IN ('miss', 'exact_hit')"
        assert connection.exec_driver_sql(query).scalar() == 1
        # The replay is no call of a model, and repeats no tokens.
        assert connection.exec_driver_sql("SELECT sum(is_call), sum(is_call * input_tokens) FROM spans").one() == (3, 9)
    view = load(store)
    assert understood.error_rows(view.told, view.sources) == []


def test_case_b35_an_error_served_from_cache_is_listed(store: Store) -> None:
    served = {sc.CANDIDATE_SIMILARITY: 1.0, sc.THRESHOLD: 0.9}
    send(
        store,
        lookup(1, "error", **{sc.REASON: "upstream_status", "http.response.status_code": 400}),
        lookup(2, "semantic_hit", **served, **{"http.response.status_code": 200}),  # replayed as if it were an answer
        lookup(3, "exact_hit", **{sc.KEY: "c" * 64, "http.response.status_code": 429}),  # and one that does not even pretend
        lookup(4, "miss", **{sc.KEY: "d" * 64, sc.UPSTREAM_MS: 1.0}),
        lookup(5, "error", **{sc.KEY: "d" * 64}),
        lookup(6, "exact_hit", **{sc.KEY: "d" * 64}),  # a sound answer was stored: no suspicion
    )
    view = load(store)
    (row,) = understood.error_rows(view.told, view.sources)
    assert list(row.values())[2:] == [1, 1]
    assert [listed.outcome for listed in found(store, reason="error_served")] == ["exact_hit"]


@pytest.mark.shared_data
@pytest.mark.parametrize(
    "label", ["openinference_openai", "traceloop_openai", "otel_openai_v2", "otel_genai_openai_1_3", "openlit_openai", "langfuse_sdk"]
)
def test_case_b35_abandoned_and_cut_streams_are_neither_hit_nor_answer(store: Store, label: str) -> None:
    assert CAPTURED.is_dir()
    send(store, *(path.read_bytes() for path, _ in bodies(label)))
    with store.read() as connection:
        cut = "SELECT count(*) FROM spans s JOIN lookups l USING (trace_id, span_id) WHERE s.output_tokens IS NULL AND s.operation = 'chat'"
        assert connection.exec_driver_sql(cut).scalar() == 0
        assert connection.exec_driver_sql("SELECT count(*) FROM lookups WHERE cache_kind LIKE 'response%'").scalar() == 0
        assert (
            connection.exec_driver_sql("SELECT count(*) FROM lookups l JOIN spans s USING (trace_id, span_id) WHERE s.status = 2").scalar()
            == 0
        )


def test_case_b37_fresh_and_cached_tokens_are_priced_apart(store: Store) -> None:
    rates, output_usd = Rates(input_usd=1.5, output_usd=0.0, cached_input_usd=0.15), 0.000117
    found = bill(rates, input_tokens=25_978, cached_tokens=24_540, output_tokens=0)
    assert found.cost_usd + output_usd == pytest.approx(0.005955, abs=1e-6)
    assert found.full_usd + output_usd == pytest.approx(0.039084, abs=1e-6)
    assert (found.full_usd + output_usd) / (found.cost_usd + output_usd) == pytest.approx(6.56, abs=0.01)
    assert 0 <= found.saved_usd <= found.full_usd
    send(store, chat("opentelemetry.instrumentation.openai_v2", 1, input=25_978, read=24_540, output=100))
    (row,) = understood.call_rows(load(store).told, {"m": rates})
    assert (row["cost by your prices"], row["saved by the provider's cache"]) == ("$0.005838", "$0.0331")
    (row,) = understood.call_rows(load(store).told, {"another model": rates})  # a price list without this model
    assert (row["cost by your prices"], row["saved by the provider's cache"]) == ("no data", "no data")
    for cached, at_cached in ((10**9, 0.15), (5, None), (5, 9.0), (0, 0.0)):  # garbage, no rate, a dearer rate
        odd = bill(Rates(1.5, 1.0, at_cached), input_tokens=10, cached_tokens=cached, output_tokens=1)
        assert 0 <= odd.saved_usd <= odd.full_usd


def test_a_hit_of_a_response_cache_costs_nothing_and_is_no_call(store: Store) -> None:
    send(store, (GOLDEN / "litellm.binpb").read_bytes(), (GOLDEN / "langchain.binpb").read_bytes())
    with store.read() as connection:
        hits = connection.exec_driver_sql("SELECT cost_usd, outcome FROM lookups WHERE cache_kind = 'response_hits'").all()
        assert set(map(tuple, hits)) == {(0.0, "exact_hit")}
        both = "SELECT count(*) FROM spans s JOIN lookups l USING (trace_id, span_id) WHERE l.cache_kind = 'response_hits' AND s.is_call"
        assert connection.exec_driver_sql(both).scalar() == 0
    missing = {(row["dialect"], row["missing"]) for row in understood.missing_rows(load(store).sources)}
    assert {("litellm", "misses of its response cache"), ("openinference", "misses of its response cache")} <= missing


def test_sources_say_what_was_understood_and_what_is_hidden(store: Store) -> None:
    names = ("anthropic_twice", "otel_openai_v2", "redis", "betterdb", "openlit")
    send(store, *((GOLDEN / f"{name}.binpb").read_bytes() for name in names))
    view = load(store)
    rows = {str(row["scope"]).partition("@")[0]: row for row in understood.understood_rows(view.sources)}
    traceloop, sdk = rows["opentelemetry.instrumentation.anthropic"], rows["com.anthropic.sdk.python"]
    assert (traceloop["tell of calls"], traceloop["count as calls"]) == (4, 0)
    assert (sdk["tell of calls"], sdk["count as calls"], sdk["lookups"]) == (4, 4, "provider's prompt cache 2")
    assert sdk["rule for cached tokens"] == "input holds the cached tokens (2)"
    hidden = {(row["dialect"], row["missing"]): row for row in understood.missing_rows(view.sources)}
    silent = hidden["genai", "cached input tokens"]
    assert silent["in"] == "5 of 5 calls"
    assert "prompt cache" in str(silent["so this is hidden"])
    assert hidden["redis", "whether a GET found anything"]["so this is hidden"]
    assert hidden["betterdb", "tenant"]["in"] == "8 of 8 lookups"
    assert all(row["so this is hidden"] for row in hidden.values())
    assert sources.source_rows(view)
    assert view.failures == ()


def test_a_page_without_telemetry_has_no_tables(tmp_path: Path) -> None:
    opened = telemetry.open_store(tmp_path)
    view = load(opened)
    assert understood.understood_rows(view.sources) == understood.missing_rows(view.sources) == []
    assert understood.call_rows(view.told, {}) == understood.score_rows(view.told, ()) == understood.error_rows(view.told, ()) == []
    opened.close()
