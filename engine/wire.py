"""Spans as the bytes of an OTLP request (opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest), written straight out.

The SDK's encoder makes a message object for each attribute, which costs more than the lookup that the span tells of. Field numbers are
those of opentelemetry-proto 1.x, which never change. What a lookup's span does not have (events, links, a trace state) is not written.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import StatusCode
from opentelemetry.util.types import AttributeValue

_TIMES = struct.Struct("<BQBQ")
_FLAGS = struct.Struct("<BBI")
_DOUBLE = struct.Struct("<Bd")
_ONE_BYTE = 0x80  # lengths below it take one byte
# Whether the parent is remote is known; it is. As the SDK writes them.
_KNOWN, _REMOTE = 0x100, 0x200


def encode(spans: Sequence[ReadableSpan]) -> bytes:
    """Return the request that holds these spans, all of the first one's resource and scope, in their order."""
    if not spans:
        return b""
    scope = _field(0x0A, _scope(spans[0].instrumentation_scope))
    told = _field(0x12, b"".join([scope, *(_field(0x12, _span(span)) for span in spans)]))
    return _field(0x0A, _field(0x0A, _resource(spans[0].resource)) + told)


def _span(span: ReadableSpan) -> bytes:
    context, parent = span.get_span_context(), span.parent
    if context is None:
        raise ValueError("a span without a context was to be sent; expected one that has ended")
    out = [b"\x0a\x10", context.trace_id.to_bytes(16, "big"), b"\x12\x08", context.span_id.to_bytes(8, "big")]
    flags = _KNOWN
    if parent is not None:
        out += (b"\x22\x08", parent.span_id.to_bytes(8, "big"))
        if parent.is_remote:
            flags |= _REMOTE
    out.append(_field(0x2A, span.name.encode()))
    out.append(b"\x30%c" % (span.kind.value + 1))
    out.append(_TIMES.pack(0x39, span.start_time or 0, 0x41, span.end_time or 0))
    out += _attributes(0x4A, span.attributes or {})
    status = b""
    if span.status.description:
        status += _field(0x12, span.status.description.encode())
    if span.status.status_code is not StatusCode.UNSET:
        status += b"\x18%c" % span.status.status_code.value
    out.append(_field(0x7A, status))
    out.append(_FLAGS.pack(0x85, 0x01, flags))
    return b"".join(out)


@lru_cache(maxsize=8)
def _resource(resource: Resource) -> bytes:
    return b"".join(_attributes(0x0A, resource.attributes))


@lru_cache(maxsize=8)
def _scope(scope: InstrumentationScope | None) -> bytes:
    if scope is None:
        return b""
    return _field(0x0A, scope.name.encode()) + (_field(0x12, scope.version.encode()) if scope.version else b"")


def _attributes(tag: int, attributes: Mapping[str, AttributeValue]) -> list[bytes]:
    out: list[bytes] = []
    for name, value in attributes.items():
        key = _key(name)
        if type(value) is str:
            text = value.encode()
            size = len(text)
            if size + len(key) < _ONE_BYTE - 4:  # then every length below takes one byte
                out.append(b"%c%c%b\x12%c\x0a%c%b" % (tag, size + len(key) + 4, key, size + 2, size, text))
                continue
        said = _field(0x12, _any(value))
        out += (_head(tag, len(key) + len(said)), key, said)
    return out


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
        return _DOUBLE.pack(0x21, value)
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
