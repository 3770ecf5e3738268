"""Attribute values as columns can hold them. Absent is None, which is not 0."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Attributes = Mapping[str, Any]

_MAX_TEXT = 512
_MAX_COUNT = 2**53  # more tokens than any call; larger is garbage that would spoil sums


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
    """Return a finite number; None when absent or something else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def flag(value: Any) -> bool | None:
    """Return a boolean; None when absent or something else."""
    return value if isinstance(value, bool) else None
