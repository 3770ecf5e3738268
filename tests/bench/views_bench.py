"""How long each page's view takes to load from a telemetry database of many lookups.

Run it with `python -m tests.bench.views_bench`; `--lookups 1000000` is the size that counts, `--folder` keeps the database, `--tenants
1000000` is a tenant for nearly each lookup.
The lookups are written by the collector's own writer: rollups and summaries are what a page really meets. Only what the telemetry
database answers is measured: no browser, no gateway.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from app.adapters.base import EngineAdapter
from app.errors import EngineUnavailable
from app.views import drift, hit_rate, overview, sources, thresholds, traces, why
from app.views.question import Question
from storage import spans
from storage.payloads import pack
from storage.reads import window as windows
from storage.reads.traces import Search
from storage.reads.window import Scope, Window
from storage.rows import LookupRow, SourceBatch, SourceKey, SpanRow
from storage.settings import StorageSettings
from storage.store import Store, open_ops, open_telemetry

GATEWAY = SourceKey("otlp_traces", "cachescope-gateway", "gw-1", "cachescope.engine@0.1.0", "native")
HOUR_MS = 3_600_000
BUDGET_MS = 500  # a page that is read again every ten seconds
_OUTCOMES = (
    ("exact_hit", "memory", 35),
    ("exact_hit", "store", 10),
    ("semantic_hit", "vector", 10),
    ("miss", "", 40),
    ("bypass", "", 4),
    ("error", "", 1),
)
_WORDS = ("reset", "password", "invoice", "refund", "policy", "order", "account", "shipping", "cancel", "renew", "price", "token", "fee")


def lookups(count: int, *, end_ms: int, hours: float, seed: int = 5, tenants: int = 10) -> Iterator[tuple[SpanRow, LookupRow]]:
    """Yield lookups at even distances: eight namespaces, so many tenants, five models, 20,000 prompts of which few are frequent."""
    rng = random.Random(seed)
    payload = pack(b'{"attributes":{"cachescope.steps":"[[\\"exact\\",0,120]]"},"events":[],"links":[],"resource":{}}')
    prompts = [f"{rng.getrandbits(128):032x}" for _ in range(20_000)]
    outcomes, weights = [one[:2] for one in _OUTCOMES], [one[2] for one in _OUTCOMES]
    for number in range(count):
        at_ms = end_ms - int(hours * HOUR_MS * (count - number) / count)
        trace, span = rng.randbytes(16), rng.randbytes(8)
        outcome, tier = rng.choices(outcomes, weights)[0]
        place = int(20_000 * rng.random() ** 4)
        duration = rng.lognormvariate(0.5 if tier else 6, 0.6)
        model = f"model-{place % 5}"
        near = outcome in {"semantic_hit", "miss"} and rng.random() < 0.6
        row = LookupRow(
            trace,
            span,
            "native",
            "response",
            at_ms,
            duration,
            outcome,
            reason="no_candidate" if outcome == "miss" else "",
            tier=tier,
            namespace=f"ns-{place % 8}",
            tenant=f"tenant-{rng.randrange(tenants)}",
            model=model,
            key=prompts[place],
            prompt_hash=prompts[place],
            prompt=f"How do I {_WORDS[place % 13]} my {_WORDS[place % 11]} number {place}?",
            similarity=rng.uniform(0.8, 0.99) if near else None,
            threshold=0.9 if near else None,
            passed=rng.random() < 0.9 if near else None,
            candidate_id=prompts[place] if near else "",
            input_tokens=rng.randrange(20, 900),
            output_tokens=rng.randrange(30, 220),
            cost_usd=0.001 if outcome == "miss" else None,
            saved_usd=0.001 if tier else None,
        )
        start = at_ms * 1_000_000
        end = start + int(duration * 1e6)
        hot = ("cachescope.lookup", 2, start, end, 0, "", "cachescope-gateway", "chat", "openai", model, None, None, None, "", None, False)
        yield SpanRow(trace, span, None, *hot, payload), row


def fill(store: Store, count: int, *, end_ms: int, hours: float, tenants: int = 10) -> None:
    pending: list[tuple[SpanRow, LookupRow]] = []
    for made in lookups(count, end_ms=end_ms, hours=hours, tenants=tenants):
        pending.append(made)
        if len(pending) == 4_096:
            write(store, pending, end_ms)
            pending = []
    if pending:
        write(store, pending, end_ms)


def write(store: Store, made: list[tuple[SpanRow, LookupRow]], now_ms: int) -> None:
    spans.write(store, [SourceBatch(GATEWAY, [span for span, _ in made], [row for _, row in made])], now_ms=now_ms)


def no_engine() -> EngineAdapter:
    raise EngineUnavailable("no gateway in this bench")


def measures(telemetry: Store, ops: Store, shown: Window, scope: Scope, now_ms: int) -> dict[str, Callable[[], object]]:
    def choices() -> object:
        with telemetry.read() as connection:
            return windows.choices(connection, shown)

    def one_trace() -> object:
        with telemetry.read() as connection:
            trace_id = connection.exec_driver_sql("SELECT trace_id FROM lookups ORDER BY at_ms DESC LIMIT 1").scalar_one()
        return traces.load(lambda: telemetry, no_engine, trace_id=trace_id.hex())

    def found(search: Search) -> Callable[[], object]:
        return lambda: traces.find(lambda: telemetry, window=shown, scope=scope, search=search, now_ms=now_ms)

    def read_telemetry() -> Store:
        return telemetry

    def read_ops() -> Store:
        return ops

    one = replace(scope, namespace="ns-1")
    return {
        "filter bar": choices,
        "Overview": lambda: overview.load(read_telemetry, read_ops, no_engine, Question(shown, scope, "the window", now_ms)),
        "Hit rate": lambda: hit_rate.load(read_telemetry, read_ops, Question(shown, scope, "the window", now_ms)),
        "Traces, newest": found(Search()),
        "Traces, reasons": lambda: traces.reasons(read_telemetry, window=shown, scope=scope),
        "Traces, a rare outcome": found(Search(outcome="error")),
        "Traces, text": found(Search(text="password my refund")),
        "Traces, no such text": found(Search(text="no such words")),
        "Traces, one trace": one_trace,
        "Drift": lambda: drift.load(read_telemetry, window=shown, scope=scope, window_name="the window"),
        "Thresholds, to choose": lambda: thresholds.load(
            read_telemetry, read_ops, no_engine, window=shown, scope=scope, window_name="the window"
        ),
        "Thresholds, one namespace": lambda: thresholds.load(
            read_telemetry, read_ops, no_engine, window=shown, scope=one, window_name="the window"
        ),
        "Sources": lambda: sources.load(read_telemetry, window=shown, now_ms=now_ms),
    }


def of_one_tenant(telemetry: Store, ops: Store, shown: Window, now_ms: int) -> dict[str, Callable[[], object]]:
    """Return the pages of the newest lookup's tenant, and why the rate of all changed."""
    with telemetry.read() as connection:
        tenant = connection.exec_driver_sql("SELECT tenant FROM lookups ORDER BY at_ms DESC LIMIT 1").scalar_one()
    asked = Question(shown, Scope(tenant=tenant), "the window", now_ms)
    before = shown.previous
    return {
        "Overview, one tenant": lambda: overview.load(lambda: telemetry, lambda: ops, no_engine, asked),
        "Hit rate, one tenant": lambda: hit_rate.load(lambda: telemetry, lambda: ops, asked),
        "Why": lambda: why.load(lambda: telemetry, lambda: ops, window=shown, before=before, before_name="before", scope=Scope()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lookups", type=int, default=1_000_000)
    parser.add_argument("--hours", type=float, default=24.0, help="time that they cover")
    parser.add_argument("--tenants", type=int, default=10, help="1000000 = as many as lookups: nothing is asked twice by one")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None, help="keep the database here; used again when it is there")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        settings = StorageSettings(f"sqlite:///{folder / 'telemetry.db'}", f"sqlite:///{folder / 'ops.db'}", "NORMAL")
        telemetry, ops = open_telemetry(settings, write=True), open_ops(settings)
        with telemetry.read() as connection:
            end_ms = connection.exec_driver_sql("SELECT max(at_ms) FROM lookups").scalar()
        if end_ms is None:
            end_ms = time.time_ns() // 1_000_000
            started = time.perf_counter()
            fill(telemetry, asked.lookups, end_ms=end_ms, hours=asked.hours, tenants=asked.tenants)
            print(f"{asked.lookups:,} lookups written in {time.perf_counter() - started:.0f} s")
        report(telemetry, ops, end_ms=end_ms, hours=asked.hours, runs=asked.runs)
        telemetry.close()
        ops.close()


def report(telemetry: Store, ops: Store, *, end_ms: int, hours: float, runs: int) -> None:
    shown = {"15 min": 0.25, "1 h": 1.0, "6 h": 6.0, f"{hours:g} h": hours}
    table: dict[str, list[tuple[float, float]]] = {}
    for length in shown.values():
        window = Window.of(end_ms - int(length * HOUR_MS), end_ms + 1)
        loads = measures(telemetry, ops, window, Scope(), end_ms) | of_one_tenant(telemetry, ops, window, end_ms)
        for name, load in loads.items():
            took, worked = [], []
            for _ in range(runs):
                started, cpu = time.perf_counter(), time.process_time()
                load()
                took.append((time.perf_counter() - started) * 1e3)
                worked.append((time.process_time() - cpu) * 1e3)
            table.setdefault(name, []).append((statistics.median(took), min(worked)))
    print(f"{'ms of wall / of CPU':28}" + "".join(f"{name:>14}" for name in shown))
    for name, row in table.items():
        slow = "  over the budget" if max(wall for wall, _ in row) > BUDGET_MS else ""
        print(f"{name:28}" + "".join(f"{wall:8.0f} /{cpu:4.0f}" for wall, cpu in row) + slow)


if __name__ == "__main__":
    main()
