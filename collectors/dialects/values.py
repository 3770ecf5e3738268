"""Attribute values as columns can hold them. Absent is None, which is not 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Attributes = Mapping[str, Any]

_MAX_TEXT = 512
# What no call and no entry has is a sender's fault, and would spoil every sum that it is in: above these a value is not known.
_MAX_COUNT = 10**12  # tokens or bytes; 9 million of the largest fit in SQLite's 64 bits
_MAX_NUMBER = 1e10  # 115 days of milliseconds
_MAX_USD = 10_000.0


def first(attributes: Attributes, keys: tuple[str, ...]) -> Any:
    """Return the first value present. Absent is None, which is not 0."""
    for key in keys:
        value = attributes.get(key)
        if value is not None:
            return value
    return None


def text(value: Any) -> str:
    """Return a hot column's text: at most 512 characters, no NUL (PostgreSQL refuses it)."""
    if type(value) is str:
        if len(value) <= _MAX_TEXT and "\0" not in value:
            return value
    elif value is None:
        return ""
    words: str = value if isinstance(value, str) else str(value)
    if len(words) > _MAX_TEXT:
        words = words[:_MAX_TEXT]
    return words.replace("\0", "\ufffd") if "\0" in words else words


def long_text(value: Any) -> str | None:
    """Return a text column of any length, None when absent."""
    return None if value is None else str(value).replace("\0", "\ufffd")


def count(value: Any) -> int | None:
    """Return a number of tokens or bytes; some senders write it as a string. None when it is no count."""
    if type(value) is int:
        return value if 0 <= value < _MAX_COUNT else None
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 17:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and 0 <= value < _MAX_COUNT else None


def number(value: Any) -> float | None:
    """Return a number of at most ten billion, either way; None when absent, NaN, larger or something else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -_MAX_NUMBER <= value <= _MAX_NUMBER else None


def money(value: Any) -> float | None:
    """Return what one call cost, in US dollars, at most ten thousand; None as `number`."""
    usd = number(value)
    return usd if usd is not None and abs(usd) <= _MAX_USD else None


def flag(value: Any) -> bool | None:
    """Return a boolean; None when absent or something else."""
    return value if isinstance(value, bool) else None
