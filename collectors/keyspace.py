"""What a keyspace is made of, from a bounded sample: shapes of names, types, lifetimes, sizes. No name is kept.

SCAN walks the buckets of a hash table, and where a key lies depends on its hash alone: any stretch of the walk is a fair sample.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

_MOST_GROUPS: Final = 60
_SAMPLE_KEYS: Final = 20_000  # a sample of so many is enough for ±0.7 points; a new one then begins
_READ_CHARS: Final = 512
_WORD: Final = re.compile(r"[A-Za-z_{][A-Za-z0-9_.{}-]{0,39}")
_HEX: Final = re.compile(r"[0-9a-fA-F]{8}[0-9a-fA-F-]*")
# Second words that the caches known here use between a cache's name and what it caches; any other word might be a person.
_MIDDLE: Final = re.compile(
    r"(?:answers|caches|config|context|docs?|embed|embeddings?|entries|entry|heartbeat|idx|index|keys?|l1|l2|llm|lock|memory|prompts?|"
    r"questions|report|responses?|sessions?|stats|tools?|vectors?|__[A-Za-z0-9_]{1,38})",
    re.IGNORECASE,
)
_LIFETIMES: Final = ((60_000, "< 1 min"), (3_600_000, "< 1 h"), (86_400_000, "< 1 d"))
NO_EXPIRY: Final = "none"
LONGER: Final = "≥ 1 d"


def shape(key: bytes) -> str:
    """Return what kind of name a key has: 'litellm.caching:<hex>', 'higress-ai-cache:<text>', 'shop:entry:<uuid>'.

    The first part is kept when it reads like a program's word and something follows it; a second one when caches are known to use it.
    """
    parts = key[: _READ_CHARS * 4].decode("utf-8", "replace")[:_READ_CHARS].split(":")
    if len(parts) == 1:
        return _class(parts[0])
    first = parts[0] if _WORD.fullmatch(parts[0]) and not _HEX.fullmatch(parts[0]) else _class(parts[0])
    rest = [part if _MIDDLE.fullmatch(part) else _class(part) for part in parts[1:4]]
    return ":".join([first, *rest, *(["…"] if len(parts) > 4 else [])])


def _class(part: str) -> str:
    if not part:
        return ""
    if len(part) <= 20 and part.isascii() and part.isdigit():
        return "<number>"
    if _HEX.fullmatch(part):
        return "<uuid>" if part.count("-") == 4 and len(part) == 36 else "<hex>"
    return "<text>"


@dataclass(slots=True)
class _Group:
    keys: int = 0
    sized: int = 0
    size_bytes: int = 0
    lifetimes: dict[str, int] = field(default_factory=dict)


class Sample:
    """Counts keys as they are looked at; begins anew after a whole walk, or after twenty thousand keys, and then tells the last one."""

    def __init__(self) -> None:
        self._groups: dict[tuple[str, str], _Group] = {}
        self._keys = 0
        self._whole = False
        self._last: dict[str, Any] | None = None

    @property
    def looked_at(self) -> int:
        return self._keys or (self._last or {}).get("looked_at", 0)

    def add(self, key: bytes, kind: str, *, ttl_ms: int, size_bytes: int | None) -> None:
        """Count a key. ttl_ms: -1 = it does not expire."""
        if self._whole or self._keys >= _SAMPLE_KEYS:
            self._last = self._told()
            self._groups, self._keys, self._whole = {}, 0, False
        place = (shape(key), kind)
        if place not in self._groups and len(self._groups) >= _MOST_GROUPS:
            place = ("(other)", "")
        group = self._groups.setdefault(place, _Group())
        group.keys += 1
        self._keys += 1
        lifetime = NO_EXPIRY if ttl_ms < 0 else next((name for below, name in _LIFETIMES if ttl_ms < below), LONGER)
        group.lifetimes[lifetime] = group.lifetimes.get(lifetime, 0) + 1
        if size_bytes is not None:
            group.sized += 1
            group.size_bytes += size_bytes

    def whole(self) -> None:
        """Note that the walk has come round: what was counted is every key."""
        self._whole = True

    def _told(self) -> dict[str, Any]:
        groups = [
            {"shape": shape, "type": kind, "keys": one.keys, "sized": one.sized, "size_bytes": one.size_bytes, "lifetimes": one.lifetimes}
            for (shape, kind), one in sorted(self._groups.items(), key=lambda item: -item[1].keys)
        ]
        return {"looked_at": self._keys, "whole": self._whole, "groups": groups}

    def told(self, *, keys: int) -> dict[str, Any]:
        """Return the sample to show: the one under way when it is the larger one, else the last. keys: how many there are in all."""
        now = self._told()
        best = self._last if self._last and not now["whole"] and self._last["looked_at"] > now["looked_at"] else now
        return {**best, "keys": keys}
