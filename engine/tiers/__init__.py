"""The places where entries live: memory, the shared store (SQLite or Redis), and the vectors beside it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from engine.errors import InvalidSetting
from engine.tiers.base import Removed, StoreTier, untold

Clock = Callable[[], int]
"""Unix time in whole milliseconds."""


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


def open_store(
    url: str, *, timeout_s: float, clock: Clock = wall_clock_ms, max_bytes: int = 2**63 - 1, removed: Removed = untold
) -> StoreTier:
    """Return the shared store that the URL names.

    `sqlite:///relative.db`, `sqlite:////absolute.db`, `redis://`, `rediss://`, `unix://`, `redis+cluster://`, `rediss+cluster://`.

    max_bytes: of a SQLite file; a Redis server has a bound of its own. removed: told of what the store itself removed, by cause.
    A SQLite file is opened (and made) here; Redis is first spoken to by the first call, so that a gateway starts without it.
    Raises InvalidSetting, StoreCorrupt, and TierUnavailable when another process keeps the file locked.
    """
    scheme, separator, rest = url.partition("://")
    if separator and scheme == "sqlite":
        path = rest.removeprefix("/")
        if not rest.startswith("/") or path in {"", ":memory:"}:
            raise InvalidSetting("the cache URL must name a file, as in sqlite:///cache.db: processes share it")
        from engine.tiers.sqlite import SqliteTier  # noqa: PLC0415  each store's driver is paid for only when it is used

        return SqliteTier(Path(path), timeout_s=timeout_s, clock=clock, max_bytes=max_bytes, removed=removed)
    if separator and scheme in {"redis", "rediss", "unix"}:
        from engine.tiers.redis import RedisTier  # noqa: PLC0415  importing redis costs a tenth of a second

        return RedisTier(url, timeout_s=timeout_s, clock=clock, removed=removed)
    if separator and scheme in {"redis+cluster", "rediss+cluster"}:
        from engine.tiers.redis_cluster import RedisClusterTier  # noqa: PLC0415

        return RedisClusterTier(url, timeout_s=timeout_s, clock=clock, removed=removed)
    # Only the scheme is shown: a URL may hold a password.
    raise InvalidSetting(f"the cache URL has scheme {scheme[:20]!r}; expected sqlite:///file or redis://host:port/db")
