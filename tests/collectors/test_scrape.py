"""Scraping: what is on a page is kept line by line, and a failed scrape is stored as such."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest

from collectors.prometheus.parse import parse
from collectors.prometheus.scrape import shown
from collectors.settings import ScrapeTarget
from tests.collectors.support import running
from tests.conftest import SHARED
from tests.support.servers import free_port


def page(text: str, *, max_others: int = 1000) -> tuple[list[tuple[str, str, float]], list[str], int]:
    found = parse(text, now_ms=7, max_others=max_others)
    assert all(sample.at_ms == 7 for sample in found.samples)
    return [(sample.name, sample.kind, sample.value) for sample in found.samples], found.errors, found.left_out


def test_case_b12_a_bad_exemplar_names_its_line_and_loses_no_family() -> None:
    text = """# TYPE a counter
a_total 1
# TYPE h histogram
h_bucket{le="1"} 3 #  5.9060365 1.69714178e+09
h_bucket{le="+Inf"} 4 # {trace_id="x # y"} 5.9 1.6e+09
h_count 4
# TYPE c gauge
c{v="a # b"} 5
"""
    samples, errors, _ = page(text)
    assert samples == [
        ("a_total", "counter", 1),
        ("h_bucket", "histogram", 3),
        ("h_bucket", "histogram", 4),
        ("h_count", "histogram", 4),
        ("c", "gauge", 5),
    ]
    (error,) = errors
    assert error.startswith("line 4:")


def test_a_bad_line_costs_itself_alone() -> None:
    samples, errors, _ = page('# TYPE a gauge\na 1\nthis is {no sample\na{b="c"} x\n# TYPE b gauge\nb 2\n')
    assert [name for name, _, _ in samples] == ["a", "b"]
    assert [error.split(":")[0] for error in errors] == ["line 3", "line 4"]


def test_case_b16_created_is_a_gauge_and_never_a_count() -> None:
    samples, _, _ = page("# TYPE q counter\nq_total 32\nq_created 1.7537e+09\n# TYPE q_total counter\n")
    assert ("q_created", "gauge", 1.7537e9) in samples
    assert ("q_total", "counter", 32) in samples


def test_our_own_families_are_all_kept_and_others_bounded() -> None:
    text = "".join(f'cachescope_lookups_total{{n="{n}"}} {n}\nother{{n="{n}"}} {n}\n' for n in range(20))
    samples, _, left_out = page(text, max_others=5)
    assert sum(name == "other" for name, _, _ in samples) == 5
    assert sum(name == "cachescope_lookups_total" for name, _, _ in samples) == 20
    assert left_out == 15


@pytest.mark.shared_data
def test_captured_expositions_are_read_without_an_error() -> None:
    read = 0
    for path in sorted((SHARED / "data" / "captured" / "exposition").glob("*.txt")):
        if "noauth" in path.name:  # the body of a refusal, no page of metrics
            continue
        text = path.read_text()
        samples, errors, _ = page(text, max_others=100_000)
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        assert errors == [], path.name
        assert len(samples) == len(lines), path.name
        read += len(samples)
    assert read > 1000


def test_a_url_is_shown_without_its_secrets() -> None:
    assert shown("http://user:pass@host:9/metrics?token=x") == "http://host:9/metrics"


class Target(BaseHTTPRequestHandler):
    status, body, seen = 200, b"", ""

    def do_GET(self) -> None:
        type(self).seen = self.headers.get("Authorization", "")
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        return


@contextlib.contextmanager
def target() -> Iterator[tuple[type[Target], str]]:
    handler = type("Own", (Target,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield handler, f"http://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def until(it, query: str, expected: object) -> None:  # type: ignore[no-untyped-def]
    async with asyncio.timeout(20):
        while True:
            found = await it.rows(query)
            if found == expected:
                return
            await asyncio.sleep(0.02)


async def test_a_target_is_scraped_again_and_again_and_its_failures_are_stored(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    counter = Counter("cachescope_lookups", "Lookups", ("namespace", "outcome"), registry=registry)
    counter.labels("faq", "miss").inc(3)
    with target() as (handler, url):
        handler.body = generate_latest(registry)
        targets = (ScrapeTarget(url, interval_s=0.05, bearer="secret"),)
        async with running(tmp_path, targets=targets) as it:
            query = """SELECT count(*) >= 3 FROM metric_samples
                WHERE name = 'cachescope_lookups_total' AND kind = 'counter' AND value = 3"""
            await until(it, query, [(1,)])
            assert handler.seen == "Bearer secret"
            assert await it.rows("SELECT kind, service, last_error FROM sources") == [("scrape", url, "")]
            (labels,) = (await it.rows("SELECT DISTINCT labels FROM metric_samples WHERE name = 'cachescope_lookups_total'"))[0]
            assert json.loads(labels) == {"namespace": "faq", "outcome": "miss"}
            handler.status = 500
            await until(it, "SELECT last_error LIKE '%answered 500%' FROM sources", [(1,)])
            handler.status, handler.body = 200, b"<html>no metrics</html>"
            await until(it, "SELECT last_error LIKE '%no page of metrics: line 1%' FROM sources", [(1,)])
            handler.body = generate_latest(registry) + b"broken {\n"
            await until(it, "SELECT last_error LIKE 'line %' FROM sources", [(1,)])
            handler.body = b"x" * (17 * 1024 * 1024)
            await until(it, "SELECT last_error LIKE '%more than%' FROM sources", [(1,)])


async def test_a_dead_target_is_a_source_with_an_error(tmp_path: Path) -> None:
    targets = (ScrapeTarget(f"http://127.0.0.1:{free_port()}/metrics", interval_s=0.05),)
    async with running(tmp_path, targets=targets) as it:
        await until(it, "SELECT kind, last_error LIKE '%ConnectError%' FROM sources", [("scrape", 1)])
