"""A mergeable sketch of quantiles with logarithmic buckets: the same values give the same bytes, in any order and any split.

After Masson, Rim and Lee, "DDSketch: a fast and fully-mergeable quantile sketch with relative-error guarantees" (VLDB 2019),
sections 2.1 and 2.3: bucket i holds the values in (gamma^(i-1), gamma^i] with gamma = (1 + a) / (1 - a).
"""

from __future__ import annotations

import math
import struct
import sys
from array import array
from bisect import bisect_left
from typing import Final

ACCURACY_RATIO: Final = 0.01
BUCKETS: Final = 2048  # gamma^2048 = 6e17: a microsecond and nineteen thousand years fit side by side, so collapsing is the exception
SMALLEST: Final = 1e-9  # below it a value counts as zero; the logarithm needs a positive number

_GAMMA: Final = (1 + ACCURACY_RATIO) / (1 - ACCURACY_RATIO)
_PER_BUCKET: Final = 1 / math.log(_GAMMA)
_HEADER: Final = struct.Struct("<BBQiH")  # version, count code, zeros, lowest index, buckets
_ONE: Final = struct.Struct("<BBQiHHB")  # the header, and a single bucket with its count in a byte
_VERSION: Final = 1
_WIDTHS: Final = (("B", 1 << 8), ("H", 1 << 16), ("I", 1 << 32), ("Q", 1 << 64))
HEADER_BYTES: Final = _HEADER.size
WIDTHS_BYTES: Final = tuple(struct.calcsize(f"<{letter}") for letter, _ in _WIDTHS)  # of a count, by its code


class Sketch:
    """Counts of values by logarithmic bucket. Quantiles are within 1 % of the true value.

    Only the highest 2,048 buckets are kept; what lies lower counts in the lowest of them, and is reported too high. Which bucket
    that is depends on the highest value alone, so the order of `add` and `merge` cannot matter.
    """

    __slots__ = ("_buckets", "zeros")

    def __init__(self) -> None:
        self.zeros = 0
        self._buckets: dict[int, int] = {}

    @classmethod
    def of(cls, zeros: int, buckets: dict[int, int]) -> Sketch:
        """Return a sketch of these counts by bucket; the dictionary is its own from now on."""
        sketch = cls()
        sketch.zeros, sketch._buckets = zeros, buckets
        sketch._collapse()
        return sketch

    def add(self, value: float, count: int = 1) -> None:
        """Count a value. Zero and negative values go to the zero bucket. Raises ValueError for NaN and infinity."""
        if value < SMALLEST:
            if value == -math.inf:
                raise ValueError("a sketch takes finite values, not -inf")
            self.zeros += count
            return
        if not value < math.inf:
            raise ValueError(f"a sketch takes finite values, not {value}")
        index = math.ceil(math.log(value) * _PER_BUCKET)
        buckets = self._buckets
        buckets[index] = buckets.get(index, 0) + count
        if len(buckets) > BUCKETS:
            self._collapse()

    def merge(self, other: Sketch) -> None:
        """Add all that the other one counted."""
        self.zeros += other.zeros
        buckets = self._buckets
        for index, count in other._buckets.items():
            buckets[index] = buckets.get(index, 0) + count
        if len(buckets) > BUCKETS:
            self._collapse()

    def merge_bytes(self, data: bytes) -> None:
        """Add all that `to_bytes` of another one wrote. Raises ValueError when it did not write this."""
        zeros, lowest, numbers = _unpacked(data)
        self.zeros += zeros
        buckets = self._buckets
        size = len(numbers) // 2
        for offset, count in zip(numbers[:size], numbers[size:], strict=True):
            index = lowest + offset
            buckets[index] = buckets.get(index, 0) + count
        if len(buckets) > BUCKETS:
            self._collapse()

    def take_away(self, other: Sketch) -> None:
        """Remove what the other one counted, all of which was added here before. Raises ValueError when it was not."""
        buckets = self._buckets
        lowest = min(buckets, default=0)
        for index, count in other._buckets.items():
            place = max(index, lowest)  # what was collapsed counts in the lowest
            left = buckets.get(place, 0) - count
            if left < 0:
                raise ValueError(f"bucket {place} holds {left + count}, so {count} cannot be taken away")
            if left:
                buckets[place] = left
            else:
                buckets.pop(place, None)
        if other.zeros > self.zeros:
            raise ValueError(f"there are {self.zeros} zeros, so {other.zeros} cannot be taken away")
        self.zeros -= other.zeros

    @property
    def count(self) -> int:
        return self.zeros + sum(self._buckets.values())

    def quantile(self, q: float) -> float | None:
        """Return the value of rank floor(q * (n - 1)), q in 0…1; None when nothing was counted."""
        if not 0 <= q <= 1:
            raise ValueError(f"a quantile is between 0 and 1, not {q}")
        count = self.count
        if not count:
            return None
        self._collapse()
        rank = math.floor(q * (count - 1))
        below = self.zeros
        if rank < below:
            return 0.0
        indices = sorted(self._buckets)
        index = next(index for index in indices if (below := below + self._buckets[index]) > rank)
        return 2 * math.exp(index / _PER_BUCKET) / (_GAMMA + 1)  # the value whose relative distance to both ends is the same

    def to_bytes(self) -> bytes:
        """Return a compact form; b"" when nothing was counted."""
        if len(self._buckets) == 1:  # most of ten seconds' rows
            ((index, number),) = self._buckets.items()
            if number < 256:
                return _ONE.pack(_VERSION, 0, self.zeros, index, 1, 0, number)
        self._collapse()
        indices = sorted(self._buckets)
        if not indices and not self.zeros:
            return b""
        counts = [self._buckets[index] for index in indices]
        highest = max(counts, default=0)
        code = next(number for number, (_, limit) in enumerate(_WIDTHS) if highest < limit)
        lowest = indices[0] if indices else 0
        size = len(indices)
        header = _HEADER.pack(_VERSION, code, self.zeros, lowest, size)
        return header + struct.pack(f"<{size}H{size}{_WIDTHS[code][0]}", *[index - lowest for index in indices], *counts)

    @classmethod
    def from_bytes(cls, data: bytes) -> Sketch:
        """Return the sketch that `to_bytes` wrote. Raises ValueError when it did not write this."""
        sketch = cls()
        sketch.merge_bytes(data)
        return sketch

    def _collapse(self) -> None:
        buckets = self._buckets
        if not buckets:
            return
        floor = max(buckets) - BUCKETS + 1
        if min(buckets) >= floor:
            return
        low = [index for index in buckets if index < floor]
        buckets[floor] = buckets.get(floor, 0) + sum(buckets.pop(index) for index in low)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sketch) and self.to_bytes() == other.to_bytes()

    __hash__ = None  # type: ignore[assignment]  # it changes

    def __repr__(self) -> str:
        return f"Sketch(count={self.count}, p50={self.quantile(0.5)})"


