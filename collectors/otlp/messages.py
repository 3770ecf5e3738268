"""Metrics and logs requests, protobuf or JSON, taken apart: resource by resource, scope by scope, item by item.

JSON is walked by hand down to the single item, so that one malformed item costs itself alone; protobuf's own parser reads the rest.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any, NamedTuple

from google.protobuf.json_format import ParseDict, ParseError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from collectors.errors import Undecodable
from collectors.otlp.bounds import Bounds
from collectors.otlp.decode import JSON
from collectors.otlp.wire import Attributes, check_field, load_json, member, objects, parse_protobuf, pb_attributes

_IDS = frozenset({"traceId", "spanId"})
_UNREADABLE = (ParseError, TypeError, AttributeError, ValueError, OverflowError, RecursionError, KeyError)


class Signal(NamedTuple):
    """The names of a signal's messages, in protobuf and in JSON."""

    request: Any
    item: Any
    resources: str
    scopes: str
    items: str
    js_resources: str
    js_scopes: str
    js_items: str


METRICS = Signal(
    ExportMetricsServiceRequest, Metric, "resource_metrics", "scope_metrics", "metrics", "resourceMetrics", "scopeMetrics", "metrics"
)
LOGS = Signal(ExportLogsServiceRequest, LogRecord, "resource_logs", "scope_logs", "log_records", "resourceLogs", "scopeLogs", "logRecords")


class Scope(NamedTuple):
    """The items of one scope of one resource. unreadable: JSON items that are none."""

    resource: Attributes
    name: str
    version: str
    items: list[Any]
    unreadable: list[dict[str, Any]]


def scopes(body: bytes, content_type: str, signal: Signal, bounds: Bounds) -> Iterator[Scope]:
    """Yield the scopes of a request. Raises Undecodable when the body, or its outer structure, is no such request."""
    return _json(body, signal, bounds) if content_type == JSON else _protobuf(body, signal, bounds)


def _protobuf(body: bytes, signal: Signal, bounds: Bounds) -> Iterator[Scope]:
    request = parse_protobuf(body, signal.request)
    resources = getattr(request, signal.resources)
    if body and not resources:
        raise Undecodable(f"the body holds no field of {signal.request.DESCRIPTOR.name}; send OTLP as protobuf")
    for resource in resources:
        attributes = pb_attributes(resource.resource.attributes, bounds)
        for scope in getattr(resource, signal.scopes):
            yield Scope(attributes, scope.scope.name, scope.scope.version, list(getattr(scope, signal.items)), [])


def _json(body: bytes, signal: Signal, bounds: Bounds) -> Iterator[Scope]:
    document = load_json(body)
    if not isinstance(document, dict):
        raise Undecodable(f"the body is JSON, but no object; an OTLP request is {{'{signal.js_resources}': […]}}")
    check_field(document, signal.js_resources)
    for resource in objects(document, signal.js_resources):
        attributes = pb_attributes(_outer(member(resource, "resource"), Resource).attributes, bounds)
        for scope in objects(resource, signal.js_scopes):
            named = _outer(member(scope, "scope"), InstrumentationScope)
            items, unreadable = [], []
            for given in objects(scope, signal.js_items):
                try:
                    items.append(_parsed(given, signal.item))
                except _UNREADABLE:
                    unreadable.append(given)
            yield Scope(attributes, named.name, named.version, items, unreadable)


def _parsed(given: dict[str, Any], kind: Any) -> Any:
    return ParseDict(_with_base64_ids(given), kind(), ignore_unknown_fields=True)


def _with_base64_ids(value: Any) -> Any:
    """OTLP/JSON writes ids in hex, protobuf's own parser expects base64. What is no hex is an id of a wrong length."""
    if isinstance(value, list):
        return [_with_base64_ids(item) for item in value]
    if isinstance(value, dict):
        return {key: _base64(item) if key in _IDS and isinstance(item, str) else _with_base64_ids(item) for key, item in value.items()}
    return value


def _base64(digits: str) -> str:
    try:
        return base64.b64encode(bytes.fromhex(digits)).decode()
    except ValueError:
        return base64.b64encode(b"?").decode()


def _outer(given: dict[str, Any], kind: Any) -> Any:
    try:
        return _parsed(given, kind)
    except _UNREADABLE as error:
        raise Undecodable(f"the body is JSON, but what should be a {kind.DESCRIPTOR.name} is none") from error
