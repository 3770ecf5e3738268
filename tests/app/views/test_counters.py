"""Hit rates of sources that only count, from pages of metrics to the table: the cases of the field, each whole."""

from __future__ import annotations

import pytest

from app.charts import counters as charts
from app.views import counters as view
from app.views.counters import Counters, Rate
from collectors.errors import BadFamilies
from collectors.prometheus.families import Families, load
from collectors.prometheus.keep import sort
from collectors.prometheus.parse import parse
from storage import counters
from storage.reads.acts import Mark
from storage.reads.window import Window
from storage.rows import SourceKey
from storage.store import Store

START = 1_795_953_600_000
WINDOW = Window(START, START + 15 * 60_000)
TABLE = load()


def feed(store: Store, pages: list[str], *, every_ms: int = 15_000, target: str = "http://a/metrics", most: int = 1000) -> None:
    for number, text in enumerate(pages):
        at_ms = START + number * every_ms
        page = parse(text)
        assert page.errors == []
        counters.write_scrape(store, SourceKey("scrape", target), sort(page, TABLE, at_ms=at_ms), now_ms=at_ms, max_series=most)


def shown(store: Store, families: Families = TABLE) -> Counters:
    found = view.load(lambda: store, lambda: families, window=WINDOW, now_ms=WINDOW.end_ms)
    assert found.failures == ()
    return found


def total(store: Store, cache: str = "") -> Rate:
    (found,) = [rate for rate in view.totals(shown(store)) if cache in {"", rate.cache.id}]
    return found


def test_case_b16_one_pair_of_names_is_used_and_creation_times_are_no_counts(store: Store) -> None:
    page = """# TYPE vllm:gpu_prefix_cache_queries counter
vllm:gpu_prefix_cache_queries_total{{model_name="m"}} {queries}
vllm:gpu_prefix_cache_queries_created{{model_name="m"}} 1.7537e+09
vllm:gpu_prefix_cache_hits_total{{model_name="m"}} {hits}
vllm:prefix_cache_queries_total{{model_name="m"}} {queries}
vllm:prefix_cache_queries_created{{model_name="m"}} 1.7537e+09
vllm:prefix_cache_hits_total{{model_name="m"}} {hits}
"""
    feed(store, [page.format(queries=0, hits=0), page.format(queries=32, hits=16)])
    rate = total(store, "prefix")
    assert (rate.hits, rate.queries, rate.ratio, rate.cache.unit) == (16, 32, 0.5, "tokens")
    assert rate.names == ("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total")
    assert rate.left_aside == ("vllm:gpu_prefix_cache_hits_total", "vllm:gpu_prefix_cache_queries_total")
    assert rate.share is None  # tokens of one request come and go together


def test_an_upgrade_that_renames_a_counter_keeps_both_sides_of_it(store: Store) -> None:
    old = "vllm:gpu_prefix_cache_queries_total {}\nvllm:gpu_prefix_cache_hits_total {}\nprocess_start_time_seconds 1.7e9\n"
    new = "vllm:prefix_cache_queries_total {}\nvllm:prefix_cache_hits_total {}\nprocess_start_time_seconds 1.79595375e9\n"
    feed(store, [old.format(100, 50), old.format(200, 100), new.format(10, 9), new.format(20, 18)], every_ms=60_000)
    assert [(hits, queries) for _, hits, queries in total(store).buckets] == [(50, 100), (9, 10), (9, 10)]


def test_case_b17_counters_are_shown_and_the_gauge_is_flagged_as_the_last_batch(store: Store) -> None:
    page = (
        'sglang:cache_hit_rate {gauge}\nsglang:cached_tokens_total{{cache_source="total"}} {hits}\n'
        'sglang:cached_tokens_total{{cache_source="device"}} {hits}\nsglang:prompt_tokens_total {prompt}\n'
    )
    feed(store, [page.format(gauge=gauge, hits=place * 800, prompt=place * 1000) for place, gauge in enumerate([0.8, 0, 0.8, 0])])
    assert total(store).ratio == 0.8
    (level,) = view.level_rows(shown(store))
    assert level["value"] == 0
    assert str(level["misleads"]).startswith("last batch")


