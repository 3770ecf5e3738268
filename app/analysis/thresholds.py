"""What another threshold would have done on recorded lookups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scored:
    """A recorded lookup with a candidate. similarity: cosine. passed: no verifier vetoed it. served: it was a semantic hit."""

    lookup_id: int
    similarity: float
    passed: bool
    served: bool


@dataclass(frozen=True, slots=True)
class WhatIf:
    """gained and lost: lookup ids, nearest to the new threshold first. vetoed: above it, and kept out by the verifier."""

    threshold: float
    hits_now: int
    hits_then: int
    gained: tuple[int, ...]
    lost: tuple[int, ...]
    vetoed: int
    n: int


def what_if(lookups: Sequence[Scored], threshold: float) -> WhatIf:
    """Return which recorded hits would be gained and lost at `threshold`.

    A lookup would have hit when its candidate passed the verifier and similarity >= threshold. What was stored meanwhile is taken
    as it was: a hit gained would have stored nothing, so later lookups may differ in truth. Hits never grow with the threshold.
    Raises ValueError when the threshold is outside [-1, 1].
    """
    if not -1.0 <= threshold <= 1.0:
        raise ValueError(f"threshold {threshold} is not a cosine; expected -1 to 1")
    would = {one.lookup_id for one in lookups if one.passed and one.similarity >= threshold}
    near = sorted(lookups, key=lambda one: abs(one.similarity - threshold))
    return WhatIf(
        threshold=threshold,
        hits_now=sum(one.served for one in lookups),
        hits_then=len(would),
        gained=tuple(one.lookup_id for one in near if one.lookup_id in would and not one.served),
        lost=tuple(one.lookup_id for one in near if one.served and one.lookup_id not in would),
        vetoed=sum(not one.passed and one.similarity >= threshold for one in lookups),
        n=len(lookups),
    )
