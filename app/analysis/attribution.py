"""Why a hit rate changed between two windows: which lookups, by their share of the traffic or by their own hit rate.

Everything works on cells: lookups that are equal in every dimension (namespace, tenant, model, …), counted in both windows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_VALUES = 40  # values of a dimension that are looked at one by one; the rarest are put together
OTHER = "\x00other"  # the name of what was put together
MIN_LOOKUPS = 30  # of both windows together: below it a segment is too small to name
_DEPTH = 3  # dimensions of a combination, at most
_AS_WELL = 0.8  # a segment that fits nearly as well as the first may be the true one, and is shown
_LOG_CHI2 = 3.841458820694124  # chi-square, one degree of freedom, 95 %


@dataclass(frozen=True, slots=True)
class Cells:
    """codes: (m, d), each column numbers into `values[d]`. hits and eligible lookups of m cells before and now, shape (m,)."""

    dimensions: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]
    codes: Ints
    hits_before: Ints
    n_before: Ints
    hits_now: Ints
    n_now: Ints

    @property
    def change_ratio(self) -> float | None:
        """The change of the total hit rate, -1…1; None when a window has no eligible lookups."""
        before, now = int(self.n_before.sum()), int(self.n_now.sum())
        return None if not before or not now else float(self.hits_now.sum() / now - self.hits_before.sum() / before)


def tabulate(
    dimensions: Sequence[str],
    before: Mapping[tuple[str, ...], tuple[int, int]],
    now: Mapping[tuple[str, ...], tuple[int, int]],
    *,
    most: int = MOST_VALUES,
) -> Cells:
    """Return cells from (hits, eligible) by values, in the order of `dimensions`. Rare values become one, named OTHER."""
    keys = [*before, *(key for key in now if key not in before)]
    nothing = (0, 0)
    sides = [np.array([side.get(key, nothing) for key in keys], dtype=np.int64).reshape(len(keys), 2) for side in (before, now)]
    names = [sorted(set(column)) for column in zip(*keys, strict=True)] or [[] for _ in dimensions]
    columns = [_numbers(column, known) for column, known in zip(zip(*keys, strict=True), names, strict=True)] if keys else []
    order = np.lexsort(columns[::-1]) if columns else np.zeros(0, dtype=np.int64)  # cells in the order of their values
    counts = np.concatenate(sides, axis=1)[order]
    values: list[tuple[str, ...]] = []
    for place, known in enumerate(names):
        shown = known
        if keys:
            columns[place] = columns[place][order]
        if len(known) > most:
            weight = np.bincount(columns[place], weights=counts[:, 1] + counts[:, 3], minlength=len(known))
            kept = np.sort(np.argsort(-weight, kind="stable")[: most - 1])
            renumbered = np.full(len(known), most - 1, dtype=np.int64)
            renumbered[kept] = np.arange(most - 1)
            columns[place] = renumbered[columns[place]]
            shown = [*(known[at] for at in kept), OTHER]
        values.append(tuple(shown))
    codes = np.stack(columns, axis=1) if columns else np.zeros((0, len(dimensions)), dtype=np.int64)
    return Cells(tuple(dimensions), tuple(values), codes, counts[:, 0], counts[:, 1], counts[:, 2], counts[:, 3])


def _numbers(column: Sequence[str], names: Sequence[str]) -> Ints:
    """Return each value's place among the names."""
    place = {name: at for at, name in enumerate(names)}
    return np.fromiter(map(place.__getitem__, column), dtype=np.int64, count=len(column))


@dataclass(frozen=True, slots=True)
class Segment:
    """Lookups with these values, and their part in the change of the total hit rate (-1…1).

    literals: dimension -> value. kind: what explains it best: rate | mix | new | vanished. mix_ratio: what the change of its share
    of the traffic did. rate_ratio: what the change of its own hit rate did, lookup for like lookup. score: how well "only this
    changed" fits, times the explained share; for ranking alone.
    """

    literals: tuple[tuple[str, str], ...]
    kind: str
    hits_before: int
    n_before: int
    hits_now: int
    n_now: int
    mix_ratio: float
    rate_ratio: float
    score: float

    @property
    def effect_ratio(self) -> float:
        """The part that its kind names."""
        return self.rate_ratio if self.kind == "rate" else self.mix_ratio


