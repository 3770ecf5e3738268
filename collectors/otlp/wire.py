"""OTLP bytes to plain values, the same from protobuf and from JSON. Pure; knows nothing of dialects or tables.

JSON is walked by hand: protobuf's own JSON parser is twenty times slower and reads hex ids as base64.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

import orjson
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collectors.errors import Undecodable
from collectors.otlp.bounds import LEFT_OUT, Bounds
from collectors.otlp.repair import repair_strings

Value = Any  # None, str, bool, int, float, list or dict: what JSON can hold
Attributes = dict[str, Value]

MAX_DEPTH = 8  # of lists and maps in an attribute; deeper is cut, so that no value can exhaust the stack
INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)
UINT64_MAX = 2**64 - 1


class WireSpan(NamedTuple):
    """One span as sent. Ids and times are not yet checked; fault = why its own fields cannot be read, '' = they can."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes
    name: str
    kind: int
    start_ns: int
    end_ns: int
    status: int
    status_message: str
    trace_state: str
    attributes: Attributes
    events: list[Attributes]
    links: list[Attributes]
    fault: str = ""


class WireScope(NamedTuple):
    """The spans of one scope of one resource."""

    resource: Attributes
    scope: str
    version: str
    spans: list[WireSpan]
    attributes: Attributes  # of the scope itself: what a processor on the way wrote of all its spans


def from_protobuf(body: bytes, bounds: Bounds) -> Iterator[WireScope]:
    """Yield the scopes of an ExportTraceServiceRequest. An empty body is an empty request. Raises Undecodable."""
    request = parse_protobuf(body, ExportTraceServiceRequest)
    if body and not request.resource_spans:
        raise Undecodable("the body holds no field of ExportTraceServiceRequest; send OTLP traces as protobuf")
    for resource_spans in request.resource_spans:
        resource = pb_attributes(resource_spans.resource.attributes, bounds)
        for scope_spans in resource_spans.scope_spans:
            scope = scope_spans.scope
            spans = [_pb_span(span, bounds) for span in scope_spans.spans]
            yield WireScope(resource, scope.name, scope.version, spans, pb_attributes(scope.attributes, bounds))


def parse_protobuf(body: bytes, message_type: Any) -> Any:
    """Return the message. A string that is not UTF-8 is repaired: it must not fail a batch. Raises Undecodable."""
    message = message_type()
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        fault = Undecodable(f"the body is not a protobuf {message_type.DESCRIPTOR.name}; check the Content-Type and -Encoding")
        repaired = repair_strings(body, message_type.DESCRIPTOR)
        if repaired is None:
            raise fault from error
        message = message_type()
        try:
            message.ParseFromString(repaired)
        except DecodeError:
            raise fault from error
    return message


def _pb_span(span: Any, bounds: Bounds) -> WireSpan:
    return WireSpan(
        span.trace_id,
        span.span_id,
        span.parent_span_id,
        span.name,
        span.kind,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.status.code,
        span.status.message,
        span.trace_state,
        pb_attributes(span.attributes, bounds),
        [
            {"name": event.name, "time_ns": event.time_unix_nano, "attributes": pb_attributes(event.attributes, bounds)}
            for event in span.events
        ],
        [
            {
                "trace_id": link.trace_id.hex(),
                "span_id": link.span_id.hex(),
                "attributes": pb_attributes(link.attributes, bounds),
            }
            for link in span.links
        ],
    )


def pb_attributes(pairs: Any, bounds: Bounds, depth: int = 0) -> Attributes:
    """Return the attributes. The common kinds are read in place: a call for each would double the cost of decoding."""
    max_chars = bounds.max_chars
    attributes: Attributes = {}
    if len(pairs) > bounds.max_attributes:
        attributes[LEFT_OUT] = len(pairs) - bounds.max_attributes
        pairs = pairs[: bounds.max_attributes]
    for pair in pairs:
        value = pair.value
        kind = value.WhichOneof("value")
        if kind == "string_value":
            text = value.string_value
            attributes[pair.key] = text if len(text) <= max_chars else bounds.text(text)
        elif kind == "int_value":
            attributes[pair.key] = value.int_value
        elif kind == "bool_value":
            attributes[pair.key] = value.bool_value
        else:
            attributes[pair.key] = _pb_value(value, bounds, depth)
    return attributes


