"""Hit rates of systems that push their counters by OTLP: counted, named and shown as those of systems that are scraped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from app.views import counters as view
from app.views import snapshots
from app.views.counters import Counters, Rate
from collectors.otlp.decode import PROTOBUF, decode_traces
from collectors.otlp.metrics import CUMULATIVE, DELTA, MetricsDecoder
from collectors.prometheus.families import load
from storage import points, spans
from storage.reads.window import Window
from storage.store import Store
from tests.app.views.test_counters import feed
from tests.collectors import support
from tests.collectors.test_decode import SETTINGS
from tests.collectors.test_otlp_metrics import Request
from tests.conftest import SHARED

START = 1_795_953_600_000
WINDOW = Window(START, START + 60 * 60_000)
TABLE = load()
DECODER = MetricsDecoder(SETTINGS, TABLE)


def push(store: Store, body: bytes, *, at_ms: int = START, since_ms: int = START - 1) -> None:
    found = DECODER.decode(body, PROTOBUF)
    assert not {reason for reason in found.rejects if reason != "not_stored"}
    points.write(store, found.batches, now_ms=at_ms, since_ms=since_ms)  # type: ignore[arg-type]


def collection(minute: int, counts: dict[str, Any], *, start: int = 0, temporality: int = CUMULATIVE, **resource: str) -> bytes:
    """One collection of sums: name, or name and one label in braces -> value."""
    request = Request(**resource)
    for name, value in counts.items():
        metric, _, label = name.rstrip("}").partition("{")
        labels = dict([label.split("=")]) if label else {}
        at = (START + minute * 60_000) * 1_000_000
        point = request.point(metric, "sum", temporality=temporality, at=at, as_int=value, labels=labels)
        point.start_time_unix_nano = (START + start * 60_000) * 1_000_000
    return request.message.SerializeToString()


def shown(store: Store, window: Window = WINDOW) -> Counters:
    found = view.load(lambda: store, lambda: TABLE, window=window, now_ms=window.end_ms)
    assert found.failures == ()
    return found


def total(store: Store) -> Rate:
    (found,) = view.totals(shown(store))
    return found


def test_totals_of_vllm_make_the_rate_that_a_scrape_of_it_makes(store: Store) -> None:
    page = "vllm:prefix_cache_queries_total {}\nvllm:prefix_cache_hits_total {}\nprocess_start_time_seconds {}\n"
    feed(store, [page.format(100, 50, 1.7e9), page.format(300, 90, 1.7e9), page.format(20, 10, 1_795_953_620)])
    push(store, collection(0, {"vllm:prefix_cache_queries": 100, "vllm:prefix_cache_hits": 50}, start=-60))
    push(store, collection(1, {"vllm:prefix_cache_queries": 300, "vllm:prefix_cache_hits": 90}, start=-60))
    push(store, collection(3, {"vllm:prefix_cache_queries": 20, "vllm:prefix_cache_hits": 10}, start=2))
    scraped, pushed = sorted(view.totals(shown(store)), key=lambda rate: rate.source != "http://a/metrics")
    for rate in (scraped, pushed):
        assert (rate.hits, rate.queries, rate.resets, rate.cache.id, rate.cache.unit) == (50, 220, 1, "prefix", "tokens")
    assert pushed.source == "engine (meter)"
    assert pushed.names == ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total")


def test_increases_are_added_and_a_resend_changes_nothing(store: Store) -> None:
    for minute in range(3):
        body = collection(minute + 1, {"litellm_cache_hits_metric": 3, "litellm_cache_misses_metric": 1}, start=minute, temporality=DELTA)
        push(store, body)
        push(store, body)
    rate = total(store)
    assert (rate.hits, rate.queries) == (9, 12)
    assert rate.share.k == 9  # type: ignore[union-attr]
    assert [(at_ms - START) // 60_000 for at_ms, *_ in rate.buckets] == [1, 2, 3]


def test_restarts_of_one_service_are_one_source_and_its_scopes_are_not(store: Store) -> None:
    """Each process names itself anew; what each counted from its start is counted, and the rates of the dead ones are not rows."""
    for life in range(3):
        body = {"nv_cache_num_hits_per_model": 4, "nv_cache_num_misses_per_model": 6}
        push(store, collection(2 * life + 1, body, start=2 * life, **{"service.instance.id": f"pod-{life}"}))
    rate = total(store)
    assert (rate.hits, rate.queries, rate.source) == (12, 30, "engine (meter)")
    assert view.totals(shown(store, WINDOW.shifted(-20 * 3_600_000)))[0].ratio is None  # silent since
    assert view.totals(shown(store, WINDOW.shifted(-48 * 3_600_000))) == []
    other = Request()
    other.scope.scope.name = "another"
    for name in ("nv_cache_num_hits_per_model", "nv_cache_num_misses_per_model"):
        other.point(name, "sum", as_int=1, at=(START + 60_000) * 1_000_000).start_time_unix_nano = (START + 1) * 1_000_000
    push(store, other.message.SerializeToString())
    assert sorted((rate.source, rate.queries) for rate in view.totals(shown(store))) == [("engine (another)", 2), ("engine (meter)", 30)]


def test_a_sender_that_never_tells_of_cached_input_has_no_rate_of_it_and_one_that_does_has(store: Store) -> None:
    def tokens(minute: int, **by_type: int) -> bytes:
        request = Request()
        for kind, number in by_type.items():
            labels = {"gen_ai.token.type": kind, "gen_ai.request.model": "m"}
            at = (START + minute * 60_000) * 1_000_000
            point = request.point("gen_ai.client.token.usage", "histogram", at=at, count=1, sum=number, labels=labels)
            point.start_time_unix_nano = START * 1_000_000 + 1_000_000
        return request.message.SerializeToString()

    push(store, tokens(1, input=1_000, output=20))
    assert view.totals(shown(store)) == []  # absent is not 0 %
    push(store, tokens(2, input=3_000, output=40, cached_input=500))
    rate = total(store)
    assert (rate.hits, rate.queries, rate.cache.kind) == (500, 3_000, "provider_prompt")


def test_names_and_units_as_collectors_write_them(store: Store) -> None:
    for minute, (hits, misses) in enumerate([(10, 10), (40, 20)]):
        request = Request()
        at = (START + minute * 60_000) * 1_000_000
        for name, value in (("redis.keyspace.hits", hits), ("redis.keyspace.misses", misses), ("redis.keys.evicted", minute * 7)):
            request.point(name, "sum", as_int=value, at=at).start_time_unix_nano = (START - 1) * 1_000_000
        request.point("redis.memory.used", "gauge", as_int=4_096, at=at)
        request.scope.metrics[-1].unit = "By"
        for kind, number in (("hit", minute * 3), ("miss", minute * 1)):
            request.point("memcached.operations", "sum", as_int=number, at=at, labels={"operation": "get", "type": kind})
        push(store, request.message.SerializeToString())
    assert {(rate.cache.id, rate.hits, rate.queries) for rate in view.totals(shown(store))} == {("keyspace", 30, 40), ("get", 3, 4)}
    assert [(row["what"], row["grew by"]) for row in view.count_rows(shown(store))] == [("Keys evicted for want of memory", 7)]
    assert [(row["what"], row["value"]) for row in view.level_rows(shown(store))] == [("Memory in use, bytes", 4_096)]


def test_what_a_level_changed_by_is_not_shown_as_a_level(store: Store) -> None:
    request = Request()
    at = START * 1_000_000
    request.point("redis.memory.used", "sum", temporality=DELTA, monotonic=False, as_int=-7, at=at)
    request.scope.metrics[0].unit = "By"
    request.point("redis_connected_clients", "sum", temporality=DELTA, monotonic=False, as_int=-1, at=at)  # the known name itself
    push(store, request.message.SerializeToString())
    assert view.level_rows(shown(store)) == []
    with store.read() as conn:
        stored = conn.exec_driver_sql("SELECT name, kind, value FROM metric_samples ORDER BY name").all()
    assert stored == [("redis.memory.used", "gauge_delta", -7.0), ("redis_connected_clients", "gauge_delta", -1.0)]


def test_an_exemplar_leads_to_its_trace_where_that_is_stored(store: Store) -> None:
    traces = decode_traces(support.request(1).SerializeToString(), PROTOBUF, SETTINGS)
    spans.write(store, traces.batches, now_ms=START)  # type: ignore[arg-type]
    known, unknown = support.trace_id(0), b"\xab" * 16
    for minute in (1, 2):  # sent again with the next collection
        request = Request()
        at = (START + minute * 60_000) * 1_000_000
        point = request.point("vllm:prefix_cache_hits", "sum", as_int=minute, at=at)
        for number, trace_id in enumerate((known, unknown)):
            point.exemplars.add(time_unix_nano=START * 1_000_000, as_int=number, trace_id=trace_id, span_id=b"\1" * 8)
        push(store, request.message.SerializeToString())
    rows = snapshots.exemplar_rows(shown(store))
    assert [(row["value"], row["trace"], row["trace id"]) for row in rows] == [
        (1, None, unknown.hex()),
        (0, f"/traces?trace={known.hex()}", known.hex()),
    ]


def test_a_table_of_the_user_s_own_says_which_further_metrics_are_stored(store: Store, tmp_path: Path) -> None:
    table = """[[system]]
