"""Faults too long for the test suite: `python -m tests.bench.otlp_faults [kills] [disk] [slow] [outage]`, all without a name.

kills: kill -9 at 50 random points under load. disk: a real file system of 6 MB that fills up (needs the right to mount).
slow: 700 clients that drip their headers beside one that sends. outage: rotel between SDK and collector while the store is locked
for seconds. Each prints its figures; exit code 1 when something acknowledged is missing or a client was not answered as it must be.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import httpx
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

from tests.bench.otlp_fuzz import rss_mb
from tests.collectors.process import collecting
from tests.collectors.rotel_agent import agent
from tests.collectors.support import PROTOBUF, request, rows, settings
from tests.collectors.test_durability import kill_often
from tests.collectors.test_exporters import send_many

KILLS, SLOW, OUTAGE_SPANS = 50, 700, 5_000


def kills(folder: Path) -> str:
    acknowledged, stored = kill_often(folder, KILLS, seed=11)
    return f"{KILLS} kills: {acknowledged} spans acknowledged, {stored} stored, none of the acknowledged missing"


def disk(folder: Path) -> str:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "cachescope-full", str(folder)], check=True)
    try:
        given = settings(folder)
        with collecting(given), httpx.Client(base_url=f"http://{given.http_bind}", timeout=30) as client:
            statuses: dict[int, int] = {}
            number = 0
            while 503 not in statuses.values() and number < 400:
                statuses[number] = _post(client, number)
                number += 1
            assert 503 in statuses.values(), "the disk did not fill"
            assert {200, 503} >= set(statuses.values()), statuses
            health = client.get("/healthz").text
            assert "StoreFull" in health, health
            subprocess.run(["mount", "-o", "remount,size=40m", str(folder)], check=True)
            again = [one for one, status in statuses.items() if status != 200]
            assert all(_post(client, one) == 200 for one in again), "there is room again, and it does not take"
        stored = {(int.from_bytes(one, "big") - 1) // 200 for (one,) in rows(folder, "SELECT trace_id FROM spans")}
        assert stored == set(statuses), "an acknowledged request is missing"
        assert rows(folder, "PRAGMA integrity_check") == [("ok",)]
        return f"full disk: 503 after {number - 1} requests of 200 spans, taken again after room was made, all {len(stored)} there"
    finally:
        subprocess.run(["umount", str(folder)], check=False)


def _post(client: httpx.Client, number: int) -> int:
    body = request(200, first=number * 200, attributes={"pad": os.urandom(300).hex()}).SerializeToString()
    return client.post("/v1/traces", content=body, headers=PROTOBUF).status_code


def slow(folder: Path) -> str:
    given = settings(folder)

    async def run(pid: int) -> tuple[float, int, int, float]:
        host, _, port = given.http_bind.rpartition(":")
        before = rss_mb(pid)
        dripping = [await asyncio.open_connection(host, int(port)) for _ in range(SLOW)]
        for _, writer in dripping:
            writer.write(b"POST /v1/traces HTTP/1.1\r\nHost: x\r\nX-")
        worst = 0.0
        taken = 0
        async with httpx.AsyncClient(base_url=f"http://{given.http_bind}", timeout=30) as client:
            for number in range(100):
                began = time.perf_counter()
                answer = await client.post("/v1/traces", content=request(10, first=number * 10).SerializeToString(), headers=PROTOBUF)
                worst = max(worst, time.perf_counter() - began)
                taken += answer.status_code == 200
        async with asyncio.timeout(60):
            answers = [(await reader.read()).split(b" ", 2)[1] for reader, _ in dripping]
        for _, writer in dripping:
            writer.close()
        return worst, taken, answers.count(b"408"), rss_mb(pid) - before

    with collecting(given) as process:
        worst, taken, told, grown = asyncio.run(run(process.pid))
    assert taken == 100
    assert told == SLOW
    beside = f"100 of 100 requests beside them taken, the slowest in {worst * 1000:.0f} ms"
    return f"{SLOW} dripping clients: all told 408 and closed; {beside}; +{grown:.0f} MB"


def outage(folder: Path) -> str:
    found = []
    for protocol in ("grpc", "http"):
        place = folder / protocol
        place.mkdir()
        given = settings(place)
        with collecting(given), contextlib.closing(sqlite3.connect(place / "telemetry.db", isolation_level=None)) as other:
            to = given.grpc_bind if protocol == "grpc" else given.http_bind
            with agent(place, to=f"http://{to}", protocol=protocol, batch=512) as between:
                other.execute("BEGIN IMMEDIATE")
                send_many(OTLPSpanExporter(endpoint=between.grpc, insecure=True), OUTAGE_SPANS)
                time.sleep(8)  # longer than the store's own patience: the first answers are refusals
                other.execute("ROLLBACK")
                between.flush()
        stored = rows(place, "SELECT count(*) FROM spans")[0][0]
        assert stored == OUTAGE_SPANS, f"{protocol}: {stored} of {OUTAGE_SPANS}"
        found.append(f"{protocol}: {stored} of {OUTAGE_SPANS}")
    return f"outage of 8 s behind a real collector: {', '.join(found)}"


PARTS: dict[str, Callable[[Path], str]] = {"kills": kills, "disk": disk, "slow": slow, "outage": outage}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    failed = 0
    for name in parser.parse_args().parts or PARTS:
        folder = Path(tempfile.mkdtemp(prefix="cachescope-faults-"))
        try:
            print(PARTS[name](folder), flush=True)
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            failed += 1
            print(f"{name}: FAILED: {error}", flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