@pytest.mark.parametrize(("sources", "hits"), [(("total", "device", "host"), 30), (("device", "host"), 60), (("",), 30)])
def test_cached_tokens_by_source_are_summed_only_where_there_is_no_total(store: Store, sources: tuple[str, ...], hits: float) -> None:
    page = "".join(f'sglang:cached_tokens_total{{{{cache_source="{source}"}}}} {{hits}}\n' for source in sources)
    page += "sglang:prompt_tokens_total {prompt}\n"
    feed(store, [page.format(hits=0, prompt=0), page.format(hits=30, prompt=100)])
    assert (total(store).hits, total(store).queries) == (hits, 100)


def test_counted_rates_are_named_where_there_is_no_lookup(store: Store) -> None:
    assert view.named(shown(store)) == ""
    page = "vllm:prefix_cache_queries_total {}\nvllm:prefix_cache_hits_total {}\n"
    feed(store, [page.format(0, 0), page.format(0, 0)])
    assert view.named(shown(store)) == "", "idle is no rate"
    feed(store, [page.format(0, 0), page.format(0, 0), page.format(3200, 1600)])
    told = view.named(shown(store))
    assert told.startswith("Sources that only count tell: vLLM, ")
    assert " 50.0 % (1,600 of 3,200 tokens)." in told
    assert "http://a/metrics" in told


def test_a_gauge_alone_makes_no_hit_rate(store: Store) -> None:
    feed(store, ["sglang:cache_hit_rate 0.8\n"] * 3)
    assert view.totals(shown(store)) == []
    assert len(view.level_rows(shown(store))) == 1


def test_case_b19_an_idle_source_is_no_data(store: Store) -> None:
    page = "redis_keyspace_hits_total 100\nredis_keyspace_misses_total 3\nredis_start_time_seconds 1.7e9\n"
    feed(store, [page, page])
    rate = total(store)
    assert (rate.queries, rate.ratio, rate.share) == (0, None, None)
    (row,) = view.rate_rows(shown(store))
    assert row["hit rate"] is None
    assert "no data" in str(row["notes"])
    assert "GETs" in str(row["cache"])
    assert row["unit"] == "keys"
    assert view.bucket_rows([rate])[0]["hit rate"] is None
    assert charts.units([rate]) == []


def test_one_scrape_alone_is_no_data_and_the_source_is_shown(store: Store) -> None:
    feed(store, ["redis_keyspace_hits_total 100\nredis_keyspace_misses_total 3\n"])
    assert total(store).ratio is None


def test_increases_are_summed_before_they_are_divided(store: Store) -> None:
    """1 of 100 on one engine, 9 of 10 on the other: 10 of 110, not the mean of 1 % and 90 %."""
    page = "".join(
        f'vllm:prefix_cache_{what}_total{{{{engine="{engine}"}}}} {{{what}{engine}}}\n' for engine in "01" for what in ("queries", "hits")
    )
    feed(store, [page.format(queries0=0, hits0=0, queries1=0, hits1=0), page.format(queries0=100, hits0=1, queries1=10, hits1=9)])
    rate = total(store)
    assert (rate.hits, rate.queries) == (10, 110)


def test_a_restart_of_one_process_loses_nothing_that_was_counted_since(store: Store) -> None:
    page = "nv_cache_num_hits_per_model{{}} {}\nnv_cache_num_misses_per_model{{}} {}\nprocess_start_time_seconds {}\n"
    feed(
        store, [page.format(50, 50, 1.7e9), page.format(60, 60, 1.7e9), page.format(3, 1, 1_795_953_620), page.format(4, 1, 1_795_953_620)]
    )
    rate = total(store)
    assert (rate.hits, rate.queries, rate.resets, rate.anomalies) == (14, 25, 1, 0)


def test_a_decrease_without_a_restart_is_shown_and_never_a_negative_rate(store: Store) -> None:
    page = "redis_keyspace_hits_total {}\nredis_keyspace_misses_total {}\nredis_start_time_seconds 1.7e9\n"
    feed(store, [page.format(100, 100), page.format(110, 105), page.format(2, 1), page.format(4, 2)])
    rate = total(store)
    assert (rate.hits, rate.queries, rate.resets, rate.anomalies) == (12, 18, 0, 2)
    assert "2 values fell, or came from another process, although nothing restarted" in view.sentence(shown(store))
    assert rate.marks == ((START, view.FELL),)
    chart = charts.hit_rates([rate], WINDOW, "keys")
    assert [trace.name for trace in chart.figure.data][1:] == [view.FELL]


