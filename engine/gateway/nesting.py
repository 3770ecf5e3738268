"""How deep JSON may be nested: orjson reads 1,024 levels and writes 254, and what was taken in must be writable again."""

from __future__ import annotations

from typing import Any

MAX_NESTING = 200


def too_deep(raw: bytes, value: Any) -> bool:
    """Return whether the value, parsed from `raw`, is nested deeper than MAX_NESTING. Most bodies are told by their brackets alone."""
    if raw.count(b"[") + raw.count(b"{") <= MAX_NESTING:
        return False
    level = [value]
    for _ in range(MAX_NESTING):
        level = [inner for item in level for inner in (item.values() if isinstance(item, dict) else item) if isinstance(inner, dict | list)]
        if not level:
            return False
    return True
