"""A score from people's labels: a regularised logistic regression, and what it is worth on pairs that it was not fitted on."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from app.analysis.intervals import Share, wilson
from app.analysis.thresholds import LEAST_KEPT, MOST_WRONG

LEAST: Final = 200  # labelled pairs: some 25 a weight
LEAST_OF_A_KIND: Final = 30
PENALTY: Final = 1.0  # L2, on weights of features of unit variance: a prior of standard deviation 1
_FOLDS: Final = 5
_BINS: Final = 5
_ROUNDS: Final = 100

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


class TooFewLabels(ValueError):
    """There are not enough labelled pairs to fit a score by; the message says how many, and how many it takes."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A labelled pair. group: pairs of one prompt share it, and are never on both sides of a fold. values: its features."""

    group: str
    values: tuple[float, ...]
    serves: bool


@dataclass(frozen=True, slots=True)
class Quality:
    """kept: right pairs that would serve. wrong: wrong ones among all that would serve; None where none would."""

    kept: Share
    wrong: Share | None


@dataclass(frozen=True, slots=True)
class Bin:
    """Pairs of like probability, out of fold. mean: of their probabilities. observed: those that serve."""

    mean: float
    observed: Share


@dataclass(frozen=True, slots=True)
class Fitted:
    """weights and bias: for the features as they are. cut: the lowest probability with at most 5 % wrong that keeps half of the right
    pairs, None = there is none. by_score and by_similarity: out of fold, each fold cut where the others say; None = some have no cut.
    loss: mean log loss out of fold, in nats; chance_loss: that of the share of right pairs alone.
    """

    right: int
    wrong: int
    weights: tuple[float, ...]
    bias: float
    cut: float | None
    by_score: Quality | None
    by_similarity: Quality | None
    loss: float
    chance_loss: float
    bins: tuple[Bin, ...]

    @property
    def n(self) -> int:
        return self.right + self.wrong


def fit(pairs: Sequence[Pair], *, similarity: int = 0) -> Fitted:
    """Return the score of these labelled pairs. similarity: the place of the cosine among the features. Raises TooFewLabels.

    Figures are out of fold: five folds by a digest of the group, each predicted by weights of the other four. The weights that are
    returned are fitted on all.
    """
    serves = np.array([pair.serves for pair in pairs], dtype=bool)
    right, wrong = int(serves.sum()), int((~serves).sum())
    if len(pairs) < LEAST or min(right, wrong) < LEAST_OF_A_KIND:
        raise TooFewLabels(
            f"{len(pairs)} labelled pairs can be used ({right} right, {wrong} wrong); {LEAST} are needed, {LEAST_OF_A_KIND} of each kind"
        )
    values = np.array([pair.values for pair in pairs], dtype=np.float64)
    folds = np.array([_fold(pair.group) for pair in pairs])
    chance, base = np.empty(len(pairs)), np.empty(len(pairs))
    for fold in range(_FOLDS):
        out = folds == fold
        if not out.any():
            continue
        kinds = serves[~out]
        if kinds.all() or not kinds.any():
            raise TooFewLabels("nearly all labelled pairs of one kind are of one prompt: label pairs of other prompts, too")
        weights, bias = _regression(values[~out], kinds)
        chance[out], base[out] = _sigmoid(values[out] @ weights + bias), kinds.mean()
    weights, bias = _regression(values, serves)
    return Fitted(
        right=right,
        wrong=wrong,
        weights=tuple(float(weight) for weight in weights),
        bias=bias,
        cut=_cut(chance, serves),
        by_score=_quality(chance, serves, folds),
        by_similarity=_quality(values[:, similarity], serves, folds),
        loss=_loss(chance, serves),
        chance_loss=_loss(base, serves),
        bins=_bins(chance, serves),
    )


def _fold(group: str) -> int:
    return hashlib.blake2b(group.encode("utf-8", "surrogatepass"), digest_size=4).digest()[0] % _FOLDS


