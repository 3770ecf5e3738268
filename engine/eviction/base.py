"""The contract of an eviction policy: which entry leaves when room is needed. It holds keys and sizes, never entries.

The memory tier calls: `make_room` as often as bytes are short, then `add`. Every key that is `add`ed leaves by exactly one
`make_room` or `remove`. A policy never decides whether an entry is kept at all: the tier refuses what is larger than itself.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol, TypeVar

K = TypeVar("K", bound=Hashable)


class EvictionPolicy(Protocol[K]):
    """size: bytes > 0. cost: what a miss costs, in any unit >= 0 that is the same for all keys; most policies ignore it."""

    def add(self, key: K, size: int, cost: float = 1.0) -> None:
        """Note a key that is not held."""

    def hit(self, key: K) -> None:
        """Note that a held key was asked for."""

    def resize(self, key: K, size: int, cost: float = 1.0) -> None:
        """Note that a held key's content was replaced, which counts as asking for it."""

    def remove(self, key: K) -> None:
        """Forget a held key that left for another reason than room."""

    def make_room(self, size: int) -> K:
        """Forget one key and return it: the one that should leave for `size` bytes to come in. Only while a key is held."""

    def clear(self) -> None:
        """Forget everything."""
