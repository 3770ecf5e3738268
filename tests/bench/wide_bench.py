"""How long each page's view takes on many lookups over a month, beside a scan of the raw rows: `python -m tests.bench.wide_bench`.

Six hours of lookups are written by the collector's own writer, and copied over the month by SQL, their rollups with them: six hours
are a multiple of every rollup's width, so the copies are what the writer would have made (`--check` proves it on the copy's sums). The last
six hours are written too, and hold a fault: one tenant's hits on one model fail. The window ends amid an hour, so its edges are
ragged. `--keep FOLDER` keeps the database and uses it again. Spans, payloads and 10 s rollups are those of the first and last six hours.
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the console's command sets it, before numpy is loaded

from app.views import drift, drift_ahead, regret, why
from app.wiring import settle
from storage import analyses
from storage.reads import hit_rate
from storage.reads.window import Scope, Window
from storage.rollups import NARROW
from storage.rows import LookupRow, SpanRow
from storage.settings import StorageSettings
from storage.slots import PICKS, pick
from storage.store import Store, open_ops, open_telemetry
from tests.bench import views_bench

TILE_MS = 21_600_000
HOUR_MS = 3_600_000
BUDGET_MS = 300
WHY_BUDGET_MS = 1_000
MEMORY_MB = 300
RATIO = 50
_RAGGED_MS = 17 * 60_000 + 23_000
_NARROWED = (
    *(Scope(tenant="tenant-3"), Scope(model="model-1"), Scope(tenant="tenant-3", model="model-1"), Scope(tier="memory")),
    Scope(namespace="ns-1", tenant="tenant-3", model="model-1"),
)
_ROLLUPS = ("rollups_1m", "rollups_1h", *NARROW)
_INDEXES = ("ix_lookups_at", "ix_lookups_ns_at", "ix_lookups_rare", *(f"ix_lookups_{every}" for every in (8, 32, 128, 512, 2_048)))


def tile(count: int, *, start_ms: int, number: int, fault: bool) -> Iterator[tuple[SpanRow, LookupRow]]:
    """Yield six hours of lookups: eight namespaces, ten tenants, five models; like prompts have like SimHashes. number: of the tile."""
    rng = random.Random(number)
    centres = [rng.getrandbits(64) for _ in range(400)]
    hashes = [centres[place % 400] ^ (1 << rng.randrange(64)) for place in range(20_000)]
    faulty_from_ms = start_ms + TILE_MS // 2
    for index, (span, row) in enumerate(views_bench.lookups(count, end_ms=start_ms + TILE_MS, hours=TILE_MS / HOUR_MS, seed=number)):
        ids = {"trace_id": bytes([number, 0]) + index.to_bytes(14, "big"), "span_id": index.to_bytes(8, "big")}
        place = int(row.prompt.rsplit(" ", 1)[1].rstrip("?")) if row.prompt else 0
        hit = bool(row.tier)
        failed = fault and hit and row.at_ms >= faulty_from_ms and (row.tenant, row.model) == ("tenant-3", "model-1")
        outcome = {"outcome": "miss", "tier": "", "reason": "expired"} if failed else {}
        made = row._replace(
            **ids,
            **outcome,
            model_version="2026-01",
            client=f"client-{place % 4}",
            fingerprint=f"{place % 12:032x}",
            prompt_simhash=f"{hashes[place]:016x}",
            entry_id=f"{place:032x}" if row.outcome in {"exact_hit", "semantic_hit", "miss"} else "",
            lookup_ms=rng.uniform(0.3, 8),
            upstream_ms=row.duration_ms if not hit else None,
            saved_ms=400.0 if hit and not failed else None,
        )
        yield span._replace(**ids), made


def fill(store: Store, count: int, days: int, *, start_ms: int) -> None:
    """Write the first and the last six hours, and copy the first over all between."""
    tiles = days * 4
    each = count // tiles
    for number, at in ((1, 0), (2, tiles - 1)):
        pending: list[tuple[SpanRow, LookupRow]] = []
        for made in tile(each, start_ms=start_ms + at * TILE_MS, number=number, fault=number == 2):
            pending.append(made)
            if len(pending) == 4_096:
                views_bench.write(store, pending, start_ms)
                pending = []
        views_bench.write(store, pending, start_ms)
        if number == 1:
            copy(store.path, each, tiles, start_ms=start_ms)


def copy(path: Path, each: int, tiles: int, *, start_ms: int) -> None:
    """Copy the first six hours' lookups and rollups to all but the last, in the order of time. Indexes are made at the end."""
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("PRAGMA synchronous=OFF")
    raw.execute("PRAGMA cache_size=-400000")
    raw.create_function("pick", 2, pick, deterministic=True)
    indexes = {name: raw.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()[0] for name in _INDEXES}
    for name in indexes:
        raw.execute(f"DROP INDEX {name}")
    end_ms = start_ms + TILE_MS
    for at in range(1, tiles - 1):
        raw.execute("BEGIN")
        for table in ("lookups", *_ROLLUPS):
            names = [row[1] for row in raw.execute(f"PRAGMA table_info({table})")]
            shown = {name: f'"{name}"' for name in names}
            shown["at_ms"] = f"at_ms + {at * TILE_MS}"
            if table == "lookups":
                shown["trace_id"] = f"CAST(x'01{at:02x}' || substr(trace_id, 3) AS BLOB)"
                shown["id"] = f"(id / {PICKS} + {at * each}) * {PICKS} + pick({shown['trace_id']}, span_id)"
            columns = ", ".join(f'"{name}"' for name in names)
            query = f"INSERT INTO {table} ({columns}) SELECT {', '.join(shown.values())} FROM {table} WHERE at_ms < {end_ms}"
            if table == "lookups":
                query = query.replace(f"at_ms < {end_ms}", f"id < {(each + 1) * PICKS}")
            raw.execute(query)
        raw.execute("COMMIT")
    for made in indexes.values():
        raw.execute(made)
    raw.close()


