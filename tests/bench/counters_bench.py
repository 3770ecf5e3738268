"""How long a large page of metrics takes, and a week of counters: `python -m tests.bench.counters_bench [series] [read series]`.

Parse, sort and write are of one scrape of a target with so many counters (2,000, the default bound); push is one collection of as many by
OTLP, decoded and stored as samples and as increases; read is what the console asks of a
week, of so many series (200) with a reading in every minute.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable

from collectors.otlp.decode import PROTOBUF
from collectors.otlp.metrics import MetricsDecoder
from collectors.prometheus.families import Families, load
from collectors.prometheus.keep import sort
from collectors.prometheus.parse import parse
from collectors.settings import CollectorSettings
from storage import counters, points
from storage.reads.counters import increases
from storage.reads.window import Window
from storage.rows import MetricBatch, SourceKey
from storage.settings import StorageSettings
from storage.store import Store, open_telemetry
from tests.collectors.test_otlp_metrics import Request

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


def push(store: Store, families: Families, series: int) -> None:
    decoder = MetricsDecoder(CollectorSettings(StorageSettings("", "")), families)
    spent: list[tuple[float, float]] = []
    for minute in range(6):
        request, at_ms = Request(), START_MS + minute * MINUTE_MS
        for number in range(series):
            labels = {"model": f"m{number % 7}", "user": f"u{number}"}
            request.point("litellm_cache_hits_metric", "sum", at=at_ms * 1_000_000, as_int=minute + number, labels=labels)
        body = request.message.SerializeToString()
        began = time.perf_counter()
        batches = [batch for batch in decoder.decode(body, PROTOBUF).batches if isinstance(batch, MetricBatch)]
        decoded = time.perf_counter()
        points.write(store, batches, now_ms=at_ms, since_ms=START_MS)
        spent.append((decoded - began, time.perf_counter() - decoded))
    decode_s, write_s = (statistics.median(several) for several in zip(*spent[1:], strict=True))
    print(f"  push   {decode_s * 1_000:8.1f} ms to decode, {write_s * 1_000:.1f} ms to write, one transaction")


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
        push(store, families, series)
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
