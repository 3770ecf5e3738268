"""A fall of the hit rate before the time shown, which both compared windows may lie after: "as before" is true of them then."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from app.analysis.hit_rate import Counts
from app.analysis.intervals import Difference, Ratio, widened
from app.views import rates, why, words
from storage.reads import hit_rate
from storage.reads.window import HOUR_MS, Scope, Window, coarse

_DAY_MS, _DAY_BLOCKS = 24 * HOUR_MS, 144  # ten minutes each: few rows, and the time of a fall is told as closely
_LEAST = 0.05  # of a rate: smaller falls come with the time of day


@dataclass(frozen=True, slots=True)
class Fall:
    """The hit rate fell at `at_ms`, to ten minutes, from `before_ratio` to `after_ratio` (0…1)."""

    at_ms: int
    before_ratio: float
    after_ratio: float

    @property
    def ratio(self) -> float:
        return self.before_ratio - self.after_ratio

    def nearer_after(self, ratio: float) -> bool:
        return abs(ratio - self.after_ratio) < abs(ratio - self.before_ratio)


def last(conn: Connection, window: Window, scope: Scope) -> Fall | None:
    """Return the last change of the day that ends with this window, when it was a fall of five points or more before the window.

    None where the rate was as low a day before the window, too: it swings by the time of day, and nothing fell.
    """
    if window.length_ms * 2 > _DAY_MS:
        return None
    day = Window(window.end_ms - _DAY_MS, window.end_ms)
    step = coarse(day, _DAY_BLOCKS)
    rows = hit_rate.series(conn, day, scope, step_ms=step)
    found = None if why.counted(conn, day, scope, rows).skewed else why.cut_of(rows, day, step)
    if found is None or found[0] + step > window.start_ms:
        return None
    fall = Fall(found[0], found[1].before_ratio, found[1].now_ratio)
    if fall.ratio < _LEAST:
        return None
    same = window.shifted(_DAY_MS)
    then = why.counted(conn, same, scope, hit_rate.totals(conn, same, scope))
    usual = then.hit_rate if then.eligible >= rates.FEW else None
    return None if usual and fall.nearer_after(usual.ratio) else fall


def stayed(fall: Fall, counts: Counts, received: Ratio | None, change: Difference | None) -> bool:
    """Say whether the window's own rate is still that of after the fall: enough lookups, none as high as before, and no rise since.

    received: the rate over the window's batches of time. change: against the window compared with.
    """
    share = widened(counts.hit_rate, received.design if received else None)
    if share is None or counts.eligible < rates.FEW or (change is not None and change.low_ratio > 0):
        return False
    return share.high_ratio < fall.before_ratio and fall.nearer_after(share.ratio)


def told(fall: Fall) -> str:
    """Return `It fell 30.0 points at about 14:00 UTC and has stayed there`."""
    return f"It fell {fall.ratio * 100:.1f} points at about {words.instant(fall.at_ms)[11:16]} UTC and has stayed there"