def check(store: Store) -> None:
    """Raise AssertionError where a rollup's counts are not those of the raw rows, for every width and step."""
    with store.read() as conn:
        for table, width in (("rollups_1m", 60_000), ("rollups_1h", HOUR_MS), *((name, one.width_ms) for name, one in NARROW.items())):
            placed = table in NARROW and NARROW[table].places
            summed = "sum(exact_hit + semantic_hit + miss + bypass + error)" if placed else "sum(lookups)"
            rolled = conn.exec_driver_sql(f"SELECT at_ms, {summed} FROM {table} GROUP BY at_ms").all()
            counted = conn.exec_driver_sql(f"SELECT at_ms - at_ms % {width}, count(*) FROM lookups GROUP BY 1").all()
            assert sorted(map(tuple, rolled)) == sorted(map(tuple, counted)), table
        assert conn.exec_driver_sql("SELECT count(*) FROM lookups WHERE length(trace_id) <> 16").scalar_one() == 0
    print("every rollup has the counts of the raw rows")


_PLACE = "namespace, tenant, model"
_DIMENSIONS = f"{_PLACE}, model_version, client, fingerprint, source_id"
# What pages ask of a window, of raw rows. Before: of the time before, too. Left out: durations, prices by model, and what is of all time.
_SHOWN = {
    "sums": "cache_kind, namespace, tier, outcome, reason",
    "series": "at_ms / {bucket_ms}, cache_kind, outcome",
    "namespaces": "namespace, outcome",
    "places": f"{_PLACE}, outcome",
    "segments": _DIMENSIONS,
}
_ASKED = {
    "Overview": ("sums", "namespaces", "namespaces before", "series", "series before"),
    "Hit rate": ("sums", "series", "series before", "series", "places"),  # a second series: of money and tokens, for the intervals
    "Why": ("sums", "sums before", "series", "series before", "segments", "segments before"),
}


def from_raw(store: Store, shown: Window) -> dict[str, float]:
    """Return how long each of these questions takes to answer from raw rows, ms. The pages' own counts must come out."""
    took: dict[str, float] = {}
    with store.read() as conn:
        for name, columns in _SHOWN.items():
            for when, window in (("", shown), (" before", shown.previous)):
                begun = time.perf_counter()
                named = columns.format(bucket_ms=shown.bucket_ms)
                query = (
                    f"SELECT {named}, count(*), sum(duration_ms), sum(input_tokens + output_tokens),"
                    " sum(saved_usd), sum(cost_usd), sum(saved_ms), sum(lookup_ms), sum(outcome IN ('exact_hit', 'semantic_hit'))"
                    f" FROM lookups WHERE at_ms >= ? AND at_ms < ? AND purpose = 'traffic' GROUP BY {named}"
                )
                rows = conn.exec_driver_sql(query, (window.start_ms, window.end_ms)).all()
                took[name + when] = (time.perf_counter() - begun) * 1e3
                counted = sum(row.lookups for row in hit_rate.totals(conn, window, Scope()))
                assert sum(row[-8] for row in rows) == counted, (name, when)
    return took


def pages(telemetry: Store, ops: Store, shown: Window, scope: Scope, now_ms: int) -> dict[str, Callable[[], object]]:
    found = {name: load for name, load in views_bench.measures(telemetry, ops, shown, scope, now_ms).items() if name != "Drift"}
    lengths = drift_ahead.LENGTH_MS.items()
    horizon = next((name for name, length in lengths if abs(length - shown.length_ms) <= 60_000), None)
    if horizon and scope == Scope(namespace=scope.namespace):  # as the worker does
        kind = drift_ahead.KIND_ALL if scope.namespace is None else drift_ahead.KIND_NAMESPACE
        told = drift_ahead.as_json(drift.load(lambda: telemetry, window=shown, scope=scope, window_name="the window", thorough=True))
        analyses.put(ops, analyses.Analysis(kind, scope.namespace or "", horizon, now_ms, shown.start_ms, shown.end_ms, 0, {}, told))
    if horizon and scope == Scope(namespace=scope.namespace):
        found["Drift, computed ahead"] = lambda: drift_ahead.load(
            lambda: telemetry, lambda: ops, window=shown, scope=scope, window_name="the window", horizon=horizon, now_ms=now_ms
        )
    found["Drift, compared now"] = lambda: drift.load(lambda: telemetry, window=shown, scope=scope, window_name="the window")
    found["Regret"] = lambda: regret.load(lambda: ops, horizon="7d", namespace=None, now_ms=now_ms)
    found["Why"] = lambda: why.load(lambda: telemetry, lambda: ops, window=shown, before=shown.previous, before_name="before", scope=scope)
    return found


