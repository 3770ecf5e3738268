"""Asking Prometheus servers: a real one with a past of its own, and the answers captured from a real one."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from collectors.errors import ScrapeFailed
from collectors.metrics import CollectorMetrics
from collectors.pipeline import Pipeline
from collectors.prometheus.families import load
from collectors.prometheus.query import PrometheusApi, readings, stretches, wanted_names
from collectors.prometheus.servers import ServerReader
from collectors.prometheus.sink import StoreSink
from collectors.settings import PrometheusServer
from storage import counters
from storage.rows import Scrape, SourceKey
from storage.settings import StorageSettings
from storage.store import Store, open_telemetry
from tests.collectors.support import running, until
from tests.conftest import SHARED
from tests.support.servers import free_port, running_prometheus

TABLE = load()
CAPTURED = SHARED / "data" / "captured" / "promapi"
SOURCE = SourceKey("prometheus", "http://p")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_telemetry(StorageSettings(f"sqlite:///{tmp_path}/t.db", f"sqlite:///{tmp_path}/o.db", busy_timeout_s=60), write=True)
    yield opened
    opened.close()


def rows(store: Store, query: str) -> list[tuple[Any, ...]]:
    with contextlib.closing(sqlite3.connect(store.path)) as connection:
        return connection.execute(query).fetchall()


SUMS = """SELECT s.name, s.labels, round(sum(m.increase), 6), sum(m.resets), sum(m.anomalies) FROM counter_minutes m
          JOIN counter_series s ON s.id = m.series_id GROUP BY s.id ORDER BY s.name, s.labels"""


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@contextlib.asynccontextmanager
async def reading(store: Store, server: PrometheusServer):  # type: ignore[no-untyped-def]
    pipeline = Pipeline(lambda batches: (), queue_bytes=1000, metrics=CollectorMetrics())
    pipeline.start()
    reader = ServerReader(server, StoreSink(store, pipeline), CollectorMetrics(), families=TABLE, now_ms=now_ms)
    try:
        yield reader
    finally:
        reader.close()
        await pipeline.close()


def past(series: dict[str, list[float]], kinds: dict[str, str], *, every_s: int = 15, end_s: int) -> str:
    """An OpenMetrics text with times: each series' values end at end_s."""
    lines = []
    for family, kind in kinds.items():
        lines.append(f"# TYPE {family} {kind}")
        for name, values in series.items():
            if name.partition("{")[0] in {family, f"{family}_total"}:
                lines += [f"{name} {value} {end_s - every_s * (len(values) - 1 - place)}" for place, value in enumerate(values)]
    return "\n".join([*lines, "# EOF", ""])


