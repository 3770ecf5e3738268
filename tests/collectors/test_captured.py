"""Every captured traces request of real libraries is accepted, and each of its spans lands."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from collectors.otlp import wire
from collectors.otlp.decode import JSON, PROTOBUF, Decoded, decode_scopes, decode_traces
from collectors.settings import CollectorSettings
from storage import spans
from storage.rows import SourceBatch, SpanRow
from storage.settings import StorageSettings
from storage.store import open_telemetry
from tests.collectors.support import running
from tests.conftest import SHARED

pytestmark = pytest.mark.shared_data

GOLDEN = Path(__file__).parents[1] / "golden" / "otlp" / "captured.summaries.json"
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


# What a sender calls its input tokens, for the sums of the inventory; Langfuse hides them in a JSON document.
INPUT_NAMES = ("gen_ai.usage.input_tokens", "llm.token_count.prompt")


def summary(label: str) -> dict[str, Any]:
    """What a label's spans become: counts, sums, and a digest of every row."""
    spans = spans_of(label)
    lookups = [row for one in decoded(label) for batch in one.batches for row in batch.lookups]
    calls = [span for span in spans if span.is_call]
    rows = sorted(repr(row[:-1] if isinstance(row, SpanRow) else row) for row in (*spans, *lookups))
    return {
        "spans": len(spans),
        "dialects": dict(sorted(Counter(b.source.dialect for one in decoded(label) for b in one.batches for _ in b.spans).items())),
        "roles": dict(sorted(Counter(span.call_role for span in spans if span.call_role).items())),
        "input_tokens": sum(span.input_tokens or 0 for span in calls),
        "cached_input_tokens": sum(span.cached_input_tokens or 0 for span in calls),
        "output_tokens": sum(span.output_tokens or 0 for span in calls),
        "rules": dict(sorted(Counter(span.token_rule for span in calls if span.token_rule).items())),
        "lookups": dict(sorted(Counter(f"{row.cache_kind} {row.outcome}" for row in lookups).items())),
        "sha256": hashlib.sha256("\n".join(rows).encode()).hexdigest(),
    }


@pytest.mark.parametrize("label", sorted(INVENTORY))
def test_golden_rows_of_every_label(label: str) -> None:
    golden = json.loads(GOLDEN.read_text())
    if os.environ.get("REFRESH_GOLDEN"):
        golden[label] = summary(label)
        GOLDEN.write_text(json.dumps(golden, indent=1, sort_keys=True) + "\n")
    assert golden[label] == summary(label)


@pytest.mark.parametrize("label", sorted(INVENTORY))
def test_the_sums_of_the_rows_are_those_of_the_inventory(label: str) -> None:
    """Every number that a sender reported is in a row as sent; what is none of a call's own stays in the span's attributes."""
    spans = spans_of(label)
    sums = INVENTORY[label]["numeric_sums"]
    assert len(spans) == INVENTORY[label]["spans"]
    assert sum(span.status == 2 for span in spans) == INVENTORY[label]["error_status_spans"]
    assert sum(span.raw_input_tokens or 0 for span in spans if span.call_role) == sum(
        sums.get(name, 0) for name in INPUT_NAMES
    ) + EXTRA.get(label, 0)
    cached = ("gen_ai.usage.cache_read.input_tokens", "llm.token_count.prompt_details.cache_read")
    assert sum(span.cached_input_tokens or 0 for span in spans) == sum(sums.get(name, 0) for name in cached) + CACHED.get(label, 0)


# Not in the inventory's sums: what Langfuse writes as JSON, and Vercel's SDK under names of its own.
EXTRA = {"langfuse_sdk": 10_099, "vercel_ai_sdk_proto": 7, "vercel_ai_sdk_json": 7}
CACHED = {"langfuse_sdk": 8_704, "vercel_ai_sdk_proto": 3_584, "vercel_ai_sdk_json": 3_584}


@pytest.mark.parametrize(
    ("label", "calls", "input_tokens", "cached"),
    [
        ("anthropic_traceloop", 14, 22_977, 22_690),
        ("langchain_openinference", 10, 96, 0),
        ("langfuse_sdk", 51, 10_099, 8_704),
        ("litellm_sdk_callback", 11, 81, 0),
        ("openinference_openai", 46, 10_056, 6_528),
        ("openinference_openai_gzip", 46, 10_056, 8_704),
        ("openinference_js_json", 9, 14_668, 12_160),
        ("traceloop_openai", 46, 10_056, 8_704),
        ("otel_genai_openai_1_3", 45, 10_049, 8_704),
        ("otel_openai_v2", 42, 10_005, 0),
        ("openlit_openai", 43, 10_091, 8_704),
        ("pydantic_ai_logfire", 15, 242, 0),
        ("vercel_ai_sdk_proto", 19, 9_205, 3_584),
        ("vercel_ai_sdk_json", 19, 9_205, 3_584),
    ],
)
@pytest.mark.parametrize("order", ["as sent", "shuffled"])
def test_each_call_and_its_tokens_count_once_in_any_order(  # noqa: PLR0917 - one a column of the table
    tmp_path: Path, label: str, calls: int, input_tokens: int, cached: int, order: str
) -> None:
    store = open_telemetry(StorageSettings(f"sqlite:///{tmp_path}/t.db", f"sqlite:///{tmp_path}/o.db", "NORMAL"), write=True)
    requests = [one.batches for one in decoded(label)] if order == "as sent" else shuffled(label)
    for batches in [*requests, *requests[:3]]:  # some are sent again
        spans.write(store, batches, now_ms=1)
    with store.read() as connection:
        query = "SELECT count(*), sum(input_tokens), coalesce(sum(cached_input_tokens), 0) FROM spans WHERE is_call"
        assert tuple(connection.exec_driver_sql(query).one()) == (calls, input_tokens, cached)
        assert connection.exec_driver_sql("SELECT sum(calls) FROM sources").scalar() == calls
        assert not connection.exec_driver_sql("SELECT 1 FROM spans WHERE cached_input_tokens > input_tokens").all()
        rolled = "SELECT (SELECT count(*) FROM lookups), (SELECT coalesce(sum(lookups), 0) FROM rollups_1m)"
        raw, rollups = connection.exec_driver_sql(rolled).one()
        assert raw == rollups
    store.close()


def shuffled(label: str) -> list[list[SourceBatch]]:
    """The label's spans in a random order, a few a request."""
    alone = []
    for path, content_type in bodies(label):
        body = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        for scope in (wire.from_json if content_type == JSON else wire.from_protobuf)(body, wire.Bounds()):
            alone += [scope._replace(spans=[span]) for span in scope.spans]
    random.Random(7).shuffle(alone)
    return [decode_scopes(alone[at : at + 5], SETTINGS).batches for at in range(0, len(alone), 5)]


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
