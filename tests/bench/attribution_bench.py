"""Injected faults against "why did it change": how often the true segment is ranked first and among the first three.

`python -m tests.bench.attribution_bench [runs] [seed]`. Each run draws a traffic of seven dimensions with skewed values that go
together (a tenant has its namespaces, a client its templates), natural drift of the shares, and one fault that moves the hit rate
by at least five points: a rate, a mix, a combination of two dimensions, a new segment or a vanished one.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass

import numpy as np

from app.analysis.attribution import Segment, explain, tabulate

DIMENSIONS = ("namespace", "tenant", "model", "model_version", "client", "template", "sender")
SIZES = (4, 6, 3, 3, 4, 8, 2)
KINDS = ("rate", "mix", "combination", "new", "vanished")
MIN_MOVE, MIN_N = 0.05, 2_000


@dataclass(frozen=True)
class Run:
    kind: str
    literals: frozenset[tuple[str, str]]
    before: dict[tuple[str, ...], tuple[int, int]]
    now: dict[tuple[str, ...], tuple[int, int]]
    n: int
    move: float


def _draw(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (cells, d) values, their shares, and their hit rates. Correlated: each tenant prefers some namespaces, and so on."""
    cells = rng.integers(0, SIZES, size=(600, len(SIZES)))
    cells = np.unique(cells, axis=0)
    weight = np.ones(len(cells))
    for place, size in enumerate(SIZES):
        weight *= rng.dirichlet(np.full(size, 2.0))[cells[:, place]]
    for a, b in ((0, 1), (1, 4), (4, 5), (0, 2)):
        weight *= rng.gamma(2.0, 0.5, size=(SIZES[a], SIZES[b]))[cells[:, a], cells[:, b]]
    logit = rng.normal(0.3, 0.3)
    effect = logit + sum(rng.normal(0, 0.5 if place < 2 else 0.3, size)[cells[:, place]] for place, size in enumerate(SIZES))
    return cells, weight / weight.sum(), 1 / (1 + np.exp(-effect))


def draw(rng: np.random.Generator, kind: str) -> Run:
    """Return one run with a fault of this kind that moves the expected rate by at least five points."""
    while True:
        cells, share, rate = _draw(rng)
        drift = np.ones(len(cells))
        for place, size in enumerate(SIZES):
            drift *= rng.lognormal(0, 0.05, size)[cells[:, place]]
        places = rng.choice(len(SIZES), size=2 if kind == "combination" else 1, replace=False)
        wanted = [int(rng.integers(SIZES[place])) for place in places]
        inside = np.all(cells[:, places] == wanted, axis=1)
        covered = share[inside].sum()
        if not 0.04 < covered < 0.6:
            continue
        share_now, rate_now, share_before = share * drift, rate.copy(), share.copy()
        if kind in {"rate", "combination"}:
            rate_now[inside] *= rng.uniform(0.0, 0.6)
        elif kind == "mix":
            share_now[inside] *= rng.choice([rng.uniform(2.5, 6), rng.uniform(0.05, 0.3)])
        elif kind == "new":
            share_before[inside] = 0
            rate[inside] *= rng.uniform(0.0, 0.4)
            rate_now = rate.copy()
        else:
            share_now[inside] = 0
        share_now, share_before = share_now / share_now.sum(), share_before / share_before.sum()
        move = float((share_now * rate_now).sum() - (share_before * rate).sum())
        if abs(move) < MIN_MOVE:
            continue
        n = int(rng.choice([MIN_N, 5_000, 20_000, 60_000]))
        counted = []
        for shares, rates in ((share_before, rate), (share_now, rate_now)):
            lookups = rng.multinomial(n, shares)
            hits = rng.binomial(lookups, rates)
            counted.append(
                {tuple(f"v{value}" for value in cell): (int(k), int(m)) for cell, k, m in zip(cells, hits, lookups, strict=True) if m}
            )
        literals = frozenset((DIMENSIONS[place], f"v{value}") for place, value in zip(places, wanted, strict=True))
        return Run(kind, literals, counted[0], counted[1], n, move)


def rank(found: list[Segment], literals: frozenset[tuple[str, str]]) -> int | None:
    return next((at for at, one in enumerate(found, 1) if frozenset(one.literals) == literals), None)


def measure(runs: int, seed: int) -> dict[str, list[int | None]]:
    rng = np.random.default_rng(seed)
    ranks: dict[str, list[int | None]] = {kind: [] for kind in KINDS}
    for number in range(runs):
        run = draw(rng, KINDS[number % len(KINDS)])
        ranks[run.kind].append(rank(explain(tabulate(DIMENSIONS, run.before, run.now)), run.literals))
    return ranks


if __name__ == "__main__":
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 500
    begun = time.perf_counter()
    ranks = measure(runs, int(sys.argv[2]) if len(sys.argv) > 2 else 1)
    every = [one for found in ranks.values() for one in found]
    for name, found in [*ranks.items(), ("all", every)]:
        first, three = (sum(one is not None and one <= most for one in found) for most in (1, 3))
        print(f"{name:12} n = {len(found):4}  first {first / len(found):6.1%}  top three {three / len(found):6.1%}  {Counter(found)}")
    print(f"{(time.perf_counter() - begun) / runs * 1000:.0f} ms a run, the drawing included")