async def test_a_real_server_is_back_filled_in_steps_exactly_and_idempotently(store: Store) -> None:
    end_s = int(time.time()) - 30
    minutes = 40 * 4
    target = 'instance="a:1",job="vllm"'
    # Restarted in the middle: the counter climbs past its old value at once, which only the start time tells.
    queries = [float(place * 10) for place in range(minutes // 2)] + [float(place * 1000) for place in range(minutes // 2)]
    starts = [1.7e9] * (minutes // 2) + [float(end_s - 15 * (minutes // 2))] * (minutes // 2)
    late = [float(5 + place) for place in range(8)]  # appears in the last two minutes, of a process whose start nobody knows
    text = past(
        {
            f"vllm:prefix_cache_queries_total{{{target}}}": queries,
            f"process_start_time_seconds{{{target}}}": starts,
            'vllm:prefix_cache_hits_total{instance="b:1",job="other"}': late,
            f"vllm:kv_cache_usage_perc{{{target}}}": [0.25] * minutes,
            f"unrelated_total{{{target}}}": [1.0] * minutes,
        },
        {
            "vllm:prefix_cache_queries": "counter",
            "process_start_time_seconds": "gauge",
            "vllm:prefix_cache_hits": "counter",
            "vllm:kv_cache_usage_perc": "gauge",
            "unrelated": "counter",
        },
        end_s=end_s,
    )
    dead = f"127.0.0.1:{free_port()}"
    with running_prometheus(text, {"dead": dead}) as server:
        settings = PrometheusServer(server.url, timeout_s=60, backfill_s=3600, step_s=300)
        async with reading(store, settings) as reader:
            await reader.once()
            # 3,600 s in steps of 300 s are the twelve steps of one tick.
            expected = [
                ("vllm:prefix_cache_hits_total", '{"instance":"b:1","job":"other"}', 7.0, 0, 0),
                ("vllm:prefix_cache_queries_total", '{"instance":"a:1","job":"vllm"}', 790.0 + 79_000.0, 1, 0),
            ]
            assert rows(store, SUMS) == expected
            assert rows(store, "SELECT kind, service, last_error FROM sources") == [("prometheus", server.url, "")]
            await reader.once()
            assert rows(store, SUMS) == expected
        # A new process begins where the store says that the last one ended.
        async with reading(store, settings) as reader:
            await reader.once()
            assert rows(store, SUMS) == expected
            body = json.loads(rows(store, "SELECT body FROM source_snapshots WHERE topic = 'targets'")[0][0])
            deadline = time.monotonic() + 60
            while body["down"] == 0 and time.monotonic() < deadline:
                await reader.once()
                body = json.loads(rows(store, "SELECT body FROM source_snapshots WHERE topic = 'targets'")[0][0])
            assert body == {"targets": 1, "down": 1, "first_down": [f"dead {dead}"]}
        only = PrometheusServer(server.url, timeout_s=60, match='job="vllm"')
        api = PrometheusApi(only, server.url)
        assert api.names(wanted_names(TABLE)) == [
            "process_start_time_seconds",
            "vllm:kv_cache_usage_perc",
            "vllm:prefix_cache_queries_total",
        ]
        with pytest.raises(ScrapeFailed, match=r"answered 400; bad_data: .*parse error"):
            api.ask("sum(")
        with pytest.raises(ScrapeFailed, match="a scalar or a string"):
            stretches(api.ask("time()"))
        api.close()


async def test_a_long_back_fill_goes_on_in_the_next_tick_and_a_dead_server_is_stored_as_failed(store: Store) -> None:
    end_s = int(time.time()) - 30
    text = past({"redis_keyspace_hits_total": [float(place) for place in range(200)]}, {"redis_keyspace_hits": "counter"}, end_s=end_s)
    with running_prometheus(text) as server:
        async with reading(store, PrometheusServer(server.url, timeout_s=60, backfill_s=3600, step_s=60)) as reader:
            await reader.once()
            first = rows(store, SUMS)[0][2]
            assert 0 < first < 199
            ticks = 1
            while rows(store, SUMS)[0][2] < 199 and ticks < 20:
                await reader.once()
                ticks += 1
            assert rows(store, SUMS) == [("redis_keyspace_hits_total", "{}", 199.0, 0, 0)]
    async with reading(store, PrometheusServer(server.url, timeout_s=60)) as reader:
        await reader.once()
    assert "ConnectionError" in rows(store, "SELECT last_error FROM sources")[0][0]


# The answers captured from a real server, given again over HTTP


@contextlib.contextmanager
def replaying(answers: dict[str, tuple[int, bytes]]) -> Iterator[str]:
    """Answers by the query's text, or by the path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            status, body = answers.get(parse_qs(parts.query).get("query", [parts.path])[0], (404, b"not here"))
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def captured(name: str) -> bytes:
    return (CAPTURED / f"{name}.json").read_bytes()


@pytest.mark.shared_data
def test_captured_answers_of_every_kind() -> None:
    good = [file.stem for file in CAPTURED.glob("*.json") if file.stem.startswith(("instant_", "range_"))]
    bad = {"error_bad_query": "unclosed left parenthesis", "error_step0": "step", "error_too_many_points": "11,000 points"}
    bad["warn_end_before_start"] = "end timestamp must not be before start time"
    answers = {name: (200, captured(name)) for name in good} | {name: (400, captured(name)) for name in bad}
    with replaying(answers) as url:
        api = PrometheusApi(PrometheusServer(url, timeout_s=60), url)
        read = {name: stretches(api.ask(name)) for name in good if name not in {"instant_scalar", "instant_string"}}
        found = {name: (len(found), sum(len(one.points) for one in found)) for name, found in sorted(read.items())}
        assert found == {
            "instant_empty": (0, 0),
            "instant_inf": (5, 5),
            "instant_matrix": (1, 107),
            "instant_vector": (6, 6),
            "range_histogram_quantile": (1, 18),
            "range_increase_nonint": (1, 18),
            "range_raw_redis_hits_5s": (1, 47),
            "range_raw_redis_misses_5s": (1, 47),
            "range_redis_hit_ratio_naive": (1, 47),
            "range_redis_hit_ratio_rate1m": (1, 52),
            "range_up": (5, 645),
        }
        values = [str(value) for one in read["instant_inf"] for _, value in one.points]
        assert {"nan", "inf"} <= set(values)
        dead = [one.labels["job"] for one in read["range_up"] if not any(value for _, value in one.points)]
        assert dead == ["dead"]
        for name in ("instant_scalar", "instant_string"):
            with pytest.raises(ScrapeFailed, match="scalar or a string"):
                stretches(api.ask(name))
        for name, told in bad.items():
            with pytest.raises(ScrapeFailed, match=told):
                api.ask(name)
        with pytest.raises(ScrapeFailed, match="answered 404; no answer of the Prometheus HTTP API"):
            api.ask("nothing")
        api.close()


@pytest.mark.shared_data
def test_captured_answers_of_other_kinds_are_no_answer_to_a_query() -> None:
    others = [
        "alerts",
        "buildinfo",
        "exemplars",
        "label_values_job",
        "labels",
        "metadata",
        "rules",
        "series_match",
        "status_tsdb",
        "targets",
    ]
    assert {file.stem for file in CAPTURED.glob("*.json") if not file.stem.startswith(("instant_", "range_", "error_", "warn_"))} == set(
        others
    )
    answers = {name: (200, captured(name)) for name in others}
    answers["/api/v1/label/__name__/values"] = (200, captured("label_values_job"))
    with replaying(answers) as url:
        api = PrometheusApi(PrometheusServer(url, timeout_s=60), url)
        for name in others:
            with pytest.raises(ScrapeFailed, match="answer without data"):
                api.ask(name)
        assert api.names(["redis", "node", "vllm"]) == ["node", "redis"]
        api.close()


@pytest.mark.shared_data
def test_captured_samples_through_a_restart(store: Store) -> None:
    """Redis was restarted in the captured range; a rate that trusts the raw values would be negative there."""
    found = stretches(json.loads(captured("range_raw_redis_hits_5s"))["data"]["result"])
    points = found[0].points
    falls = [(before, after) for (_, before), (_, after) in pairwise(points) if after < before]
    assert len(falls) == 1
    scrape = Scrape(points[-1][0], counters=list(readings(found, TABLE)), from_ms=points[0][0])
    assert counters.write_scrape(store, SOURCE, scrape, now_ms=points[-1][0], max_series=10) == ""
    (row,) = rows(store, SUMS)
    (before, after) = falls[0]
    assert row[2:] == (before - points[0][1] + after + (points[-1][1] - after), 1, 0)


def test_case_b14_a_change_of_labels_is_a_new_series_whose_first_value_does_not_count(store: Store) -> None:
    """Asked of a server, a new pod is another process that may have counted long before: 18 + 11, and not the 8 it began with."""
    values = {"web-5q47s": [3, 8, 15, 21, 21], "web-2z84a": [8, 9, 13, 19, 19]}
    result, at_s = [], 1_795_955_600
    for pod, counted in values.items():
        points = [[at_s + 15 * place, str(value)] for place, value in enumerate(counted)]
        at_s += 15 * len(counted)
        result.append({"metric": {"__name__": "redis_keyspace_hits_total", "pod": pod}, "values": points})
    scrape = Scrape(at_s * 1000, counters=list(readings(stretches(result), TABLE)), from_ms=(at_s - 600) * 1000)
    counters.write_scrape(store, SOURCE, scrape, now_ms=at_s * 1000, max_series=10)
    assert [(row[1], row[2], row[3], row[4]) for row in rows(store, SUMS)] == [
        ('{"pod":"web-2z84a"}', 11.0, 0, 0),
        ('{"pod":"web-5q47s"}', 18.0, 0, 0),
    ]


def test_a_first_value_counts_when_the_server_tells_that_its_process_is_new(store: Store) -> None:
    at_s = 1_795_955_600
    labels = {"job": "vllm", "instance": "new:1"}
    result = [
        {"metric": {"__name__": "vllm:prefix_cache_queries_total", **labels}, "values": [[at_s + 20, "8"], [at_s + 35, "9"]]},
        {
            "metric": {"__name__": "process_start_time_seconds", **labels},
            "values": [[at_s + 20, str(at_s + 10)], [at_s + 35, str(at_s + 10)]],
        },
    ]
    scrape = Scrape(at_s * 1000, counters=list(readings(stretches(result), TABLE)), from_ms=at_s * 1000)
    counters.write_scrape(store, SOURCE, scrape, now_ms=at_s * 1000, max_series=10)
    assert rows(store, SUMS)[0][2] == 9


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"<html>", "gave no JSON"),
        (b'{"status": "success"}', "without data"),
        (b'{"status": "success", "data": {"result": 5}}', "without a list"),
        (b'{"status": "success", "data": {"result": [' + b" " * 100_000 + b"]}}", "larger than 65536 bytes"),
    ],
)
def test_what_is_no_answer_of_a_server_says_what_was_expected(body: bytes, told: str) -> None:
    with replaying({"q": (200, body)}) as url:
        api = PrometheusApi(PrometheusServer(url, timeout_s=60, max_body_bytes=65_536), url)
        with pytest.raises(ScrapeFailed, match=told):
            api.ask("q")
        api.close()


@pytest.mark.parametrize("result", [b"[]", b'[["x", 1]]', b'["soon", "1"]', b"[1e999]"])
def test_a_server_that_does_not_tell_its_time_has_failed(result: bytes) -> None:
    with replaying({"time()": (200, b'{"status": "success", "data": {"result": ' + result + b"}}")}) as url:
        api = PrometheusApi(PrometheusServer(url, timeout_s=60), url)
        with pytest.raises(ScrapeFailed, match="did not tell its time"):
            api.now_ms()
        api.close()


class Answering(dict[str, tuple[int, bytes]]):
    """Answers by what a query begins with: ranges end in widths that depend on the clock."""

    def get(self, query: str, default: Any = None) -> Any:
        return next((answer for begin, answer in self.items() if query.startswith(begin)), default)


async def test_a_level_that_is_read_twice_is_stored_once_also_by_a_new_process(store: Store) -> None:
    at_s = 1_800_000_000

    def ok(data: Any) -> tuple[int, bytes]:
        return 200, json.dumps({"status": "success", "data": data}).encode()

    def level(at: int) -> tuple[int, bytes]:
        metric = {"__name__": "vllm:kv_cache_usage_perc", "instance": "a:1", "job": "vllm"}
        return ok({"result": [{"metric": metric, "values": [[at, "0.5"]]}]})

    answers = Answering({"time()": ok({"result": [at_s, ""]}), "up{": ok({"result": []}), "{__name__": level(at_s - 10)})
    answers["/api/v1/label/__name__/values"] = ok(["vllm:kv_cache_usage_perc"])
    with replaying(answers) as url:
        for _ in range(2):
            async with reading(store, PrometheusServer(url, timeout_s=60, backfill_s=60)) as reader:
                await reader.once()
                await reader.once()
        assert rows(store, "SELECT at_ms FROM metric_samples") == [((at_s - 10) * 1000,)]
        async with reading(store, PrometheusServer(url, timeout_s=60, backfill_s=60)) as reader:
            await reader.once()
            answers["{__name__"] = level(at_s - 2)
            await reader.once()
            await reader.once()
    assert rows(store, "SELECT at_ms FROM metric_samples") == [((at_s - 10) * 1000,), ((at_s - 2) * 1000,)]


def test_a_sample_that_is_none_is_refused() -> None:
    with pytest.raises(ScrapeFailed, match="no time and number"):
        stretches([{"metric": {"__name__": "a"}, "values": [[1, "x"]]}])


async def test_the_collector_asks_its_servers(tmp_path: Path) -> None:
    end_s = int(time.time()) - 30
    text = past({"redis_keyspace_hits_total": [1.0, 5.0]}, {"redis_keyspace_hits": "counter"}, end_s=end_s)
    with running_prometheus(text) as server:
        async with running(tmp_path, servers=(PrometheusServer(server.url, timeout_s=60, interval_s=0.5),)) as it:
            await until(it, "SELECT sum(increase) FROM counter_minutes", [(4.0,)])
