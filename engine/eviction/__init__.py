"""Which entry leaves the memory tier when it is full. One policy by name; `POLICIES` has them all."""

from __future__ import annotations

from collections.abc import Callable

from engine.errors import InvalidSetting
from engine.eviction.base import EvictionPolicy
from engine.eviction.queues import Fifo, Lru, S3Fifo, Sieve
from engine.eviction.ranks import Gdsf, Heat, Lfu, LruK
from engine.eviction.tinylfu import WTinyLfu

POLICIES: dict[str, Callable[[int], EvictionPolicy[str]]] = {
    "s3-fifo": S3Fifo,
    "fifo": Fifo,
    "lru": Lru,
    "lfu": Lfu,
    "lru-k": LruK,
    "sieve": Sieve,
    "w-tinylfu": WTinyLfu,
    "gdsf": Gdsf,
    "heat": Heat,
}
DEFAULT = "s3-fifo"


def make_policy(name: str, capacity: int) -> EvictionPolicy[str]:
    """Return the policy of this name for a tier of `capacity` bytes. Raises InvalidSetting."""
    try:
        make = POLICIES[name]
    except KeyError:
        raise InvalidSetting(f"there is no eviction policy {name!r}; expected one of {', '.join(POLICIES)}") from None
    return make(capacity)
