"""What a parsed body does not tell of its bytes: names that came twice, and numbers that lost digits when they were read."""

from __future__ import annotations

import json
import re
from typing import Any

# A member's name ends so. A text can hold the same bytes (an escaped quote before a colon), so a count of them is an upper bound.
_MEMBER = re.compile(rb'"[ \t\r\n]*:')
_NAME_ENDS = (b'"', b" ", b"\n", b"\t", b"\r")
_EXACT = float(2**53)  # whole numbers up to it are each their own float


def oddity(raw: bytes, body: dict[str, Any]) -> str:
    """Return why a request is not what its parsed body says, '' = it is. raw: valid JSON, its value: body.

    The upstream gets the bytes, and may take the first of two values or read a number exactly; the key knows one value, as a float.
    """
    members, exact = _members(body)
    if not exact:
        return "imprecise_number"
    # Each member has a colon, after a quote or a blank: where there are no more such than members that were kept, none was lost.
    pieces = raw.split(b":")
    if len(pieces) - 1 == members or sum([piece.endswith(_NAME_ENDS) for piece in pieces[:-1]]) == members:
        return ""
    if len(_MEMBER.findall(raw)) == members:
        return ""
    return "duplicate_name" if _repeats(raw) else ""


def _members(body: dict[str, Any]) -> tuple[int, bool]:
    """Return how many members all its objects have, and whether every number is as it was written."""
    count, exact = 0, True
    level: list[Any] = [body]
    while level:
        item = level.pop()
        if type(item) is dict:
            count += len(item)
            item = item.values()
        for value in item:
            kind = type(value)
            if kind is dict or kind is list:
                level.append(value)
            elif kind is float and not -_EXACT < value < _EXACT:
                exact = False
    return count, exact


def _repeats(raw: bytes) -> bool:
    repeated = False

    def seen(pairs: list[tuple[str, Any]]) -> None:
        nonlocal repeated
        repeated = repeated or len({name for name, _ in pairs}) != len(pairs)

    json.loads(raw, object_pairs_hook=seen, parse_int=len, parse_float=len)
    return repeated
