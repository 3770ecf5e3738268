"""Requests that are nearly right: built from OTLP's grammar, then damaged, over every wire, encoding and signal. Deterministic by seed."""

from __future__ import annotations

import asyncio
import copy
import gzip
import json
import random
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from backports import zstd
from google.protobuf.json_format import Parse
from google.rpc import status_pb2
from grpc import aio
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.otlp.receiver_grpc import _SERVICES
from collectors.otlp.status import RESPONSES
from engine import semconv
from tests.collectors.support import put
from tests.collectors.wires import as_json

_METRICS = ("cache.hits", "http.requests", "", "cache" * 80, "gen_ai.client.token.usage", "vllm:prefix_cache_hits", "redis.memory.used")
SIGNALS = ("traces", "metrics", "logs")
# Nothing is removed for its age: many of these spans say that they are from 1970.
KEPT: dict[str, Any] = {"keep_raw_days": 0.0, "keep_minutes_days": 0.0, "keep_hours_days": 0.0}
STATUSES = {200, 400, 413, 415}
GRPC_CODES = {"INVALID_ARGUMENT", "RESOURCE_EXHAUSTED"}
_SCOPES = (
    "app",
    semconv.SCOPE,
    "@betterdb/semantic-cache",
    "openinference.instrumentation.openai",
    "opentelemetry.instrumentation.anthropic",
    "ai",
    "",
)
_KEYS = (
    semconv.OUTCOME,
    semconv.NAMESPACE,
    semconv.CANDIDATE_VERDICTS,
    semconv.CANDIDATE_SIMILARITY,
    "cache.hit",
    "cache.similarity",
    "cache_status",
    "gen_ai.operation.name",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.cache_read.input_tokens",
    "llm.token_count.prompt",
    "ai.usage.cachedInputTokens",
    "ai_log",
    "x",
    "",
)
_WORDS = ("hit", "miss", "chat", "", "semantic_hit", "[[1]]", "a\0b", "漢字", "x" * 300, "\u202e", "NaN", "1e999", "-5")
_LINES = ('{"cache_status": "hit"}', '{"cache_status": "hit", "similarity": 1e999}', '{"cache_status": ' + "[" * 50, "[1]")
_NUMBERS = (0, 1, -1, 2**31, -(2**31), 2**53, 2**63 - 1, -(2**63), 7)
_FLOATS = (0.0, -0.0, 1.5, float("nan"), float("inf"), float("-inf"), 1e308, 5e-324)
_TIMES = (0, 1, 1_795_954_000_000_000_000, 2**63 - 1, 2**63, 2**64 - 1)
_BAD_JSON: tuple[Any, ...] = (
    *(None, True, "", "x", 0, -1, 2**64, 1e400, 1.5, "\ud800", "0" * 400),
    *([], {}, [None], {"a": 1}, [[[]]], {"values": 3}),
)
_RAW = (b"\0", b"\xff", b"\xed\xa0\x80", b'"', b"{", b"}", b"[", b"NaN", b"\\ud800", b"1e9999", b",", b"\xef\xbb\xbf")


class Case(NamedTuple):
    """One request. json: by its content type. over_grpc: else HTTP."""

    signal: str
    body: bytes
    json: bool
    over_grpc: bool
    content_type: str
    encoding: str


