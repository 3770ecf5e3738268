"""How often the drift page alarms in a quiet month, and in how many windows it sees a drift that is there.

`python -m tests.bench.drift_bench`. Hourly windows of one month (720) are compared, each with the one before it, by what the page calls:
the lookups are written to a store by the collector's own writer, and read, judged and compared with the hour of the day before as ever.
Traffic comes in sessions that repeat their prompts and keep their length; its volume has a daily rhythm. What is claimed: at most 1 % of
quiet comparisons alarm. `--volume` is how many lookups an hour has on average: above some 4,000 a sample of them is compared.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path

import numpy as np

from app.views import drift
from app.views.drift_panels import Panel
from storage.reads.window import Scope, Window
from storage.rows import LookupRow, SpanRow
from storage.settings import StorageSettings
from storage.store import Store, open_telemetry
from tests.bench import views_bench

CLAIM = 0.01
HOUR_MS = 3_600_000
_PROMPTS = 800
_START_MS = 1_798_761_600_000  # a midnight
_APART_H = 5  # no multiple of it is a day: a pair of hours has nothing a day before it


class Traffic:
    """Hours of sessions: a session asks a few prompts of one topic, again and again, and hits by its own rate."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.ids = random.Random(int(rng.integers(2**31)))
        weights = 1 / np.arange(1, _PROMPTS + 1)
        self.shares = weights / weights.sum()
        self.hashes = [f"{code:016x}" for code in rng.integers(0, 2**63, _PROMPTS)]
        self.lengths = rng.lognormal(4, 0.5, _PROMPTS).astype(int).tolist()
        self.near = np.clip(rng.normal(0.93, 0.03, _PROMPTS), 0.8, 0.999).tolist()

    def hour(self, store: Store, number: int, lookups: int, shift: int = 0) -> None:
        """Write one hour. number: of it since the start. shift: by how many ranks the popularity has moved."""
        made: list[tuple[SpanRow, LookupRow]] = []
        shares = np.roll(self.shares, shift)
        start_ms = _START_MS + number * HOUR_MS
        while len(made) < lookups:
            size = int(self.rng.geometric(1 / 5))
            asked = np.repeat(self.rng.choice(_PROMPTS, size, p=shares), self.rng.geometric(0.6, size))
            hits = self.rng.random(len(asked)) < self.rng.beta(6, 4)
            for kind, hit in zip(asked.tolist()[: lookups - len(made)], hits.tolist(), strict=False):
                made.append(self._row(start_ms + len(made) * HOUR_MS // lookups, kind, hit=hit))
        views_bench.write(store, made, start_ms + HOUR_MS)

    def _row(self, at_ms: int, kind: int, *, hit: bool) -> tuple[SpanRow, LookupRow]:
        trace, span = self.ids.randbytes(16), self.ids.randbytes(8)
        row = LookupRow(
            trace,
            span,
            "native",
            "response",
            at_ms,
            1.0,
            "semantic_hit" if hit else "miss",
            tier="vector" if hit else "",
            namespace="faq",
            prompt_hash=f"p{kind}",
            prompt_simhash=self.hashes[kind],
            similarity=self.near[kind],
            input_tokens=self.lengths[kind],
        )
        start = at_ms * 1_000_000
        hot = ("cachescope.lookup", 2, start, start, 0, "", "gateway", "", "", "", None, None, None, "", None, False)
        return SpanRow(trace, span, None, *hot, b""), row


def panels(store: Store, number: int) -> tuple[Panel, ...]:
    """Return the page's panels for an hour of the store against the one before it."""
    start_ms = _START_MS + number * HOUR_MS
    return drift.load(lambda: store, window=Window(start_ms, start_ms + HOUR_MS), scope=Scope(), window_name="the hour").panels


def month(hours: int, seed: int, *, volume: int, shift: int = 0) -> tuple[float, dict[str, int]]:
    """Return the share of comparisons in alarm, and by which panel. shift: each hour is compared with a mix moved by so much."""
    traffic = Traffic(np.random.default_rng(seed))
    alarms, by_panel = 0, dict[str, int]()
    with tempfile.TemporaryDirectory() as folder:
        paths = (f"sqlite:///{Path(folder) / name}.db" for name in ("telemetry", "ops"))
        store = open_telemetry(StorageSettings(*paths, "NORMAL"), write=True)
        for number in range(hours):
            lookups = int(volume * (1 + 2 / 3 * np.sin(2 * np.pi * number / 24)))
            at = number * _APART_H + 1 if shift else number + 1
            if shift or not number:
                traffic.hour(store, at - 1, lookups)
            traffic.hour(store, at, lookups, shift)
            raised = [panel.key for panel in panels(store, at) if panel.alarm]
            alarms += bool(raised)
            for key in raised:
                by_panel[key] = by_panel.get(key, 0) + 1
        store.close()
    return alarms / hours, by_panel


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=int, default=720)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--volume", type=int, default=600, help="lookups an hour, on average")
    asked = parser.parse_args()
    share, by_panel = month(asked.hours, asked.seed, volume=asked.volume)
    print(f"quiet: {share:.2%} of {asked.hours} comparisons in alarm (claimed: at most {CLAIM:.0%}) {by_panel}", flush=True)
    for shift in (3, 10, 30):
        share, by_panel = month(max(20, asked.hours // 12), asked.seed, volume=asked.volume, shift=shift)
        print(f"popularity moved by {shift} ranks: {share:.0%} seen {by_panel}", flush=True)


if __name__ == "__main__":
    main()
