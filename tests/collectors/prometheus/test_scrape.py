"""Scraping: what is on a page is kept line by line, and a failed scrape is stored as such."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import gzip
import json
import socket
import sqlite3
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
import trustme
from prometheus_client import CollectorRegistry, Counter, generate_latest

from collectors.metrics import CollectorMetrics
from collectors.prometheus.families import load
from collectors.prometheus.scrape import Scraper, shown, source_of
from collectors.settings import ScrapeTarget
from storage.rows import Scrape, SourceKey
from tests.collectors.support import request, running, settings, until
from tests.support.servers import free_port


def test_a_url_is_shown_without_its_secrets() -> None:
    assert shown("http://user:pass@host:9/metrics?token=x") == "http://host:9/metrics"


def test_sources_of_one_address_are_told_apart_by_query_and_match() -> None:
    plain = source_of("scrape", "http://ann:pw@exporter:9121/scrape")
    assert plain == SourceKey("scrape", "http://exporter:9121/scrape")
    queries = [source_of("scrape", f"http://exporter:9121/scrape?target=redis{number}&key=s3cret") for number in (1, 2, 1)]
    assert queries[0] == queries[2] != queries[1]
    assert {one.service for one in queries} == {plain.service}
    assert "s3cret" not in str(queries)
    assert len({source_of("prometheus", "http://p", match).instance for match in ("", 'job="a"', 'job="b"')}) == 3


def patient(url: str, **changes: Any) -> ScrapeTarget:
    """A target that a slow machine does not fail."""
    return ScrapeTarget(url, **({"timeout_s": 60} | changes))


class Target(BaseHTTPRequestHandler):
    status, body, seen = 200, b"", ""
    headers_sent: ClassVar[dict[str, str]] = {}

    def do_GET(self) -> None:
        type(self).seen = self.headers.get("Authorization", "")
        self.send_response(self.status)
        for name, value in self.headers_sent.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        return


@contextlib.contextmanager
def target(context: ssl.SSLContext | None = None) -> Iterator[tuple[type[Target], str]]:
    handler = type("Own", (Target,), {})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield handler, f"{'https' if context else 'http'}://127.0.0.1:{server.server_port}/metrics"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Kept:
    """A sink that remembers, at the seam of the scraper's own protocol."""

    def __init__(self) -> None:
        self.scrapes: list[Scrape] = []
        self.errors: list[str] = []

    async def scraped(self, source: SourceKey, scrape: Scrape, *, max_series: int) -> str:
        self.scrapes.append(scrape)
        return scrape.error

    async def failed(self, source: SourceKey, error: str, now_ms: int) -> None:
        self.errors.append(error)

    async def newest_ms(self, source: SourceKey) -> int | None:
        return None

    async def snapshot(self, source: SourceKey, topic: str) -> str | None:
        return None


async def once(one: ScrapeTarget) -> Kept:
    kept = Kept()
    scraper = Scraper([], kept, CollectorMetrics(), families=load(), now_ms=lambda: 7)
    await scraper.once(one)
    await scraper.stop()
    return kept


COUNTER = b"vllm:prefix_cache_queries_total 5\n"


async def test_basic_and_bearer_authorization() -> None:
    with target() as (handler, url):
        handler.body = COUNTER
        await once(patient(url, username="ann", password="pa:ss"))
        assert handler.seen == "Basic " + base64.b64encode(b"ann:pa:ss").decode()
        await once(patient(url, bearer="t0k", username="ann", password="x"))
        assert handler.seen == "Bearer t0k"
        handler.status = 401
        kept = await once(patient(url, username="ann", password="wrong-password"))
        assert "answered 401; expected 200" in kept.errors[0]
        assert "wrong-password" not in kept.errors[0]


async def test_gzip_is_inflated_and_never_beyond_the_bound() -> None:
    with target() as (handler, url):
        handler.headers_sent = {"Content-Encoding": "gzip"}
        handler.body = gzip.compress(COUNTER)
        assert (await once(patient(url))).scrapes[0].counters[0].value == 5
        handler.body = gzip.compress(b"x" * 5_000_000)
        kept = await once(patient(url, max_body_bytes=1_000_000))
        assert "larger than 1000000 bytes after decompression" in kept.errors[0]
        handler.body = gzip.compress(COUNTER)[:-4]
        assert "cut short" in (await once(patient(url))).errors[0]


