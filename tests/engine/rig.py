"""A whole cache on a SQLite file, with a small deterministic embedder, for the tests of the engine's core."""

from __future__ import annotations

import random
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from engine.breaker import Breaker
from engine.cache import Cache
from engine.errors import EmbedderUnavailable
from engine.judge import Judge
from engine.lookup import CacheRequest, Lookup
from engine.settings import EngineSettings
from engine.tiers import open_store
from engine.tiers.base import StoreTier
from engine.tiers.memory import MemoryTier
from engine.tiers.vector import PartitionedVectorTier
from engine.types import Usage
from tests.conformance.samples import FakeClock

SECRET = b"s" * 32


class TrigramEmbedder:
    """Bags of letter trigrams: texts that share most of their letters are close. A real embedder, only a poor one."""

    id = "trigram/1/256"
    dimension = 256
    default_threshold = 0.8
    candidate_floor = 0.3

    def __init__(self) -> None:
        self.calls = 0
        self.broken = False
        self.meanwhile: Callable[[], Awaitable[object]] | None = None  # what happens while it embeds

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.calls += 1
        if self.broken:
            raise EmbedderUnavailable("the embedder is switched off")
        if self.meanwhile is not None:
            await self.meanwhile()
        out = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            padded = f"  {text.lower()}  "
            for start in range(len(padded) - 2):
                out[row, zlib.crc32(padded[start : start + 3].encode()) % self.dimension] += 1
            out[row] /= np.linalg.norm(out[row])
        return out

    async def close(self) -> None: ...


def answer(text: str = "An answer.") -> bytes:
    return orjson.dumps({"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]})


def chat(text: str = "How do I reset my password?", *, system: str = "", **fields: Any) -> dict[str, Any]:
    messages = [{"role": "system", "content": system}] if system else []
    return {"model": "gpt-test", "messages": [*messages, {"role": "user", "content": text}], **fields}


@dataclass
class Rig:
    """One gateway's cache and the levers of its world."""

    cache: Cache
    store: StoreTier
    memory: MemoryTier
    embedder: TrigramEmbedder
    clock: FakeClock
    faults: Counter[tuple[str, str]]
    monotonic: list[float] = field(default_factory=lambda: [100.0])
    judged: Counter[tuple[str, str]] = field(default_factory=Counter)  # by word and source

    def request(self, body: dict[str, Any] | str, **changes: Any) -> CacheRequest:
        body = chat(body) if isinstance(body, str) else body
        return CacheRequest(body, "faq", "acme")._replace(**changes)

    async def ask(self, body: dict[str, Any] | str, **changes: Any) -> Lookup:
        return await self.cache.lookup(self.request(body, **changes))

    async def keep(self, lookup: Lookup, text: str = "An answer.") -> bool:
        usage = Usage(10, 5, None, 0.002)
        return await self.cache.store(lookup, body=answer(text), usage=usage, upstream_ms=300.0, finish_reasons=("stop",))

    async def teach(self, body: dict[str, Any] | str, text: str = "An answer.", **changes: Any) -> Lookup:
        """Look up, miss and store."""
        lookup = await self.ask(body, **changes)
        assert await self.keep(lookup, text), lookup.store_reason
        return lookup


def settings(folder: Path, **changes: Any) -> EngineSettings:
    patient = EngineSettings(cache_url=f"sqlite:///{folder / 'cache.db'}", secret=SECRET, embedder_timeout_s=30)
    return replace(patient, **changes)


@asynccontextmanager
async def rig(folder: Path, *, semantic: bool = True, seed: int = 1, **changes: Any) -> AsyncIterator[Rig]:
    """Yield a cache whose view was read once. Its monotonic clock stands still, so the view stays usable until a test moves it."""
    config, clock, monotonic = settings(folder, **changes), FakeClock(), [100.0]
    faults: Counter[tuple[str, str]] = Counter()
    store = open_store(config.cache_url, timeout_s=30, clock=clock)
    memory = MemoryTier(config.memory_bytes, clock=clock)
    embedder = TrigramEmbedder()
    vector = PartitionedVectorTier(store, embedder_id=embedder.id, dimension=embedder.dimension, clock=clock) if semantic else None
    judged: Counter[tuple[str, str]] = Counter()
    cache = Cache(
        settings=config,
        store=store,
        memory=memory,
        vector=vector,
        embedder=embedder if semantic else None,
        judge=Judge(config, breaker=Breaker(), counted=lambda word, source: judged.update([(word, source)])),
        faults=lambda tier, operation: faults.update([(tier, operation)]),
        clock=clock,
        monotonic=lambda: monotonic[0],
        rng=random.Random(seed),
    )
    for _ in range(20):  # a read during which the machine stood still for a second is given up
        if await cache.view.refresh():
            break
    faults.clear()
    try:
        yield Rig(cache, store, memory, embedder, clock, faults, monotonic, judged)
    finally:
        await cache.close()
