"""How much a cumulative counter grew, reading by reading. Pure."""

from __future__ import annotations

from typing import Final, NamedTuple

# Start times are told in whole seconds by some, and as "now less the uptime" by others: two tellings of one start differ by up to this.
SAME_START_MS: Final = 1_500
# In a series' place for its last total: none is known, for its sender tells of increases.
BY_INCREASES: Final = -1.0
# How far the clocks of a source and of this machine may differ before a restart is doubted.
_SKEW_MS: Final = 60_000


class Step(NamedTuple):
    """From one reading of a series to the next. anomaly: the value contradicts what is known of its start, and nothing is counted."""

    increase: float
    reset: bool = False
    anomaly: bool = False


def step(
    before: float,
    before_start_ms: int | None,
    after: float,
    after_start_ms: int | None,
    *,
    before_at_ms: int | None = None,
    folded: bool = False,
) -> Step:
    """Return what a counter grew by between two readings; never negative.

    A later start means a restart, even when the value is not lower: the whole new value was counted since. A lower value without a
    known start is taken for a restart.

    An anomaly: a lower value with an unchanged start; another start that is earlier, or that lies before the last reading
    (before_at_ms), at which the old process was still alive. Then a different process answered, as behind a load balancer. How much
    was counted cannot be told, so nothing is, and counting goes on from the new value. A fall of an overflow series (folded), whose
    members come and go, is one too.
    """
    if not folded and before_start_ms is not None and after_start_ms is not None:
        later_ms = after_start_ms - before_start_ms
        if abs(later_ms) > SAME_START_MS:
            doubted = later_ms < 0 or (before_at_ms is not None and after_start_ms < before_at_ms - _SKEW_MS)
            return Step(0.0, anomaly=True) if doubted else Step(after, reset=True)
        if after < before:
            return Step(0.0, anomaly=True)
    if after < before:
        return Step(0.0, anomaly=True) if folded else Step(after, reset=True)
    return Step(after - before)


def first(value: float, start_ms: int | None, *, created: bool, from_ms: int | None, complete: bool) -> float:
    """Return how much of a series' first value counts: all of it or nothing.

    It counts when the series is known to have begun at 0 after from_ms, the last good look at its source: its start says so, or
    that look was complete and did not show the series. An earlier creation time of the series itself (created) belies the latter.
    Otherwise it may have been counted long ago.
    """
    if from_ms is None:
        return 0.0
    if start_ms is not None and start_ms > from_ms:
        return value
    return value if complete and not (created and start_ms is not None) else 0.0
