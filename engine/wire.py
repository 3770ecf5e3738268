"""Spans as the bytes of an OTLP request (opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest), written straight out.

The SDK's encoder makes a message object for each attribute, which costs more than the lookup that the span tells of. Here a span is written
once, as it ends, and attributes that come again are kept as bytes. Field numbers are those of opentelemetry-proto 1.x, which never change.
What a lookup's span does not have (events, links, a trace state) is not written.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ScopeSpans
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode
from opentelemetry.util.types import AttributeValue

_TIMES = struct.Struct("<BQBQ")
_FLAGS = struct.Struct("<BBI")
_DOUBLE = struct.Struct("<d")
_ONE_BYTE = 0x80  # lengths below it take one byte
# Whether the parent is remote is known; it is. As the SDK writes them.
_KNOWN, _REMOTE = 0x100, 0x200
# Longer texts are mostly hashes and prompts, which do not come again.
_RECURRING_CHARS = 24
_READ = frozenset({"_name", "_kind", "_parent", "_start_time", "_end_time", "_attributes", "_events", "_links", "_status"})


class WrittenSpan(ReadableSpan):
    """A span that is kept as its bytes. Whoever reads another field than the context makes all of them out of the bytes.

    A queue of such spans is a queue of bytes, which no collection of garbage has to walk.
    """

    def __init__(self, written: bytes, *, context: SpanContext, resource: Resource, scope: InstrumentationScope) -> None:
        self.written = written
        self._context = context
        self._resource = resource
        self._instrumentation_scope = scope

    def __getattr__(self, name: str) -> Any:
        if name not in _READ:
            raise AttributeError(name)
        super().__init__(
            context=self._context, resource=self._resource, instrumentation_scope=self._instrumentation_scope, **_fields(self.written)
        )
        return self.__dict__[name]


def encode(spans: Sequence[WrittenSpan]) -> bytes:
    """Return the request that holds these spans, all of the first one's resource and scope, in their order."""
    if not spans:
        return b""
    resource, scope = _field(0x0A, _resource(spans[0].resource)), _field(0x0A, _scope(spans[0].instrumentation_scope))
    size = len(scope) + sum([len(span.written) for span in spans])
    told = _varint(0x12) + _varint(size)
    # Put together once: a batch is a megabyte, and each copy of it costs as much as the spans of some requests.
    return b"".join([b"\x0a", _varint(len(resource) + len(told) + size), resource, told, scope, *[span.written for span in spans]])


def write(
    name: str,
    *,
    kind: SpanKind,
    context: SpanContext,
    parent: SpanContext | None,
    start_ns: int,
    end_ns: int,
    attributes: bytes,
    status: Status,
) -> bytes:
    """Return a span's bytes as they stand in a request. attributes: of `attributes_bytes`, once or several of them together."""
    begun = b"\x0a\x10%b\x12\x08%b" % (context.trace_id.to_bytes(16, "big"), context.span_id.to_bytes(8, "big"))
    flags = _KNOWN
    if parent is not None:
        begun += b"\x22\x08" + parent.span_id.to_bytes(8, "big")
        if parent.is_remote:
            flags |= _REMOTE
    named, times = _named(name, kind), _TIMES.pack(0x39, start_ns, 0x41, end_ns)
    ended = _status(status) + _FLAGS.pack(0x85, 0x01, flags)
    size = len(begun) + len(named) + len(times) + len(attributes) + len(ended)
    return b"".join((_head(0x12, size), begun, named, times, attributes, ended))


@lru_cache(maxsize=64)
def _named(name: str, kind: SpanKind) -> bytes:
    return _field(0x2A, name.encode()) + b"\x30%c" % (kind.value + 1)


def _status(status: Status) -> bytes:
    said = _field(0x12, status.description.encode()) if status.description else b""
    if status.status_code is not StatusCode.UNSET:
        said += b"\x18%c" % status.status_code.value
    return _field(0x7A, said)


