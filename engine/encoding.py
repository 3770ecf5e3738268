"""The canonical bytes: tagged and length-prefixed, so that no two values share a form."""

from __future__ import annotations

import math
import operator
import unicodedata

from engine.errors import InvalidRequest

MAX_KEYED_DEPTH = 64  # real tool schemas stay under 20; what is nested deeper is not looked up
MAX_DEPTH = 200  # beyond this a body is an attack on recursion

# The names that most requests have.
_NAMES = {
    name: name.encode()
    for name in (
        *("content", "function", "max_tokens", "max_completion_tokens", "name", "parameters", "response_format", "role", "seed", "stop"),
        *("temperature", "text", "tool_call_id", "tool_calls", "tool_choice", "tools", "top_p", "type"),
    )
}
_PROPERTIES = b"properties"
_by_name = operator.itemgetter(0)


class TooDeep(InvalidRequest):
    """Nested deeper than was asked for."""

    def __init__(self, depth: int) -> None:
        super().__init__(f"the body is nested deeper than {depth} levels")


def encode(value: object, depth: int = MAX_DEPTH) -> bytes:
    """Return the value's canonical bytes: text composed, objects sorted by name, 1.0 as 1.

    What lies under `properties` keeps its order: an answer to a JSON schema is written in the order of its properties.

    Raises InvalidRequest for what JSON cannot hold, and TooDeep, one of it, for nesting deeper than `depth`.
    """
    out: list[bytes] = []
    try:
        _encode(value, out, depth)
    except TooDeep:
        raise TooDeep(depth) from None
    return b"".join(out)


def _encode(value: object, out: list[bytes], depth: int) -> None:
    if isinstance(value, str):
        text = text_bytes(value)
        out.append(b"s%d:%b" % (len(text), text))
    elif value is None:
        out.append(b"n;")
    elif isinstance(value, bool):
        out.append(b"t;" if value else b"f;")
    elif isinstance(value, int):
        out.append(_number(value))
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidRequest("the body holds a number that is not finite")
        out.append(_number(int(value)) if value.is_integer() else b"r%s;" % repr(value).encode())
    elif depth == 0:
        raise TooDeep(depth)
    elif isinstance(value, dict):
        _encode_object(value, out, depth)
    elif isinstance(value, list | tuple):
        out.append(b"l%d:" % len(value))
        for item in value:
            _encode(item, out, depth - 1)
    else:
        raise InvalidRequest("the body holds a value that JSON cannot hold")


def _encode_object(value: dict[object, object], out: list[bytes], depth: int, *, ordered: bool = False) -> None:
    if not ordered and len(value) == 2 and type(role := value.get("role")) is str and type(content := value.get("content")) is str:
        # Most messages: the same bytes in one piece.
        said, text = text_bytes(role), text_bytes(content)
        out.append(b"d2:s7:contents%d:%bs4:roles%d:%b" % (len(text), text, len(said), said))
        return
    pairs: list[tuple[bytes, object]] = []
    for name, item in value.items():
        known = _NAMES.get(name)  # type: ignore[call-overload]
        if known is None:
            if not isinstance(name, str):
                raise InvalidRequest("the body's field names must be strings")
            known = text_bytes(name)
        pairs.append((known, item))
    if ordered and len(pairs) > 1:
        out.append(b"o%d:" % len(pairs))
    else:
        if len(pairs) > 1:
            pairs.sort(key=_by_name)
        out.append(b"d%d:" % len(pairs))
    for name_bytes, item in pairs:
        out.append(b"s%d:%b" % (len(name_bytes), name_bytes))
        if type(item) is str:
            text = text_bytes(item)
            out.append(b"s%d:%b" % (len(text), text))
        elif name_bytes == _PROPERTIES and isinstance(item, dict) and depth > 1:
            _encode_object(item, out, depth - 1, ordered=True)
        else:
            _encode(item, out, depth - 1)


def _number(value: int) -> bytes:
    # Hexadecimal beyond 64 bits: Python refuses to print decimals of more than 4,300 digits.
    return b"i%d;" % value if value.bit_length() <= 64 else b"i%s;" % hex(value).encode()


def text_bytes(value: str) -> bytes:
    """Return NFC as UTF-8. Lone surrogates keep bytes that no valid text has, so that they meet no escaped spelling of them."""
    return composed(value).encode("utf-8", "surrogatepass")


def composed(text: str) -> str:
    """Return the text in NFC, or as it is where NFC would put one sign in another's place.

    A letter and its accent are the letter with the accent. A Greek question mark is no semicolon in a program, nor a Kelvin a K.
    """
    if text.isascii():
        return text
    form = unicodedata.normalize("NFC", text)
    if form == text or any(unicodedata.normalize("NFC", sign) != sign for sign in set(text)):
        return text
    return form
