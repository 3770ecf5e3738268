"""A 64-bit SimHash of a vector: equal prompts share it, close prompts share most bits. For analysis, never for serving."""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np
from numpy.typing import NDArray

BITS = 64


@cache
def _planes(dimension: int) -> NDArray[np.float32]:
    """Return 64 planes of +-1, shape (64, dimension), from SHAKE-256: a random generator's stream may change with its library."""
    stream = hashlib.shake_256(f"cachescope simhash 1 {dimension}".encode()).digest(BITS * dimension // 8 + 1)
    signs = np.unpackbits(np.frombuffer(stream, dtype=np.uint8))[: BITS * dimension].reshape(BITS, dimension)
    return signs.astype(np.float32) * 2 - 1


def simhash(vector: NDArray[np.float32]) -> str:
    """Return 16 hex digits. vector: shape (d,); the bits are signs of projections, so its length does not matter.

    Source: Charikar, Similarity estimation techniques from rounding algorithms, STOC 2002, section 3.
    """
    bits = _planes(vector.shape[0]) @ np.asarray(vector, dtype=np.float32) >= 0
    return np.packbits(bits).tobytes().hex()