def explain(cells: Cells, *, order: int = _DEPTH, most: int = 10) -> list[Segment]:
    """Return the segments that explain the change best, the best first: single values and combinations of up to `order`.

    After the first come those that fit nearly as well, and those that still stand out when the lookups of all before them are
    left out. For each segment two questions are asked: is its share of the traffic another one (a G-test of two windows), and is
    its hit rate another one, lookup for like lookup (the Cochran-Mantel-Haenszel test over its cells)? "Only this segment changed"
    fits best where the test is largest: in a wider segment the same difference is spread over more lookups, in a narrower one a
    part of it is missing. A test counts in proportion to the share of the total change that it explains, less what so many
    questions find by chance.
    Empty when a window has no eligible lookups or the total did not change.
    """
    change = cells.change_ratio
    if not change:
        return []
    found: list[Segment] = []
    asked = 0
    for size in range(1, min(order, len(cells.dimensions)) + 1):
        for places in combinations(range(len(cells.dimensions)), size):
            sums = _sums(cells, places)
            asked += len(sums.n_now)
            found += _judged(cells, places, sums, change)
    threshold = _LOG_CHI2 + 2 * float(np.log(max(1, asked)))
    ranked = sorted((one for one in found if one.score > threshold), key=_order)
    return _distinct(cells, ranked, most, change, threshold)