def _unpacked(data: bytes) -> tuple[int, int, tuple[int, ...]]:
    """Return zeros, lowest index, and the offsets followed by their counts."""
    if not data:
        return 0, 0, ()
    try:
        version, code, zeros, lowest, size = _HEADER.unpack_from(data)
        if version != _VERSION or code >= len(_WIDTHS):
            raise ValueError(f"a sketch of version {version}, code {code} is not known; this program reads version {_VERSION}")
        layout = f"<{size}H{size}{_WIDTHS[code][0]}"
        if len(data) != _HEADER.size + struct.calcsize(layout):
            raise ValueError(f"a sketch of {size} buckets has {_HEADER.size + struct.calcsize(layout)} bytes, not {len(data)}")
        return zeros, lowest, struct.unpack_from(layout, data, _HEADER.size)
    except struct.error as error:
        raise ValueError(f"these {len(data)} bytes are no sketch") from error


def merge_bytes(first: bytes, second: bytes) -> bytes:
    """Return the bytes of both sketches' union."""
    if not first:
        return second
    if not second:
        return first
    merged = _merge_in_place(first, second)
    if merged is None:
        sketch = Sketch.from_bytes(first)
        sketch.merge(Sketch.from_bytes(second))
        merged = sketch.to_bytes()
    return merged


def _merge_in_place(first: bytes, second: bytes) -> bytes | None:
    """Merge a few buckets into many without unpacking the many: a minute's row takes a batch's handful some hundred times.

    None where the layout would change: another lowest bucket, too wide a range, counts that need more bytes.
    """
    version, code, zeros, lowest, size = _HEADER.unpack_from(first)
    if sys.byteorder != "little" or version != _VERSION or not size:
        return None
    other = Sketch.from_bytes(second)
    letter, limit = _WIDTHS[code]
    middle = _HEADER.size + 2 * size
    offsets, counts = array("H", first[_HEADER.size : middle]), array(letter, first[middle:])
    for index, count in other._buckets.items():
        offset = index - lowest
        if not 0 <= offset < BUCKETS:
            return None
        place = bisect_left(offsets, offset)
        if place < len(offsets) and offsets[place] == offset:
            count += counts[place]  # noqa: PLW2901 - the sum is what is stored
            if count >= limit:
                return None
            counts[place] = count
        elif count >= limit:
            return None
        else:
            offsets.insert(place, offset)
            counts.insert(place, count)
    header = _HEADER.pack(_VERSION, code, zeros + other.zeros, lowest, len(offsets))
    return header + offsets.tobytes() + counts.tobytes()