def _pb_value(any_value: Any, bounds: Bounds, depth: int) -> Value:  # noqa: PLR0911 - one return a kind of value
    kind = any_value.WhichOneof("value")
    if kind is None:
        return None
    value = getattr(any_value, kind)
    if kind == "string_value":
        return bounds.text(value)
    if kind == "double_value":
        return _finite(value)
    if kind == "bytes_value":
        return _bytes(value, bounds)
    if kind == "array_value":
        return _cut(depth) or [_pb_value(item, bounds, depth + 1) for item in value.values]
    if kind == "kvlist_value":
        return _cut(depth) or pb_attributes(value.values, bounds, depth + 1)
    return value


def js_object(found: dict[str, Any], bounds: Bounds, depth: int = 0) -> Attributes:
    """Return a JSON object within the bounds of attributes: a sender can write one into a string, deeper than JSON can be written again."""
    attributes: Attributes = {}
    if len(found) > bounds.max_attributes:
        attributes[LEFT_OUT] = len(found) - bounds.max_attributes
    return attributes | {name: _bounded(value, bounds, depth) for name, value in islice(found.items(), bounds.max_attributes)}


def _bounded(value: Any, bounds: Bounds, depth: int) -> Value:
    if isinstance(value, str):
        return bounds.text(value)
    if isinstance(value, dict):
        return _cut(depth) or js_object(value, bounds, depth + 1)
    if isinstance(value, list):
        return _cut(depth) or [_bounded(item, bounds, depth + 1) for item in value]
    return value


def _cut(depth: int) -> str:
    return f"…[cut: deeper than {MAX_DEPTH} levels]" if depth >= MAX_DEPTH else ""


def _finite(value: float) -> float | str:
    """JSON has no NaN and no infinities: they are kept as OTLP/JSON writes them."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _bytes(value: bytes, bounds: Bounds) -> Attributes:
    return {"bytesValue": bounds.text(base64.b64encode(value).decode())}


def load_json(body: bytes) -> Any:
    """Return the JSON document. Lone surrogates become U+FFFD: one string must not fail a batch. Raises Undecodable."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as strict:
        try:
            return _without_surrogates(json.loads(body.decode("utf-8", "replace")))
        except (ValueError, RecursionError):
            raise Undecodable(f"the body is not JSON ({strict}); check the Content-Type and -Encoding") from strict


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    return value


def from_json(body: bytes, bounds: Bounds) -> Iterator[WireScope]:
    """Yield the scopes of an OTLP/JSON trace request; unknown fields are ignored, null is a field's default.

    Raises Undecodable when the document or its outer structure is not OTLP; a single bad span carries its fault instead.
    """
    document = load_json(body)
    if not isinstance(document, dict):
        raise Undecodable("the body is JSON, but no object; an OTLP request is {'resourceSpans': […]}")
    check_field(document, "resourceSpans")
    for resource_spans in objects(document, "resourceSpans"):
        resource = _js_attributes(member(resource_spans, "resource").get("attributes"), bounds)
        for scope_spans in objects(resource_spans, "scopeSpans"):
            scope = member(scope_spans, "scope")
            spans = [_js_span(span, bounds) for span in objects(scope_spans, "spans")]
            yield WireScope(
                resource, _string(scope.get("name")), _string(scope.get("version")), spans, _js_attributes(scope.get("attributes"), bounds)
            )


def check_field(document: Mapping[str, Any], name: str) -> None:
    """Raises Undecodable for an object without this field: what is none of ours must not be answered as an empty request."""
    if document and name not in document:
        raise Undecodable(f"the body is JSON, but has no {name}; an empty request is {{}}")