class Maker:
    """Makes cases without end; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._serial = seed << 32

    def case(self) -> Case:
        rng = self.rng
        signal = rng.choices(SIGNALS, (5, 4, 2))[0]
        message = {"traces": self._traces, "metrics": self._metrics, "logs": self._logs}[signal]()
        is_json = rng.random() < 0.5
        over_grpc = not is_json and rng.random() < 0.2
        body = self._json(message) if is_json else self._protobuf(message)
        content_type = "application/json" if is_json else "application/x-protobuf"
        if rng.random() < 0.02:
            content_type = rng.choice(["text/plain", "application/json", "application/x-protobuf; a=b", "APPLICATION/JSON"])
        encoding = "" if over_grpc else rng.choices(["", "gzip", "deflate", "zstd", "br", "identity"], (70, 10, 8, 10, 1, 1))[0]
        body = self._packed(body, encoding)
        return Case(signal, body, "json" in content_type.lower(), over_grpc, content_type, encoding)

    def _packed(self, body: bytes, encoding: str) -> bytes:
        pack: dict[str, Callable[[bytes], bytes]] = {"gzip": lambda b: gzip.compress(b, 1), "deflate": zlib.compress, "zstd": zstd.compress}
        packed = pack.get(encoding, bytes)(body)
        if encoding and self.rng.random() < 0.15:
            return self._damaged(packed)
        return packed

    # What is right

    def _value(self, depth: int = 0) -> Any:
        rng = self.rng
        simple = rng.choice([*_WORDS, *_LINES, *_NUMBERS, *_FLOATS, True, False, None, b"", b"\xff\0"])
        kind = rng.randrange(12 if depth < 3 else 8)
        if kind < 8:
            return simple
        if kind == 8 and rng.random() < 0.05:
            return self._deep(rng.choice([9, 20, 90]))
        if kind < 10:
            return [self._value(depth + 1) for _ in range(rng.randrange(3))]
        return {rng.choice(_KEYS): self._value(depth + 1) for _ in range(rng.randrange(3))}

    def _deep(self, levels: int) -> Any:
        value: Any = "bottom"
        for _ in range(levels):
            value = [value]
        return value

    def _attributes(self, into: Any, most: int = 5) -> None:
        for _ in range(self.rng.randrange(most)):
            put(into.add(key=self.rng.choice(_KEYS)).value, self._value())

    def _id(self, length: int) -> bytes:
        rng = self.rng
        if rng.random() < 0.08:
            return rng.choice([b"", b"\0" * length, b"\1" * (length - 1), b"\1" * (length + 1)])
        self._serial += 1
        return (self._serial % 2 ** (8 * length - 1)).to_bytes(length, "big")

    def _resource(self, into: Any) -> None:
        put(into.resource.attributes.add(key="service.name").value, self.rng.choice(["shop", "", 5, None]))
        self._attributes(into.resource.attributes, 3)

    def _traces(self) -> Any:
        rng = self.rng
        message = ExportTraceServiceRequest()
        for _ in range(rng.choice([0, 1, 1, 1, 2])):
            resource = message.resource_spans.add()
            self._resource(resource)
            scope = resource.scope_spans.add()
            scope.scope.name = rng.choice(_SCOPES)
            for _ in range(rng.randrange(4)):
                span = scope.spans.add(trace_id=self._id(16), span_id=self._id(8), name=rng.choice(_WORDS), kind=rng.randrange(6))
                span.start_time_unix_nano, span.end_time_unix_nano = rng.choice(_TIMES), rng.choice(_TIMES)
                if rng.random() < 0.3:
                    span.parent_span_id = self._id(8)
                self._attributes(span.attributes)
                if rng.random() < 0.3:
                    self._attributes(span.events.add(name="e", time_unix_nano=rng.choice(_TIMES)).attributes, 3)
                    self._attributes(span.links.add(trace_id=self._id(16), span_id=self._id(8)).attributes, 2)
                span.status.code = rng.randrange(3)
        return message

    def _metrics(self) -> Any:
        rng = self.rng
        message = ExportMetricsServiceRequest()
        resource = message.resource_metrics.add()
        self._resource(resource)
        scope = resource.scope_metrics.add()
        for _ in range(rng.randrange(4)):
            metric = scope.metrics.add(name=rng.choice(_METRICS))
            kind = rng.choice(["gauge", "sum", "histogram", "exponential_histogram", "summary"])
            data = getattr(metric, kind)
            data.SetInParent()
            if kind in {"sum", "histogram", "exponential_histogram"}:
                data.aggregation_temporality = rng.choice([0, 1, 2, 2, 9])
            if kind == "sum":
                data.is_monotonic = rng.random() < 0.7
            for _ in range(rng.randrange(3)):
                self._point(data.data_points.add(time_unix_nano=rng.choice(_TIMES), start_time_unix_nano=rng.choice(_TIMES)), kind)
        return message

    def _point(self, point: Any, kind: str) -> None:
        rng = self.rng
        self._attributes(point.attributes, 3)
        point.flags = rng.choice([0, 0, 0, 1, 2**31])
        if kind in {"gauge", "sum"}:
            if rng.random() < 0.5:
                point.as_int = rng.choice(_NUMBERS)
            elif rng.random() < 0.9:
                point.as_double = rng.choice(_FLOATS)
        elif kind == "summary":
            point.count = rng.choice([0, 3, 2**64 - 1])
            point.quantile_values.add(quantile=rng.choice(_FLOATS), value=rng.choice(_FLOATS))
        else:
            counts = [rng.randrange(4) for _ in range(rng.randrange(5))]
            point.count = sum(counts) if rng.random() < 0.8 else rng.choice([0, 5, 2**64 - 1])
            point.sum = rng.choice(_FLOATS)
            if kind == "histogram":
                point.bucket_counts.extend(counts)
                point.explicit_bounds.extend(sorted(rng.choice(_FLOATS) for _ in range(max(0, len(counts) - 1))))
            else:
                point.scale = rng.choice([0, 3, -3, 20, -(2**31), 2**31 - 1])
                point.zero_threshold = rng.choice(_FLOATS)
                point.positive.offset = rng.choice([0, -5, 2**31 - 1, -(2**31)])
                point.positive.bucket_counts.extend(counts)
        if kind != "summary" and rng.random() < 0.3:
            point.exemplars.add(time_unix_nano=rng.choice(_TIMES), as_double=rng.choice(_FLOATS), trace_id=self._id(16))

    def _logs(self) -> Any:
        rng = self.rng
        message = ExportLogsServiceRequest()
        resource = message.resource_logs.add()
        self._resource(resource)
        for _ in range(rng.randrange(4)):
            record = resource.scope_logs.add().log_records.add(time_unix_nano=rng.choice(_TIMES))
            record.trace_id, record.span_id = self._id(16), self._id(8)
            put(record.body, rng.choice([self._value(), *_LINES]))
            self._attributes(record.attributes)
            if rng.random() < 0.5:
                put(record.attributes.add(key="cache_status").value, self._value())
        return message

    # What is wrong

    def _damaged(self, body: bytes) -> bytes:
        rng = self.rng
        data = bytearray(body)
        for _ in range(rng.choice([1, 1, 2, 5])):
            where = rng.randrange(len(data) + 1)
            match rng.randrange(6):
                case 0:
                    del data[where:]
                case 1 if data:
                    data[where % len(data)] ^= 1 << rng.randrange(8)
                case 2:
                    data[where:where] = rng.choice(_RAW)
                case 3:
                    del data[where : where + rng.randrange(1, 9)]
                case 4:
                    data[where:where] = data[where : where + rng.randrange(1, 60)]
                case _:
                    data[where:where] = rng.randbytes(rng.randrange(1, 12))
        return bytes(data)

    def _protobuf(self, message: Any) -> bytes:
        rng = self.rng
        body: bytes = message.SerializeToString()
        match rng.randrange(5):
            case 0 | 1:
                return body
            case 2:  # an unknown field, a field of another wire type, a length that lies
                tag = rng.choice([b"\x0a", b"\x08", b"\x12", b"\x7a", b"\xfa\x07", b"\x0b", b"\x0d", b"\x09"])
                return body + tag + rng.choice([b"\x00", b"\x7f", b"\xff\xff\xff\xff\x0f", b"\x05hello", b"\x80" * 11])
            case 3:
                broken = rng.choice([b"\xed\xa0\x80", b"\xff\xff\xff", b"\0\0\0", b"ok"])
                return body.replace(rng.choice([b"hit", b"miss", b"chat", b"shop"]), broken)
            case _:
                return self._damaged(body)

    def _json(self, message: Any) -> bytes:
        rng = self.rng
        document = as_json(message)
        kind = rng.randrange(5)
        if kind >= 2:
            for _ in range(rng.choice([1, 1, 3])):
                self._spoil(document)
        text = json.dumps(document).encode()
        return self._damaged(text) if kind == 4 else text

    def _spoil(self, document: Any) -> None:
        """Replace, drop, rename or double one node, found by a random walk from the root."""
        rng = self.rng
        node = document
        while True:
            places = list(node) if isinstance(node, dict) else list(range(len(node)))
            if not places:
                return
            place = rng.choice(places)
            inner = node[place]
            if isinstance(inner, dict | list) and inner and rng.random() < 0.75:
                node = inner
                continue
            match rng.randrange(5):
                case 0:
                    del node[place]
                case 1 if isinstance(node, dict):
                    node[f"{place}{rng.choice(['', 'x', '_'])}".upper() if rng.random() < 0.5 else "new"] = node.pop(place)
                case 2 if isinstance(node, list):
                    node.append(inner)
                case _:
                    node[place] = copy.deepcopy(rng.choice(_BAD_JSON))
            return


@dataclass
class Report:
    """What came back. wrong: answers that must not be, with their case."""

    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[tuple[str, Case]] = field(default_factory=list)

    @property
    def cases(self) -> int:
        return sum(self.outcomes.values())


async def run(http_bind: str, grpc_bind: str, *, cases: int, seed: int, lanes: int = 8) -> Report:
    """Send the cases over `lanes` connections at once; return what was answered. Every case is answered, or is in `wrong`."""
    report = Report()
    maker = Maker(seed)
    left = iter(range(cases))
    host, _, port = http_bind.rpartition(":")

    async def lane() -> None:
        async with aio.insecure_channel(grpc_bind) as channel:
            connection = await asyncio.open_connection(host, int(port))
            for _ in left:
                case = maker.case()
                try:
                    async with asyncio.timeout(90):
                        outcome = await (_over_grpc(channel, case) if case.over_grpc else _over_http(connection, case))
                except Exception as error:  # noqa: BLE001 - whatever it was, the request was not answered as it must be
                    report.wrong.append((f"{type(error).__name__}: {error}", case))
                    outcome = "wrong"
                    connection[1].close()
                    connection = await asyncio.open_connection(host, int(port))
                report.outcomes[outcome] += 1
            connection[1].close()

    await asyncio.gather(*(lane() for _ in range(lanes)))
    return report


async def _over_http(connection: tuple[asyncio.StreamReader, asyncio.StreamWriter], case: Case) -> str:
    reader, writer = connection
    lines = [f"POST /v1/{case.signal} HTTP/1.1", "Host: x", f"Content-Type: {case.content_type}", f"Content-Length: {len(case.body)}"]
    if case.encoding:
        lines.append(f"Content-Encoding: {case.encoding}")
    writer.write("\r\n".join([*lines, "", ""]).encode() + case.body)
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("\r\n")
    headers = dict(line.split(": ", 1) for line in head[1:] if line)
    body = await reader.readexactly(int(headers["content-length"]))
    status = int(head[0].split()[1])
    assert status in STATUSES, f"{status} {body!r}"
    kind: Any = RESPONSES[case.signal][0] if status == 200 else status_pb2.Status
    is_json = headers["content-type"] == "application/json"
    assert is_json or headers["content-type"] == "application/x-protobuf"
    assert status == 415 or is_json == case.json
    answer = Parse(body, kind()) if is_json else kind.FromString(body)
    if status != 200:
        assert answer.code
        assert answer.message
        return str(status)
    return "200 partial" if answer.HasField("partial_success") else "200"


async def _over_grpc(channel: aio.Channel, case: Case) -> str:
    try:
        body = await channel.unary_unary(f"/{_SERVICES[case.signal]}/Export")(case.body, timeout=60)
    except aio.AioRpcError as error:
        if error.code().name not in GRPC_CODES:
            raise
        return error.code().name
    answer = RESPONSES[case.signal][0].FromString(body)
    return "OK partial" if answer.HasField("partial_success") else "OK"


def consistent(rows: Callable[[str], list[tuple[Any, ...]]]) -> dict[str, int]:
    """Return counts of what is stored. Fails when counters and rows differ. rows: runs a query on the database."""
    spans = rows("SELECT count(*) FROM spans")[0][0]
    accepted = dict(rows("SELECT CASE kind WHEN 'otlp_metrics' THEN 'points' ELSE 'spans' END, sum(accepted) FROM sources GROUP BY 1"))
    assert spans == accepted.get("spans", 0)
    assert rows("SELECT count(*) FROM span_payloads")[0][0] == spans
    lookups = rows("SELECT count(*) FROM lookups")[0][0]
    assert rows("SELECT coalesce(sum(lookups), 0) FROM sources")[0][0] == lookups
    assert rows("PRAGMA integrity_check") == [("ok",)]
    return {"spans": spans, "points": accepted.get("points", 0), "lookups": lookups}
