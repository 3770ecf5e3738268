"""How right regret's sample of keys is: python -m tests.bench.regret_bench [--lookups N] [--salts N].

Zipf streams over a day with a lifetime of an hour and prices that differ by key: the hits of today, those of any lifetime, what a longer
lifetime wins, in hits and in money, each over many ways to draw the keys, beside the truth. Prints a line of JSON each; exit 1 when a
median is off by more than 3 % or an interval covers less than 90 % of what it claims.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import asdict, dataclass

import numpy as np

from app.analysis.key_sample import CERTAIN, PARTS, KeySample, part
from app.analysis.policies import Stream
from app.analysis.ttl import unlimited
from app.jobs import sampling
from storage.slots import SLOTS, slot

DAY_MS, TTL_MS = 86_400_000, 3_600_000


@dataclass(frozen=True)
class Study:
    """Of the estimates, each as part of the truth: median, standard deviation, least, most; mean half width of their intervals; how many
    of them hold the truth (0…1)."""

    median: float
    spread: float
    least: float
    most: float
    width: float
    covered: float


def study(*, lookups: int, keys: int, power: float, salts: int, most_lookups: int = sampling.MOST_LOOKUPS) -> dict[str, Study]:
    rng = np.random.default_rng(3)
    weight = np.cumsum(np.arange(1, keys + 1) ** -power)
    ids = np.minimum(np.searchsorted(weight, rng.random(lookups) * weight[-1]), keys - 1).astype(np.int64)
    given = Stream(ids, np.sort(rng.integers(0, DAY_MS, lookups)), np.ones(keys, np.int64))
    counts = np.bincount(ids, minlength=keys)
    today, any_life = (np.bincount(ids, unlimited(given, ttl_ms=ttl), keys) for ttl in (TTL_MS, DAY_MS))
    price = rng.lognormal(-4, 1, keys)
    by_key = {
        "hits recorded": today,
        "hits of any lifetime": any_life,
        "hits won": any_life - today,
        "money won": (any_life - today) * price,
    }
    every = max(1, lookups // (sampling.LOOKED_AT * most_lookups // sampling.MOST_LOOKUPS))
    most = 2 * sampling.BURSTS * most_lookups // sampling.MOST_LOOKUPS  # rows of a key, fewer as there is less room
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in by_key}
    for salt in range(salts):
        names = [f"{salt}:{x}" for x in range(keys)]
        seen = Counter(names[x] for x in ids[salt % every :: every])
        certain, below = sampling.choose(seen, every=every, most=most, room=most_lookups)
        is_certain = np.array([name in certain for name in names])
        mine = is_certain | (np.array([slot(name) for name in names]) < below)
        parts = np.array([CERTAIN if is_certain[x] else part(names[x]) for x in np.flatnonzero(mine)])
        read = counts[mine]
        of_parts = np.bincount(parts[parts >= 0], read[parts >= 0], PARTS).astype(int)
        of_certain = int(counts[is_certain].sum())
        sample = KeySample(SLOTS // below, len(certain), of_certain, lookups - of_certain, tuple(of_parts), 1)
        for name, values in by_key.items():
            lifted = values[mine] * np.where(parts == CERTAIN, 1.0, sample.lift)
            truth = values.sum()
            found[name].append((float(lifted.sum() / truth), sample.error(lifted, parts) / truth))
    return {name: _study(np.array(several)) for name, several in found.items()}


def _study(found: np.ndarray) -> Study:
    estimates, widths = found[:, 0], found[:, 1]
    covered = float((np.abs(estimates - 1) <= widths).mean())
    told = (np.median(estimates), estimates.std(), estimates.min(), estimates.max(), widths.mean())
    return Study(*(float(one) for one in told), covered)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lookups", type=int, nargs="+", default=[1_000_000, 3_000_000])
    parser.add_argument("--salts", type=int, default=200)
    given = parser.parse_args()
    holds = True
    for lookups in given.lookups:
        for power in (1.0, 1.2):
            for name, one in study(lookups=lookups, keys=20_000, power=power, salts=given.salts).items():
                holds &= abs(one.median - 1) <= 0.03 and one.covered >= 0.9
                figures = {key: round(value, 4) for key, value in asdict(one).items()}
                print(json.dumps({"lookups": lookups, "zipf": power, "of": name} | figures), flush=True)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