@lru_cache(maxsize=8)
def _resource(resource: Resource) -> bytes:
    out: list[bytes] = []
    for name, value in resource.attributes.items():
        _attribute(0x0A, name, value, out)
    return b"".join(out)


@lru_cache(maxsize=8)
def _scope(scope: InstrumentationScope | None) -> bytes:
    if scope is None:
        return b""
    return _field(0x0A, scope.name.encode()) + (_field(0x12, scope.version.encode()) if scope.version else b"")


def attributes_bytes(attributes: Mapping[str, AttributeValue]) -> bytes:
    """Return a span's attributes as they stand in it, in their order."""
    out: list[bytes] = []
    for name, value in attributes.items():
        kind = type(value)
        if kind is float:
            out += (_double_head(name), _DOUBLE.pack(value))
        elif kind is bool or kind is int or (kind is str and len(value) <= _RECURRING_CHARS):  # type: ignore[arg-type]
            out.append(_recurring(name, value))
        else:
            _attribute(0x4A, name, value, out)
    return b"".join(out)


# Typed: True, 1 and 1.0 are equal in Python and three values on the wire.
@lru_cache(maxsize=4_096, typed=True)
def _recurring(name: str, value: str | bool | int) -> bytes:
    out: list[bytes] = []
    _attribute(0x4A, name, value, out)
    return b"".join(out)


@lru_cache(maxsize=1_024)
def _double_head(name: str) -> bytes:
    key = _key(name)
    return _head(0x4A, len(key) + 11) + key + b"\x12\x09\x21"


def _attribute(tag: int, name: str, value: AttributeValue, out: list[bytes]) -> None:
    key = _key(name)
    if type(value) is str:
        text = value.encode()
        size = len(text)
        if size + len(key) < _ONE_BYTE - 4:  # then every length below takes one byte
            out.append(b"%c%c%b\x12%c\x0a%c%b" % (tag, size + len(key) + 4, key, size + 2, size, text))
            return
    said = _field(0x12, _any(value))
    out += (_head(tag, len(key) + len(said)), key, said)


@lru_cache(maxsize=1_024)
def _key(name: str) -> bytes:
    return _field(0x0A, name.encode())


def _any(value: object) -> bytes:
    if isinstance(value, str):
        return _field(0x0A, value.encode())
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, int):
        return b"\x18" + _varint(value & 0xFFFF_FFFF_FFFF_FFFF)
    if isinstance(value, float):
        return b"\x21" + _DOUBLE.pack(value)
    if isinstance(value, Sequence):
        return _field(0x2A, b"".join([_field(0x0A, _any(item)) for item in value]))
    raise TypeError(f"an attribute of the type {type(value).__name__} was to be sent; expected text, numbers, booleans or lists of them")


def _field(tag: int, content: bytes) -> bytes:
    return _head(tag, len(content)) + content


@lru_cache(maxsize=4_096)
def _head(tag: int, length: int) -> bytes:
    return _varint(tag) + _varint(length)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= _ONE_BYTE:
        out.append(value & (_ONE_BYTE - 1) | _ONE_BYTE)
        value >>= 7
    out.append(value)
    return bytes(out)


def _fields(written: bytes) -> dict[str, Any]:
    """Return what `ReadableSpan` is made of, read out of a span's bytes."""
    span = ScopeSpans.FromString(written).spans[0]
    parent = None
    if span.parent_span_id:
        remote = bool(span.flags & _REMOTE)
        parent = SpanContext(int.from_bytes(span.trace_id, "big"), int.from_bytes(span.parent_span_id, "big"), is_remote=remote)
    return {
        "name": span.name,
        "kind": SpanKind(span.kind - 1),
        "parent": parent,
        "start_time": span.start_time_unix_nano,
        "end_time": span.end_time_unix_nano,
        "attributes": {attribute.key: _value(attribute.value) for attribute in span.attributes},
        "status": Status(StatusCode(span.status.code), span.status.message or None),
    }


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return tuple(map(_value, value.array_value.values)) if kind == "array_value" else getattr(value, str(kind))
