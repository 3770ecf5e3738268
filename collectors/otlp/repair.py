"""Makes a protobuf message's strings UTF-8 again. Used only when a message was refused: some senders write lone surrogates."""

from __future__ import annotations

from typing import Any

_MAX_DEPTH = 100  # protobuf's own limit
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_TYPE_STRING, _TYPE_MESSAGE = 9, 11  # FieldDescriptor.TYPE_…


def repair_strings(body: bytes, descriptor: Any) -> bytes | None:
    """Return the message with U+FFFD for what is not UTF-8 in its strings; None when it is not a message at all."""
    try:
        return _message(body, descriptor, 0)
    except (IndexError, ValueError):
        return None


def _message(body: bytes, descriptor: Any, depth: int) -> bytes:
    if depth > _MAX_DEPTH:
        raise ValueError
    out = bytearray()
    position = 0
    while position < len(body):
        start = position
        tag, position = _varint(body, position)
        kind = tag & 7
        if kind == _VARINT:
            _, position = _varint(body, position)
        elif kind == _FIXED64:
            position += 8
        elif kind == _FIXED32:
            position += 4
        elif kind == _BYTES:
            length, position = _varint(body, position)
            content = body[position : position + length]
            position += length
            field = descriptor.fields_by_number.get(tag >> 3)
            if field is not None and field.type in {_TYPE_STRING, _TYPE_MESSAGE} and position <= len(body):
                if field.type == _TYPE_STRING:
                    content = content.decode("utf-8", "replace").encode()
                else:
                    content = _message(content, field.message_type, depth + 1)
                out += _encoded(tag) + _encoded(len(content)) + content
                continue
        else:
            raise ValueError
        if position > len(body):
            raise ValueError
        out += body[start:position]
    return bytes(out)


def _varint(body: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ValueError


def _encoded(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
