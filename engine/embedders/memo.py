"""Vectors by the hash of their text, least recently used first out, bounded in bytes."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict

import numpy as np
from numpy.typing import NDArray

ENTRY_OVERHEAD_BYTES = 320  # measured: digest, array object and the dictionary's links


def digest(text: str) -> bytes:
    """Return the SHA-256 of the text; lone surrogates are hashed as they stand, so that no text raises."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class VectorMemo:
    """A thread-safe LRU from text digest to read-only vector. Holds no text."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: OrderedDict[bytes, NDArray[np.float32]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def size_bytes(self) -> int:
        return self._bytes

    def get(self, key: bytes) -> NDArray[np.float32] | None:
        with self._lock:
            vector = self._entries.get(key)
            if vector is None:
                self.misses += 1
                return None
            self.hits += 1
            self._entries.move_to_end(key)
            return vector

    def put(self, key: bytes, vector: NDArray[np.float32]) -> None:
        """Keep a copy of the vector, and drop the least recently used ones above the bound."""
        kept = np.array(vector, dtype=np.float32)
        kept.flags.writeable = False
        cost = kept.nbytes + ENTRY_OVERHEAD_BYTES
        with self._lock:
            old = self._entries.pop(key, None)
            if old is not None:
                self._bytes -= old.nbytes + ENTRY_OVERHEAD_BYTES
            if cost > self._max_bytes:
                return
            self._entries[key] = kept
            self._bytes += cost
            while self._bytes > self._max_bytes:
                _, dropped = self._entries.popitem(last=False)
                self._bytes -= dropped.nbytes + ENTRY_OVERHEAD_BYTES
