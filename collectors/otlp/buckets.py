"""Exponential histograms as bounds and counts below them, so that one reader reads both kinds of histogram."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

MAX_BUCKETS = 320  # twice what SDKs use; above it neighbours are joined, as an SDK does itself
_MAX_INDEX = 2**31
Buckets = tuple[int, Sequence[int]]  # offset of the first bucket's index, and the counts


class Unusable(ValueError):
    """No bounds follow from these numbers."""


def exponential_bounds(scale: int, zero_threshold: float, zero_count: int, positive: Buckets, negative: Buckets) -> list[tuple[float, int]]:
    """Return (bound, how many values are at most it), bounds strictly increasing and finite.

    Bucket i of scale s holds (base^i, base^(i+1)], base = 2^(2^-s). Only bounds beside a bucket that holds something are given: between
    others nothing is counted. At most about 1,300 bounds.
    Raises Unusable when the zero bucket reaches over others, or an index is beyond 32 bits.
    Source: OpenTelemetry metrics data model, "ExponentialHistogram".
    """
    scale, positive, negative = _coarser(scale, positive, negative)
    if not (math.isfinite(zero_threshold) and zero_threshold >= 0):
        raise Unusable
    steps: list[tuple[float, int]] = []  # (bound, values in the bucket that ends there)
    for low, high, count in reversed(list(_held(scale, negative))):
        steps += [(-high, 0), (-low, count)]
    if zero_count:
        steps += [(-zero_threshold, 0), (zero_threshold, zero_count)]
    for low, high, count in _held(scale, positive):
        steps += [(low, 0), (high, count)]
    out: list[tuple[float, int]] = []
    below = 0
    for bound, count in steps:
        below += count
        if out and bound <= out[-1][0]:
            # Joining neighbours moves a lower bound into the zero bucket; an upper one that lies there is a contradiction.
            if count and bound < out[-1][0]:
                raise Unusable
            out[-1] = (out[-1][0], below)
        elif math.isfinite(bound):
            out.append((bound, below))
    return out


def _coarser(scale: int, positive: Buckets, negative: Buckets) -> tuple[int, Buckets, Buckets]:
    """Return the same at a scale at which few enough buckets are left: two neighbours become one a step."""
    while max(len(positive[1]), len(negative[1])) > MAX_BUCKETS:
        scale, positive, negative = scale - 1, _joined(positive), _joined(negative)
    return scale, positive, negative


def _joined(buckets: Buckets) -> Buckets:
    offset, counts = buckets
    padded = [0] * (offset % 2) + list(counts)
    padded += [0] * (len(padded) % 2)
    return offset // 2, [padded[place] + padded[place + 1] for place in range(0, len(padded), 2)]


def _held(scale: int, buckets: Buckets) -> Iterator[tuple[float, float, int]]:
    """Yield the magnitudes between which each bucket that holds something lies, and its count."""
    offset, counts = buckets
    for index, count in enumerate(counts, start=offset):
        if count:
            if abs(index) >= _MAX_INDEX:
                raise Unusable
            yield _power(index, scale), _power(index + 1, scale), count


def _power(index: int, scale: int) -> float:
    """Return base^index: infinity above the largest number, 0 below the smallest."""
    try:
        return float(2.0 ** math.ldexp(index, -scale))
    except OverflowError:
        return math.inf if index > 0 else 0.0