def _regression(values: Floats, serves: Bools) -> tuple[Floats, float]:
    """Return weights, shape (d,), and the bias of an L2-regularised logistic regression, by Newton's method.

    The penalised loss is strictly convex: one minimum, also where the labels are separable. A step that does not lower it is halved.
    """
    mean, spread = values.mean(axis=0), values.std(axis=0)
    spread[spread < 1e-9] = 1.0  # a feature that never differs says nothing, and gets the weight 0
    design = np.column_stack([(values - mean) / spread, np.ones(len(values))])
    penalty = np.full(design.shape[1], PENALTY)
    penalty[-1] = 1e-9  # the bias is free; no more than what keeps the matrix regular
    found = np.zeros(design.shape[1])

    def cost(at: Floats) -> float:
        logits = design @ at
        return float(np.logaddexp(0.0, np.where(serves, -logits, logits)).sum() + 0.5 * (penalty * at * at).sum())

    lowest = cost(found)
    for _ in range(_ROUNDS):
        chance = _sigmoid(design @ found)
        gradient = design.T @ (chance - serves) + penalty * found
        curvature = (design * (chance * (1 - chance))[:, None]).T @ design + np.diag(penalty)
        step = np.linalg.solve(curvature, gradient)
        size = 1.0
        while size > 1e-6 and cost(found - size * step) > lowest:
            size /= 2
        found = found - size * step
        reached = cost(found)
        if lowest - reached < 1e-10:
            break
        lowest = reached
    weights = found[:-1] / spread
    return weights, float(found[-1] - weights @ mean)


def _sigmoid(logits: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-np.clip(logits, -500, 500))), dtype=np.float64)


def _cut(worth: Floats, serves: Bools) -> float | None:
    """Return the lowest cut at which at most 5 % of what serves is wrong and half of the right ones serve, None when there is none.

    It lies in the middle of the gap below the last pair that serves: a pair just like it serves as well.
    """
    order = np.argsort(-worth, kind="stable")
    good, every = np.cumsum(serves[order]), np.arange(1, len(order) + 1)
    last = np.append(np.diff(worth[order]) != 0, True)  # all of one worth serve, or none
    fine = last & (every - good <= MOST_WRONG * every) & (good >= LEAST_KEPT * serves.sum())
    places = np.flatnonzero(fine)
    if not len(places):
        return None
    lowest = places[-1]
    below = worth[order][lowest + 1] if lowest + 1 < len(order) else worth[order][lowest]
    return float((worth[order][lowest] + below) / 2)


def _quality(worth: Floats, serves: Bools, folds: NDArray[np.int64]) -> Quality | None:
    served = np.zeros(len(serves), dtype=bool)
    for fold in range(_FOLDS):
        out = folds == fold
        cut = _cut(worth[~out], serves[~out])
        if cut is None:
            return None
        served[out] = worth[out] >= cut
    kept = wilson(int((served & serves).sum()), int(serves.sum()))
    return Quality(kept, wilson(int((served & ~serves).sum()), int(served.sum()))) if kept else None


def _loss(chance: Floats, serves: Bools) -> float:
    given = np.clip(np.where(serves, chance, 1 - chance), 1e-12, 1.0)
    return float(-np.log(given).mean())


def _bins(chance: Floats, serves: Bools) -> tuple[Bin, ...]:
    """Return fifths of the pairs by their probability, the lowest first."""
    found = []
    for part in np.array_split(np.argsort(chance, kind="stable"), _BINS):
        observed = wilson(int(serves[part].sum()), len(part))
        if observed:
            found.append(Bin(float(chance[part].mean()), observed))
    return tuple(found)


def as_json(fitted: Fitted) -> dict[str, Any]:
    return asdict(fitted)


def from_json(value: Mapping[str, Any]) -> Fitted:
    """Return what `as_json` made JSON of. Raises KeyError or TypeError for anything else."""

    def quality(given: Mapping[str, Any] | None) -> Quality | None:
        return given and Quality(Share(**given["kept"]), given["wrong"] and Share(**given["wrong"]))  # type: ignore[return-value]

    return Fitted(
        **{
            **value,
            "weights": tuple(value["weights"]),
            "by_score": quality(value["by_score"]),
            "by_similarity": quality(value["by_similarity"]),
            "bins": tuple(Bin(one["mean"], Share(**one["observed"])) for one in value["bins"]),
        }
    )
