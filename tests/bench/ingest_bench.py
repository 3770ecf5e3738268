"""How fast the collector stores spans, as ratios to what one process can do without a network.

Run it with `python -m tests.bench.ingest_bench`; `--long 1000000` adds the long sitting. Everything of one run alternates on one machine,
so that whatever else the machine does falls on all alike: judge the ratios.

limit: decode, dialects, row building and plain `executemany` into the same tables with the same indexes, one commit per 4,096 spans.
whole: the collector's own write path, called in one process: duplicates, counters, summaries and rollups come on top of `limit`.
server: the collector's process over HTTP or gRPC; a request counts when it was acknowledged, which is after its commit, and the rows
are counted by another connection at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import http.client
import itertools
import multiprocessing
import resource
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import grpc

from collectors.otlp.decode import JSON, PROTOBUF, decode_traces
from collectors.settings import CollectorSettings
from storage import spans as writer
from storage.rows import LookupRow, SourceBatch, SpanRow
from storage.settings import StorageSettings
from storage.store import Store, open_telemetry
from tests.bench.otlp_load import BATCH, as_json, bodies
from tests.collectors.process import collecting
from tests.support.servers import free_port

EXPORT = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
GROUP = 4_096
IDLE_S = 3.0
# Floors of ratio to `limit`.
FLOORS = {"http": 0.6, "grpc": 0.6, "json": 0.5}
# Durable spans/s on a quiet 2-core machine whose limit without dialects was 38,700, by the same shape of spans.
PEERS = {"MLflow 3.17 (HTTP)": 778, "Phoenix 20.26 (HTTP)": 174}


def settings(folder: Path, synchronous: str = "FULL") -> CollectorSettings:
    storage = StorageSettings(f"sqlite:///{folder / 'telemetry.db'}", f"sqlite:///{folder / 'ops.db'}", synchronous)
    return CollectorSettings(storage, grpc_bind=f"127.0.0.1:{free_port()}", http_bind=f"127.0.0.1:{free_port()}")


# In one process


def alone(how: str, messages: list[bytes], content_type: str, folder: str) -> dict[str, float]:
    """Return seconds of wall and of CPU that one process takes. Run in a process of its own, set up as the collector's is."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    given = settings(Path(folder))
    store = open_telemetry(given.storage, write=True)
    started, cpu = time.perf_counter(), time.process_time()
    for at in range(0, len(messages), GROUP // BATCH):
        group = [batch for body in messages[at : at + GROUP // BATCH] for batch in decode_traces(body, content_type, given).batches]
        if how == "limit":
            insert(store, group)
        elif how == "whole":
            writer.write(store, group, now_ms=int(time.time() * 1e3))
    done = {"wall_s": time.perf_counter() - started, "cpu_s": time.process_time() - cpu}
    store.close()
    return done


def insert(store: Store, batches: Sequence[SourceBatch]) -> None:
    """Insert all rows of the batches, and nothing else."""
    span_columns = ("trace_id", "span_id", "parent_id", "source_id", *SpanRow._fields[3:-1])
    lookup_columns = ("trace_id", "span_id", "source_id", *LookupRow._fields[2:])
    with store.write() as connection:
        first = connection.exec_driver_sql("SELECT coalesce(max(id), 0) + 1 FROM spans").scalar_one()
        rows = [row for batch in batches for row in batch.spans]
        lookups = [row for batch in batches for row in batch.lookups]
        for table, columns, values in (
            ("spans", ("id", *span_columns), [(number, *row[:3], 1, *row[3:-1]) for number, row in enumerate(rows, first)]),
            ("span_payloads", ("span_id", "payload"), [(number, row.payload) for number, row in enumerate(rows, first)]),
            ("lookups", lookup_columns, [(*row[:2], 1, *row[2:]) for row in lookups]),
        ):
            names = ", ".join(f'"{name}"' for name in columns)
            connection.exec_driver_sql(f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})", values)


def in_own_process(how: str, messages: list[bytes], content_type: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder, multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(alone, (how, messages, content_type, folder))


# Through the server


@contextlib.contextmanager
def collector() -> Iterator[tuple[CollectorSettings, int, Path]]:
    with tempfile.TemporaryDirectory() as folder:
        given = settings(Path(folder))
        with collecting(given) as process:
            yield given, process.pid, Path(folder) / "telemetry.db"


def send(given: CollectorSettings, protocol: str, messages: list[bytes], *, in_flight: int, rate: float = 0) -> list[float]:
    """Send all requests; return the seconds that each waited for its answer. rate: requests a second, 0 = as fast as it goes.

    With a rate the wait counts from when a request was due: what a slow answer holds up is not hidden.
    """
    numbers = itertools.count()
    started = time.perf_counter()
    waits: list[float] = []
    failures: list[Exception] = []

    def work() -> None:
        try:
            with sender(given, protocol) as export:
                while (number := next(numbers)) < len(messages) and not failures:
                    due = started + number / rate if rate else time.perf_counter()
                    time.sleep(max(0.0, due - time.perf_counter()))
                    export(messages[number])
                    waits.append(time.perf_counter() - due)
        except (OSError, RuntimeError, http.client.HTTPException, grpc.RpcError) as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(in_flight)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return waits


@contextlib.contextmanager
def sender(given: CollectorSettings, protocol: str) -> Iterator[Callable[[bytes], None]]:
    if protocol == "grpc":
        with grpc.insecure_channel(given.grpc_bind, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            call = channel.unary_unary(EXPORT)

            def export(body: bytes) -> None:
                call(body, timeout=60)

            yield export
        return
    connection = http.client.HTTPConnection(given.http_bind, timeout=60)
    headers = {"Content-Type": JSON if protocol == "json" else PROTOBUF}

    def post(body: bytes, *, again: bool = True) -> None:
        try:
            connection.request("POST", "/v1/traces", body, headers)
            response = connection.getresponse()
            answer = response.read()
        except (ConnectionError, http.client.RemoteDisconnected):
            connection.close()
            if not again:
                raise
            post(body, again=False)  # it was idle for longer than the server keeps it
            return
        if response.status != 200:
            raise RuntimeError(f"{response.status}: {answer[:200]!r}")

    yield post
    connection.close()


def through_server(protocol: str, messages: list[bytes], spans: int, *, in_flight: int) -> dict[str, float]:
    with collector() as (given, pid, database):
        cpu = cpu_s(pid)
        started = time.perf_counter()
        waits = send(given, protocol, messages, in_flight=in_flight)
        took = time.perf_counter() - started
        check(database, spans)
        return {"wall_s": took, "cpu_s": cpu_s(pid) - cpu, "p99_ms": quantile(waits, 0.99) * 1e3, "rss_mb": rss_mb(pid)}


def check(database: Path, spans: int) -> None:
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        found = connection.execute("SELECT count(*) FROM spans").fetchone()[0]
    if found != spans:
        raise RuntimeError(f"{spans} spans were acknowledged and {found} are stored")


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * resource.getpagesize() / 1e6


def quantile(values: Sequence[float], q: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * q))]


# The long sitting


class Reader(threading.Thread):
    """Reads a snapshot every 10 ms as a page does, on connections of its own, and keeps how long each took."""

    def __init__(self, storage: StorageSettings) -> None:
        super().__init__(daemon=True)
        self._store = open_telemetry(storage, write=False)
        self._ended = threading.Event()
        self.waits: list[float] = []

    def run(self) -> None:
        while not self._ended.wait(0.01):
            started = time.perf_counter()
            with self._store.read() as connection:
                connection.exec_driver_sql("SELECT id, at_ms, outcome FROM lookups ORDER BY at_ms DESC LIMIT 20").all()
            self.waits.append(time.perf_counter() - started)

    def stop(self) -> list[float]:
        self._ended.set()
        self.join()
        self._store.close()
        return self.waits


def long_sitting(spans: int, *, hours: float, in_flight: int) -> None:
    """Send all spans as fast as they are taken, then a tenth more at half that rate."""
    tail = max(BATCH * 40, spans // 10)
    messages = list(bodies(spans + tail, seed=2, end_ns=time.time_ns(), hours=hours))
    fast, slow = messages[: -(-spans // BATCH)], messages[-(-spans // BATCH) :]
    with collector() as (given, pid, database):
        sizes = [rss_mb(pid)]
        send(given, "http", fast[:1], in_flight=1)
        reader = Reader(given.storage)
        reader.start()
        time.sleep(IDLE_S)  # what the machine alone does to a reader
        idle_reads = reader.stop()
        reader = Reader(given.storage)
        reader.start()
        started = time.perf_counter()
        for part in parts(fast, 10):
            send(given, "http", part, in_flight=in_flight)
            sizes.append(rss_mb(pid))
        took = time.perf_counter() - started
        rate = len(fast) * BATCH / took
        fast_reads = reader.stop()
        reader = Reader(given.storage)
        reader.start()
        waits = send(given, "http", slow, in_flight=in_flight * 4, rate=rate / 2 / BATCH)
        slow_reads = reader.stop()
        check(database, spans + tail)
        size = sum(file.stat().st_size for file in database.parent.glob("telemetry.db*"))
    print(f"\nlong sitting: {spans:,} spans at {rate:,.0f} spans/s, then {tail:,} at half; {size / (spans + tail):.0f} bytes each on disk")
    print(f"  RSS of the collector, MB, at the start and after each tenth: {', '.join(f'{value:.0f}' for value in sizes)}")
    print(f"  acknowledgement at half rate: p50 {quantile(waits, 0.5) * 1e3:.0f} ms, p99 {quantile(waits, 0.99) * 1e3:.0f} ms")
    for name, reads in (("no", idle_reads), ("top", fast_reads), ("half", slow_reads)):
        tells = ", ".join(f"{label} {quantile(reads, q) * 1e3:.1f} ms" for label, q in (("p50", 0.5), ("p99", 0.99), ("most", 1)))
        print(f"  reader at {name} rate, n = {len(reads):,}: {tells}")


def parts(values: list[bytes], count: int) -> Iterator[list[bytes]]:
    size = max(1, len(values) // count)
    for at in range(0, len(values), size):
        yield values[at : at + size]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spans", type=int, default=102_400, help="spans a measurement")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--hours", type=float, default=1.0, help="time that the spans' starts cover")
    parser.add_argument("--in-flight", type=int, default=8, help="requests under way at once")
    parser.add_argument("--only", default="", help="measure these alone, e.g. limit,http")
    parser.add_argument("--long", type=int, default=0, help="spans of the long sitting; 0 = none")
    asked = parser.parse_args()

    spans = asked.spans
    protobuf = list(bodies(spans, seed=1, end_ns=time.time_ns(), hours=asked.hours))
    as_text = [as_json(body) for body in protobuf]
    size = sum(map(len, protobuf)) / spans
    print(f"{spans:,} spans of 12 attributes, {size:.0f} bytes each, {BATCH} a batch, {asked.in_flight} in flight, {asked.runs} runs")
    measures: dict[str, Callable[[], dict[str, float]]] = {
        "limit": lambda: in_own_process("limit", protobuf, PROTOBUF),
        "whole": lambda: in_own_process("whole", protobuf, PROTOBUF),
        "decode": lambda: in_own_process("decode", protobuf, PROTOBUF),
        "http": lambda: through_server("http", protobuf, spans, in_flight=asked.in_flight),
        "grpc": lambda: through_server("grpc", protobuf, spans, in_flight=asked.in_flight),
        "json": lambda: through_server("json", as_text, spans, in_flight=asked.in_flight),
    }
    chosen = asked.only.split(",") if asked.only else list(measures)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in chosen}
    for _ in range(asked.runs):
        for name in chosen:
            found[name].append(measures[name]())
    report(found, spans)
    if asked.long:
        long_sitting(asked.long, hours=asked.hours, in_flight=asked.in_flight)


def report(found: dict[str, list[dict[str, float]]], spans: int) -> None:
    def median(name: str, key: str) -> float:
        return statistics.median(run[key] for run in found[name])

    print(f"\n{'':8}{'spans/s':>10}{'of limit':>10}{'floor':>7}{'CPU us/span':>13}{'p99 ms':>8}{'RSS MB':>8}")
    for name, runs in found.items():
        rate = spans / median(name, "wall_s")
        # Ratios within a round: both sides of it saw the same machine.
        ratios = [limit["wall_s"] / run["wall_s"] for limit, run in zip(found.get("limit", []), runs, strict=False)]
        cells = [f"{name:8}{rate:10,.0f}", f"{statistics.median(ratios) if ratios else float('nan'):10.2f}", f"{FLOORS.get(name, ''):>7}"]
        cells.append(f"{median(name, 'cpu_s') / spans * 1e6:13.1f}")
        cells += [f"{median(name, key):8.0f}" for key in ("p99_ms", "rss_mb") if key in runs[0]]
        print("".join(cells))
    for name, rate in PEERS.items():
        print(f"{name}: {rate} spans/s, as measured apart on a quiet machine")


if __name__ == "__main__":
    main()
