"""What counters mean, as data: the shipped table is whole, and a user's file extends it."""

from __future__ import annotations

from pathlib import Path

import pytest

from collectors.errors import BadFamilies
from collectors.prometheus.families import OVERFLOW, Families, load
from collectors.prometheus.keep import created_name, labels_text, sort
from collectors.prometheus.parse import parse
from collectors.settings import ScrapeTarget
from tests.collectors.support import running, until
from tests.support.servers import page_server

TABLE = load()


def system(name: str):  # type: ignore[no-untyped-def]
    return next(one for one in TABLE.system if one.id == name)


def test_every_system_asked_for_is_in_the_table() -> None:
    wanted = {
        "vllm",
        "sglang",
        "lmcache",
        "litellm",
        "kong",
        "apisix",
        "bifrost",
        "betterdb",
        "redis",
        "memcached",
        "dynamo",
        "llmd",
        "triton",
    }
    assert wanted <= {one.id for one in TABLE.system}


def test_names_inside_a_system_are_unique_and_no_gauge_is_a_counter() -> None:
    for one in TABLE.system:
        ids = [row.id for row in (*one.ratio, *one.count)]
        assert len(ids) == len(set(ids)), one.id
    assert TABLE.gauges & set(TABLE.labels) == set()
    assert not [name for name in TABLE.labels if name.endswith("_created")]


def test_case_b16_the_new_names_are_used_and_the_old_ones_never_added() -> None:
    (prefix,) = [ratio for ratio in system("vllm").ratio if ratio.id == "prefix"]
    old = [("vllm:gpu_prefix_cache_hits_total", {}), ("vllm:gpu_prefix_cache_queries_total", {})]
    new = [("vllm:prefix_cache_hits_total", {}), ("vllm:prefix_cache_queries_total", {})]
    assert prefix.pair([*old, *new]).names == tuple(name for name, _ in new)
    assert prefix.pair(old).names == tuple(name for name, _ in old)
    assert prefix.pair(new[1:]).names == tuple(name for name, _ in new)
    assert prefix.pair([("vllm:num_requests_running", {})]) is None


def test_gauges_that_mislead_say_why() -> None:
    told = {name: gauge.misleads for one in TABLE.system for gauge in one.gauge for name in gauge.names}
    assert told["sglang:cache_hit_rate"].startswith("last batch")
    assert "1 when idle" in told["lmcache:retrieve_hit_rate"]
    assert told["vllm:kv_cache_usage_perc"] == ""
    assert [name for name, why in told.items() if "hit_rate" in name and not why] == []


def test_a_missing_label_is_empty_and_case_does_not_matter() -> None:
    (ratio,) = system("kong").ratio
    (hits,), (misses,) = ratio.pairs[0].hits, ratio.pairs[0].misses
    assert hits.matches({"cache_status": "Hit"})
    assert not hits.matches({"cache_status": ""})
    assert not misses.matches({})
    (uncached,) = system("kong").count[0].series[0]
    assert uncached.matches({})
    assert not uncached.matches({"cache_status": "miss"})


def test_the_overflow_series_keeps_what_the_meaning_hangs_on() -> None:
    labels = {"result": "uncertain_hit", "category": "c1", "cache_name": "x"}
    assert TABLE.folded("semantic_cache_requests_total", labels) == {"result": "uncertain_hit", OVERFLOW: "true"}
    assert TABLE.folded("semantic_cache_requests_total", {"result": "some other"}) == {OVERFLOW: "true"}
    assert TABLE.folded("redis_keyspace_hits_total", {"instance": "x"}) == {OVERFLOW: "true"}


OWN = """
[[system]]
id = "shop"
title = "Shop cache"
[[system.ratio]]
id = "answers"
title = "Answers"
kind = "response"
unit = "requests"
pairs = [{ hits = ["shop_hits_total"], misses = ["shop_misses_total"] }]
[[system]]
id = "vllm"
title = "Our vLLM"
"""


