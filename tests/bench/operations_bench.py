"""Random operations on two gateways' caches over one store, against a plain model: nothing leaks, nothing comes back.

Run it with `python -m tests.bench.operations_bench` (1,000,000 operations, some minutes). Tenants, namespaces, model versions and prompts
are drawn at random; between lookups and stores there are purges, undos, reclaimings, changes of policy and time that passes. Some
answers come long after their lookup, so that purges fall in between. Each hit is checked: whose it is, of which prompt, whether the
model has its generation visible, whether it has expired.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import random
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from engine.errors import Conflict
from engine.lookup import Lookup
from engine.types import Outcome
from tests.engine.rig import Rig, answer, chat, rig

TENANTS = ("acme", "globex", "initech", "")
NAMESPACES = ("faq", "f*", "faq:x", "docs")
VERSIONS = ("", "v1", "v2")
NUMBERS = range(2, 14)
# The same question twice: the second may be served by the first's answer, another number never.
TEXTS = ("Can I keep {} backups of my files?", "Can I keep {} backups of my file?")

Scope = tuple[str, str, str, int]


@dataclass
class Model:
    """What must be visible: the epoch of each answer and the epochs that are live in each namespace."""

    epoch: dict[str, int] = field(default_factory=lambda: dict.fromkeys(NAMESPACES, 0))
    live: dict[str, set[int]] = field(default_factory=lambda: {name: {0} for name in NAMESPACES})
    purges: dict[str, tuple[str, set[int]]] = field(default_factory=dict)  # those that may be undone
    answers: dict[int, tuple[Scope, int]] = field(default_factory=dict)  # serial -> scope, epoch

    def purge(self, namespace: str, operation: str) -> None:
        self.purges[operation] = (namespace, set(self.live[namespace]))
        self.epoch[namespace] += 1
        self.live[namespace] = {self.epoch[namespace]}

    def undo(self, operation: str) -> None:
        namespace, hidden = self.purges.pop(operation)
        self.live[namespace] |= hidden


class Run:
    """One run. counts: what happened."""

    def __init__(self, gateways: list[Rig], seed: int) -> None:
        self.rng = random.Random(seed)
        self.gateways = gateways
        self.model = Model()
        self.counts: Counter[str] = Counter()
        self.pending: list[tuple[Rig, Lookup, Scope, int]] = []
        self.serial = 0
        self.keys: dict[str, tuple[str, str, str, str]] = {}

    async def step(self) -> None:
        act = self.rng.random()
        if act < 0.9:
            await self.ask()
        elif act < 0.965:
            await self.answer_late()
        elif act < 0.975:
            await self.pass_time()
        elif act < 0.98:
            await self.purge()
        elif act < 0.985:
            await self.undo()
        elif act < 0.99:
            await self.reclaim()
        else:
            await self.switch()

    async def ask(self) -> None:
        rng = self.rng
        tenant, namespace, version = rng.choice(TENANTS), rng.choice(NAMESPACES), rng.choice(VERSIONS)
        number, wording = rng.choice(NUMBERS), rng.randrange(2)
        text = TEXTS[wording].format(number)
        gateway = rng.choice(self.gateways)
        epoch = self.model.epoch[namespace]
        lookup = await gateway.ask(chat(text), tenant=tenant, namespace=namespace, model_version=version)
        self.counts[lookup.outcome] += 1
        said = (tenant, namespace, version, text)
        assert self.keys.setdefault(lookup.key, said) == said, "two requests share a key"
        scope = (tenant, namespace, version, number)
        if lookup.entry is not None:
            self.check(gateway, lookup, scope)
        elif lookup.storable and rng.random() < 0.7:
            await self.store(gateway, lookup, scope, epoch)
        elif lookup.storable:
            self.pending.append((gateway, lookup, scope, epoch))

    def check(self, gateway: Rig, lookup: Lookup, scope: Scope) -> None:
        assert lookup.entry is not None
        serial = int(orjson.loads(lookup.entry.body)["choices"][0]["message"]["content"])
        stored, epoch = self.model.answers[serial]
        assert stored == scope, f"{scope} was answered with {stored}"
        assert epoch in self.model.live[scope[1]], f"{scope} was answered from before a purge"
        assert lookup.entry.expires_ms > gateway.clock(), "it has expired"

    async def store(self, gateway: Rig, lookup: Lookup, scope: Scope, epoch: int) -> None:
        self.serial += 1
        self.model.answers[self.serial] = (scope, epoch)
        kept = await gateway.cache.store(lookup, body=answer(str(self.serial)), finish_reasons=("stop",))
        self.counts["stored" if kept else f"not stored: {lookup.store_reason}"] += 1

    async def answer_late(self) -> None:
        if self.pending:
            await self.store(*self.pending.pop(self.rng.randrange(len(self.pending))))

    async def pass_time(self) -> None:
        # Now and then a day: records of purges are forgotten after a week, and their number stays bounded.
        step = 86_400_000 if self.rng.random() < 0.01 else self.rng.choice((10, 1_000, 40_000))
        for gateway in self.gateways:
            gateway.clock.now_ms += step

    async def purge(self) -> None:
        self.serial += 1
        namespace, operation = self.rng.choice(NAMESPACES), f"op{self.serial}"
        self.model.purge(namespace, operation)
        await self.rng.choice(self.gateways).cache.control.purge(namespace, operation_id=operation)
        await self.converge("purge")

    async def undo(self) -> None:
        if self.model.purges:
            operation = self.rng.choice(list(self.model.purges))
            self.model.undo(operation)
            await self.rng.choice(self.gateways).cache.control.undo(operation)
            await self.converge("undo")

    async def reclaim(self) -> None:
        if self.model.purges:
            operation = self.rng.choice(list(self.model.purges))
            del self.model.purges[operation]
            control = self.rng.choice(self.gateways).cache.control
            while (await control.reclaim(operation, batch=50))[1]:
                pass
            try:
                await control.undo(operation)
            except Conflict:
                await self.converge("reclaim")
            else:
                raise AssertionError("a reclaimed purge was undone")

    async def switch(self) -> None:
        gateway = self.rng.choice(self.gateways)
        changes = {"switch": self.rng.choice(("on", "on", "exact-only", "off")), "ttl_s": self.rng.choice((30.0, 600.0))}
        await gateway.cache.control.set_policy(self.rng.choice(NAMESPACES), changes)
        await self.converge("policy")

    async def converge(self, act: str) -> None:
        """Both gateways see the act, as they do within a second."""
        self.counts[act] += 1
        for gateway in self.gateways:
            await gateway.cache.view.refresh()
        await self.gateways[0].cache.control.forget()


async def run(operations: int, *, seed: int, folder: Path) -> Counter[str]:
    """Return what happened. Raises AssertionError at the first leak."""
    changes = {"memory_bytes": 60_000, "memory_ttl_s": 30.0, "ttl_s": 600.0}
    # One of the two looks up exactly only, which costs a tenth: more operations in the same time.
    async with rig(folder, **changes) as one, rig(folder, semantic=False, **changes) as two:
        the_run = Run([one, two], seed)
        for _ in range(operations):
            await the_run.step()
        assert not one.faults + two.faults, one.faults + two.faults
        return the_run.counts


def part(operations: int, seed: int) -> Counter[str]:
    """Run in this process, on a file in memory where the system has such a folder: it is not the disk that is tried out."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        return asyncio.run(run(operations, seed=seed, folder=Path(folder)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--processes", type=int, default=min(4, os.cpu_count() or 1), help="share the operations, each on a store of its own"
    )
    given = parser.parse_args()
    begun = time.perf_counter()
    shares = [given.operations // given.processes + (number < given.operations % given.processes) for number in range(given.processes)]
    seeds = range(given.seed, given.seed + given.processes)
    with ProcessPoolExecutor(given.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        counts: Counter[str] = sum(pool.map(part, shares, seeds), Counter())
    took_s = time.perf_counter() - begun
    print(f"{given.operations} operations, seeds {list(seeds)}, {took_s:.0f} s: no leak, nothing came back")
    for name, count in sorted(counts.items()):
        print(f"{name:32}{count:10}")
    assert counts[Outcome.SEMANTIC_HIT], "the semantic lookup was not exercised"


if __name__ == "__main__":
    main()
