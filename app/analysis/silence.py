"""Times in which a sender that was busy sent nothing."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

EXPECTED = 20.0  # lookups that should have come in the gap; by chance none come with probability e^-20


@dataclass(frozen=True, slots=True)
class Silence:
    """[start_ms, end_ms) without lookups of a sender. ended: False when it lasts to the end of what was looked at."""

    start_ms: int
    end_ms: int
    ended: bool


def silences(lookups: Mapping[int, int], buckets: Sequence[int], *, step_ms: int, expected: float = EXPECTED) -> list[Silence]:
    """Return the gaps in which `expected` lookups or more should have come, at the median of the buckets that had some.

    lookups: bucket's start -> lookups. buckets: every bucket's start, in order. What lies before the first lookup is no gap: the
    sender may not have existed. Empty with fewer than five busy buckets.
    """
    busy = [lookups[at] for at in buckets if lookups.get(at)]
    if len(busy) < 5:
        return []
    usual = statistics.median(busy)
    found: list[Silence] = []
    begun: int | None = None
    seen = False
    for at in [*buckets, None]:
        empty = at is not None and not lookups.get(at)
        if at is not None and not empty:
            seen = True
        if empty and seen and begun is None:
            begun = at
        if not empty and begun is not None:
            end = at if at is not None else buckets[-1] + step_ms
            if (end - begun) / step_ms * usual >= expected:
                found.append(Silence(begun, end, at is not None))
            begun = None
    return found
