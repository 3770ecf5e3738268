"""How far the answers that were held out agree with what the upstream said instead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from app.analysis.intervals import Ratio, Share, clustered, wilson

FAR = 0.5  # of their words in common: below it two answers say other things, or the same at another length


@dataclass(frozen=True, slots=True)
class Agreement:
    """mean: of the compared answers' agreement, 0…1; its interval is None, None below 40 of them. far: those that agree by less than half.

    not_compared: one of the two had no text, or their span is gone.
    """

    compared: int
    not_compared: int
    mean: Ratio | None
    median: float | None
    far: Share | None


def agreement(ratios: Sequence[float | None]) -> Agreement:
    """Return what these lookups tell; nothing but counts where none could be compared."""
    known = [ratio for ratio in ratios if ratio is not None]
    return Agreement(
        compared=len(known),
        not_compared=len(ratios) - len(known),
        mean=clustered(known, np.ones(len(known))) if known else None,
        median=float(np.median(known)) if known else None,
        far=wilson(sum(ratio < FAR for ratio in known), len(known)),
    )
