"""A FAISS HNSW index over a fixed set of rows. It is never added to once built: a concurrent add and search crash."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float32]

# Links a node. 32 with the two depths below gives recall@1 > 0.99 on 25,000 vectors (the tests hold it to that).
_LINKS = 32
# A node's links, beside its vector: twice _LINKS on the lowest level, four bytes each, and some for the levels above.
GRAPH_BYTES = _LINKS * 2 * 4 * 11 // 10
_BUILD_DEPTH = 80
_SEARCH_DEPTH = 128
# Rows added before the builder looks whether it should stop: about a tenth of a second.
_STEP = 500


class _Lent:
    """The index's own vectors as an array's owner: whoever holds a view of them keeps the index from being freed."""

    def __init__(self, index: Any, address: int, shape: tuple[int, int]) -> None:
        self.index = index
        self.__array_interface__ = {"data": (address, True), "shape": shape, "typestr": "<f4", "version": 3}


class Hnsw:
    """index: of faiss. Row numbers are positions in the vectors it was built from. Similarity is the inner product."""

    def __init__(self, index: Any) -> None:
        faiss = _faiss()
        self._index = index
        self._parameters = faiss.SearchParametersHNSW()
        self._limit = index.ntotal
        storage = faiss.downcast_index(index.storage)
        flat: FloatArray = faiss.rev_swig_ptr(storage.get_xb(), index.ntotal * index.d)
        self.vectors: FloatArray = np.asarray(_Lent(index, flat.ctypes.data, (index.ntotal, index.d)))

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @property
    def graph_bytes(self) -> int:
        return len(self) * GRAPH_BYTES

    def search(self, vector: FloatArray, count: int) -> tuple[NDArray[np.int64], FloatArray]:
        """Return up to `count` row numbers and their similarities, nearest first."""
        count = min(count, self._limit)
        self._parameters.efSearch = max(_SEARCH_DEPTH, 2 * count)
        scores, rows = self._index.search(vector.reshape(1, -1), count, params=self._parameters)
        found = rows[0] >= 0
        return rows[0][found], scores[0][found]


def build(vectors: FloatArray, stopped: Callable[[], bool]) -> Hnsw | None:
    """Return an index over the vectors, or None when `stopped` became true. Takes seconds: call it in a thread."""
    faiss = _faiss()
    faiss.omp_set_num_threads(1)  # of this thread alone: the other cores serve requests
    index = faiss.IndexHNSWFlat(vectors.shape[1], _LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = _BUILD_DEPTH
    for start in range(0, len(vectors), _STEP):
        if stopped():
            return None
        index.add(vectors[start : start + _STEP])
    return Hnsw(index)


def _faiss() -> Any:
    """Return faiss: imported when the first large partition needs it, for it costs a tenth of a second."""
    return importlib.import_module("faiss")