async def test_tls_with_an_authority_of_one_s_own_and_without_a_check(tmp_path: Path) -> None:
    authority = trustme.CA()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    ca_file = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(ca_file))
    with target(context) as (handler, url):
        handler.body = COUNTER
        assert "CERTIFICATE_VERIFY_FAILED" in (await once(patient(url))).errors[0]
        assert (await once(patient(url, ca_file=str(ca_file)))).scrapes[0].counters[0].value == 5
        assert (await once(patient(url, verify=False))).scrapes[0].counters[0].value == 5
        missing = await once(patient(url, ca_file=str(tmp_path / "none.pem")))
        assert "none.pem cannot be used: No such file" in missing.errors[0]
        ca_file.write_text("no certificate")
        assert "expected certificates in PEM" in (await once(patient(url, ca_file=str(ca_file)))).errors[0]


async def test_the_content_type_chooses_the_format() -> None:
    with target() as (handler, url):
        handler.headers_sent = {"Content-Type": "application/openmetrics-text; version=1.0.0; charset=utf-8"}
        handler.body = COUNTER
        assert "cut short" in (await once(patient(url))).scrapes[0].error
        handler.body = COUNTER + b"# EOF\n"
        (scrape,) = (await once(patient(url))).scrapes
        assert scrape.error == ""
        assert json.loads(scrape.snapshots["page"])["kept"] == 1
        handler.headers_sent = {"Content-Type": "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily"}
        assert "expected the text format" in (await once(patient(url))).errors[0]


async def test_a_slow_target_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        kept = await once(patient(f"http://127.0.0.1:{silent.getsockname()[1]}/metrics", timeout_s=0.2))
    assert "did not answer within 0.2 s" in kept.errors[0]


async def test_targets_are_spread_and_their_pauses_differ() -> None:
    slept: list[float] = []
    woken = asyncio.Event()

    async def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) >= 6:
            woken.set()
            await asyncio.Event().wait()

    numbers = iter([0.5, 0.0, 1.0, 0.5] * 20)
    one = patient(f"http://127.0.0.1:{free_port()}/metrics", interval_s=1000, jitter_ratio=0.2)
    scraper = Scraper([one], Kept(), CollectorMetrics(), families=load(), now_ms=lambda: 7, sleep=sleep, rng=lambda: next(numbers))
    scraper.start()
    async with asyncio.timeout(60):
        await woken.wait()
    await scraper.stop()
    assert [round(seconds / 10) for seconds in slept[:4]] == [10, 90, 110, 100]


async def test_a_target_is_scraped_again_and_again_and_its_failures_are_stored(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    counter = Counter("cachescope_lookups", "Lookups", ("namespace", "outcome"), registry=registry)
    counter.labels("faq", "miss").inc(3)
    with target() as (handler, url):
        handler.body = generate_latest(registry)
        targets = (patient(url, interval_s=0.05, bearer="secret"),)
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
            await until(it, "SELECT last_error LIKE '%larger than%' FROM sources", [(1,)])


async def test_a_dead_target_is_a_source_with_an_error(tmp_path: Path) -> None:
    targets = (patient(f"http://127.0.0.1:{free_port()}/metrics", interval_s=0.05),)
    async with running(tmp_path, targets=targets) as it:
        await until(it, "SELECT kind, last_error LIKE '%ConnectError%' FROM sources", [("scrape", 1)])


@pytest.mark.parametrize("status", [200, 500])
async def test_a_write_of_the_scraper_ends_the_fault_that_no_sender_comes_to_end(tmp_path: Path, status: int) -> None:
    with target() as (handler, url):
        handler.status, handler.body = status, b"up 1\n"
        storage = replace(settings(tmp_path).storage, busy_timeout_s=0.05)
        async with running(tmp_path, storage=storage, targets=(patient(url, interval_s=0.1),)) as it:
            await until(it, "SELECT count(*) FROM sources WHERE kind = 'scrape'", [(1,)])
            with contextlib.closing(sqlite3.connect(tmp_path / "telemetry.db", isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                assert (await it.post(request().SerializeToString())).status_code == 503
                assert (await it.client.get("/healthz")).status_code == 503
                other.execute("ROLLBACK")
            async with asyncio.timeout(30):  # less than until retention's next commit
                while (await it.client.get("/healthz")).text != "ok":
                    await asyncio.sleep(0.02)