def test_a_user_s_file_adds_systems_and_replaces_those_of_the_same_id(tmp_path: Path) -> None:
    file = tmp_path / "families.toml"
    file.write_text(OWN)
    found = load(file)
    assert [one.title for one in found.system if one.id in {"vllm", "shop"}] == ["Our vLLM", "Shop cache"]
    assert "shop_hits_total" in found.labels
    assert "vllm:prefix_cache_hits_total" not in found.labels
    assert len(found.system) == len(TABLE.system) + 1


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[[system]", "is not valid TOML"),
        ("[[system]]\nid = 'x'\n", "system.0.title: Field required"),
        ("[[system]]\nid = 'x'\ntitle = 'X'\ncolour = 1\n", "system.0.colour: Extra inputs are not permitted"),
        (OWN.replace("requests", "clicks"), "system.0.ratio.0.unit: Input should be 'requests', 'tokens'"),
        (OWN.replace('misses = ["shop_misses_total"]', "queries = []"), "system.0.ratio.0.pairs.0: expected either queries or misses"),
        (OWN.replace('"vllm"', '"shop"'), "two systems with the id 'shop'"),
    ],
)
def test_a_bad_file_says_where_and_what_was_expected(tmp_path: Path, text: str, told: str) -> None:
    file = tmp_path / "families.toml"
    file.write_text(text)
    with pytest.raises(BadFamilies, match=r"families\.toml") as caught:
        load(file)
    assert told in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadFamilies, match=r"cannot read the families file .*nowhere\.toml"):
        load(tmp_path / "nowhere.toml")


# From a page to what is stored of it


def test_a_page_is_sorted_into_counters_gauges_and_what_has_no_meaning_here() -> None:
    page = parse("""# TYPE cachescope_lookups counter
cachescope_lookups_total{namespace="faq"} 3
process_start_time_seconds 1.7e+09
vllm:prefix_cache_hits_total{model_name="m"} 16
vllm:prefix_cache_hits_created{model_name="m"} 1.75e+09
vllm:prefix_cache_queries_total{model_name="m"} 32
vllm:kv_cache_usage_perc{model_name="m"} 0.5
redis_key_value_as_string{key="secret",val="an answer"} 1
go_goroutines 7
""")
    scrape = sort(page, TABLE, at_ms=7)
    assert [(row.name, row.kind, row.value) for row in scrape.samples] == [
        ("cachescope_lookups_total", "counter", 3),
        ("vllm:kv_cache_usage_perc", "gauge", 0.5),
    ]
    assert [(one.name, one.value, one.start_ms) for one in scrape.counters] == [
        ("vllm:prefix_cache_hits_total", 16, 1_750_000_000_000),
        ("vllm:prefix_cache_queries_total", 32, 1_700_000_000_000),
    ]
    assert scrape.counters[0].labels == labels_text({"model_name": "m"})
    assert scrape.dropped == 2
    assert "an answer" not in repr(scrape)


@pytest.mark.parametrize(
    ("page", "start_ms"),
    [
        ("redis_keyspace_hits_total 5\nprocess_start_time_seconds 1.7e9\n", None),  # the exporter's start, not the server's
        ("redis_keyspace_hits_total 5\nprocess_start_time_seconds 1.7e9\nredis_start_time_seconds 1.6e9\n", 1_600_000_000_000),
        (
            'memcached_commands_total{command="get",status="hit"} 5\nmemcached_uptime_seconds 100\nprocess_start_time_seconds 1.7e9\n',
            1_799_900_000,
        ),
        ('kong_ai_llm_requests_total{cache_status="hit"} 5\nprocess_start_time_seconds 0\n', None),
        (
            'nv_cache_num_hits_per_model{instance="a",job="j"} 5\nprocess_start_time_seconds{instance="b",job="j"} 1.6e9\n'
            'process_start_time_seconds{instance="a",job="j"} 1.7e9\n',
            1_700_000_000_000,
        ),
    ],
)
def test_the_start_of_the_counting_is_the_counted_process_s(page: str, start_ms: int | None) -> None:
    (one,) = sort(parse(page), TABLE, at_ms=1_800_000_000).counters
    assert one.start_ms == start_ms


def test_names_of_creation_times() -> None:
    assert [created_name(name) for name in ("a_total", "h_sum", "h_count", "b")] == ["a_created", "h_created", "h_created", "b_created"]


def test_an_empty_table_is_a_table() -> None:
    assert Families().labels == {}


async def test_a_collector_does_not_start_with_a_file_that_it_cannot_read(tmp_path: Path) -> None:
    with pytest.raises(BadFamilies, match="cannot read the families file"):
        async with running(tmp_path, families_file=str(tmp_path / "nowhere.toml")):
            pass


async def test_a_collector_reads_what_a_user_s_file_describes(tmp_path: Path) -> None:
    file = tmp_path / "families.toml"
    file.write_text(OWN)
    seen: list[int] = []

    def page() -> bytes:
        seen.append(len(seen))
        return f"shop_hits_total {seen[-1]}\nvllm:prefix_cache_hits_total 5\n".encode()

    with page_server(page) as url:
        async with running(tmp_path, families_file=str(file), targets=(ScrapeTarget(url, interval_s=0.05, timeout_s=60),)) as it:
            await until(it, "SELECT sum(increase) >= 3 FROM counter_minutes", [(1,)])
            assert await it.rows("SELECT DISTINCT name FROM counter_series") == [("shop_hits_total",)]