def _order(one: Segment) -> tuple[object, ...]:
    """Best first. Of a segment and all the rest, which fit equally well, the one that changed more by its own measure comes first."""
    growth = abs(math.log((one.n_now + 0.5) / (one.n_before + 0.5)))
    return -float(f"{one.score:.9g}"), len(one.literals), -growth, one.literals


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums over the segments of some dimensions. codes: (s, size). excess, weight, variance: of the Mantel-Haenszel test."""

    codes: Ints
    hits_before: Floats
    n_before: Floats
    hits_now: Floats
    n_now: Floats
    excess: Floats
    weight: Floats
    variance: Floats


def _sums(cells: Cells, places: Sequence[int]) -> _Sums:
    number = np.zeros(len(cells.codes), dtype=np.int64)
    for place in places:
        number = number * len(cells.values[place]) + cells.codes[:, place]
    kinds, first, inverse = np.unique(number, return_index=True, return_inverse=True)
    n0, n1 = cells.n_before.astype(np.float64), cells.n_now.astype(np.float64)
    k0, k1 = cells.hits_before.astype(np.float64), cells.hits_now.astype(np.float64)
    n, k = n0 + n1, k0 + k1
    both = np.maximum(n, 1)
    excess, weight = (k1 * n0 - k0 * n1) / both, n0 * n1 / both
    variance = n0 * n1 * k * (n - k) / (both * both * np.maximum(n - 1, 1))
    summed = [_binned(inverse, part, len(kinds)) for part in (k0, n0, k1, n1, excess, weight, variance)]
    return _Sums(cells.codes[first][:, list(places)], *summed)


def _binned(codes: Ints, weights: Ints | Floats, size: int) -> Floats:
    return np.asarray(np.bincount(codes, weights=weights, minlength=size), dtype=np.float64)


def _judged(cells: Cells, places: Sequence[int], sums: _Sums, change: float) -> Iterator[Segment]:
    """Yield the segments that could explain something, with their better question."""
    total_before, total_now = float(cells.n_before.sum()), float(cells.n_now.sum())
    hits_before, hits_now = float(cells.hits_before.sum()), float(cells.hits_now.sum())
    share_before, share_now = sums.n_before / total_before, sums.n_now / total_now
    rate_before, rate_now = _rates(sums.hits_before, sums.n_before, sums.hits_now, sums.n_now)
    rest_before, rest_now = _rates(
        hits_before - sums.hits_before, total_before - sums.n_before, hits_now - sums.hits_now, total_now - sums.n_now
    )
    mix = (share_now - share_before) * ((rate_before + rate_now) / 2 - (rest_before + rest_now) / 2)
    rate = sums.excess / np.maximum(sums.weight, 1e-12) * (share_before + share_now) / 2
    whole = (sums.n_before == total_before) & (sums.n_now == total_now)
    mix_score = np.where(whole, 0.0, _g_test(sums.n_before, total_before, sums.n_now, total_now)) * np.clip(mix / change, 0, 1)
    rate_score = np.where(whole, 0.0, sums.excess**2 / np.maximum(sums.variance, 1e-12)) * np.clip(rate / change, 0, 1)
    for at in np.flatnonzero((sums.n_before + sums.n_now >= MIN_LOOKUPS) & (np.maximum(mix_score, rate_score) > _LOG_CHI2)):
        literals = tuple((cells.dimensions[place], cells.values[place][code]) for place, code in zip(places, sums.codes[at], strict=True))
        if any(value == OTHER for _, value in literals):
            continue
        kind = (
            "rate" if rate_score[at] >= mix_score[at] else "new" if not sums.n_before[at] else "vanished" if not sums.n_now[at] else "mix"
        )
        yield Segment(
            literals,
            kind,
            int(sums.hits_before[at]),
            int(sums.n_before[at]),
            int(sums.hits_now[at]),
            int(sums.n_now[at]),
            float(mix[at]),
            float(rate[at]),
            float(max(mix_score[at], rate_score[at])),
        )


def _rates(hits_before: Floats, n_before: Floats, hits_now: Floats, n_now: Floats) -> tuple[Floats, Floats]:
    """Return both windows' hit rates; where a window has no lookups, the other one's: its own rate cannot have changed."""
    before, now = hits_before / np.maximum(n_before, 1), hits_now / np.maximum(n_now, 1)
    return np.where(n_before > 0, before, now), np.where(n_now > 0, now, before)


def _g_test(n_before: Floats, total_before: float, n_now: Floats, total_now: float) -> Floats:
    """Return the log-likelihood ratio statistic of "the segment has the same share in both windows"."""
    total = total_before + total_now
    found = np.zeros_like(n_before)
    for inside, whole in ((n_before, total_before), (n_now, total_now)):
        for seen, expected in (
            (inside, (n_before + n_now) * whole / total),
            (whole - inside, (total - n_before - n_now) * whole / total),
        ):
            found += 2 * np.where(seen > 0, seen * np.log(np.maximum(seen, 1e-12) / np.maximum(expected, 1e-12)), 0.0)
    return found


def _distinct(cells: Cells, ranked: Sequence[Segment], most: int, change: float, threshold: float) -> list[Segment]:
    """Return the first `most`, less those that are but a shadow of one before them: which share lookups with it, and little else."""
    kept: list[Segment] = []
    held: list[NDArray[np.bool_]] = []
    rest = np.ones(len(cells.codes), dtype=bool)
    for one in ranked:
        mine = _holds(cells, one)
        as_well = bool(kept) and one.score >= _AS_WELL * kept[0].score
        if any(np.array_equal(mine, other) or np.array_equal(~mine, other) for other in held):
            continue
        if not kept or as_well or _still(cells, mine, rest, change) > threshold:
            kept.append(one)
            held.append(mine)
            rest &= ~mine
        if len(kept) == most:
            break
    return kept


def _holds(cells: Cells, one: Segment) -> NDArray[np.bool_]:
    inside = np.ones(len(cells.codes), dtype=bool)
    for dimension, value in one.literals:
        place = cells.dimensions.index(dimension)
        inside &= cells.codes[:, place] == cells.values[place].index(value)
    return inside


def _still(cells: Cells, mine: NDArray[np.bool_], rest: NDArray[np.bool_], change: float) -> float:
    """Return a segment's score among the lookups of `rest` alone."""
    left = Cells(
        ("inside",),
        (("", "x"),),
        mine[rest].astype(np.int64)[:, None],
        cells.hits_before[rest],
        cells.n_before[rest],
        cells.hits_now[rest],
        cells.n_now[rest],
    )
    if not left.n_before.sum() or not left.n_now.sum():
        return 0.0
    return max((one.score for one in _judged(left, (0,), _sums(left, (0,)), change) if one.literals == (("inside", "x"),)), default=0.0)


