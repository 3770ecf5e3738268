"""Random operations leak nothing and bring nothing back; `tests.bench.operations_bench` runs a million."""

from __future__ import annotations

from pathlib import Path

from engine.types import Outcome
from tests.bench.operations_bench import run


async def test_random_operations_leak_nothing_and_bring_nothing_back(tmp_path: Path) -> None:
    counts = await run(20_000, seed=20, folder=tmp_path)
    for seen in (Outcome.EXACT_HIT, Outcome.SEMANTIC_HIT, Outcome.MISS, Outcome.BYPASS, "purge", "undo", "reclaim", "policy", "stored"):
        assert counts[seen], f"no {seen}: the run tells nothing"
    assert counts["not stored: purged_meanwhile"], "no purge fell between a lookup and its answer"
