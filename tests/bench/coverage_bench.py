"""How often 95 % intervals hold the truth, in clustered data: `python -m tests.bench.coverage_bench [simulations]`.

Each simulation draws sessions (clusters) with hit rates of their own (beta) and sizes of their own (geometric), as lookups of one
person or program come; the truth is the ratio of the expectations. Wilson's interval is beside it, for what independence costs.
"""

from __future__ import annotations

import sys

import numpy as np

from app.analysis.intervals import clustered, wilson


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


if __name__ == "__main__":
    simulations = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    print("clusters  rate  concentration  cluster interval  Wilson")
    for number, (clusters, rate, concentration) in enumerate(
        [(40, 0.6, 2.0), (40, 0.3, 4.0), (80, 0.6, 2.0), (200, 0.8, 3.0), (600, 0.6, 2.0)]
    ):
        mine, plain = coverage(clusters, rate, concentration, simulations, number)
        print(f"{clusters:8}  {rate:4}  {concentration:13}  {mine:15.1%}  {plain:6.1%}")
