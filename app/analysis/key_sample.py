"""Amounts of all keys from some of them: keys with much of the traffic are taken for certain, of the others a part by their hash."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from app.analysis.intervals import student

PARTS: Final = 20  # of the other keys, each left out once for the error (a jackknife of groups)
CERTAIN: Final = -1  # the part of a key that was taken for certain
FEWEST: Final = 5  # parts with lookups, below which they tell no error


def part(key: str) -> int:
    """Return the part of a key, 0…PARTS-1, by a hash that knows nothing of the one keys are chosen by."""
    return int.from_bytes(hashlib.blake2b(key.encode(errors="surrogatepass"), digest_size=4).digest()) % PARTS


@dataclass(frozen=True, slots=True)
class KeySample:
    """Which keys were read, and what is known of all.

    keys_each: other keys for which one that was read stands, >= 1. certain: keys taken for certain, and certain_lookups of them.
    other_lookups: of all other keys, read or not. seen: (PARTS,) lookups that were read of other keys, by part, at least one in all.
    burst_ms: lookups of one key within it were read as one burst.
    """

    keys_each: int
    certain: int
    certain_lookups: int
    other_lookups: int
    seen: tuple[int, ...]
    burst_ms: int

    @property
    def lift(self) -> float:
        """Lookups of other keys for each that was read: what amounts are multiplied by (a ratio estimate)."""
        return self.other_lookups / sum(self.seen)

    def error(self, values: NDArray[np.float64], parts: NDArray[np.int64]) -> float:
        """Return half the width of the 95 % interval of the sum of values, which are lifted. parts: (n,) of their keys.

        The ratio estimate of other keys' amounts, with each part left out once; t has a degree of freedom less than there are parts with
        lookups. With too few of them it is the whole of the estimate; where all keys were read it is 0.
        Source: Wolter, Introduction to Variance Estimation, chapter 4.
        """
        if self.keys_each == 1:
            return 0.0
        others = parts != CERTAIN
        by_part = np.bincount(parts[others], values[others], PARTS) / self.lift
        seen = np.asarray(self.seen, np.float64)
        used = seen > 0
        count = int(used.sum())
        if count < FEWEST:
            return abs(float(by_part.sum())) * self.lift
        without = self.other_lookups * (by_part.sum() - by_part[used]) / (seen.sum() - seen[used])
        left = 1 - 1 / self.keys_each  # what was read has no error
        return student(count - 1) * float(np.sqrt(left * (count - 1) / count * np.square(without - without.mean()).sum()))
