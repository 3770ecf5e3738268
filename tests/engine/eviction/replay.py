"""Traces, and two ways to count their misses: by a policy of ours, and by libCacheSim in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.eviction.base import EvictionPolicy

# libCacheSim aborts its process on what it does not like, and is under the GPL: it is never imported here.
_ORACLE = """
import json, sys
import libcachesim as sim
path, jobs = sys.argv[1], json.loads(sys.argv[2])
made = {"fifo": sim.FIFO, "lru": sim.LRU, "sieve": sim.Sieve, "lfu": sim.LFU, "s3-fifo": sim.S3FIFO, "w-tinylfu": sim.WTinyLFU,
        "gdsf": sim.GDSF}
reader = lambda: sim.TraceReader(path, sim.TraceType.ORACLE_GENERAL_TRACE, sim.ReaderInitParam())
print(json.dumps([made[name](capacity, hashpower=16).process_trace(reader())[0] for name, capacity in jobs]))
"""
_RECORD = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])


def zipf(requests: int, objects: int, *, alpha: float, seed: int) -> NDArray[np.int64]:
    """Return object numbers, shape (requests,), drawn independently by Zipf's law."""
    weights = np.cumsum(1 / np.arange(1, objects + 1) ** alpha)
    drawn = np.searchsorted(weights, np.random.default_rng(seed).random(requests) * weights[-1])
    return np.random.default_rng(seed + 1).permutation(objects)[drawn]


def misses(make: Callable[[int], EvictionPolicy[Any]], ids: NDArray[np.int64], sizes: NDArray[np.int64], capacity: int) -> int:
    """Return how many requests miss in a cache of `capacity` bytes that asks the policy as the memory tier does.

    ids: shape (n,). sizes: bytes of each object, by its number; none larger than the capacity.
    """
    policy, held, used, missed = make(capacity), set[int](), 0, 0
    of = sizes.tolist()
    for key in ids.tolist():
        if key in held:
            policy.hit(key)
            continue
        missed += 1
        size = of[key]
        while used + size > capacity:
            left = policy.make_room(size)
            held.remove(left)
            used -= of[left]
        policy.add(key, size)
        held.add(key)
        used += size
    return missed


def oracle(ids: NDArray[np.int64], sizes: NDArray[np.int64], jobs: list[tuple[str, int]]) -> list[float]:
    """Return libCacheSim's miss ratio for each (policy, capacity) on this trace."""
    trace = np.zeros(len(ids), dtype=_RECORD)
    trace["time"], trace["id"], trace["size"], trace["next"] = np.arange(len(ids)), ids + 1, sizes[ids], -2
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.oracleGeneral"
        trace.tofile(path)
        done = subprocess.run(
            [sys.executable, "-c", _ORACLE, str(path), json.dumps(jobs)], capture_output=True, text=True, timeout=120, check=False
        )
    assert done.returncode == 0, done.stderr
    found: list[float] = json.loads(done.stdout.splitlines()[-1])
    return found