@dataclass(frozen=True, slots=True)
class Part:
    """A value of one dimension, and its part in the change: symmetric Kitagawa, which sums to the change over the dimension."""

    value: str
    hits_before: int
    n_before: int
    hits_now: int
    n_now: int
    mix_ratio: float
    rate_ratio: float
    explained_ratio: float
    surprise_bits: float

    @property
    def effect_ratio(self) -> float:
        return self.mix_ratio + self.rate_ratio


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension as an explanation. parts: every value, largest effect first. blamed: the values that explain most of the change.

    explained_ratio: their sum, of 1. surprise_bits: how unexpected their change is (Jensen-Shannon).
    """

    name: str
    parts: tuple[Part, ...]
    blamed: tuple[str, ...]
    explained_ratio: float
    surprise_bits: float


_EACH, _TOGETHER = 0.10, 0.67  # least explanatory power of one value, and of a set: Adtributor's T_EEP and T_EP


def by_dimension(cells: Cells) -> list[Dimension]:
    """Return the dimensions, the most surprising explanation first (Adtributor), each split by the Kitagawa decomposition.

    Sources: Kitagawa, J. Am. Stat. Assoc. 50, 1955; Bhagwan et al., "Adtributor", NSDI 2014, with the derived measure's formula.
    """
    if not cells.change_ratio:
        return []
    found = [_dimension(cells, place) for place in range(len(cells.dimensions))]
    return sorted(found, key=lambda one: (not one.blamed, -one.surprise_bits, one.name))


def _dimension(cells: Cells, place: int) -> Dimension:
    size = len(cells.values[place])
    k0, n0, k1, n1 = (
        _binned(cells.codes[:, place], part, size) for part in (cells.hits_before, cells.n_before, cells.hits_now, cells.n_now)
    )
    mix, rate = kitagawa(k0, n0, k1, n1)
    explained, surprise = _powers(k0, n0, k1, n1), _surprise(k0, n0, k1, n1)
    blamed, total = [], 0.0
    for at in np.argsort(-surprise, kind="stable"):
        if explained[at] > _EACH:
            blamed.append(int(at))
            total += float(explained[at])
        if total > _TOGETHER:
            break
    if total <= _TOGETHER:
        blamed = []
    parts = [
        Part(
            cells.values[place][at],
            int(k0[at]),
            int(n0[at]),
            int(k1[at]),
            int(n1[at]),
            float(mix[at]),
            float(rate[at]),
            float(explained[at]),
            float(surprise[at]),
        )
        for at in range(size)
    ]
    return Dimension(
        cells.dimensions[place],
        tuple(sorted(parts, key=lambda part: -abs(part.effect_ratio))),
        tuple(cells.values[place][at] for at in blamed),
        float(explained[blamed].sum()) if blamed else 0.0,
        float(surprise[blamed].sum()) if blamed else 0.0,
    )


def kitagawa(hits_before: Floats, n_before: Floats, hits_now: Floats, n_now: Floats) -> tuple[Floats, Floats]:
    """Return each segment's mix and rate part of the change of the total, shape (s,); together they sum to the change.

    mix = dw (mean r - mean R), rate = dr mean w. A segment of one window only has a mix part alone.
    Raises ValueError when a window is empty.
    """
    total_before, total_now = float(n_before.sum()), float(n_now.sum())
    if not total_before or not total_now:
        raise ValueError("a window without eligible lookups has no hit rate to decompose")
    r0, r1 = _rates(hits_before, n_before, hits_now, n_now)
    w0, w1 = n_before / total_before, n_now / total_now
    middle = (hits_before.sum() / total_before + hits_now.sum() / total_now) / 2
    return (w1 - w0) * ((r0 + r1) / 2 - middle), (r1 - r0) * (w0 + w1) / 2


def _powers(k0: Floats, n0: Floats, k1: Floats, n1: Floats) -> Floats:
    """Return each value's explanatory power: what undoing its change alone would do to the ratio, scaled to sum to 1.

    The window before, scaled to the lookups of now, is the forecast F; A is what came.
    """
    scale = n1.sum() / n0.sum()
    f1, f2 = k0 * scale, n0 * scale
    whole = f2.sum()
    power = ((k1 - f1) * whole - (n1 - f2) * f1.sum()) / (whole * np.maximum(whole + n1 - f2, 1e-12))
    total = power.sum()
    return np.asarray(power / total if abs(total) > 1e-15 else np.zeros_like(power))


def _surprise(k0: Floats, n0: Floats, k1: Floats, n1: Floats) -> Floats:
    """Return each value's part of the Jensen-Shannon divergence between the windows, bits, summed over hits and lookups."""
    total = np.zeros_like(n0)
    for before, now in ((k0, k1), (n0, n1)):
        if before.sum() and now.sum():
            p, q = before / before.sum(), now / now.sum()
            middle = np.maximum((p + q) / 2, 1e-300)
            for side in (p, q):
                total += np.where(side > 0, side * np.log2(np.maximum(side, 1e-300) / middle), 0.0) / 2
    return total