def objects(parent: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a repeated message's objects. Raises Undecodable when it is not a list of objects."""
    value = parent.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Undecodable(f"{name} is not a list of objects")
    return value


def member(parent: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a message's object, empty when absent. Raises Undecodable when it is something else."""
    value = parent.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Undecodable(f"{name} is not an object")
    return value


def _js_span(span: dict[str, Any], bounds: Bounds) -> WireSpan:
    try:
        status = member(span, "status")
        return WireSpan(
            _hex(span.get("traceId")),
            _hex(span.get("spanId")),
            _hex(span.get("parentSpanId")),
            _string(span.get("name")),
            integer(span.get("kind")),
            integer(span.get("startTimeUnixNano")),
            integer(span.get("endTimeUnixNano")),
            integer(status.get("code")),
            _string(status.get("message")),
            _string(span.get("traceState")),
            _js_attributes(span.get("attributes"), bounds),
            [
                {
                    "name": _string(event.get("name")),
                    "time_ns": integer(event.get("timeUnixNano")),
                    "attributes": _js_attributes(event.get("attributes"), bounds),
                }
                for event in objects(span, "events")
            ],
            [
                {
                    "trace_id": _hex(link.get("traceId")).hex(),
                    "span_id": _hex(link.get("spanId")).hex(),
                    "attributes": _js_attributes(link.get("attributes"), bounds),
                }
                for link in objects(span, "links")
            ],
        )
    except (Undecodable, ValueError, TypeError, OverflowError):
        return WireSpan(b"", b"", b"", "", 0, 0, 0, 0, "", "", {}, [], [], fault="malformed_span")


def _hex(value: Any) -> bytes:
    """Return an id's bytes: hex in any case, never base64. What is no hex is an id of a wrong length."""
    if value is None:
        return b""
    if not isinstance(value, str):
        raise TypeError
    try:
        return bytes.fromhex(value)
    except ValueError:
        return b"?"


def _string(value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise Undecodable("a name, a version or a message is not a string")
    return value


def integer(value: Any) -> int:
    """Return an int64, a uint64 or an enum: a number, or a string of digits. Raises ValueError or TypeError."""
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    number = int(value)
    if (isinstance(value, float) and value != number) or not INT64_MIN <= number <= UINT64_MAX:
        raise ValueError
    return number


def _js_attributes(pairs: Any, bounds: Bounds, depth: int = 0) -> Attributes:
    if pairs is None:
        return {}
    if not isinstance(pairs, list):
        raise Undecodable("attributes is not a list of {key, value}")
    attributes: Attributes = {}
    if len(pairs) > bounds.max_attributes:
        attributes[LEFT_OUT] = len(pairs) - bounds.max_attributes
        pairs = pairs[: bounds.max_attributes]
    max_chars = bounds.max_chars
    for pair in pairs:
        if isinstance(pair, dict) and isinstance(key := pair.get("key", ""), str):
            value = pair.get("value")
            # Nine of ten values are a short string: read in place, for a call costs more than the rest.
            if type(value) is dict and type(text := value.get("stringValue")) is str and len(value) == 1 and len(text) <= max_chars:
                attributes[key] = text
            else:
                attributes[key] = _js_value(value, bounds, depth)
    return attributes


def _js_value(any_value: Any, bounds: Bounds, depth: int) -> Value:  # noqa: PLR0911 - one return a kind of value
    if not isinstance(any_value, dict):
        return None
    for kind, value in any_value.items():
        if value is None:
            continue
        if kind == "stringValue":
            return bounds.text(value if isinstance(value, str) else json.dumps(value))
        if kind == "boolValue":
            return bool(value)
        if kind == "intValue":
            return _int64(value)
        if kind == "doubleValue":
            return _double(value)
        if kind == "bytesValue":
            return _js_bytes(value, bounds)
        if kind == "arrayValue":
            return _cut(depth) or [_js_value(item, bounds, depth + 1) for item in _values(value)]
        if kind == "kvlistValue":
            return _cut(depth) or _js_attributes(_values(value), bounds, depth + 1)
    return None


def _values(value: Any) -> list[Any]:
    values = value.get("values") if isinstance(value, dict) else None
    return values if isinstance(values, list) else []


def _int64(value: Any) -> Value:
    try:
        number = integer(value)
    except (ValueError, TypeError, OverflowError):
        return str(value)
    return number if INT64_MIN <= number <= INT64_MAX else str(number)


def _double(value: Any) -> Value:
    try:
        return _finite(float(value))
    except (ValueError, TypeError, OverflowError):
        return str(value)


def _js_bytes(value: Any, bounds: Bounds) -> Value:
    try:
        return _bytes(base64.b64decode(value, validate=True), bounds)
    except (binascii.Error, ValueError, TypeError):
        return bounds.text(str(value))