def report(telemetry: Store, ops: Store, *, now_ms: int, hours: float, scope: Scope, runs: int, raw: bool, only: tuple[str, ...]) -> None:
    shown = Window.of(now_ms - int(hours * HOUR_MS), now_ms)
    scan = from_raw(telemetry, shown) if raw else None
    narrowed = ", ".join(f"{name} {value}" for name in ("namespace", "tenant", "model", "tier") if (value := getattr(scope, name)))
    print(f"\n{hours:g} h, {narrowed or 'everything'}" + (f"; sums of raw rows: {scan['sums']:,.0f} ms" if scan else ""), flush=True)
    for name, load in pages(telemetry, ops, shown, scope, now_ms).items():
        if only and not name.startswith(only):
            continue
        took, worked = [], []
        for _ in range(runs):
            begun, cpu = time.perf_counter(), time.process_time()
            load()
            took.append((time.perf_counter() - begun) * 1e3)
            worked.append((time.process_time() - cpu) * 1e3)
        p95 = sorted(took)[min(runs - 1, round(0.95 * (runs - 1)))]
        budget = WHY_BUDGET_MS if name == "Why" else BUDGET_MS
        over = "  over the budget" if p95 > budget else ""
        if scan:
            whole = sum(scan[one] for one in _ASKED.get(name, ("sums",)))
            over += f"  raw / this = {whole / p95:,.0f}" + ("  short" if whole < RATIO * p95 else "")
        print(f"  {name:26}{p95:8.0f} ms at p95, {min(worked):6.0f} of CPU{over}")


def measure(folder: Path, runs: int, hours: list[float], *, raw: bool, only: tuple[str, ...] = ()) -> None:
    settle()
    settings = _settings(folder)
    telemetry, ops = open_telemetry(settings, write=False), open_ops(settings)
    with telemetry.read() as connection:
        end_ms = connection.exec_driver_sql("SELECT max(at_ms) FROM lookups").scalar_one()
    now_ms = end_ms - _RAGGED_MS
    for length in hours:
        for scope in (Scope(), Scope(namespace="ns-1"), *_NARROWED):
            whole = raw and scope == Scope()
            report(telemetry, ops, now_ms=now_ms, hours=length, scope=scope, runs=runs, raw=whole, only=only)
    # Not getrusage: what it tells was that of the parent, too, which made the database.
    peak_mb = next(int(line.split()[1]) for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")) / 1024
    print(f"\npeak memory of this process: {peak_mb:.0f} MB{'  over the budget' if peak_mb > MEMORY_MB else ''}")
    telemetry.close()
    ops.close()


def _settings(folder: Path) -> StorageSettings:
    return StorageSettings(f"sqlite:///{folder / 'telemetry.db'}", f"sqlite:///{folder / 'ops.db'}", "NORMAL")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lookups", type=int, default=10_000_000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--hours", type=float, nargs="*", default=[1, 24, 168, 720], help="windows to measure")
    parser.add_argument("--keep", type=Path, default=None, help="keep the database here; used again when it is there")
    parser.add_argument("--only", nargs="*", default=[], help="measure pages whose names begin with one of these words")
    parser.add_argument("--check", action="store_true", help="compare every rollup with the raw rows first")
    parser.add_argument("--no-raw", action="store_true", help="leave the scans of raw rows out")
    parser.add_argument("--measure", action="store_true", help="measure only, in this process: its memory is told at the end")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = asked.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if asked.measure:
            measure(folder, asked.runs, asked.hours, raw=not asked.no_raw, only=tuple(asked.only))
            return
        if not (folder / "done").exists():
            begun = time.perf_counter()
            telemetry = open_telemetry(_settings(folder), write=True)
            fill(telemetry, asked.lookups, asked.days, start_ms=time.time_ns() // 1_000_000 // TILE_MS * TILE_MS - asked.days * 4 * TILE_MS)
            telemetry.close()
            (folder / "done").touch()
            size = (folder / "telemetry.db").stat().st_size / 1e9
            print(
                f"{asked.lookups:,} lookups over {asked.days} days made in {time.perf_counter() - begun:.0f} s: {size:.1f} GB", flush=True
            )
        if asked.check:
            store = open_telemetry(_settings(folder), write=False)
            check(store)
            store.close()
        # In a process of its own: what making the database took is not what a page takes.
        given = ["--measure", "--keep", str(folder), "--runs", str(asked.runs), "--hours", *map(str, asked.hours)]
        subprocess.run(
            [sys.executable, "-m", "tests.bench.wide_bench", *given, *(["--no-raw"] if asked.no_raw else []), "--only", *asked.only],
            check=True,
        )


if __name__ == "__main__":
    main()
