"""Nearly right OTLP requests over every wire: `python -m tests.bench.otlp_fuzz [--cases 200000] [--seed 1]`.

Prints what was answered, how fast, and the collector's memory before and after. Exit code 1 when a request was not answered as it
must be, a 500 was seen, the collector died, or its counters differ from its rows.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import httpx

from tests.collectors import fuzz
from tests.collectors.process import collecting
from tests.collectors.support import rows, settings

_OURS = re.compile(r'failures_total\{place="(?:http|grpc)",reason="(?:DecodeFailed|WriteFailed)"\} (\S+)')


def rss_mb(pid: int) -> float:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    return int(found[1]) / 1024 if found else 0.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cachescope-fuzz-") as name:
        folder = Path(name)
        given = settings(folder)
        given = replace(given, storage=replace(given.storage, synchronous="NORMAL", **fuzz.KEPT))
        with collecting(given) as process:
            asyncio.run(fuzz.run(given.http_bind, given.grpc_bind, cases=500, seed=asked.seed + 1))
            before, began = rss_mb(process.pid), time.perf_counter()
            report = asyncio.run(fuzz.run(given.http_bind, given.grpc_bind, cases=asked.cases, seed=asked.seed))
            spent, after = time.perf_counter() - began, rss_mb(process.pid)
            alive = process.poll() is None and httpx.get(f"http://{given.http_bind}/healthz").text == "ok"
            failed = _OURS.findall(httpx.get(f"http://{given.http_bind}/metrics").text)
        stored = fuzz.consistent(lambda query: rows(folder, query))
    print(f"{report.cases} cases in {spent:.0f} s ({report.cases / spent:.0f}/s), seed {asked.seed}")
    print(f"  collector: {before:.0f} MB before, {after:.0f} MB after")
    for outcome, count in report.outcomes.most_common():
        print(f"  {outcome:24} {count}")
    print(f"  stored: {stored}; alive: {alive}; faults of ours: {len(failed)}; wrong: {len(report.wrong)}")
    for reason, case in report.wrong[:10]:
        print(f"    {reason[:300]}\n    {case.signal} {case.content_type} {case.encoding!r} grpc={case.over_grpc} {case.body[:400]!r}")
    return 1 if report.wrong or failed or not alive or report.cases != asked.cases else 0


if __name__ == "__main__":
    sys.exit(main())
