"""The real JavaScript exporters (HTTP with JSON, HTTP with protobuf, gRPC) against the collector: `python -m tests.bench.otlp_js`.

Installs them with npm into a temporary folder (`--modules FOLDER`: into that one, unless they are there). Each sends spans, then sends
while the store is locked and is told to come again. The HTTP exporters must lose nothing and log no error. The gRPC exporter (0.301) never
tries again, whatever it is told: it must say so, and lose nothing but what was refused. Exit code 1 when that is not so.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import httpx

from tests.collectors.process import collecting
from tests.collectors.support import rows, settings

PACKAGES = (
    "@opentelemetry/api@1",
    "@opentelemetry/sdk-trace-base@2",
    "@opentelemetry/resources@2",
    "@opentelemetry/exporter-trace-otlp-http",
    "@opentelemetry/exporter-trace-otlp-proto",
    "@opentelemetry/exporter-trace-otlp-grpc",
)
KINDS = {"http": "http", "proto": "http", "grpc": "grpc"}  # exporter -> which of our ports
SPANS, BATCH = 500, 100
_SCRIPT = """
const { diag, DiagLogLevel } = require('@opentelemetry/api');
const { BasicTracerProvider, BatchSpanProcessor } = require('@opentelemetry/sdk-trace-base');
const { resourceFromAttributes } = require('@opentelemetry/resources');
const [kind, url, count] = process.argv.slice(2);
const said = { error: [], warn: [] };
const keep = (level) => (...words) => said[level].push(words.map(String).join(' ').slice(0, 300));
diag.setLogger({ error: keep('error'), warn: keep('warn'), info() {}, debug() {}, verbose() {} }, DiagLogLevel.ALL);
const { OTLPTraceExporter } = require(`@opentelemetry/exporter-trace-otlp-${kind}`);
const processor = new BatchSpanProcessor(new OTLPTraceExporter({ url }), { maxQueueSize: 4096, maxExportBatchSize: %d });
const provider = new BasicTracerProvider({ resource: resourceFromAttributes({ 'service.name': 'js' }), spanProcessors: [processor] });
const tracer = provider.getTracer('js');
for (let number = 0; number < Number(count); number++) {
  tracer.startSpan(`${kind} ${number}`, { attributes: { number, big: 2 ** 53 } }).end();
}
provider.forceFlush().then(() => provider.shutdown()).catch((error) => said.error.push(String(error)))
  .finally(() => console.log(JSON.stringify(said)));
"""


def install(folder: Path) -> None:
    (folder / "send.js").write_text(_SCRIPT.replace("%d", str(BATCH)))
    if (folder / "node_modules").is_dir():
        return
    (folder / "package.json").write_text('{"private": true}')
    command = ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--silent", *PACKAGES]
    subprocess.run(command, cwd=folder, check=True, timeout=300)


def send(modules: Path, kind: str, url: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(["node", "send.js", kind, url, str(SPANS)], cwd=modules, stdout=subprocess.PIPE)


def said(process: subprocess.Popen[bytes]) -> dict[str, list[str]]:
    output, _ = process.communicate(timeout=120)
    found: dict[str, list[str]] = json.loads(output)
    return found


def one(modules: Path, folder: Path, kind: str) -> tuple[bool, str]:
    given = settings(folder)
    given = replace(given, storage=replace(given.storage, busy_timeout_s=0.2))
    port = KINDS[kind]
    url = f"http://{given.grpc_bind}" if port == "grpc" else f"http://{given.http_bind}/v1/traces"
    with collecting(given), contextlib.closing(sqlite3.connect(folder / "telemetry.db", isolation_level=None)) as other:
        plain = said(send(modules, kind, url))
        other.execute("BEGIN IMMEDIATE")
        sending = send(modules, kind, url)
        deadline = time.monotonic() + 60
        while f'place="{port}",reason="StoreUnavailable"' not in httpx.get(f"http://{given.http_bind}/metrics").text:
            if time.monotonic() > deadline:
                sending.kill()
                return False, f"{kind}: nothing was refused"
            time.sleep(0.05)
        other.execute("ROLLBACK")
        retried = said(sending)
    stored = rows(folder, "SELECT count(*) FROM spans")[0][0]
    lost = 2 * SPANS - stored
    refused = 0 if port == "http" else lost // BATCH  # it does not try again
    good = not plain["error"] and not plain["warn"] and bool(retried["error"]) == bool(refused) and lost == refused * BATCH
    told = f"{kind}: {stored} of {2 * SPANS} spans stored; on success {len(plain['error'])} errors and {len(plain['warn'])} warnings logged"
    return good, f"{told}; while refused {len(retried['error'])} errors, {refused} batches not sent again"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--modules", type=Path)
    asked = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory(prefix="cachescope-js-") as name:
        modules = asked.modules or Path(name) / "modules"
        modules.mkdir(exist_ok=True)
        install(modules)
        for kind in KINDS:
            folder = Path(name) / kind
            folder.mkdir()
            good, told = one(modules, folder, kind)
            results.append(good)
            print(told, flush=True)
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
