"""How often 95 % intervals hold the truth, in clustered data: `python -m tests.bench.coverage_bench [simulations]`.

Each simulation draws sessions (clusters) with hit rates of their own (beta) and sizes of their own (geometric), as lookups of one
person or program come; the truth is the ratio of the expectations. Wilson's interval is beside it, for what independence costs.
Then what a page shows: lookups by the steps of its chart, whose sessions last for many of them.
"""

from __future__ import annotations

import argparse

import numpy as np

from app.analysis.hit_rate import Counts, Sampled
from app.analysis.intervals import batched, clustered, wilson
from app.views import rates


def coverage(clusters: int, rate: float, concentration: float, simulations: int, seed: int) -> tuple[float, float]:
    """Return the coverage of the cluster interval and of Wilson's. concentration: of the sessions' rates; small = unlike."""
    rng = np.random.default_rng(seed)
    held = naive = 0
    for _ in range(simulations):
        sizes = rng.geometric(1 / 12, clusters)
        own = rng.beta(rate * concentration, (1 - rate) * concentration, clusters)
        hits = rng.binomial(sizes, own)
        found, plain = clustered(hits, sizes, seed=int(rng.integers(1 << 30))), wilson(int(hits.sum()), int(sizes.sum()))
        assert found is not None
        assert found.low_ratio is not None
        assert found.high_ratio is not None
        assert plain is not None
        held += found.low_ratio <= rate <= found.high_ratio
        naive += plain.low_ratio <= rate <= plain.high_ratio
    return held / simulations, naive / simulations


def page(minutes: int, step_min: int, session_min: int, tenants: int, *, simulations: int, seed: int) -> tuple[float, float, float]:
    """Return the coverage of a page's interval and of Wilson's, and the mean number of its batches.

    Each tenant's sessions follow on one another, from a random moment of the first; each has a hit rate of its own, beta(1.2, 0.8); 50
    lookups a minute are shared by all tenants.
    """
    rng = np.random.default_rng(seed)
    held = naive = batches = 0
    for _ in range(simulations):
        hits, lookups = np.zeros(minutes), np.zeros(minutes)
        for _ in range(tenants):
            begun = int(rng.integers(session_min))
            own = np.repeat(rng.beta(1.2, 0.8, minutes // session_min + 2), session_min)[begun : begun + minutes]
            came = rng.poisson(50 / tenants, minutes)
            hits, lookups = hits + rng.binomial(came, own), lookups + came
        hits, lookups = hits.reshape(-1, step_min).sum(axis=1), lookups.reshape(-1, step_min).sum(axis=1)
        found, plain = batched(hits, lookups, seed=int(rng.integers(1 << 30))), wilson(int(hits.sum()), int(lookups.sum()))
        assert found is not None
        assert found.low_ratio is not None
        assert found.high_ratio is not None
        assert plain is not None
        held += found.low_ratio <= 0.6 <= found.high_ratio
        naive += plain.low_ratio <= 0.6 <= plain.high_ratio
        batches += found.clusters
    return held / simulations, naive / simulations, batches / simulations


def called_changed(session_min: int, fall: float, simulations: int, seed: int, *, kept: float = 1.0) -> float:
    """Return how often the hit rate of an hour is called changed against the hour before.

    session_min: minutes for which the rate stays, then it is drawn anew; 0 = one rate. fall: of the rate, 25 minutes before the end.
    kept: of the later hour's hits, by a sampler that keeps every miss and tells so; of ten times as many lookups.
    """
    rng = np.random.default_rng(seed)
    called = 0
    for _ in range(simulations):
        sides = []
        for side in range(2):
            n = rng.poisson(28 if kept == 1.0 else 280, 60) + 1
            rate = np.repeat(rng.beta(6, 4, 60 // session_min), session_min) if session_min else np.full(60, 0.6)
            rate[35:] *= 1 - fall * (side == 0)
            hits = rng.binomial(n, rate)
            ratio = kept if side == 0 else 1.0
            came, misses = rng.binomial(hits, ratio), n - hits
            whole = Counts(
                {"exact_hit": int(came.sum()), "miss": int(misses.sum())},
                (Sampled(ratio, "exact_hit", int(came.sum())),) if ratio < 1 else (),
            )
            sides.append((whole.hit_rate, batched(came.tolist(), (came + misses).tolist())))
        (now, mine), (before, earlier) = sides
        change = rates.change(now, before, mine, earlier)
        called += change is not None and change.clear
    return called / simulations


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("simulations", type=int, nargs="?", default=1_000)
    simulations = parser.parse_args().simulations
    print("clusters  rate  concentration  cluster interval  Wilson")
    for number, (clusters, rate, concentration) in enumerate(
        [(40, 0.6, 2.0), (40, 0.3, 4.0), (80, 0.6, 2.0), (200, 0.8, 3.0), (600, 0.6, 2.0)]
    ):
        mine, plain = coverage(clusters, rate, concentration, simulations, number)
        print(f"{clusters:8}  {rate:4}  {concentration:13}  {mine:15.1%}  {plain:6.1%}")
    print("\nwindow  step  sessions  tenants  page's interval  batches  Wilson")
    for minutes, step in ((60, 1), (1_440, 20)):
        for session in (1, 5, 10):
            for tenants in (1, 5):
                mine, plain, many = page(minutes, step, session, tenants, simulations=simulations, seed=session * tenants)
                told = f"{minutes:4} m  {step:2} m  {session:6} m  {tenants:7}  {mine:15.1%}  {many:7.1f}  {plain:6.1%}"
                print(told)
    print("\nsessions  called changed by chance, where it fell by 40 % for the last 25 minutes")
    for session_min in (0, 1, 5, 10):
        by_chance, found = (called_changed(session_min, fall, simulations, 1) for fall in (0.0, 0.4))
        print(f"{session_min:5} min  {by_chance:8.1%}  {found:8.1%}")
    print("\nthe same where one in ten of the later hour's hits was kept, and every miss")
    for session_min in (0, 1, 5, 10):
        by_chance, found = (called_changed(session_min, fall, simulations, 1, kept=0.1) for fall in (0.0, 0.4))
        print(f"{session_min:5} min  {by_chance:8.1%}  {found:8.1%}")


if __name__ == "__main__":
    main()
