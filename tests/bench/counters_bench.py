"""How long a large page of metrics takes, and a week of counters: `python -m tests.bench.counters_bench [series] [read series]`.

Parse, sort and write are of one scrape of a target with so many counters (2,000, the default bound); read is what the console asks of a
week, of so many series (200) with a reading in every minute.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable

from collectors.prometheus.families import load
from collectors.prometheus.keep import sort
from collectors.prometheus.parse import parse
from storage import counters
from storage.reads.counters import increases
from storage.reads.window import Window
from storage.rows import SourceKey
from storage.settings import StorageSettings
from storage.store import open_telemetry

MINUTE_MS, WEEK_MIN = 60_000, 7 * 24 * 60
START_MS = 1_795_953_600_000 // 3_600_000 * 3_600_000


def page(series: int, value: int) -> str:
    lines = [f'litellm_cache_hits_metric_total{{model="m{number % 7}",user="u{number}"}} {value + number}' for number in range(series)]
    return "# TYPE litellm_cache_hits_metric counter\n" + "\n".join(lines) + "\n"


def timed(work: Callable[[], object], runs: int) -> float:
    spent = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent) * 1_000


def main(series: int, read_series: int) -> None:
    families = load()
    with tempfile.TemporaryDirectory() as folder:
        store = open_telemetry(StorageSettings(f"sqlite:///{folder}/t.db", f"sqlite:///{folder}/o.db"), write=True)
        source = SourceKey("scrape", "http://bench/metrics")
        text = page(series, 0)
        print(f"a page of {series:,} counters, {len(text):,} bytes")
        print(f"  parse  {timed(lambda: parse(text), 5):8.1f} ms")
        parsed = parse(text)
        print(f"  sort   {timed(lambda: sort(parsed, families, at_ms=START_MS), 5):8.1f} ms")
        at = iter(range(START_MS, START_MS + 100 * 15_000, 15_000))

        def write() -> None:
            at_ms = next(at)
            given = sort(parse(page(series, at_ms % 1_000_003)), families, at_ms=at_ms)
            began = time.perf_counter()
            counters.write_scrape(store, source, given, now_ms=at_ms, max_series=series)
            spent.append(time.perf_counter() - began)

        spent: list[float] = []
        for _ in range(6):
            write()
        print(f"  write  {statistics.median(spent[1:]) * 1_000:8.1f} ms, one transaction")
        with store.write() as connection:
            numbers = range(1_000_000, 1_000_000 + read_series)
            known = [(number, 99, "litellm_cache_hits_metric_total", f'{{"n":"{number}"}}', START_MS, START_MS, 0.0) for number in numbers]
            connection.exec_driver_sql(
                "INSERT INTO counter_series (id, source_id, name, labels, first_ms, at_ms, value) VALUES (?, ?, ?, ?, ?, ?, ?)", known
            )
            for table, width_ms in counters.WIDTHS_MS.items():
                steps = WEEK_MIN * MINUTE_MS // width_ms
                rows = [(number, START_MS + step * width_ms, 4.0, 4, width_ms, 0, 0) for number in numbers for step in range(steps)]
                connection.exec_driver_sql(
                    f"INSERT INTO {table} (series_id, at_ms, increase, steps, covered_ms, resets, anomalies) VALUES (?, ?, ?, ?, ?, ?, ?)",
                    rows,
                )
        print(f"a week of {read_series:,} series, {read_series * WEEK_MIN:,} minutes")
        for name, minutes in (("1 h", 60), ("6 h", 360), ("24 h", 1_440), ("7 d", WEEK_MIN)):
            end_ms = START_MS + WEEK_MIN * MINUTE_MS - 7 * MINUTE_MS  # a window seldom ends with an hour
            window = Window(end_ms - minutes * MINUTE_MS, end_ms)

            def read(window: Window = window) -> object:
                with store.read() as connection:
                    return increases(connection, window)

            print(f"  read {name:>4}  {timed(read, 3):8.1f} ms")
        store.close()


if __name__ == "__main__":
    given = [int(number) for number in sys.argv[1:3]]
    main(*(given + [2_000, 200][len(given) :]))