id = "shop"
title = "Shop"
[[system.ratio]]
id = "answers"
title = "Answers"
kind = "response"
unit = "requests"
pairs = [{ hits = ["shop_served_total"], queries = ["shop_asked_total"] }]
"""
    (tmp_path / "own.toml").write_text(table)
    families = load(tmp_path / "own.toml")
    decoder = MetricsDecoder(SETTINGS, families)
    for minute in (0, 1):
        found = decoder.decode(collection(minute, {"shop.served": 3 * minute, "shop.asked": 4 * minute, "shop.doors": 1}), PROTOBUF)
        assert found.rejects == {"not_stored": 1}
        points.write(store, found.batches, now_ms=START, since_ms=START)  # type: ignore[arg-type]
    found = view.load(lambda: store, lambda: families, window=WINDOW, now_ms=WINDOW.end_ms)
    assert [(rate.system, rate.ratio) for rate in view.totals(found)] == [("Shop", 0.75)]


@pytest.mark.shared_data
@pytest.mark.parametrize("label", ["openlit_openai", "otel_genai_openai_1_3", "otel_openai_v2", "pydantic_ai_logfire", "traceloop_openai"])
def test_captured_metrics_of_tokens_are_counted_and_make_no_rate_that_they_do_not_tell(store: Store, label: str) -> None:
    """What the last export's totals are is what all exports of the run, one after the other, grew by."""
    last: dict[tuple[str, str, str], float] = {}
    for file in sorted((SHARED / "data" / "captured" / "otlp" / label).glob("metrics_*.binpb")):
        push(store, file.read_bytes(), at_ms=START + 30 * 86_400_000, since_ms=0)  # after all of them
        for batch in DECODER.decode(file.read_bytes(), PROTOBUF).batches:
            for point in batch.points:  # type: ignore[union-attr]
                last.update({(batch.source.scope, one.name, one.labels): one.value for one in point.readings})
    assert last
    with store.read() as connection:
        query = "SELECT sum(increase), sum(resets), sum(anomalies) FROM counter_minutes"
        assert connection.exec_driver_sql(query).one() == (pytest.approx(sum(last.values())), 0, 0)
    shown_then = Window.of(START, START + 3_600_000)
    assert view.totals(shown(store, shown_then)) == []
    rows = view.count_rows(shown(store, shown_then))
    assert {row["of"] for row in rows} == {"gen_ai_token_type = input", "gen_ai_token_type = output"}
