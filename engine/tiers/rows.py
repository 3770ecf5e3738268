"""The vectors of one partition in this process's memory: rows that are only appended, marked dead, and at times rewritten."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engine.tiers.base import Neighbour
from engine.tiers.hnsw import Hnsw
from engine.types import ServingKey, VectorRow

FloatArray = NDArray[np.float32]
IndexArray = NDArray[np.int64]

# Rows of a chunk: 6 MB at 384 dimensions. Full chunks are never copied again, so a partition grows without pauses.
_CHUNK = 4_096
# Per row beside its vector: two texts of 64 and 32 characters, a dict entry, list and array slots (measured: 0.4 kB).
_ROW_BYTES = 400
_BASE_BYTES = 2_048
_FOR_EVER = 2**63 - 1
# So many scores are sorted sooner as a list than partitioned as an array.
_FEW = 24


@dataclass(frozen=True, slots=True)
class Visible:
    """Which rows may be seen, shape (n,), how many they are, and how many of them the index covers.

    at: their numbers; None = all, or there is an index. Right for since_ms <= now < until_ms.
    """

    mask: NDArray[np.bool_]
    at: IndexArray | None
    count: int
    covered: int
    live: frozenset[str]
    since_ms: int
    until_ms: int


class Rows:
    """Vectors of shape (n, dimension), float32, L2-normalised, with what they are filtered by.

    A row's content never changes once written: searches and builds in other threads may read it. A key stored again gets a new
    row, and its older one dies. cursor: how far the store was read. dropped: generations whose rows were left out in a rewrite.
    """

    def __init__(self, dimension: int, *, cursor: int = 0) -> None:
        self.dimension = dimension
        self.cursor = cursor
        self.index: Hnsw | None = None  # of rows 0 … len(index)
        self.dropped: set[str] = set()
        self.n = 0
        self._chunks: list[FloatArray] = []
        self._starts: list[int] = []
        self._keys: list[str] = []
        self._entry_ids: list[str] = []
        self._alive = np.zeros(0, dtype=np.bool_)
        self._expires = np.zeros(0, dtype=np.int64)
        self._generation = np.zeros(0, dtype=np.int32)
        self._names: list[str] = []
        self._numbers: dict[str, int] = {}
        self._row_of: dict[str, int] = {}
        self._seen: Visible | None = None

    @property
    def bytes(self) -> int:
        graph = self.index.graph_bytes if self.index is not None else 0
        return _BASE_BYTES + self.n * _ROW_BYTES + graph + sum(chunk.nbytes for chunk in self._chunks)

    def neighbour(self, row: int, similarity: float) -> Neighbour:
        """Return a row as it is told; a rounding error above 1 is cut off."""
        similarity = 1.0 if similarity > 1.0 else max(similarity, -1.0)
        return Neighbour(ServingKey(self._keys[row]), self._entry_ids[row], self._names[self._generation.item(row)], similarity)

    def append(self, rows: Sequence[VectorRow], vectors: FloatArray) -> None:
        """Add rows with their normalised vectors, shape (len(rows), dimension)."""
        self._seen = None
        first = self.n
        total = first + len(rows)
        self._write(vectors)
        self._alive = _grown(self._alive, total)
        self._expires = _grown(self._expires, total)
        self._generation = _grown(self._generation, total)
        self._alive[first:total] = True
        for at, row in enumerate(rows, first):
            older = self._row_of.get(row.key)
            if older is not None:
                self._alive[older] = False
            self._row_of[row.key] = at
            self._keys.append(row.key)
            self._entry_ids.append(row.entry_id)
            self._expires[at] = row.expires_ms
            self._generation[at] = self._number(row.generation)

    def bury(self, key: str, entry_id: str) -> bool:
        """Mark the row of this entry dead; return whether it lived. A newer row of its key stays."""
        row = self._row_of.get(key)
        if row is None or self._entry_ids[row] != entry_id or not self._alive[row]:
            return False
        self._alive[row] = False
        self._seen = None
        return True

    def visible(self, live: frozenset[str], now_ms: int) -> Visible:
        """Return which rows may be seen: the newest of their key, unexpired, of a live generation."""
        seen = self._seen
        if seen is not None and seen.live == live and len(seen.mask) == self.n and seen.since_ms <= now_ms < seen.until_ms:
            return seen
        mask: NDArray[np.bool_] = self._alive[: self.n] & (self._expires[: self.n] > now_ms)
        known = np.array([name in live for name in self._names], dtype=np.bool_)
        if not known.all():
            mask &= known[self._generation[: self.n]]
        mask.flags.writeable = False  # it is shared by all searches until something changes
        until_ms = int(self._expires[: self.n].min(where=mask, initial=_FOR_EVER))
        covered = int(mask[: len(self.index)].sum()) if self.index is not None else 0
        count = int(mask.sum())
        at = np.flatnonzero(mask) if count < self.n and self.index is None else None
        self._seen = Visible(mask, at, count, covered, live, now_ms, until_ms)
        return self._seen

    def scores(self, vector: FloatArray) -> FloatArray:
        """Return the inner products of all rows with a vector, shape (n,)."""
        if len(self._chunks) == 1:
            # A small partition: every call counts, and a method costs half of what the function of the same name does.
            found: FloatArray = self._chunks[0][: self.n].dot(vector)
            return found
        return similarities(self._chunks, vector, 0, self.n)

    def source(self) -> tuple[list[FloatArray], int]:
        """Return the chunks and the number of rows as they are now: safe to read in another thread while rows are appended."""
        return list(self._chunks), self.n

    def rewritten(self, keep: IndexArray, covered: int, index: Hnsw | None, *, live: frozenset[str]) -> Rows:
        """Return new rows: those of `keep` (all below `covered`), then all from `covered` on.

        live: the generations that were visible when `keep` was chosen; others are noted in `dropped`.
        index: built over exactly the rows `keep`, whose own copy of the vectors is used; or None, and they are copied.
        What died since `keep` was chosen stays dead.
        """
        new = Rows(self.dimension, cursor=self.cursor)
        tail = np.arange(covered, self.n)
        order = np.concatenate([keep, tail])
        if index is None:
            new._write(take(self._chunks, order))
        else:
            new.index = index
            new._adopt(index.vectors)
            new._write(take(self._chunks, tail))
        new._keys = [self._keys[row] for row in order]
        new._entry_ids = [self._entry_ids[row] for row in order]
        new._alive = self._alive[order]
        new._expires = self._expires[order]
        new._names, new._numbers = list(self._names), dict(self._numbers)
        new._generation = self._generation[order]
        new._row_of = {new._keys[row]: row for row in np.flatnonzero(new._alive).tolist()}
        left_out = np.ones(covered, dtype=np.bool_)
        left_out[keep] = False
        gone = self._generation[:covered][left_out & self._alive[:covered]]
        new.dropped = self.dropped | ({self._names[number] for number in np.unique(gone)} - live)
        return new

    def without_oldest(self, count: int) -> Rows:
        """Return new rows, without an index: all but the first `count`. They share the vectors, so that nothing large is copied."""
        new = Rows(self.dimension, cursor=self.cursor)
        new.dropped = self.dropped
        start = 0
        for chunk in self._chunks:
            low, used = max(count - start, 0), min(len(chunk), self.n - start)
            if low < used:
                new._adopt(chunk[low:used])  # of just this length: what either appends goes elsewhere
            start += len(chunk)
        new._keys, new._entry_ids = self._keys[count:], self._entry_ids[count:]
        new._alive = self._alive[count : self.n].copy()
        new._expires = self._expires[count : self.n].copy()
        new._names, new._numbers = list(self._names), dict(self._numbers)
        new._generation = self._generation[count : self.n].copy()
        new._row_of = {new._keys[row]: row for row in np.flatnonzero(new._alive).tolist()}
        return new

    def _number(self, generation: str) -> int:
        number = self._numbers.get(generation)
        if number is None:
            number = self._numbers[generation] = len(self._names)
            self._names.append(generation)
        return number

    def _adopt(self, vectors: FloatArray) -> None:
        self._chunks.append(vectors)
        self._starts.append(self.n)
        self.n += len(vectors)

    def _write(self, vectors: FloatArray) -> None:
        done = 0
        while done < len(vectors):
            used = self.n - self._starts[-1] if self._chunks else _CHUNK
            if not self._chunks or used >= max(_CHUNK, len(self._chunks[-1])):
                self._chunks.append(np.empty((min(_CHUNK, max(8, len(vectors) - done)), self.dimension), dtype=np.float32))
                self._starts.append(self.n)
                used = 0
            last = self._chunks[-1]
            if used == len(last):
                # The old chunk stays as it is for whoever reads it. Rows yet to come are not touched: they take no memory till then.
                grown = np.empty((min(2 * used, _CHUNK), self.dimension), dtype=np.float32)
                grown[:used] = last
                last = self._chunks[-1] = grown
            room = min(len(last) - used, len(vectors) - done)
            last[used : used + room] = vectors[done : done + room]
            self.n += room
            done += room


def similarities(chunks: Sequence[FloatArray], vector: FloatArray, first: int, end: int) -> FloatArray:
    """Return the inner products of the rows first … end - 1 with a vector, shape (end - first,)."""
    out = np.empty(end - first, dtype=np.float32)
    start = 0
    for chunk in chunks:
        low, high = max(first, start), min(end, start + len(chunk))
        if low < high:
            np.dot(chunk[low - start : high - start], vector, out=out[low - first : high - first])
        start += len(chunk)
    return out


def take(chunks: Sequence[FloatArray], rows: IndexArray) -> FloatArray:
    """Return these rows (ascending), shape (len(rows), dimension)."""
    if not len(rows):
        return np.empty((0, chunks[0].shape[1] if chunks else 0), dtype=np.float32)
    parts = []
    start = 0
    for chunk in chunks:
        low, high = np.searchsorted(rows, (start, start + len(chunk)))
        if high > low:
            parts.append(chunk[rows[low:high] - start])
        start += len(chunk)
    return np.concatenate(parts)


def nearest(scores: FloatArray, rows: IndexArray | None, k: int, floor: float = -1.0) -> list[tuple[int, float]]:
    """Return up to k (row, score) of at least `floor`, the highest score first, the older row first among equals.

    rows: None = the scores are of 0, 1, …
    """
    if len(scores) > _FEW:
        if floor > -1.0:
            (kept,) = (scores >= floor).nonzero()
            scores, rows = scores[kept], kept if rows is None else rows[kept]
        if len(scores) > max(k, _FEW):
            best = scores.argpartition(len(scores) - k)[-k:]
            best.sort()
            scores, rows = scores[best], best if rows is None else rows[best]
    values = scores.tolist()
    order = sorted(range(len(values)), key=values.__getitem__, reverse=True)[:k]  # stable, so the older row stays before its equals
    if rows is None:
        return [(place, values[place]) for place in order if values[place] >= floor]
    return [(int(rows[place]), values[place]) for place in order if values[place] >= floor]


def _grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    if size <= len(array):
        return array
    grown = np.zeros(max(size, 2 * len(array), 8), dtype=array.dtype)
    grown[: len(array)] = array
    return grown
