"""What a lookup costs by tier, as ratios to the bare thing and to other caches, all in one run.

Run it with `python -m tests.bench.cache_bench`, `--entries 10000` on a busy machine. Contestants take turns in short blocks, so that
whatever else the machine does falls on all alike; the figures are medians of the blocks' means. With `--clock cpu` they are this process's
own time, which says more where others keep the cores busy, and nothing of a server's part. `cashews` and `litellm` are compared with
where they are installed, and said to be absent where not.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import importlib.util
import os
import random
import sqlite3
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import redis.asyncio
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext

from engine.cache import Cache
from engine.digests import hmac_sha256
from engine.lookup import CacheRequest
from engine.settings import EngineSettings
from engine.tiers import open_store
from engine.tiers.memory import MemoryTier
from engine.types import Entry, VerifyMode
from engine.verify import parse, verify
from engine.wire import encode
from tests.conformance.samples import entry, key_of
from tests.engine.test_wire import written
from tests.support.servers import running_redis

BODY = b'{"choices":[{"index":0,"message":{"role":"assistant","content":"' + b"x" * 900 + b'"},"finish_reason":"stop"}]}'
BLOCK = 200
FAR_MS = 2**60
PAIRS = Path(__file__).parents[1] / "golden" / "pairs_en.tsv"

Ask = Callable[[int], Awaitable[object]]


@dataclass
class Told:
    """A contestant's name, to which other its ratio is told, and the bound that is aimed at."""

    name: str
    against: str = ""
    bound: float | None = None


class Row(Told):
    """A contestant with what it does for the n-th key."""

    def __init__(self, name: str, ask: Ask, against: str = "", bound: float | None = None) -> None:
        super().__init__(name, against, bound)
        self.ask = ask


CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
clock = time.perf_counter


async def measure(rows: list[Row], *, entries: int, rounds: int) -> dict[str, float]:
    """Return each contestant's median microseconds a call."""
    rng, taken = random.Random(1), {row.name: list[float]() for row in rows}
    for turn in range(rounds + 2):
        numbers = [rng.randrange(entries) for _ in range(BLOCK)]
        for row in rows:
            begun = clock()
            for number in numbers:
                if await row.ask(number) is None:
                    raise SystemExit(f"{row.name} found nothing: it measures nothing")
            if turn >= 2:
                taken[row.name].append((clock() - begun) / BLOCK * 1e6)
    return {name: statistics.median(values) for name, values in taken.items()}


def show(title: str, rows: Sequence[Told], found: dict[str, float]) -> None:
    print(f"\n{title}\n{'':44}{'µs p50':>9}{'ratio':>8}  to")
    for row in rows:
        line = f"{row.name:44}{found[row.name]:9.2f}"
        if row.against:
            bound = f" (aim: at most {row.bound:g})" if row.bound else ""
            line += f"{found[row.name] / found[row.against]:8.2f}  {row.against}{bound}"
        print(line)


def stored(number: int) -> Entry:
    return entry(number, body=BODY, vector=b"", embedder="", expires_ms=FAR_MS)


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def peers() -> list[str]:
    return [name for name in ("cashews", "litellm") if importlib.util.find_spec(name) is not None]


