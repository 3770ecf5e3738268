"""The fit of a score, against a closed form and on data whose truth is known."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from app.analysis import score
from app.analysis.score import Pair, TooFewLabels, fit

TRUE = np.array([0.0, 3.0, -2.0])


def made(count: int, *, seed: int = 3, noise: float = 1.0, prompts: int = 0) -> list[Pair]:
    """Return pairs whose first feature says nothing, and whose others decide, with noise."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(count, 3)) * [0.02, 1.0, 1.0] + [0.95, 0.0, 0.0]
    serves = rng.random(count) < 1 / (1 + np.exp(-(values @ TRUE) / noise))
    return [
        Pair(f"p{number % (prompts or count)}", tuple(map(float, row)), bool(one))
        for number, (row, one) in enumerate(zip(values, serves, strict=True))
    ]


def test_the_weights_are_the_minimum_of_the_penalised_loss() -> None:
    pairs = made(400)
    fitted = fit(pairs)
    values = np.array([pair.values for pair in pairs])
    signs = np.where([pair.serves for pair in pairs], 1.0, -1.0)
    scaled = (values - values.mean(axis=0)) / values.std(axis=0)

    def loss(at: np.ndarray) -> float:
        return float(np.logaddexp(0, -signs * (scaled @ at[:3] + at[3])).sum() + 0.5 * score.PENALTY * (at[:3] ** 2).sum())

    found = minimize(loss, np.zeros(4), method="BFGS", options={"gtol": 1e-8}).x
    assert fitted.weights == pytest.approx(found[:3] / values.std(axis=0), abs=1e-3)
    assert fitted.bias == pytest.approx(found[3] - (found[:3] / values.std(axis=0)) @ values.mean(axis=0), abs=1e-3)


def test_a_score_that_knows_more_than_similarity_keeps_more_at_as_few_wrong() -> None:
    fitted = fit(made(1_500, noise=0.5))
    assert fitted.by_score
    assert fitted.by_score.wrong
    assert fitted.by_score.kept.ratio > 0.6
    assert fitted.by_score.wrong.ratio < 0.08
    assert fitted.by_similarity is None  # it says nothing here: no threshold keeps half with 5 % wrong
    assert fitted.loss < 0.7 * fitted.chance_loss
    assert fitted.chance_loss == pytest.approx(math.log(2), abs=0.01)
    assert sum(one.observed.n for one in fitted.bins) == fitted.n == 1_500
    for one in fitted.bins:
        assert one.observed.low_ratio - 0.05 <= one.mean <= one.observed.high_ratio + 0.05


def test_labels_without_a_pattern_give_no_cut_and_no_worth() -> None:
    rng = np.random.default_rng(1)
    pairs = [Pair(str(number), tuple(map(float, rng.normal(size=3))), bool(rng.random() < 0.5)) for number in range(400)]
    fitted = fit(pairs)
    assert (fitted.cut, fitted.by_score, fitted.by_similarity) == (None, None, None)
    assert fitted.loss > 0.98 * fitted.chance_loss


def test_separable_labels_give_finite_weights() -> None:
    pairs = [Pair(str(number), (0.9, float(number >= 100), 1.0), number >= 100) for number in range(200)]
    fitted = fit(pairs)
    assert all(map(math.isfinite, (*fitted.weights, fitted.bias)))
    assert fitted.by_score
    assert (fitted.by_score.kept.k, fitted.by_score.kept.n) == (100, 100)


@pytest.mark.parametrize(("count", "wrong"), [(199, 100), (220, 29), (0, 0)])
def test_too_few_labels_are_refused(count: int, wrong: int) -> None:
    pairs = [Pair(str(number), (0.9, 0.0, 0.0), number >= wrong) for number in range(count)]
    with pytest.raises(TooFewLabels, match="200 are needed, 30 of each kind"):
        fit(pairs)


def test_one_prompt_labelled_many_times_is_never_on_both_sides() -> None:
    # All wrong pairs are of one prompt: whatever fold it is in, the others know no wrong pair.
    pairs = [Pair(str(number) if number >= 100 else "one", (0.9, float(number), 0.0), number >= 100) for number in range(200)]
    with pytest.raises(TooFewLabels, match="of one prompt"):
        fit(pairs)


def test_a_fit_survives_json() -> None:
    for fitted in (fit(made(300)), fit([Pair(str(n), (0.9, 0.0, 0.0), n % 2 == 0) for n in range(300)])):
        assert score.from_json(json.loads(json.dumps(score.as_json(fitted), allow_nan=False))) == fitted
