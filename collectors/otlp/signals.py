"""Metrics and logs: understood, checked, counted per sender, and not stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from google.protobuf.json_format import ParseDict, ParseError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

from collectors.errors import Undecodable
from collectors.otlp.decode import JSON, Decoded, source_key
from collectors.otlp.wire import Bounds, load_json, parse_protobuf, pb_attributes
from storage.rows import SourceBatch, SourceKey

NOT_STORED = "not_stored"
_UNSPECIFIED = 0


def decode_metrics(body: bytes, content_type: str) -> Decoded:
    """Return the data points as dropped, the malformed ones as refused by reason. Raises Undecodable."""
    request = _parse(body, content_type, ExportMetricsServiceRequest)
    counts: dict[SourceKey, Counter[str]] = {}
    for resource in request.resource_metrics:
        attributes = pb_attributes(resource.resource.attributes, Bounds())
        for scope in resource.scope_metrics:
            source = source_key(attributes, scope.scope.name, scope.scope.version, kind="otlp_metrics")
            counts.setdefault(source, Counter()).update(reason for metric in scope.metrics for reason in _points(metric))
    return _decoded(counts)


def decode_logs(body: bytes, content_type: str) -> Decoded:
    """Return the log records as dropped. Raises Undecodable."""
    request = _parse(body, content_type, ExportLogsServiceRequest)
    counts: dict[SourceKey, Counter[str]] = {}
    for resource in request.resource_logs:
        attributes = pb_attributes(resource.resource.attributes, Bounds())
        for scope in resource.scope_logs:
            source = source_key(attributes, scope.scope.name, scope.scope.version, kind="otlp_logs")
            counts.setdefault(source, Counter())[NOT_STORED] += len(scope.log_records)
    return _decoded(counts)


def _parse(body: bytes, content_type: str, message_type: Any) -> Any:
    if content_type != JSON:
        return parse_protobuf(body, message_type)
    try:
        return ParseDict(load_json(body), message_type(), ignore_unknown_fields=True)
    except (ParseError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise Undecodable(f"the body is JSON, but no {message_type.DESCRIPTOR.name}") from error


def _decoded(counts: dict[SourceKey, Counter[str]]) -> Decoded:
    batches = []
    rejects: Counter[str] = Counter()
    for source, reasons in counts.items():
        rejects.update(reasons)
        dropped = reasons.pop(NOT_STORED, 0)
        batches.append(SourceBatch(source, rejects=dict(reasons), dropped=dropped))
    return Decoded(batches, 0, {reason: count for reason, count in rejects.items() if count})


def _points(metric: Any) -> Iterator[str]:
    """Yield what becomes of each data point."""
    kind = metric.WhichOneof("data")
    if kind is None:
        return
    data = getattr(metric, kind)
    if kind in {"sum", "histogram", "exponential_histogram"} and data.aggregation_temporality == _UNSPECIFIED:
        yield from ("unspecified_temporality" for _ in data.data_points)
    elif kind == "histogram":
        yield from (_bucket_fault(point) or NOT_STORED for point in data.data_points)
    else:
        yield from (NOT_STORED for _ in data.data_points)


def _bucket_fault(point: Any) -> str:
    bounds, buckets = point.explicit_bounds, point.bucket_counts
    if not buckets and not bounds:
        return ""
    if len(buckets) != len(bounds) + 1 or sum(buckets) != point.count:
        return "invalid_buckets"
    if any(low >= high for low, high in pairwise(bounds)):
        return "invalid_bounds"
    return ""
