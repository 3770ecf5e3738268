"""A recorded stream replayed through an eviction policy: what would have hit, at a capacity and a lifetime."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from app.analysis import frequencies, queues
from app.analysis.compiled import Flags, Floats, Ints

Policy = Literal["fifo", "lru", "lfu", "sieve", "s3fifo", "wtinylfu", "gdsf"]
POLICIES: Final[tuple[Policy, ...]] = get_args(Policy)
NO_LIMIT: Final = -1  # as a ttl_ms: entries never expire


@dataclass(frozen=True, slots=True)
class Stream:
    """Requests in order of time.

    ids: (n,) which of the m keys, 0…m-1. times: (n,) ms, never falling. sizes: (m,) of a key's entry, >= 1, in bytes or in entries.
    """

    ids: Ints
    times: Ints
    sizes: Ints

    @property
    def n(self) -> int:
        return int(self.ids.size)

    @property
    def keys(self) -> int:
        return int(self.sizes.size)


def stream(keys: Sequence[str] | ArrayLike, *, times: ArrayLike | None = None, sizes: ArrayLike | None = None) -> Stream:
    """Return the stream of these requests.

    keys: (n,) of any sortable kind. times: (n,) ms; a clock that steps back is held at its latest time; None = one request a ms.
    sizes: (m,) by sorted distinct key, or None = one entry each. Raises ValueError when shapes differ or a size is below 1.
    """
    distinct, ids = np.unique(np.asarray(keys), return_inverse=True)
    n = ids.size
    at = np.arange(n, dtype=np.int64) if times is None else np.maximum.accumulate(np.asarray(times, dtype=np.int64))
    size = np.ones(distinct.size, np.int64) if sizes is None else np.asarray(sizes, dtype=np.int64)
    if at.shape != (n,) or size.shape != distinct.shape:
        raise ValueError(f"expected {n} times and {distinct.size} sizes, got {at.shape} and {size.shape}")
    if size.size and size.min() < 1:
        raise ValueError(f"a size of {size.min()} takes no space: expected at least 1")
    return Stream(ids.astype(np.int64).ravel(), at, size)


def replay(policy: Policy, requests: Stream, capacity: int, *, ttl_ms: int = NO_LIMIT, costs: Floats | None = None) -> Flags:
    """Return (n,) flags: this request was a hit. The cache begins empty; each miss stores its key, unless it is larger than the cache.

    capacity: in the unit of sizes, >= 0. ttl_ms: an entry's longest age since its store. costs: (m,) what a hit on each key saves,
    >= 0, for GDSF alone; None = all equal.
    """
    if capacity < 0:
        raise ValueError(f"a capacity of {capacity} is none: expected 0 or more")
    ids, sizes, times = requests.ids, requests.sizes, requests.times
    match policy:
        case "fifo" | "lru":
            return queues.recency(ids, sizes, times, ttl_ms, capacity, policy == "lru")
        case "sieve":
            return queues.sieve(ids, sizes, times, ttl_ms, capacity)
        case "s3fifo":
            return queues.s3fifo(ids, sizes, times, ttl_ms, capacity)
        case "lfu":
            return frequencies.ranked(ids, sizes, times, ttl_ms, capacity, np.ones(sizes.size), False)
        case "gdsf":
            worth = (np.ones(sizes.size) if costs is None else _scaled(costs)) / sizes
            return frequencies.ranked(ids, sizes, times, ttl_ms, capacity, worth, True)
        case "wtinylfu":
            return frequencies.tinylfu(ids, sizes, times, ttl_ms, capacity)


def _scaled(costs: Floats) -> Floats:
    """Return costs of mean 1, none below a thousandth: an entry that saves nothing is still better than no entry."""
    mean = float(costs.mean()) if costs.size else 0.0
    return np.maximum(costs / mean, 1e-3) if mean > 0 else np.ones(costs.size)
