"""Which way a cache's score points: inferred from what it served, never assumed."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

HIGHER, LOWER, UNKNOWN = "higher", "lower", "unknown"
_ENOUGH = 0.9  # of the evidence must point one way: a few odd rows come of a threshold that was moved meanwhile


@dataclass(frozen=True, slots=True)
class Polarity:
    """direction: HIGHER (is closer), LOWER (is closer) or UNKNOWN. agreeing, of: pairs or rows that say so."""

    direction: str
    agreeing: int
    of: int


def infer(rows: Sequence[tuple[float, float | None, bool]]) -> Polarity:
    """Return the direction that (score, threshold, served) rows show.

    Where a threshold is told, a served row on one side of it, or an unserved one on the other, is evidence by itself. Where none is
    told, served scores are compared with unserved ones, pair by pair. A row at its threshold says nothing.
    """
    up = down = 0
    for score, threshold, served in rows:
        if threshold is not None and score != threshold:
            if (score > threshold) == served:
                up += 1
            else:
                down += 1
    if up + down == 0:
        up, down = _by_pairs(rows)
    of = up + down
    if of == 0:
        return Polarity(UNKNOWN, 0, 0)
    if max(up, down) < _ENOUGH * of:
        return Polarity(UNKNOWN, max(up, down), of)
    return Polarity(HIGHER if up > down else LOWER, max(up, down), of)


def _by_pairs(rows: Sequence[tuple[float, float | None, bool]]) -> tuple[int, int]:
    """Count pairs of a served and an unserved score by which is higher. O(n log n): each served score's rank among the others."""
    others = sorted(score for score, _, served in rows if not served)
    up = down = 0
    for score, _, served in rows:
        if served:
            up += bisect_left(others, score)
            down += len(others) - bisect_right(others, score)
    return up, down
