"""Many stored sketches merged at once: a page of a day reads some thousands, and one by one they are most of what it costs."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from storage.sketch import HEADER_BYTES, WIDTHS_BYTES, Sketch

Key = TypeVar("Key", bound=Hashable)
_Ints = NDArray[np.int64]
_HEADER = np.dtype([("version", "u1"), ("code", "u1"), ("zeros", "<u8"), ("lowest", "<i4"), ("size", "<u2")])
_AT_ONCE_BYTES = 1 << 20  # of sketches: their numbers take some forty times as much while they are summed
_SPAN = 1 << 32  # more than there are indices of buckets: a group's lie apart from the next one's


def merged(rows: Sequence[tuple[Key, bytes]]) -> dict[Key, Sketch]:
    """Return the union of each key's sketches, as `Sketch.merge_bytes` of one after the other makes it.

    Raises ValueError for bytes that are no sketch.
    """
    number: dict[Key, int] = {}
    groups = np.array([number.setdefault(key, len(number)) for key, _ in rows], dtype=np.int64)
    zeros = np.zeros(len(number), dtype=np.int64)
    keys, counts = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for first, last in _pieces([len(data) for _, data in rows]):
        found = _counted([data for _, data in rows[first:last]], groups[first:last], zeros)
        keys.append(found[0])
        counts.append(found[1])
    summed, totals = _summed(np.concatenate(keys), np.concatenate(counts))
    buckets: list[dict[int, int]] = [{} for _ in number]
    indices = summed % _SPAN - _SPAN // 2
    for group, index, count in zip((summed // _SPAN).tolist(), indices.tolist(), totals.tolist(), strict=True):
        buckets[group][index] = count
    return {key: Sketch.of(int(zeros[at]), buckets[at]) for key, at in number.items()}


def _pieces(lengths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield stretches of rows of at most about _AT_ONCE_BYTES."""
    first = size = 0
    for at, length in enumerate(lengths):
        size += length
        if size >= _AT_ONCE_BYTES:
            yield first, at + 1
            first, size = at + 1, 0
    if first < len(lengths):
        yield first, len(lengths)


def _counted(data: Sequence[bytes], groups: _Ints, zeros: _Ints) -> tuple[_Ints, _Ints]:
    """Return group * _SPAN + index of every bucket and its count, summed; add each sketch's zeros to its group's."""
    lengths = np.array([len(one) for one in data], dtype=np.int64)
    starts = np.cumsum(lengths) - lengths
    full = lengths >= HEADER_BYTES
    joined = np.frombuffer(b"".join(data), dtype=np.uint8)
    if not np.all(full | (lengths == 0)):
        Sketch.from_bytes(data[int(np.flatnonzero(~full & (lengths > 0))[0])])  # says what is wrong with it
    lengths, starts, groups = lengths[full], starts[full], groups[full]
    header = joined[starts[:, None] + np.arange(HEADER_BYTES)].view(_HEADER)[:, 0]
    size, code = header["size"].astype(np.int64), header["code"].astype(np.int64)
    width = np.array([*WIDTHS_BYTES, 0])[np.minimum(code, len(WIDTHS_BYTES))]
    wrong = (header["version"] != 1) | (width == 0) | (lengths != HEADER_BYTES + size * (2 + width))
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        Sketch.from_bytes(joined[starts[at] : starts[at] + lengths[at]].tobytes())
    np.add.at(zeros, groups, header["zeros"].astype(np.int64))
    lowest = header["lowest"].astype(np.int64)
    keys, counts = [], []
    for bytes_ in WIDTHS_BYTES:
        of = np.flatnonzero(width == bytes_)
        each = size[of]
        row = np.repeat(of, each)
        within = np.arange(len(row)) - np.repeat(np.cumsum(each) - each, each)
        begin = starts[row] + HEADER_BYTES
        index = lowest[row] + _number(joined, begin + 2 * within, 2)
        keys.append(groups[row] * _SPAN + index + _SPAN // 2)
        counts.append(_number(joined, begin + 2 * size[row] + bytes_ * within, bytes_))
    return _summed(np.concatenate(keys), np.concatenate(counts))


def _number(joined: NDArray[np.uint8], at: _Ints, bytes_: int) -> _Ints:
    """Return the little-endian numbers that begin at these places."""
    found = joined[at].astype(np.int64)
    for place in range(1, bytes_):
        found |= joined[at + place].astype(np.int64) << (8 * place)
    return found


def _summed(keys: _Ints, counts: _Ints) -> tuple[_Ints, _Ints]:
    """Return the different keys, ascending, and the sum of each one's counts."""
    if not len(keys):
        return keys, counts
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    first = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    return keys[first], np.add.reduceat(counts, first)
