"""How often the drift page alarms in a quiet month, and in how many windows it sees a drift that is there.

`python -m tests.bench.drift_bench [hours] [seed]`. Hourly windows of one month (720) are compared, each with the one before it, by
the page's own rule: six panels, p-values adjusted for their number, both halves, a least effect. Traffic comes in sessions that
repeat their prompts and keep their length; its volume has a daily rhythm. What is claimed: at most 1 % of quiet comparisons alarm.
"""

from __future__ import annotations

import sys

import numpy as np

from app.analysis import drift
from app.analysis.adwin import DELTA, adwin
from app.analysis.drift import Change
from app.views.drift_panels import Panel

CLAIM = 0.01
_PROMPTS = 800


class Traffic:
    """Hours of sessions: a session asks a few prompts of one topic, again and again, and hits by its own rate."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        weights = 1 / np.arange(1, _PROMPTS + 1)
        self.shares = weights / weights.sum()
        self.hashes = rng.integers(0, 2**63, _PROMPTS).astype(np.uint64)
        self.lengths = rng.lognormal(4, 0.5, _PROMPTS)
        self.near = np.clip(rng.normal(0.93, 0.03, _PROMPTS), 0.8, 1.0)

    def hour(self, lookups: int, shift: int = 0) -> dict[str, np.ndarray]:
        """Return one hour in the order of time. shift: by how many ranks the popularity has moved."""
        prompts: list[np.ndarray] = []
        hits: list[np.ndarray] = []
        total = 0
        shares = np.roll(self.shares, shift)
        while total < lookups:
            size = int(self.rng.geometric(1 / 5))
            asked = np.repeat(self.rng.choice(_PROMPTS, size, p=shares), self.rng.geometric(0.6, size))
            prompts.append(asked)
            hits.append(self.rng.random(len(asked)) < self.rng.beta(6, 4))
            total += len(asked)
        kind = np.concatenate(prompts)[:lookups]
        return {
            "kind": kind,
            "hash": self.hashes[kind],
            "length": self.lengths[kind],
            "near": self.near[kind],
            "hit": np.concatenate(hits)[:lookups],
        }


def panels(before: dict[str, np.ndarray], now: dict[str, np.ndarray], seed: int) -> list[Panel]:
    """Return the page's panels for two hours of traffic."""
    blocks = np.array_split(now["hit"], 60)
    cuts = adwin([int(block.sum()) for block in blocks], [len(block) for block in blocks])
    size = abs(cuts[-1].now_ratio - cuts[-1].before_ratio) if cuts else 0.0
    found: dict[str, Change | None] = {
        "mix": drift.of_kinds(before["kind"], now["kind"], drift.js_rows, seed=seed),
        "vectors": drift.of_hashes(before["hash"], now["hash"], seed=seed),
        "entropy": drift.of_kinds(before["kind"], now["kind"], drift.entropy_rows, seed=seed),
        "similarity": drift.of_numbers(before["near"], now["near"], seed=seed),
        "length": drift.of_numbers(before["length"], now["length"], seed=seed),
        "hit_rate": Change(size, 0.0, DELTA if cuts else 1.0, len(now["kind"]), bool(cuts)),
    }
    adjusted = drift.adjusted([one.p_value for one in found.values() if one])
    return [Panel(key, one, p) for (key, one), p in zip(found.items(), adjusted, strict=True)]


def month(hours: int, seed: int, *, shift: int = 0) -> tuple[float, dict[str, int]]:
    """Return the share of comparisons in alarm, and by which panel. shift: each hour is compared with a mix moved by so much."""
    traffic = Traffic(np.random.default_rng(seed))
    alarms, by_panel = 0, dict[str, int]()
    before = traffic.hour(600)
    for number in range(hours):
        volume = int(600 + 400 * np.sin(2 * np.pi * number / 24))
        now = traffic.hour(volume, shift)
        raised = [panel.key for panel in panels(before, now, number) if panel.alarm]
        alarms += bool(raised)
        for key in raised:
            by_panel[key] = by_panel.get(key, 0) + 1
        before = traffic.hour(volume) if shift else now
    return alarms / hours, by_panel


if __name__ == "__main__":
    hours = int(sys.argv[1]) if len(sys.argv) > 1 else 720
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    share, by_panel = month(hours, seed)
    print(f"quiet: {share:.2%} of {hours} comparisons in alarm (claimed: at most {CLAIM:.0%}) {by_panel}")
    for shift in (3, 10, 30):
        share, by_panel = month(max(20, hours // 12), seed, shift=shift)
        print(f"popularity moved by {shift} ranks: {share:.0%} seen {by_panel}")
