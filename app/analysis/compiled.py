"""Loops that are compiled. Only the worker and tests import the modules that use this: Numba takes half a second to import."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., object])
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


def kernel(function: F) -> F:
    """Compile a function of arrays and numbers at its first call. It runs without the interpreter's lock, and its code is kept on disk."""
    try:
        return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
    except RuntimeError:  # no folder to keep the code in: it is compiled once a process
        return cast(F, numba.njit(nogil=True, error_model="numpy")(function))


@kernel
def new_list(n: int) -> tuple[Ints, Ints]:
    """Return the links of an empty ring over 0…n-1: index n is its sentinel; before[n] is its last, after[n] its first."""
    before, after = np.full(n + 1, -1, np.int64), np.full(n + 1, -1, np.int64)
    before[n] = n
    after[n] = n
    return before, after


@kernel
def push(before: Ints, after: Ints, x: int, head: int) -> None:
    """Put x first, after the sentinel `head`."""
    first = after[head]
    after[head] = x
    before[x] = head
    after[x] = first
    before[first] = x


@kernel
def unlink(before: Ints, after: Ints, x: int) -> None:
    """Take x out."""
    a, b = before[x], after[x]
    after[a] = b
    before[b] = a
    before[x] = -1


@kernel
def sift(heap: Ints, place: Ints, rank: Floats, turn: Ints, i: int, size: int) -> None:
    """Restore the heap around place i. The top has the least (rank, turn). place: where in the heap each x is."""
    x = heap[i]
    while i > 0:
        parent = (i - 1) >> 1
        y = heap[parent]
        if rank[y] < rank[x] or (rank[y] == rank[x] and turn[y] < turn[x]):
            break
        heap[i] = y
        place[y] = i
        i = parent
    while True:
        child = 2 * i + 1
        if child >= size:
            break
        y = heap[child]
        if child + 1 < size:
            z = heap[child + 1]
            if rank[z] < rank[y] or (rank[z] == rank[y] and turn[z] < turn[y]):
                child += 1
                y = z
        if rank[x] < rank[y] or (rank[x] == rank[y] and turn[x] < turn[y]):
            break
        heap[i] = y
        place[y] = i
        i = child
    heap[i] = x
    place[x] = i


@kernel
def take(heap: Ints, place: Ints, rank: Floats, turn: Ints, x: int, size: int) -> None:
    """Take x out of a heap of `size`; the caller counts one less."""
    i = place[x]
    place[x] = -1
    last = heap[size - 1]
    if last != x:
        heap[i] = last
        place[last] = i
        sift(heap, place, rank, turn, i, size - 1)