def test_more_hits_than_queries_are_a_contradiction_and_no_rate(store: Store) -> None:
    page = "vllm:prefix_cache_queries_total {}\nvllm:prefix_cache_hits_total {}\n"
    feed(store, [page.format(0, 0), page.format(10, 25)])
    assert total(store).ratio is None
    assert "more hits than queries" in str(view.rate_rows(shown(store))[0]["notes"])


def test_a_response_cache_by_requests_has_an_interval_and_its_models_apart(store: Store) -> None:
    page = (
        'litellm_cache_hits_metric_total{{model="a"}} {}\nlitellm_cache_misses_metric_total{{model="a"}} {}\n'
        'litellm_cache_misses_metric_total{{model="b"}} {}\n'
    )
    feed(store, [page.format(0, 0, 0), page.format(30, 10, 60)])
    rates = shown(store).rates
    assert [(rate.group, rate.hits, rate.queries) for rate in rates] == [(None, 30, 100), ("b", 0, 60), ("a", 30, 40)]
    assert rates[0].share.k == 30
    assert view.rate_rows(shown(store))[0]["95 %"] == "21.9–39.6 %"


def test_hits_whose_miss_counter_is_not_there_yet_are_all_of_it(store: Store) -> None:
    feed(store, [f'litellm_cache_hits_metric_total{{model="a"}} {value}\n' for value in (5, 8)])
    assert (total(store).hits, total(store).queries) == (3, 3)


def test_what_must_not_be_divided_is_counted_alone(store: Store) -> None:
    page = "kvcache_index_lookup_hits_total {}\nkvcache_index_lookup_requests_total {}\nbifrost_cache_hits_total {}\n"
    feed(store, [page.format(0, 0, 0), page.format(500, 3, 7)])
    assert view.totals(shown(store)) == []
    assert {(row["what"], row["grew by"], row["unit"]) for row in view.count_rows(shown(store))} == {
        ("Keys found in the KV cache index", 500, "keys"),
        ("Look-up calls to the KV cache index", 3, "requests"),
        ("Response cache hits", 7, "requests"),
    }


def test_two_names_of_one_counter_are_never_added(store: Store) -> None:
    page = "litellm_input_cached_tokens_metric_total {0}\nlitellm_provider_cache_read_input_tokens_metric_total {0}\n"
    feed(store, [page.format(0), page.format(40)])
    (row,) = view.count_rows(shown(store))
    assert row["grew by"] == 40


def test_the_overflow_series_is_in_the_rate_and_said_to_be(store: Store) -> None:
    page = "".join(
        f'litellm_cache_{what}_metric_total{{{{end_user="u{user}"}}}} {{{what}}}\n' for user in range(9) for what in ("hits", "misses")
    )
    feed(store, [page.format(hits=0, misses=0), page.format(hits=3, misses=1)], most=4)
    rate = total(store)
    assert (rate.hits, rate.queries, rate.overflow) == (27, 36, True)


def test_sources_are_never_added_to_each_other_and_units_are_drawn_apart(store: Store) -> None:
    for target in ("http://a/metrics", "http://b/metrics"):
        page = "nv_cache_num_hits_per_model {0}\nnv_cache_num_misses_per_model {0}\nvllm:prefix_cache_queries_total {0}\n"
        feed(store, [page.format(0), page.format(10)], target=target)
    rates = view.totals(shown(store))
    assert [(rate.source, rate.queries) for rate in rates if rate.cache.unit == "requests"] == [
        ("http://a/metrics", 20),
        ("http://b/metrics", 20),
    ]
    assert charts.units(rates) == ["requests", "tokens"]
    marks = [Mark("", WINDOW.start_ms, kind, "done", "faq", "ann", "") for kind in ("purge", "restart")]
    chart = charts.hit_rates(rates, WINDOW, "requests", marks)
    assert [trace.name for trace in chart.figure.data[2:]] == ["purge"]  # restarts are those of the counters
    assert [value for value in chart.figure.data[0].y if value is not None] == [50]


def test_a_bad_families_file_is_a_failure_that_says_why(store: Store) -> None:
    def broken() -> Families:
        raise BadFamilies("the families file x, system.0.unit: expected …")

    found = view.load(lambda: store, broken, window=WINDOW, now_ms=WINDOW.end_ms)
    assert [failure.source for failure in found.failures] == [view.FAMILIES]
