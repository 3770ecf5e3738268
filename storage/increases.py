"""How much a cumulative counter grew, reading by reading. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

# Start times are told in whole seconds by some, and as "now less the uptime" by others: two tellings of one start differ by up to this.
_SAME_START_MS: Final = 1_500


class Step(NamedTuple):
    """From one reading of a series to the next."""

    increase: float
    reset: bool = False
    anomaly: bool = False


def step(before: float, before_start_ms: int | None, after: float, after_start_ms: int | None, *, folded: bool = False) -> Step:
    """Return what a counter grew by between two readings; never negative.

    A later start means a restart, even when the value is not lower: the whole new value was counted since. A lower value without a
    known start is taken for a restart. A lower value with an unchanged start is an anomaly: how much was counted cannot be told, so
    nothing is, and counting goes on from the new value. So it is with an overflow series (folded), whose members come and go.
    """
    if not folded and before_start_ms is not None and after_start_ms is not None:
        if after_start_ms > before_start_ms + _SAME_START_MS:
            return Step(after, reset=True)
        if after < before:
            return Step(0.0, anomaly=True)
    if after < before:
        return Step(0.0, anomaly=True) if folded else Step(after, reset=True)
    return Step(after - before)


def first(value: float, start_ms: int | None, *, from_ms: int | None, complete: bool) -> float:
    """Return how much of a series' first value counts: all of it or nothing.

    It counts when the series is known to have begun at 0 after from_ms, the last good look at its source: its start says so, or
    that look was complete and did not show the series. Otherwise it may have been counted long ago.
    """
    if from_ms is None:
        return 0.0
    born = complete if start_ms is None else start_ms > from_ms
    return value if born else 0.0
