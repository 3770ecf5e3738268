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
    steps = 0
    while max(_width(positive, steps), _width(negative, steps)) > MAX_BUCKETS:
        steps += 1
    return (scale - steps, _joined(positive, steps), _joined(negative, steps)) if steps else (scale, positive, negative)


def _width(buckets: Buckets, steps: int) -> int:
    """Return how many buckets are left after so many steps."""
    offset, counts = buckets
    return ((offset + len(counts) - 1) >> steps) - (offset >> steps) + 1 if counts else 0


def _joined(buckets: Buckets, steps: int) -> Buckets:
    offset, counts = buckets
    first = offset >> steps
    joined = [0] * _width(buckets, steps)
    for index, count in enumerate(counts, start=offset):
        joined[(index >> steps) - first] += count
    return first, joined


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
