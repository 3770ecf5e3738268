"""Agreement with libCacheSim, on its own synthetic kind of trace and on Mooncake's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from app.analysis import optimum
from app.analysis.policies import POLICIES, Stream, replay, stream
from tests.app.analysis import oracle
from tests.app.analysis.streams import zipf
from tests.conftest import SHARED

EXACT = ("fifo", "lru", "lfu", "sieve", "belady")
BLOCKS = 100_000  # of 288,500
ALL = (*POLICIES, "belady")
MOONCAKE = SHARED / "data" / "public" / "traces" / "mooncake_conversation_trace.jsonl"


def ours(policy: str, requests: Stream, capacity: int) -> int:
    hits = optimum.belady(requests, capacity) if policy == "belady" else replay(policy, requests, capacity)  # type: ignore[arg-type]
    return requests.n - int(hits.sum())


def apart(cases: list[tuple[Stream, int, tuple[str, ...]]], folder: Path) -> list[dict[str, float]]:
    """Return how many percentage points each case's and policy's miss ratio is from libCacheSim's."""
    return [
        {policy: abs(ours(policy, requests, capacity) - theirs[policy]) / requests.n * 100 for policy in policies}
        for (requests, capacity, policies), theirs in zip(cases, oracle.misses(cases, folder), strict=True)
    ]


def test_synthetic_traces(tmp_path: Path) -> None:
    plain = zipf(10_000, 100_000)
    sized = Stream(plain.ids, plain.times, np.random.default_rng(4).integers(1, 50, plain.keys))
    for found in apart([(plain, 500, ALL), (sized, 25_000, ALL)], tmp_path):
        assert [found[policy] for policy in ("fifo", "lru", "lfu", "sieve")] == [0] * 4
        assert found["belady"] <= 0.01  # of two keys of different sizes that are never used again, either may leave
        assert max(found.values()) <= 0.5, found


@pytest.mark.shared_data
def test_mooncake_s_blocks(tmp_path: Path) -> None:
    """W-TinyLFU is compared at the small size alone: while libCacheSim's fills, what nothing asked for twice goes to the protected part
    (tests.bench.tinylfu_bench). By the paper's rules ours is exact: test_policies."""
    requests = stream([block for line in MOONCAKE.open(encoding="utf-8") for block in json.loads(line)["hash_ids"]][:BLOCKS])
    others = tuple(policy for policy in ALL if policy != "wtinylfu")
    for found in apart([(requests, 1_000, ALL), (requests, 10_000, others)], tmp_path):
        assert [found[policy] for policy in EXACT] == [0] * len(EXACT)
        assert max(found.values()) <= 0.5, found
