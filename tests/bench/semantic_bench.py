"""The whole semantic lookup, embedding aside: key, exact miss, search, fetch, verification, decision; beside GPTCache's.

Run it with `python -m tests.bench.semantic_bench`, with `--entries 2000` on a busy machine; `--gptcache FOLDER/bin/python` adds GPTCache
(SQLite and FAISS) out of a virtual environment of its own (`pip install gptcache faiss-cpu numpy sqlalchemy`). Embeddings are looked up in
a table, by both, of clusters on a sphere; what is asked is another wording of an entry's question, whose vector has a cosine of 0.95 with
it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.cache import Cache, CacheRequest
from engine.gateway.server import VECTORS_FRESH_S
from engine.keys import canonicalise
from engine.settings import EngineSettings
from engine.tiers import open_store
from engine.tiers.memory import MemoryTier
from engine.tiers.vector import PartitionedVectorTier
from engine.types import Outcome
from engine.verify import parse
from tests.bench.vector_bench import CLOCKS, DIMENSION, clustered, normalised

FloatArray = NDArray[np.float32]

clock = time.perf_counter
AIM = 50
ASKED, STORED = "How can I reset the password of account {}?", "How do I reset the password of account {}?"
BODY = json.dumps(
    {"choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "An answer. " * 70}}]}
).encode()

PEER = """
import json, sys, time
import numpy as np
from gptcache import Cache
from gptcache.adapter import api
from gptcache.manager import CacheBase, VectorBase, get_data_manager
from gptcache.processor.pre import get_prompt
from gptcache.similarity_evaluation.distance import SearchDistanceEvaluation
folder, stored, asked, answer, picks, clock = json.load(sys.stdin)
clock = getattr(time, clock)
vectors, near = np.load(folder + "/vectors.npy"), np.load(folder + "/near.npy")
def embedding(text, **_):
    number = int(text.rpartition(" ")[2][:-1])
    return near[number] if text.startswith("How can") else vectors[number]
manager = get_data_manager(
    CacheBase("sqlite", sql_url=f"sqlite:///{folder}/peer.db"),
    VectorBase("faiss", dimension=vectors.shape[1], index_path=folder + "/peer.index"),
    max_size=10**8,
)
cache = Cache()
cache.init(pre_embedding_func=get_prompt, embedding_func=embedding, data_manager=manager, similarity_evaluation=SearchDistanceEvaluation())
for start in range(0, len(vectors), 5_000):
    numbers = range(start, min(len(vectors), start + 5_000))
    manager.import_data([stored.format(n) for n in numbers], [answer] * len(numbers), [vectors[n] for n in numbers], [None] * len(numbers))
taken, missed = [], 0
for number in picks:
    begun = clock()
    missed += api.get(asked.format(number), cache_obj=cache) is None
    taken.append(clock() - begun)
print(json.dumps([taken, missed]))
"""


class Table:
    """An embedder that knows the vectors of the bench's questions."""

    id, dimension, default_threshold, candidate_floor = "table/384", DIMENSION, 0.9, 0.88

    def __init__(self, vectors: FloatArray, near: FloatArray) -> None:
        self._vectors, self._near = vectors, near

    async def embed(self, texts: list[str]) -> FloatArray:
        rows = [(self._near if text.startswith("How can") else self._vectors)[int(re.findall(r"\d+", text)[0])] for text in texts]
        return np.stack(rows)

    async def close(self) -> None:
        return


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def request(text: str) -> CacheRequest:
    return CacheRequest({"model": "bench", "messages": [{"role": "user", "content": text}]}, "faq", "acme")


