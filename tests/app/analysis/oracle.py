"""libCacheSim's word on a trace, from a process of its own: it is under the GPL, and aborts its process on sizes it dislikes.

Also a program: oracle.py JSON, a list of [trace of its 24-byte records, capacity, policies]; prints each one's misses by policy.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from app.analysis.optimum import next_request
from app.analysis.policies import Stream

NAMES = {
    "fifo": "FIFO",
    "lru": "LRU",
    "lfu": "LFU",
    "sieve": "Sieve",
    "s3fifo": "S3FIFO",
    "wtinylfu": "WTinyLFU",
    "gdsf": "GDSF",
    "belady": "Belady",
}
RECORD = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next", "<i8")])


def write(requests: Stream, path: Path) -> None:
    """Write the stream as libCacheSim's `oracleGeneral` trace. It counts an unused key as used at the greatest time, written -1."""
    following = next_request(requests.ids, requests.keys)
    records = np.zeros(requests.n, RECORD)
    records["time"] = np.arange(requests.n) // 1000
    records["id"] = requests.ids + 1
    records["size"] = requests.sizes[requests.ids]
    records["next"] = np.where(following == requests.n, -1, following)
    records.tofile(path)


def misses(cases: Sequence[tuple[Stream, int, Sequence[str]]], folder: Path) -> list[dict[str, int]]:
    """Return each case's misses by policy. A case: stream, capacity, policies."""
    asked = []
    for number, (requests, capacity, policies) in enumerate(cases):
        path = folder / f"{number}.oracleGeneral"
        write(requests, path)
        asked.append([str(path), capacity, list(policies)])
    command = [sys.executable, __file__, json.dumps(asked)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: list[dict[str, int]] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(asked: str) -> None:
    import libcachesim

    found = []
    for path, capacity, policies in json.loads(asked):
        n = Path(path).stat().st_size // RECORD.itemsize
        counts = {}
        for policy in policies:
            reader = libcachesim.TraceReader(path, libcachesim.TraceType.ORACLE_GENERAL_TRACE, libcachesim.ReaderInitParam())
            ratio, _ = getattr(libcachesim, NAMES[policy])(cache_size=capacity).process_trace(reader)
            counts[policy] = round(ratio * n)
        found.append(counts)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
