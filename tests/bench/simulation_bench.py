"""How fast and how right the replays are, beside libCacheSim in one run: python -m tests.bench.simulation_bench [--requests N].

Zipf 0.9, a tenth as many keys as requests, a cache of 5 % of the keys: speed of Belady and of the exact LRU curve against
libCacheSim's Belady and LRU (its time includes opening its file, ours the search for next uses), and of SHARDS at 1 % against the
exact curve.
Then --cases small random cases: FOO's bracket against an integer program. Prints a line of JSON each; exit 1 when a claim fails.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from app.analysis import miss_ratio, optimum
from app.analysis.policies import POLICIES, Stream, replay, stream
from tests.app.analysis import oracle

ROOT = Path(__file__).resolve().parents[2]
WITHIN = 1e-6


def zipf(requests: int, keys: int, *, power: float = 0.9, seed: int = 5) -> Stream:
    rng = np.random.default_rng(seed)
    weight = np.cumsum(np.arange(1, keys + 1) ** -power)
    ids = rng.permutation(keys)[np.minimum(np.searchsorted(weight, rng.random(requests) * weight[-1]), keys - 1)].astype(np.int64)
    return Stream(ids, np.arange(requests, dtype=np.int64), np.ones(keys, np.int64))


def timed(work: Callable[[], Any], runs: int) -> tuple[float, Any]:
    """Return the median CPU seconds of the runs (one thread; other work on the machine counts less), and what the last one returned."""
    taken, result = [], None
    for _ in range(runs):
        began = time.process_time()
        result = work()
        taken.append(time.process_time() - began)
    return statistics.median(taken), result


def theirs(path: Path, capacity: int, policy: str, runs: int) -> tuple[float, float]:
    """Return libCacheSim's median seconds and miss ratio."""
    command = [sys.executable, "-m", "tests.bench.simulation_bench", "--oracle", str(path), str(capacity), policy, str(runs)]
    done = subprocess.run(command, check=True, capture_output=True, cwd=ROOT)
    seconds, ratio = json.loads(done.stdout.splitlines()[-1])
    return seconds, ratio


def oracle_main(path: str, capacity: str, policy: str, runs: str) -> None:
    import libcachesim as library

    def once() -> float:
        reader = library.TraceReader(path, library.TraceType.ORACLE_GENERAL_TRACE, library.ReaderInitParam(ignore_obj_size=True))
        return float(getattr(library, oracle.NAMES[policy])(cache_size=int(capacity)).process_trace(reader)[0])

    print(json.dumps(timed(once, int(runs))))


def speed(requests: int, runs: int, *, every: bool) -> bool:
    keys = requests // 10
    capacity = keys // 20
    given, small = zipf(requests, keys), zipf(1_000, 100)
    for warm in (small,):  # compiled before it is timed
        optimum.belady(warm, 10)
        miss_ratio.distances(warm)
        miss_ratio.shards(warm, np.ones(warm.n), [10], 0.5)
        for policy in POLICIES:
            replay(policy, warm, 10)
    holds = True
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "zipf.oracleGeneral"
        oracle.write(given, path)
        took, hit = timed(lambda: optimum.belady(given, capacity), runs)
        their, ratio = theirs(path, capacity, "belady", runs)
        holds &= told("Belady", requests, took=took, their=their, ours=1 - float(hit.mean()), ratio=ratio) >= 1
        counts, spaces = np.ones(given.n), np.append(np.linspace(keys / 100, keys, 200), capacity)
        exact_took, hits = timed(lambda: miss_ratio.curve(miss_ratio.distances(given), counts, spaces), runs)
        truth = 1 - hits / given.n
        their, ratio = theirs(path, capacity, "lru", runs)
        holds &= told("LRU curve", requests, took=exact_took, their=their, ours=float(truth[-1]), ratio=ratio) >= 1
        for policy in POLICIES if every else ():
            took, hit = timed(lambda policy=policy: replay(policy, given, capacity), 1)  # type: ignore[misc]
            their, ratio = theirs(path, capacity, policy, 1)
            told(policy, requests, took=took, their=their, ours=1 - float(hit.mean()), ratio=ratio)
    took, sampled = timed(lambda: miss_ratio.shards(given, counts, spaces, 0.01), max(3, runs))
    error = float(np.abs(sampled - truth)[:-1].mean())
    faster = exact_took / took
    print(
        json.dumps(
            {"what": "SHARDS 1 %", "million_per_s": round(requests / took / 1e6, 1), "times_exact": round(faster, 1), "error": error}
        )
    )
    return holds and faster >= 20


def told(what: str, requests: int, *, took: float, their: float, ours: float, ratio: float) -> float:
    """Print one comparison; return how many times as fast ours is."""
    times = their / took
    row = {"what": what, "million_per_s": round(requests / took / 1e6, 2), "libcachesim": round(requests / their / 1e6, 2)}
    print(json.dumps({**row, "times": round(times, 2), "miss_ratio": round(ours, 5), "their_miss_ratio": round(ratio, 5)}), flush=True)
    return times


def brackets(cases: int) -> bool:
    """Check FOO's bracket, and PFOO's, on random cases of up to 40 requests with sizes 1 to 5 and values 0 to 9."""
    rng = np.random.default_rng(11)
    outside = {"FOO": 0, "PFOO": 0}
    width = []
    for _ in range(cases):
        requests = stream(rng.integers(0, rng.integers(2, 12), rng.integers(1, 40)))
        requests = Stream(requests.ids, requests.times, rng.integers(1, 6, requests.keys))
        values = rng.integers(0, 10, requests.keys).astype(np.float64)[requests.ids]
        capacity = int(rng.integers(0, 14))
        solved = optimum.foo(optimum.intervals(requests, values), capacity, whole=True)
        assert solved is not None
        for name, most in (("FOO", 10_000), ("PFOO", 0)):
            found = optimum.bracket(requests, values, capacity, lp_most=most)
            outside[name] += not found.low - WITHIN <= solved[0] <= found.high + WITHIN
            if name == "FOO" and solved[0]:
                width.append((found.high - found.low) / solved[0])
    print(json.dumps({"what": "brackets", "cases": cases, "outside": outside, "mean_width": float(np.mean(width))}))
    return not any(outside.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=10_000_000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--all", action="store_true", help="every policy beside libCacheSim's, once")
    given = parser.parse_args()
    right = brackets(given.cases)
    return 0 if speed(given.requests, given.runs, every=given.all) and right else 1


if __name__ == "__main__":
    if sys.argv[1:2] == ["--oracle"]:
        oracle_main(*sys.argv[2:])
    else:
        sys.exit(main())
