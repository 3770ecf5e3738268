"""Every captured and every public OTLP file gives the right answer or the right error, each signal at its own path.

tests/golden/otlp_files/captured.json holds what comes of the captured metrics and logs (spans: test_captured.py), public.json counts and
digests of the public files. REFRESH_GOLDEN=1 writes them anew.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from collectors.otlp.decode import JSON, PROTOBUF, Decoded, decode_traces
from collectors.otlp.logs import decode_logs
from collectors.otlp.metrics import MetricsDecoder
from collectors.prometheus.families import load
from collectors.settings import CollectorSettings
from storage.payloads import unpack
from storage.rows import MetricBatch
from storage.settings import StorageSettings
from tests.collectors.support import PROTOBUF as PROTOBUF_HEADERS
from tests.collectors.support import running
from tests.conftest import SHARED

pytestmark = pytest.mark.shared_data

GOLDEN = Path(__file__).parents[1] / "golden" / "otlp_files"
CAPTURED, PUBLIC = SHARED / "data" / "captured" / "otlp", SHARED / "data" / "public" / "otlp"
SETTINGS = CollectorSettings(StorageSettings("", ""))
FAMILIES = load()
SIGNALS = ("traces", "metrics", "logs")


def decode(signal: str, body: bytes, content_type: str) -> Decoded:
    if signal == "traces":
        return decode_traces(body, content_type, SETTINGS)
    if signal == "metrics":
        return MetricsDecoder(SETTINGS, FAMILIES).decode(body, content_type)
    return decode_logs(body, content_type, SETTINGS)


def golden(name: str, found: Any) -> Any:
    """Return what the golden file holds, written first when asked to."""
    file = GOLDEN / name
    if os.environ.get("REFRESH_GOLDEN"):
        file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    return json.loads(file.read_text())


def told(decoded: Decoded) -> dict[str, Any]:
    """Counts of what is stored, and for metrics the totals by name."""
    points = [point for batch in decoded.batches if isinstance(batch, MetricBatch) for point in batch.points]
    names: Counter[str] = Counter()
    sums: dict[str, list[float]] = defaultdict(list)
    for point in points:
        for row in point.samples:
            names[row.name] += 1
            if row.name.endswith(("_sum", "_total")):
                sums[row.name].append(row.value)
    return {
        "spans": decoded.spans,
        "points": len(points),
        "exemplars": sum(row.trace_id is not None for point in points for row in point.exemplars),
        "samples": dict(names),
        "sums": {name: round(math.fsum(values), 6) for name, values in sums.items()},
        "rejects": decoded.rejects,
    }


def test_captured_metrics_and_logs() -> None:
    found = {}
    for file in sorted(CAPTURED.glob("*/*.binpb")):
        signal = file.name.partition("_")[0]
        if signal in {"metrics", "logs"}:
            found[f"{file.parent.name}/{file.name}"] = told(decode(signal, file.read_bytes(), PROTOBUF))
    assert found == golden("captured.json", found)


@pytest.mark.parametrize(
    ("file", "prefix"),
    [
        ("otel_genai_openai_1_3/metrics_0005.binpb", "gen_ai.usage"),
        ("openlit_openai/metrics_0002.binpb", "gen_ai.usage"),
        ("pydantic_ai_logfire/metrics_0003.binpb", "gen_ai.usage"),
    ],
)
def test_tokens_of_the_last_export_are_those_of_the_spans_of_the_same_run(file: str, prefix: str) -> None:
    spans = json.loads((CAPTURED / "inventory.json").read_text())[file.partition("/")[0]]["numeric_sums"]
    tokens: Counter[str] = Counter()
    for batch in decode("metrics", (CAPTURED / file).read_bytes(), PROTOBUF).batches:
        assert isinstance(batch, MetricBatch)
        for row in (row for point in batch.points for row in point.samples if row.name == "gen_ai.client.token.usage_sum"):
            tokens[json.loads(row.labels)["gen_ai.token.type"]] += int(row.value)
    assert tokens == {"input": spans[f"{prefix}.input_tokens"], "output": spans[f"{prefix}.output_tokens"]}


async def test_captured_metrics_and_logs_are_answered_and_each_point_is_stored_once(tmp_path: Path) -> None:
    async with running(tmp_path) as it:
        points = 0
        for file in sorted(CAPTURED.glob("traceloop_openai/metrics_*.binpb")) + sorted(CAPTURED.glob("openlit_openai/logs_*.binpb")):
            signal = file.name.partition("_")[0]
            for _ in range(2):
                assert (await it.post(file.read_bytes(), PROTOBUF_HEADERS, path=f"/v1/{signal}")).status_code == 200
            points += told(decode(signal, file.read_bytes(), PROTOBUF))["points"]
        # The last two exports were taken at different times though nothing changed: they are two points.
        assert await it.rows("SELECT sum(accepted), sum(duplicates) FROM sources WHERE kind = 'otlp_metrics'") == [(points, points)]


def digest(decoded: Decoded) -> str:
    """Of what is stored as sent: what a dialect reads out of it has golden rows of its own."""
    kept: list[Any] = []
    for batch in decoded.batches:
        if isinstance(batch, MetricBatch):
            kept += [(point.samples, point.exemplars) for point in batch.points]
        else:
            kept += [(*row[:10], unpack(row.payload)) for row in batch.spans]
    return hashlib.sha256(repr(kept).encode()).hexdigest()[:16]


async def test_public_files(tmp_path: Path) -> None:
    found: dict[str, Any] = {}
    async with running(tmp_path) as it:
        for file in sorted(PUBLIC.rglob("*.json")):
            body = file.read_bytes()
            one: dict[str, Any] = {}
            for signal in SIGNALS:
                answer = await it.post(body, {"Content-Type": JSON}, path=f"/v1/{signal}")
                if f"resource{signal.replace('traces', 'spans').title()}" not in json.loads(body):
                    assert (answer.status_code, "has no resource" in answer.json()["message"]) == (400, True)
                    continue
                assert answer.status_code == 200
                decoded = decode(signal, body, JSON)
                one[signal] = {key: value for key, value in told(decoded).items() if value} | {"digest": digest(decoded)}
            found[file.relative_to(PUBLIC).as_posix()] = one or "no OTLP request"
    assert found == golden("public.json", found)


async def test_case_b04_a_captured_body_in_gzip_and_its_inflated_twin_have_the_same_rows(tmp_path: Path) -> None:
    folder = CAPTURED / "openinference_openai_gzip"
    packed, plain = (folder / "traces_0001.binpb.gz").read_bytes(), (folder / "traces_0001.binpb").read_bytes()
    spans = decode("traces", plain, PROTOBUF).spans
    async with running(tmp_path) as it:
        zipped = PROTOBUF_HEADERS | {"Content-Encoding": "gzip"}
        for body, headers in ((packed, zipped), (plain, PROTOBUF_HEADERS)):
            assert (await it.post(body, headers)).status_code == 200
        assert (await it.post(packed[:-20], zipped)).status_code == 400
        assert await it.rows("SELECT sum(accepted), sum(duplicates) FROM sources") == [(spans, spans)]