async def memory(entries: int, rounds: int, folder: Path) -> None:
    rows: list[Row] = []
    text = BODY.decode()
    if "cashews" in peers():
        from cashews import Cache as Cashews

        cashews = Cashews()
        cashews.setup("mem://", size=entries * 2)
        for number in range(entries):
            await cashews.set(key_of(number), text)
        rows.append(Row("cashews mem get", lambda number: cashews.get(keys[number])))
    tier = MemoryTier(entries * 4_000, clock=wall_ms)
    for number in range(entries):
        await tier.put(stored(number))
    keys = [key_of(number) for number in range(entries)]
    rows.append(Row("memory tier get", lambda number: tier.get(keys[number]), "cashews mem get" if rows else "", 1.0))
    found = await measure(rows, entries=entries, rounds=rounds)
    show(f"memory, {entries} entries of 1 kB", rows, found)

    settings = EngineSettings(
        cache_url=f"sqlite:///{folder / 'exact.db'}",
        secret=b"s" * 32,
        embedder="none",
        memory_bytes=entries * 8_000,
        memory_ttl_s=3600,
        control_max_age_s=60,  # nothing purges here, and the loop is held up between the polls
    )
    store = open_store(settings.cache_url, timeout_s=5)
    faults: Counter[tuple[str, str]] = Counter()
    cache = Cache(
        settings=settings,
        store=store,
        memory=MemoryTier(settings.memory_bytes, clock=wall_ms),
        faults=lambda tier, operation: faults.update([(tier, operation)]),
    )
    await cache.start()
    filler = "You answer questions about a product, briefly and kindly. " * 16

    def request(number: int) -> CacheRequest:
        messages = [{"role": "system", "content": filler}, {"role": "user", "content": f"What is item {number}?"}]
        return CacheRequest({"model": "gpt-test", "messages": messages, "temperature": 0.2}, "faq", "acme")

    taught = min(entries, 20_000)
    for number in range(taught):
        lookup = await cache.lookup(request(number))
        assert await cache.store(lookup, body=BODY, finish_reasons=("stop",)), lookup.store_reason
    requests = [request(number) for number in range(taught)]

    async def exact(number: int) -> object:
        return (await cache.lookup(requests[number])).entry

    rows = []
    if "litellm" in peers():
        os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # it would ask the network at its import
        from litellm.caching.caching import Cache as LiteLlmCache  # type: ignore[import-not-found]

        lite = LiteLlmCache(type="local")
        lite.cache.max_size_in_memory = entries * 2
        for number in range(taught):
            lite.add_cache(text, **requests[number].body)

        async def litellm(number: int) -> object:
            return lite.get_cache(**requests[number].body)

        rows.append(Row("LiteLLM local get_cache", litellm))
    rows.append(Row("exact lookup, canonical key included", exact, "LiteLLM local get_cache" if rows else "", 2.0))
    found = await measure(rows, entries=taught, rounds=rounds)
    show(f"full lookup of a 1 kB request, {taught} entries", rows, found)
    await cache.close()
    if faults:
        raise SystemExit(f"faults while measuring: {dict(faults)}")


async def sqlite(entries: int, rounds: int, folder: Path) -> None:
    path = folder / "store.db"
    tier = open_store(f"sqlite:///{path}", timeout_s=5)
    for number in range(entries):
        await tier.put(stored(number))
    raw = sqlite3.connect(path)
    raw.execute("CREATE TABLE bare (key TEXT PRIMARY KEY, body BLOB) WITHOUT ROWID")
    raw.executemany("INSERT INTO bare VALUES (?, ?)", ((key_of(number), BODY) for number in range(entries)))
    raw.commit()
    keys = [key_of(number) for number in range(entries)]

    async def select(number: int) -> object:
        return raw.execute("SELECT body FROM entries WHERE key = ?", (keys[number],)).fetchone()

    async def bare(number: int) -> object:
        return raw.execute("SELECT body FROM bare WHERE key = ?", (keys[number],)).fetchone()

    rows = [
        Row("raw SELECT of the body", select),
        Row("raw SELECT from a table of key and body", bare),
        Row("SQLite tier get", lambda number: tier.get(keys[number]), "raw SELECT of the body", 3.0),
    ]
    show(f"SQLite, {entries} entries of 1 kB", rows, await measure(rows, entries=entries, rounds=rounds))
    raw.close()
    await tier.close()


async def over_redis(entries: int, rounds: int) -> None:
    with running_redis() as server:
        tier = open_store(server.url, timeout_s=5)
        client: Any = redis.asyncio.Redis.from_url(server.url, protocol=2)
        for number in range(entries):
            await tier.put(stored(number))
            await client.set(f"raw:{key_of(number)}", BODY)
        keys = [key_of(number) for number in range(entries)]
        rows = [
            Row("raw redis-py GET", lambda number: client.get(f"raw:{keys[number]}")),
            Row("Redis tier get", lambda number: tier.get(keys[number]), "raw redis-py GET", 1.3),
        ]
        show(f"Redis over TCP, {entries} entries of 1 kB", rows, await measure(rows, entries=entries, rounds=rounds))
        await client.aclose()
        await tier.close()


