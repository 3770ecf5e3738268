"""Every captured traces request of real libraries is accepted, and each of its spans lands."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from collectors.otlp.decode import JSON, PROTOBUF, Decoded, decode_traces
from collectors.settings import CollectorSettings
from storage.rows import SpanRow
from storage.settings import StorageSettings
from tests.collectors.support import running
from tests.conftest import SHARED

pytestmark = pytest.mark.shared_data

CAPTURED = SHARED / "data" / "captured" / "otlp"
SETTINGS = CollectorSettings(StorageSettings("", ""))
INVENTORY: dict[str, Any] = json.loads((CAPTURED / "inventory.json").read_text()) if CAPTURED.is_dir() else {}


def bodies(label: str) -> list[tuple[Path, str]]:
    """Each request once: where a body is there in wire form too, the inflated one."""
    files = [path for path in sorted((CAPTURED / label).glob("traces_*")) if ".twin." not in path.name]
    names = {path.name for path in files}
    return [
        (path, JSON if path.suffix == ".json" else PROTOBUF)
        for path in files
        if path.suffix != ".gz" or path.name.removesuffix(".gz") not in names
    ]


def decoded(label: str) -> list[Decoded]:
    out = []
    for path, content_type in bodies(label):
        body = path.read_bytes()
        out.append(decode_traces(gzip.decompress(body) if path.suffix == ".gz" else body, content_type, SETTINGS))
    return out


def spans_of(label: str) -> list[SpanRow]:
    return [span for one in decoded(label) for batch in one.batches for span in batch.spans]


@pytest.mark.parametrize("label", sorted(INVENTORY))
async def test_every_captured_span_lands(tmp_path: Path, label: str) -> None:
    async with running(tmp_path) as it:
        for path, content_type in bodies(label):
            headers = {"Content-Type": content_type} | ({"Content-Encoding": "gzip"} if path.suffix == ".gz" else {})
            response = await it.post(path.read_bytes(), headers)
            assert response.status_code == 200
            assert response.content in (b"", b"{}")
        assert await it.rows("SELECT count(*), count(DISTINCT trace_id) FROM spans") == [
            (INVENTORY[label]["spans"], INVENTORY[label]["traces"])
        ]
        assert await it.rows("SELECT coalesce(sum(count), 0) FROM rejects") == [(0,)]


@pytest.mark.parametrize(
    ("label", "calls", "input_tokens", "cached"),
    [
        ("anthropic_traceloop", 14, 22_977, 22_690),
        ("openinference_openai", 46, 10_056, 6_528),
        ("openinference_openai_gzip", 46, 10_056, 8_704),
        ("openinference_js_json", 9, 14_668, 12_160),
        ("traceloop_openai", 46, 10_056, 8_704),
        ("otel_genai_openai_1_3", 45, 10_049, 8_704),
        ("otel_openai_v2", 42, 10_005, 0),
        ("openlit_openai", 43, 10_091, 8_704),
        ("pydantic_ai_logfire", 15, 242, 0),
        ("vercel_ai_sdk_proto", 19, 9_205, 3_584),
    ],
)
def test_each_call_and_its_tokens_count_once(label: str, calls: int, input_tokens: int, cached: int) -> None:
    found = [span for span in spans_of(label) if span.is_call]
    assert len(found) == calls
    assert sum(span.input_tokens or 0 for span in found) == input_tokens
    assert sum(span.cached_input_tokens or 0 for span in found) == cached
    assert all((span.cached_input_tokens or 0) <= (span.input_tokens or 0) for span in found)


def test_case_b02_protobuf_and_json_of_one_run_have_the_same_ids_and_rows() -> None:
    proto, js = ({span[:2]: span for span in spans_of(f"vercel_ai_sdk_{name}")} for name in ("proto", "json"))
    assert len(proto) == INVENTORY["vercel_ai_sdk_proto"]["spans"]
    assert proto == js


def test_betterdb_similarity_is_converted_from_distance() -> None:
    lookups = [row for one in decoded("betterdb_cache") for batch in one.batches for row in batch.lookups]
    assert Counter(row.outcome for row in lookups) == {"semantic_hit": 46, "miss": 21, "exact_hit": 11}
    for row in lookups:
        if row.outcome == "semantic_hit":
            assert row.similarity is not None
            assert row.threshold is not None
            assert row.similarity >= row.threshold
