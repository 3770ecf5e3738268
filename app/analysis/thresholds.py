"""What another threshold would have done on recorded lookups, and what people's labels say of any threshold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.analysis.intervals import Share, wilson

MOST_WRONG = 0.05  # of the hits among labelled pairs: a wrong answer served is the worst failure
LEAST_KEPT = 0.5  # of the right pairs: a threshold that keeps fewer is no recommendation


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


@dataclass(frozen=True, slots=True)
class Labelled:
    """A pair that somebody judged. similarity: cosine. serves: the same answer serves both."""

    similarity: float
    serves: bool


@dataclass(frozen=True, slots=True)
class Advice:
    """threshold: the lowest one with at most 5 % wrong hits that keeps half of the right pairs; None when there is none: not separable.

    kept: right pairs at or above it. wrong: wrong ones among the pairs at or above it. false_hits: wrong ones among the pairs at or
    above the threshold in force; None where none of them is, or no threshold is known.
    """

    right: int
    wrong_pairs: int
    threshold: float | None
    kept: Share | None
    wrong: Share | None
    false_hits: Share | None

    @property
    def n(self) -> int:
        return self.right + self.wrong_pairs


def advise(pairs: Sequence[Labelled], in_force: float | None = None) -> Advice | None:
    """Return what the labels say of a threshold by similarity alone, or None unless both kinds are labelled.

    A cut is looked for at each right pair's similarity. Encoders may give a reversal 0.9997 and a paraphrase 0.7: then no cut separates,
    and a threshold between the means would serve every wrong pair.
    """
    right = sum(pair.serves for pair in pairs)
    if right in (0, len(pairs)):
        return None
    threshold, kept, wrong = None, None, None
    for cut in sorted({pair.similarity for pair in pairs if pair.serves}):
        above = [pair for pair in pairs if pair.similarity >= cut]
        good = sum(pair.serves for pair in above)
        if len(above) - good <= MOST_WRONG * len(above) and good >= LEAST_KEPT * right:
            threshold, kept, wrong = cut, wilson(good, right), wilson(len(above) - good, len(above))
            break
    served = [] if in_force is None else [pair for pair in pairs if pair.similarity >= in_force]
    false_hits = wilson(sum(not pair.serves for pair in served), len(served))
    return Advice(right, len(pairs) - right, threshold, kept, wrong, false_hits)


def review_order(pairs: Sequence[Labelled]) -> list[int]:
    """Return the places of the pairs, the worst first: the wrong ones from the most similar down, then the right ones from the least."""
    return sorted(range(len(pairs)), key=lambda place: (pairs[place].serves, pairs[place].similarity * (1 if pairs[place].serves else -1)))