def verification() -> None:
    pairs = [line.split("\t") for line in PAIRS.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    texts = [(row[-2], row[-1]) for row in pairs]
    taken: dict[str, list[float]] = {"parse of a prompt": [], "verification of a candidate": []}
    for _ in range(5):
        for one, two in texts:
            begun = time.perf_counter()
            asked = parse(one)
            middle = time.perf_counter()
            known = parse(two)
            start = time.perf_counter()
            verify(asked, known, mode=VerifyMode.HARD)
            taken["verification of a candidate"].append((time.perf_counter() - start) * 1e3)
            taken["parse of a prompt"].append((middle - begun) * 1e3)
    print(f"\nverification, {len(texts)} pairs{'':22}{'ms p50':>9}{'p99':>8}")
    for name, values in taken.items():
        cut = statistics.quantiles(values, n=100)
        print(f"{name:44}{cut[49]:9.3f}{cut[98]:8.3f}")


def spans(rounds: int) -> None:
    """Print what a span's bytes cost beside the SDK's encoder, and a key's HMAC beside the standard library's."""
    texts = {f"cachescope.text_{number}": "f3" * (2 + number) for number in range(20)}
    numbers = {f"cachescope.number_{number}": value for number, value in enumerate([0, 1, 200, 4_096, 0.94, 0.9713, 1.0, 12.5, 1_834.25])}
    others = {"cachescope.streamed": False, "cachescope.stored": True, "gen_ai.response.finish_reasons": ("stop",)}
    long = {"cachescope.prompt": "How do I reset it? " * 5, "cachescope.steps": '[["canonicalise",0,31],["exact",31,12]]' * 2}
    attributes: dict[str, Any] = {**texts, **numbers, **others, **long, "http.response.status_code": 200}
    resource, scope = Resource({"service.name": "cachescope-gateway"}), InstrumentationScope("cachescope")
    batch = [
        ReadableSpan(
            "cachescope.lookup",
            context=SpanContext(2**100 + number, 2**40 + number, is_remote=False),
            resource=resource,
            attributes=attributes,
            start_time=10**18,
            end_time=10**18 + 10**6,
            instrumentation_scope=scope,
        )
        for number in range(512)
    ]
    key, message = b"k" * 32, b"m" * 60
    contestants: dict[str, Callable[[], object]] = {
        "the SDK's encoder, a span": lambda: encode_spans(batch).SerializeToString(),
        "writing and encoding, a span": lambda: encode([written(span) for span in batch]),
        "hmac.digest of 60 bytes": lambda: [hmac.digest(key, message, "sha256") for _ in batch],
        "a key's HMAC": lambda: [hmac_sha256(key, message) for _ in batch],
    }
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, work in contestants.items():
            begun = clock()
            work()
            taken[name].append((clock() - begun) / len(batch) * 1e6)
    names = list(contestants)
    rows = [Told(name, against) for name, against in zip(names, ["", names[0], "", names[2]], strict=True)]
    show(f"spans of {len(attributes)} attributes, {len(batch)} a request", rows, {name: statistics.median(taken[name]) for name in names})


async def run(entries: int, rounds: int, only: str) -> None:
    absent = {"cashews", "litellm"} - set(peers())
    print(f"{entries} entries, {rounds} rounds of {BLOCK}; absent: {', '.join(sorted(absent)) or 'none'}")
    with tempfile.TemporaryDirectory() as folder:
        if only in ("", "memory"):
            await memory(entries, rounds, Path(folder))
        if only in ("", "sqlite"):
            await sqlite(entries, rounds, Path(folder))
    if only in ("", "redis"):
        await over_redis(entries, rounds)
    if only in ("", "verify"):
        verification()
    if only in ("", "spans"):
        spans(rounds)
    print(f"\nload average at the end {os.getloadavg()[0]:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--entries", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--only", choices=["memory", "sqlite", "redis", "verify", "spans"], default="")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    given = parser.parse_args()
    global clock  # noqa: PLW0603 - one measurement a process
    clock = CLOCKS[given.clock]
    asyncio.run(run(given.entries, given.rounds, given.only))


if __name__ == "__main__":
    main()
