"""Processes killed amid their work while others go on: `python -m tests.bench.kill_walk [--seconds 60]`.

A collector and two workers run in an installation of their own; both are killed with SIGKILL again and again while lookups are sent,
twenty readers load the pages' views, and acts are recorded. At the end: what was acknowledged is stored once, sums of every width equal
the raw rows, no read failed, the record of acts is whole, and a worker that stays computes what the killed ones left.
Exit code 1 when one of these does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from app.config import load
from app.views import drift, hit_rate, overview, regret, sources, thresholds, traces, why
from app.views.question import Question
from app.wiring import Wiring, now_ms
from storage import actions, jobs
from storage.reads.traces import Search
from storage.reads.window import Scope, Window
from tests.app import support
from tests.bench.odd_states import Sender, told
from tests.support.servers import wait_for

ROOT = Path(__file__).resolve().parents[2]


class Killed:
    """A command of the CLI that is killed and begun anew."""

    def __init__(self, environ: dict[str, str], *words: str) -> None:
        self._environ, self._words = environ, words
        self.kills = 0
        self.start()

    def start(self) -> None:
        log = subprocess.DEVNULL
        self.process = subprocess.Popen(
            [sys.executable, "-m", "app.cli", *self._words, "--no-demo"],
            env={**os.environ, **self._environ},
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.kills += 1


def send(url: str, stop: threading.Event, acknowledged: list[int], every_s: float) -> None:
    """Send batches of 50; one that is not acknowledged is sent again with the same ids, as exporters do."""
    number = 0
    with httpx.Client(timeout=10) as client:
        while not stop.is_set():
            sender = Sender(time.time_ns())
            for index in range(50):
                ids = (random.Random(number * 50 + index).randbytes(16), random.Random(-number * 50 - index - 1).randbytes(8))
                sender.span(told(number * 50 + index), at_s=random.Random(index).uniform(1, 3_000), ids=ids)
            body = sender.request.SerializeToString()
            while True:
                with contextlib.suppress(httpx.HTTPError):
                    if client.post(f"{url}/v1/traces", content=body, headers={"Content-Type": "application/x-protobuf"}).status_code == 200:
                        acknowledged.append(50)
                        break
                if stop.is_set():
                    return
                time.sleep(0.05)
            number += 1
            stop.wait(every_s)


def _reads(wired: Wiring, asked: Question) -> dict[str, Callable[[], Any]]:
    window, now = asked.window, asked.now_ms
    told_as: Any = {"window": window, "scope": asked.scope}
    return {
        "overview": lambda: overview.load(wired.telemetry, wired.ops, wired.engine, asked),
        "hit_rate": lambda: hit_rate.load(wired.telemetry, wired.ops, asked),
        "drift": lambda: drift.load(wired.telemetry, window_name="this time", **told_as),
        "why": lambda: why.load(wired.telemetry, wired.ops, before=window.previous, before_name="before", **told_as),
        "traces": lambda: traces.find(wired.telemetry, search=Search(), now_ms=now, **told_as),
        "thresholds": lambda: thresholds.load(wired.telemetry, wired.ops, wired.engine, window_name="this time", **told_as),
        "sources": lambda: sources.load(wired.telemetry, window=window, now_ms=now),
        "regret": lambda: regret.load(wired.ops, horizon="24h", namespace=None, now_ms=now),
    }


def read(wired: Wiring, seed: int, stop: threading.Event, failures: Counter[str], loads: Counter[str]) -> None:
    """Load views at random, each reader with filters of its own, and hold what comes to them."""
    rng = random.Random(seed)
    while not stop.is_set():
        now = now_ms()
        scope = Scope(tenant=f"tenant-{seed % 3}") if seed % 2 else Scope(namespace="faq")
        window = Window.of(now - rng.choice((900_000, 3_600_000, 21_600_000)), now)
        question = Question(window, scope, "this time", now)
        reads = _reads(wired, question)
        name = rng.choice(list(reads))
        view = reads[name]()
        loads[name] += 1
        for failure in view.failures:
            if "Telemetry" in failure.source or "acts" in failure.source:
                failures[f"{name}: {failure.source}: {failure.message}"] += 1
        if (
            name == "hit_rate"
            and view.loaded is not None
            and sum(bucket.counts.total for bucket in view.loaded.buckets) != view.loaded.counts.total
        ):
            failures["hit_rate: its buckets are not its total"] += 1


def act(wired: Wiring, seed: int, stop: threading.Event, done: list[str]) -> None:
    """Record acts, as consoles, the CLI and gateways' panels do at once."""
    number = 0
    while not stop.is_set():
        act_id = f"act-{seed}-{number}"
        actions.begin(wired.ops(), act_id=act_id, kind="label", namespace="faq", actor="ann", origin="cli", body={}, at_ms=now_ms())
        actions.record(wired.ops(), act_id=act_id, event="done", body={}, at_ms=now_ms())
        done.append(act_id)
        number += 1
        stop.wait(0.05)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--readers", type=int, default=20)
    asked = parser.parse_args()
    faults = []
    with tempfile.TemporaryDirectory(prefix="cachescope-kill-") as scratch:
        environ = support.environ(Path(scratch))
        config = load(environ)
        config.prepare()
        collector, *workers = (Killed(environ, "collect"), Killed(environ, "worker"), Killed(environ, "worker"))
        url = f"http://{config.otlp_http_bind}"
        wired, stop = Wiring(config), threading.Event()
        acknowledged: list[int] = []
        done: list[str] = []
        failures: Counter[str] = Counter()
        loads: Counter[str] = Counter()
        crashed: list[str] = []
        threads = [threading.Thread(target=send, args=(url, stop, acknowledged, 0.02))]
        threads[0].start()
        wait_for(lambda: acknowledged, what="the first batch is acknowledged")
        threads += [threading.Thread(target=read, args=(wired, seed, stop, failures, loads)) for seed in range(asked.readers)]
        threads += [threading.Thread(target=act, args=(wired, seed, stop, done)) for seed in range(3)]
        threading.excepthook = lambda told_of: crashed.append(f"{told_of.thread.name if told_of.thread else ''}: {told_of.exc_value!r}")
        for thread in threads[1:]:
            thread.start()
        rng, ends = random.Random(1), time.monotonic() + asked.seconds
        try:
            while time.monotonic() < ends:
                time.sleep(rng.uniform(2, 5))
                victim = rng.choice((collector, *workers))
                victim.kill()
                victim.start()
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        print(f"killed: the collector {collector.kills} times, workers {sum(one.kills for one in workers)} times")
        print(f"{sum(acknowledged):,} lookups acknowledged, {len(done):,} acts, loads: {dict(loads)}")
        faults += [f"{number} x {told_of}" for told_of, number in failures.items()] + crashed
        with wired.telemetry().read() as conn:
            stored = conn.exec_driver_sql("SELECT count(*) FROM lookups").scalar_one()
            if not sum(acknowledged) <= stored <= sum(acknowledged) + 50:  # the last may have been committed, and its answer lost
                faults.append(f"{stored} stored of {sum(acknowledged)} acknowledged")
            for table in ("rollups_10s", "rollups_1m", "rollups_1h", "parts_6h", "totals_6h", "tenants_1h"):
                summed = conn.exec_driver_sql(f"SELECT sum(lookups) FROM {table}").scalar_one()
                if summed != stored:
                    faults.append(f"{table} sums {summed} of {stored}")
        with wired.ops().read() as conn:
            chain = actions.verify_chain(conn)
            if not chain.ok or chain.events < 2 * len(done):
                faults.append(f"the record of acts: {chain}")
        for one in workers:
            if one.process.poll() is not None:
                one.start()

        def computed() -> bool:
            with wired.ops().read() as conn:
                return (
                    not any(jobs.under_way(conn, kind) for kind in ("regret", "drift"))
                    and regret.load(wired.ops, horizon="24h", namespace=None, now_ms=now_ms()).chosen is not None
                )

        try:
            wait_for(computed, what="what killed workers left is computed", timeout_s=240)
        except AssertionError as error:
            with wired.ops().read() as conn:
                faults.append(f"{error}: {conn.exec_driver_sql('SELECT kind, state, attempts, error FROM jobs').all()}")
        for one in (collector, *workers):
            one.kill()
        wired.close()
    for line in faults:
        print(f"!! {line}")
    return min(1, len(faults))


if __name__ == "__main__":
    sys.exit(main())
