"""How long the front pages' view models take on a day of many lookups: `python -m tests.bench.pages_bench [lookups a minute] [runs]`.

Seconds of processor time, so that a busy machine says the same; the worst of the runs. A store is made in a folder of its own.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from app.views import drift, hit_rate, why
from app.views.question import Question
from storage.reads.window import Scope, Window
from storage.store import open_ops
from tests.support import telemetry

NOW = 1_775_001_600_000
HOUR_MS = 3_600_000


def main(per_minute: float, runs: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store, ops = telemetry.open_store(Path(folder)), open_ops(telemetry.settings(Path(folder)))
        written = telemetry.seed(store, now_ms=NOW, hours=48, per_minute=per_minute)
        print(f"{written} lookups in 48 hours")
        for hours in (1, 24):
            window = Window.of(NOW - hours * HOUR_MS, NOW)
            given = {"window": window, "scope": Scope()}
            asked: dict[str, Callable[[], object]] = {
                "why": lambda given=given, window=window: why.load(  # type: ignore[misc]
                    lambda: store, lambda: ops, before=window.previous, before_name="before", **given
                ),
                "hit_rate": lambda given=given: hit_rate.load(  # type: ignore[misc]
                    lambda: store, lambda: ops, Question(window_name="now", now_ms=NOW, **given)
                ),
                "drift": lambda given=given: drift.load(lambda: store, window_name="now", **given),  # type: ignore[misc]
            }
            for name, load in asked.items():
                worst = 0.0
                for _ in range(runs):
                    begun = time.process_time()
                    load()
                    worst = max(worst, time.process_time() - begun)
                print(f"{hours:3} h  {name:9} {worst * 1000:6.0f} ms")
        store.close()
        ops.close()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 40.0, int(sys.argv[2]) if len(sys.argv) > 2 else 5)