async def ours(vectors: FloatArray, near: FloatArray, picks: list[int], folder: Path) -> tuple[list[float], list[float]]:
    """Return the seconds of each lookup, and how many of them verification took."""
    settings = EngineSettings(cache_url=f"sqlite:///{folder / 'ours.db'}", secret=b"s" * 32, control_max_age_s=60)
    store = open_store(settings.cache_url, timeout_s=5)
    faults: Counter[tuple[str, str]] = Counter()
    vector = PartitionedVectorTier(store, embedder_id=Table.id, dimension=DIMENSION, clock=now_ms, fresh_s=VECTORS_FRESH_S)
    cache = Cache(
        settings=settings,
        store=store,
        memory=MemoryTier(settings.memory_bytes, clock=now_ms),
        vector=vector,
        embedder=Table(vectors, near),  # type: ignore[arg-type]
        faults=lambda tier, operation: faults.update([(tier, operation)]),
    )
    await cache.start()
    lookup = await cache.lookup(request(STORED.format(0)))
    if not await cache.store(lookup, body=BODY, finish_reasons=("stop",)):
        raise SystemExit(f"not stored: {lookup.store_reason}")
    first = await store.get(lookup.key)
    assert first is not None
    for number in range(1, len(vectors)):
        # As the cache would store it, without the lookup before.
        text = STORED.format(number)
        made = canonicalise(request(text).body, namespace="faq", tenant="acme", model_version="", secret=settings.secret)
        assert made.partition == first.partition
        changes = {"key": made.key, "prompt": text, "parse": parse(text), "vector": vectors[number].astype("<f4").tobytes()}
        await store.put(replace(first, entry_id=f"{number:032x}", **changes))
    vector.written(first.partition)
    for _ in ("the rest of the partition is read", "its index is built, where it gets one"):
        await cache.lookup(request(ASKED.format(0)))
        while vector.building:
            await asyncio.sleep(0.1)
    taken, verified = [], []
    for number in picks:
        begun = clock()
        lookup = await cache.lookup(request(ASKED.format(number)))
        taken.append(clock() - begun)
        verified.append(sum(step.duration_us for step in lookup.steps if step.name in ("parse", "verify")) / 1e6)
        if lookup.outcome is not Outcome.SEMANTIC_HIT or not lookup.entry or lookup.entry.prompt != STORED.format(number):
            raise SystemExit(f"question {number} was a {lookup.outcome} ({lookup.reason}): it measures nothing")
    await cache.close()
    if faults:
        raise SystemExit(f"faults while measuring: {dict(faults)}")
    return taken, verified


def peer(python: str, vectors: FloatArray, near: FloatArray, picks: list[int], folder: Path) -> list[float]:
    """Return the seconds of each of GPTCache's lookups."""
    np.save(folder / "vectors.npy", vectors)
    np.save(folder / "near.npy", near)
    given = json.dumps([str(folder), STORED, ASKED, BODY.decode(), picks, clock.__name__])
    ended = subprocess.run([python, "-c", PEER], input=given, capture_output=True, text=True, cwd=folder, check=False)
    if ended.returncode:
        raise SystemExit(ended.stderr)
    taken, missed = json.loads(ended.stdout.splitlines()[-1])
    if missed > len(picks) // 10:
        raise SystemExit(f"GPTCache missed {missed} of {len(picks)}: it measures nothing")
    return list(taken)


def show(name: str, taken: list[float]) -> float:
    """Print the figures; return lookups a second."""
    cut, rate = statistics.quantiles(taken, n=100), len(taken) / sum(taken)
    print(f"{name:20}{cut[49] * 1e3:9.3f}{cut[98] * 1e3:9.3f}{rate:12.0f}", flush=True)
    return rate


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=1_000, help="lookups; a tenth of them for GPTCache")
    parser.add_argument("--gptcache", default="", help="the Python of a virtual environment that has it")
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="cpu: each process's own time, where others keep the cores busy")
    given = parser.parse_args()
    global clock  # noqa: PLW0603 - one measurement a process
    clock = CLOCKS[given.clock]
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    vectors = clustered(given.entries, 1)
    noise = np.random.default_rng(5).standard_normal(vectors.shape).astype(np.float32)
    near = normalised(vectors + 0.33 * normalised(noise))
    picks = [int(number) for number in np.random.default_rng(9).integers(0, given.entries, given.rounds)]
    print(f"{given.entries} entries{'':9}{'p50 ms':>9}{'p99 ms':>9}{'lookups/s':>12}")
    with tempfile.TemporaryDirectory() as folder:
        taken, verified = asyncio.run(ours(vectors, near, picks, Path(folder)))
        rates = {"cachescope": show("cachescope", taken)}
        if given.clock == "wall":  # a step's own time is told by the wall's
            rates["without verification"] = show("without verification", [all_ - part for all_, part in zip(taken, verified, strict=True)])
        if given.gptcache:
            other = show("GPTCache", peer(given.gptcache, vectors, near, picks[: max(20, given.rounds // 10)], Path(folder)))
            for name, rate in rates.items():
                print(f"{name}: {rate / other:.0f} times GPTCache's rate, which verifies nothing (aim: at least {AIM})")
    print(f"load average at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
