"""Metrics sent by OTLP: what has a meaning for caches is stored in the shape of scraped samples, the rest is counted."""

from __future__ import annotations

import math
import time
import tracemalloc
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from collectors.otlp import cache_metrics
from collectors.otlp.buckets import MAX_BUCKETS, Unusable, exponential_bounds
from collectors.otlp.decode import JSON, PROTOBUF
from collectors.otlp.metrics import CUMULATIVE, DELTA, MetricsDecoder
from collectors.prometheus.families import load
from collectors.settings import CollectorSettings
from storage.rows import MetricBatch, SampleRow
from storage.settings import StorageSettings
from tests.collectors.support import put, running
from tests.collectors.wires import HTTP_JSON, WIRES, as_json, body_of, send

SETTINGS = CollectorSettings(StorageSettings("", ""))
FAMILIES = load()
AT = (time.time_ns() // 3_600_000_000_000 - 24) * 3_600_000_000_000  # of yesterday: what is to come is refused, and what is old removed
MINUTE = 60_000_000_000


class Request:
    """A request under construction: one resource, one scope."""

    def __init__(self, **resource: str) -> None:
        self.message = ExportMetricsServiceRequest()
        one = self.message.resource_metrics.add()
        for key, value in ({"service.name": "engine"} | resource).items():
            one.resource.attributes.add(key=key).value.string_value = value
        self.scope = one.scope_metrics.add()
        self.scope.scope.name = "meter"

    def point(self, name: str, kind: str, *, temporality: int = CUMULATIVE, monotonic: bool = True, at: int = AT, **fields: Any) -> Any:
        metric = next((one for one in self.scope.metrics if one.name == name), None) or self.scope.metrics.add(name=name)
        data = getattr(metric, kind)
        if kind in {"sum", "histogram", "exponential_histogram"}:
            data.aggregation_temporality = temporality
        if kind == "sum":
            data.is_monotonic = monotonic
        labels = fields.pop("labels", {})
        point = data.data_points.add(time_unix_nano=at, start_time_unix_nano=AT - MINUTE, **fields)
        for key, value in labels.items():
            put(point.attributes.add(key=key).value, value)
        return point


def faulty() -> tuple[Any, dict[str, int]]:
    """A request with one sound point, and each way in which a point can contradict itself."""
    request = Request()
    request.point("cache.ok", "histogram", count=3, bucket_counts=[1, 2], explicit_bounds=[1.0], sum=4.0)
    reasons: Counter[str] = Counter()

    def bad(reason: str, kind: str, **fields: Any) -> None:
        reasons[reason] += 1
        request.point(f"cache.bad{sum(reasons.values())}", kind, **fields)

    bad("unspecified_temporality", "sum", temporality=0, as_int=1)
    bad("unspecified_temporality", "histogram", temporality=0, count=1)
    bad("unspecified_temporality", "exponential_histogram", temporality=7, count=1)
    bad("invalid_buckets", "histogram", count=3, bucket_counts=[1, 2], explicit_bounds=[1.0, 2.0])
    bad("invalid_buckets", "histogram", count=4, bucket_counts=[1, 2], explicit_bounds=[1.0])
    bad("invalid_buckets", "histogram", count=4, explicit_bounds=[1.0])
    bad("invalid_bounds", "histogram", count=3, bucket_counts=[1, 1, 1], explicit_bounds=[2.0, 2.0])
    bad("invalid_buckets", "exponential_histogram", count=5, zero_count=1)
    bad("negative_count", "sum", as_int=-1)
    bad("no_value", "sum")
    bad("no_value", "gauge")
    bad("time_out_of_range", "gauge", at=0, as_int=1)
    bad("too_many_labels", "gauge", as_int=1, labels={f"k{n}": n for n in range(65)})
    bad("not_a_number", "gauge", as_double=math.nan)
    return request.message, dict(reasons)


def decoded(request: Request | ExportMetricsServiceRequest, *, decoder: MetricsDecoder | None = None) -> list[MetricBatch]:
    message = request.message if isinstance(request, Request) else request
    decoder = decoder or MetricsDecoder(SETTINGS, FAMILIES)
    found = decoder.decode(message.SerializeToString(), PROTOBUF)
    assert MetricsDecoder(SETTINGS, FAMILIES).decode(body_of(HTTP_JSON, message), JSON).batches == found.batches or decoder._series
    return list(found.batches)


def samples(request: Request) -> list[SampleRow]:
    return [row for batch in decoded(request) for point in batch.points for row in point.samples]


def shown(request: Request) -> list[tuple[str, str, str, float]]:
    return [(row.name, row.labels, row.kind, row.value) for row in samples(request)]


def test_a_sum_is_a_counter_when_it_only_grows_and_a_gauge_when_it_may_fall() -> None:
    request = Request()
    request.point("cache.hits", "sum", as_int=7, labels={"tier": "l1", "n": 3, "ok": True, "list": [1, "a"]})
    request.point("cache_misses_total", "sum", as_double=2.5)
    request.point("cache.entries", "sum", monotonic=False, as_int=-4)
    request.point("cache.size", "gauge", as_int=9)
    assert shown(request) == [
        ("cache.hits_total", '{"list":"[1,\\"a\\"]","n":"3","ok":"true","tier":"l1"}', "counter", 7.0),
        ("cache_misses_total", "{}", "counter", 2.5),
        ("cache.entries", "{}", "gauge", -4.0),
        ("cache.size", "{}", "gauge", 9.0),
    ]
    assert {(row.at_ms, row.start_ms) for row in samples(request)} == {(AT // 10**6, (AT - MINUTE) // 10**6)}


@pytest.mark.parametrize(("temporality", "kind"), [(CUMULATIVE, "histogram"), (DELTA, "histogram_delta")])
def test_a_histogram_is_buckets_below_a_bound_its_sum_and_its_count(temporality: int, kind: str) -> None:
    request = Request()
    request.point("cache.ms", "histogram", temporality=temporality, count=6, sum=9.5, bucket_counts=[1, 2, 3], explicit_bounds=[0.5, 10.0])
    request.point("cache.bare", "histogram", temporality=temporality, count=4)
    assert shown(request) == [
        ("cache.ms_bucket", '{"le":"0.5"}', kind, 1.0),
        ("cache.ms_bucket", '{"le":"10.0"}', kind, 3.0),
        ("cache.ms_bucket", '{"le":"+Inf"}', kind, 6.0),
        ("cache.ms_sum", "{}", kind, 9.5),
        ("cache.ms_count", "{}", kind, 6.0),
        ("cache.bare_bucket", '{"le":"+Inf"}', kind, 4.0),  # no sum was sent: absent is not 0
        ("cache.bare_count", "{}", kind, 4.0),
    ]


def test_an_exponential_histogram_is_the_same_with_its_own_bounds() -> None:
    request = Request()
    point = request.point("cache.ms", "exponential_histogram", scale=0, count=8, zero_count=1, zero_threshold=0.25, sum=20.0)
    point.positive.offset, point.negative.offset = 1, 0
    point.positive.bucket_counts.extend([2, 0, 3])
    point.negative.bucket_counts.extend([2])
    found = [(row.labels, row.value) for row in samples(request) if row.name == "cache.ms_bucket"]
    assert found == [
        ('{"le":"-2.0"}', 0.0),
        ('{"le":"-1.0"}', 2.0),
        ('{"le":"-0.25"}', 2.0),
        ('{"le":"0.25"}', 3.0),
        ('{"le":"2.0"}', 3.0),
        ('{"le":"4.0"}', 5.0),
        ('{"le":"8.0"}', 5.0),
        ('{"le":"16.0"}', 8.0),
        ('{"le":"+Inf"}', 8.0),
    ]


_patient = hypothesis_settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
_counts = st.lists(st.integers(0, 5), max_size=12)


@_patient
@example(3, -7, [1, 2] * 2 * MAX_BUCKETS, [1], 1)
@given(st.integers(-10, 20), st.integers(-1000, 1000), _counts, _counts, st.integers(0, 3))
def test_bounds_increase_counts_never_fall_and_nothing_is_lost(
    scale: int, offset: int, positive: list[int], negative: list[int], zero: int
) -> None:
    found = exponential_bounds(scale, 0.0, zero, (offset, positive), (offset, negative))
    bounds, below = [bound for bound, _ in found], [count for _, count in found]
    assert all(low < high for low, high in pairwise(bounds))
    assert below == sorted(below)
    if (offset + len(positive) + 1) * 2.0**-scale < 1000:  # else the last bucket ends beyond the largest number
        assert (below or [0])[-1] == sum(positive) + sum(negative) + zero
    assert len(found) <= 4 * MAX_BUCKETS + 2


@_patient
@given(st.integers(-(2**31), 2**31 - 1), st.integers(-(2**31), 2**31 - 1), st.floats(), st.lists(st.integers(0, 9), max_size=9))
def test_no_number_breaks_an_exponential_histogram(scale: int, offset: int, threshold: float, counts: list[int]) -> None:
    try:
        found = exponential_bounds(scale, threshold, 1, (offset, counts), (offset, counts))
    except Unusable:
        return
    assert all(math.isfinite(bound) for bound, _ in found)


def test_a_summary_keeps_its_quantiles() -> None:
    request = Request()
    point = request.point("cache.ms", "summary", count=2, sum=3.0)
    point.quantile_values.add(quantile=0.5, value=1.5)
    point.quantile_values.add(quantile=0.9, value=math.nan)
    assert shown(request) == [
        ("cache.ms", '{"quantile":"0.5"}', "summary", 1.5),
        ("cache.ms_sum", "{}", "summary", 3.0),
        ("cache.ms_count", "{}", "summary", 2.0),
    ]


def test_exemplars_keep_their_trace_ids() -> None:
    request = Request()
    point = request.point("cache.hits", "sum", as_int=7)
    one = point.exemplars.add(time_unix_nano=AT, as_int=3, trace_id=b"\xab" * 16, span_id=b"\xcd" * 8)
    put(one.filtered_attributes.add(key="user").value, "u1")
    point.exemplars.add(time_unix_nano=AT, as_double=0.5, trace_id=b"\0" * 16, span_id=b"?")
    point.exemplars.add(as_double=math.nan)
    (batch,) = decoded(request)
    assert [(row.name, row.value, row.trace_id, row.span_id, row.attributes) for row in batch.points[0].exemplars] == [
        ("cache.hits_total", 3.0, b"\xab" * 16, b"\xcd" * 8, '{"user":"u1"}'),
        ("cache.hits_total", 0.5, None, None, "{}"),
    ]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("vllm:prefix_cache_hits", True),
        ("vllm:gpu_prefix_cache_queries_total", True),
        ("vllm:num_requests_running", False),
        ("sglang:cached_tokens_total", True),
        ("sglang:num_queue_reqs", False),
        ("gen_ai.client.token.usage", True),
        ("gen_ai.client.operation.duration", False),
        ("litellm_cache_hits_metric", True),
        ("redis.keyspace.hits", True),
        ("redis.clients.connected", False),
        ("nv_cache_num_hits_per_model", True),
        ("Semantic_Cache_Requests_Total", True),
        ("http.server.request.duration", False),
        ("cachet.builds", False),
        ("cache" * 100, False),
    ],
)
def test_the_table_says_which_metrics_have_a_meaning_for_caches(name: str, kept: bool) -> None:
    assert cache_metrics.of_name(name) is kept


def test_every_rule_of_the_table_has_a_name_that_it_alone_would_keep() -> None:
    assert len({rule.pattern for rule in cache_metrics.RULES}) == len(cache_metrics.RULES)
    assert all(rule.whose for rule in cache_metrics.RULES)


@pytest.mark.parametrize("wire", WIRES)
async def test_points_of_no_cache_are_dropped_visibly_and_an_attribute_can_say_that_one_is(tmp_path: Path, wire: str) -> None:
    request = Request()
    request.point("http.requests", "sum", as_int=1)
    request.point("http.requests", "sum", as_int=2, labels={"cache_status": "hit"})
    async with running(tmp_path) as it:
        answer = await send(it, wire, request.message, signal="metrics")
        assert (answer.code, answer.rejected, "not_stored (1)" in answer.message) == (0, 1, True)
        assert await it.rows("SELECT name, value FROM metric_samples") == [("http.requests_total", 2.0)]
        assert await it.rows("SELECT kind, accepted, dropped FROM sources") == [("otlp_metrics", 1, 1)]
        assert "cachescope_collector_committed_points_total 1.0" in (await it.client.get("/metrics")).text


async def test_a_resend_of_increases_is_stored_once_and_a_total_with_its_start(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        for minute, (total, start) in enumerate([(5, 0), (9, 0), (12, 2), (13, 2)]):  # 12 is more than 9: only the start tells
            request = Request()
            at = AT + minute * MINUTE
            request.point("cache.hits", "sum", as_int=total, at=at).start_time_unix_nano = AT + start * MINUTE - MINUTE // 2
            request.point("cache.tokens", "sum", temporality=DELTA, as_int=10, at=at).start_time_unix_nano = at - MINUTE
            for _ in range(2):
                assert (await send(it, "grpc", request.message, signal="metrics")).code == 0
        assert await it.rows("SELECT accepted, duplicates FROM sources") == [(8, 8)]
        # 5 -> 9, then 12 since a later start, then 13: what is stored tells that it grew by 4 + 12 + 1.
        query = "SELECT kind, value, start_ms - ? FROM metric_samples WHERE name = ? ORDER BY at_ms"
        began = AT // 10**6 - MINUTE // 10**6 // 2
        assert await it.rows(query, began, "cache.hits_total") == [
            *[("counter", total, 0) for total in (5, 9)],
            *[("counter", total, 2 * MINUTE // 10**6) for total in (12, 13)],
        ]
        first = AT // 10**6 - MINUTE // 10**6
        assert await it.rows(query, first, "cache.tokens_total") == [("counter_delta", 10, minute * MINUTE // 10**6) for minute in range(4)]


def test_a_known_counter_s_labels_are_bounded_for_they_are_kept_for_years() -> None:
    for name, refused in (("vllm:prefix_cache_hits", {"labels_too_long": 1}), ("cache.hits", {})):
        request = Request()
        request.point(name, "sum", as_int=1, labels={f"k{number}": "x" * 600 for number in range(20)})
        (batch,) = decoded(request)
        assert batch.rejects == refused


def test_a_point_that_lasts_no_time_has_no_known_start() -> None:
    request = Request()
    for name, start in (("vllm:prefix_cache_hits", AT), ("vllm:prefix_cache_queries", AT - MINUTE)):
        request.point(name, "sum", as_int=9).start_time_unix_nano = start
    (batch,) = decoded(request)
    assert [one.start_ms for point in batch.points for one in point.readings] == [None, (AT - MINUTE) // 10**6]


@pytest.mark.parametrize("wire", WIRES)
async def test_known_counters_are_counted_as_scraped_ones_are_in_the_same_transaction(tmp_path: Path, wire: str) -> None:
    async with running(tmp_path) as it:
        for minute in range(3):
            request, at = Request(), AT + minute * MINUTE
            request.point("vllm:prefix_cache_hits", "sum", as_int=10 * minute, at=at, labels={"model.name": "m"})
            request.point("litellm_cache_hits_metric", "sum", temporality=DELTA, as_int=4, at=at).start_time_unix_nano = at - MINUTE
            request.point("cache.hits", "sum", as_int=minute, at=at)  # of a meaning that nobody told us
            for _ in range(2):
                assert (await send(it, wire, request.message, signal="metrics")).code == 0
        query = """SELECT s.name, s.labels, sum(h.increase), sum(h.covered_ms) FROM counter_hours h
                   JOIN counter_series s ON s.id = h.series_id GROUP BY s.id ORDER BY s.name"""
        assert await it.rows(query) == [
            ("litellm_cache_hits_metric_total", "{}", 12, 3 * MINUTE // 10**6),
            ("vllm:prefix_cache_hits_total", '{"model_name":"m"}', 20, 2 * MINUTE // 10**6),
        ]
        # The samples stay as they were sent.
        assert await it.rows("SELECT DISTINCT labels FROM metric_samples WHERE name LIKE 'vllm%'") == [('{"model.name":"m"}',)]


async def test_totals_of_two_instances_that_do_not_name_themselves_stay_apart(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        for host, total in (("a", 1), ("b", 2)):
            request = Request(**{"host.name": host})
            request.point("cache.hits", "sum", as_int=total)
            await send(it, "grpc", request.message, signal="metrics")
        assert len(await it.rows("SELECT DISTINCT instance FROM sources WHERE instance LIKE 'resource-%'")) == 2
        assert sorted(await it.rows("SELECT value FROM metric_samples")) == [(1.0,), (2.0,)]


def test_labels_without_end_are_stopped_and_said() -> None:
    decoder = MetricsDecoder(replace(SETTINGS, max_series=3), FAMILIES)
    for _ in range(2):
        request = Request()
        for user in range(5):
            request.point("cache.hits", "sum", as_int=1, labels={"user": user})
        (batch,) = decoded(request, decoder=decoder)
        assert (len(batch.points), batch.rejects) == (3, {"too_many_series": 2})


def test_a_malformed_metric_in_json_costs_itself_alone() -> None:
    request = Request()
    request.point("cache.a", "sum", as_int=1)
    request.point("cache.b", "gauge", as_int=2)
    document = as_json(request.message)
    metrics = document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"]
    metrics[0]["sum"]["dataPoints"] = [{"asInt": "many"}, {}]
    metrics += [{"name": 5}, {"name": "cache.c", "sum": {"aggregationTemporality": math.inf}}]
    found = MetricsDecoder(SETTINGS, FAMILIES).decode(body_of(HTTP_JSON, document), JSON)
    assert found.rejects == {"malformed_metric": 4}
    assert [row.name for point in found.batches[0].points for row in point.samples] == ["cache.b"]  # type: ignore[union-attr]


def test_a_point_that_says_it_has_no_value_is_no_sample() -> None:
    request = Request()
    request.point("cache.a", "gauge", as_int=1).flags = 1
    (batch,) = decoded(request)
    assert (list(batch.points), batch.dropped) == ([], 1)


@pytest.mark.parametrize("kind", ["histogram", "exponential_histogram", "summary"])
def test_a_point_of_thousands_of_buckets_is_refused_and_the_rest_lands(kind: str) -> None:
    request = Request()
    labels = {f"k{number}": "x" * 500 for number in range(60)}
    if kind == "histogram":
        request.point("cache.ms", kind, labels=labels, bucket_counts=[0] * 4_001, explicit_bounds=[float(n) for n in range(4_000)])
    elif kind == "exponential_histogram":
        request.point("cache.ms", kind, labels=labels, count=4_000).positive.bucket_counts.extend([1] * 4_000)
    else:
        point = request.point("cache.ms", kind, labels=labels)
        for number in range(4_000):
            point.quantile_values.add(quantile=number / 4_000)
    request.point("cache.hits", "sum", as_int=1)
    body = request.message.SerializeToString()
    tracemalloc.start()
    (batch,) = MetricsDecoder(SETTINGS, FAMILIES).decode(body, PROTOBUF).batches
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (batch.rejects, [row.name for point in batch.points for row in point.samples]) == (  # type: ignore[union-attr]
        {"too_many_buckets": 1},
        ["cache.hits_total"],
    )
    assert peak < 5_000_000


def test_points_whose_labels_would_fill_the_memory_are_refused_and_the_rest_lands() -> None:
    request = Request()
    large = {"count": 0, "bucket_counts": [0] * 500, "explicit_bounds": [float(n) for n in range(499)]}
    for number in range(5):  # each 14 MB of labels
        request.point("cache.ms", "histogram", labels={"n": number} | {f"k{place}": "x" * 500 for place in range(60)}, **large)
    request.point("cache.hits", "sum", as_int=1)
    decoder = MetricsDecoder(SETTINGS, FAMILIES)
    (batch,) = decoder.decode(request.message.SerializeToString(), PROTOBUF).batches
    assert (len(batch.points), batch.rejects) == (5, {"too_many_points": 1})  # type: ignore[union-attr]


def test_a_point_of_no_cache_is_dropped_before_anything_is_made_of_it() -> None:
    request = Request()
    request.point("http.ms", "histogram", bucket_counts=[0] * 4_001, explicit_bounds=[float(n) for n in range(4_000)])
    (batch,) = decoded(request)
    assert (list(batch.points), batch.rejects, batch.dropped) == ([], {}, 1)


def test_a_bound_stands_among_the_labels_in_order_and_wins_over_one_of_its_name() -> None:
    request = Request()
    request.point("cache.ms", "histogram", count=1, labels={"le": "theirs", "a": '"', "z": "1", "l": "é"})
    assert [(row.name, row.labels) for row in samples(request)] == [
        ("cache.ms_bucket", '{"a":"\\"","l":"é","le":"+Inf","z":"1"}'),
        ("cache.ms_count", '{"a":"\\"","l":"é","le":"theirs","z":"1"}'),
    ]
