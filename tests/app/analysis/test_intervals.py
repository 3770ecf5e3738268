"""Wilson's and Newcombe's intervals against published values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.intervals import Ratio, batched, clustered, difference, student, widened, wilson
from tests.bench.coverage_bench import coverage, page


def test_wilson_gives_the_known_answers() -> None:
    share = wilson(623, 1000)
    assert share is not None
    assert (round(share.low_ratio, 4), round(share.high_ratio, 4)) == (0.5925, 0.6525)
    none = wilson(0, 10)
    assert none is not None
    assert none.low_ratio == 0
    assert round(none.high_ratio, 4) == 0.2775


def test_no_data_is_not_zero() -> None:
    assert wilson(0, 0) is None
    assert difference(wilson(1, 2), wilson(0, 0)) is None


def test_more_hits_than_lookups_is_refused() -> None:
    with pytest.raises(ValueError, match="3 of 2"):
        wilson(3, 2)


def test_newcombe_gives_the_known_answer() -> None:
    found = difference(wilson(56, 70), wilson(48, 80))  # Newcombe 1998, table II, case a, method 10
    assert found is not None
    assert (round(found.low_ratio, 4), round(found.high_ratio, 4)) == (0.0524, 0.3339)
    assert found.clear


@given(st.integers(0, 500), st.integers(1, 500))
def test_the_interval_holds_the_share_and_stays_within_zero_and_one(k: int, n: int) -> None:
    share = wilson(min(k, n), n)
    assert share is not None
    assert 0 <= share.low_ratio <= share.ratio <= share.high_ratio <= 1


def test_clusters_widen_the_interval_of_what_comes_together() -> None:
    rng = np.random.default_rng(2)
    own = rng.beta(1.2, 0.8, 120)
    sizes = rng.geometric(1 / 15, 120)
    hits = rng.binomial(sizes, own)
    found, naive = clustered(hits, sizes), wilson(int(hits.sum()), int(sizes.sum()))
    assert found is not None
    assert naive is not None
    assert found.ratio == pytest.approx(naive.ratio)
    assert found.low_ratio is not None
    assert found.high_ratio is not None
    assert found.design is not None
    assert found.design > 2
    assert found.high_ratio - found.low_ratio > 1.5 * (naive.high_ratio - naive.low_ratio)


def test_independent_lookups_have_about_wilson_s_interval() -> None:
    hits = np.random.default_rng(3).binomial(1, 0.6, 3_000)
    found, naive = clustered(hits, np.ones(3_000)), wilson(int(hits.sum()), 3_000)
    assert found is not None
    assert naive is not None
    assert (found.low_ratio, found.high_ratio) == pytest.approx((naive.low_ratio, naive.high_ratio), abs=0.006)


def test_the_same_clusters_give_the_same_interval() -> None:
    hits, sizes = np.arange(60) % 4, np.full(60, 5)
    assert clustered(hits, sizes) == clustered(hits, sizes)


@pytest.mark.parametrize(("part", "whole"), [([], []), ([0], [0]), ([0, 0], [0.0, -1.0])])
def test_clusters_without_weight_have_no_share(part: list[float], whole: list[float]) -> None:
    assert clustered(part, whole) is None


def test_fewer_than_forty_clusters_have_a_share_and_no_interval() -> None:
    found = clustered([1] * 39, [2] * 39)
    assert found == Ratio(0.5, None, None, 39)
    with pytest.raises(ValueError, match="finite"):
        clustered([float("nan")], [1])


def test_equal_clusters_have_an_interval_of_no_width() -> None:
    found = clustered([1] * 50, [1] * 50)
    assert found is not None
    assert (found.low_ratio, found.high_ratio) == (1.0, 1.0)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    """A hundred simulations; tests/bench/coverage_bench.py makes a thousand of each kind."""
    held, naive = coverage(60, 0.6, 2.0, 100, seed=4)
    assert held >= 0.88
    assert naive < held - 0.2


@pytest.mark.parametrize(("minutes", "step", "session"), [(60, 1, 10), (1_440, 20, 10)])
def test_sessions_that_outlast_a_step_of_the_chart_are_in_the_interval(minutes: int, step: int, session: int) -> None:
    """Drawn minute by minute it held the truth of ten-minute sessions in 44 % of hours."""
    held, naive, _ = page(minutes, step, session, 1, simulations=100, seed=3)
    assert held >= 0.85
    assert naive < 0.4


def test_steps_that_are_not_alike_are_batches_of_their_own() -> None:
    rng = np.random.default_rng(5)
    lookups = rng.poisson(50, 72)
    hits = rng.binomial(lookups, 0.6)
    found, plain = batched(hits, lookups), wilson(int(hits.sum()), int(lookups.sum()))
    assert found is not None
    assert plain is not None
    assert found.low_ratio is not None
    assert found.high_ratio is not None
    assert found.clusters >= 36
    assert found.high_ratio - found.low_ratio < 1.4 * (plain.high_ratio - plain.low_ratio)


def test_the_width_of_few_batches_is_student_s() -> None:
    """Sixty steps in five runs of twelve: five batches, whose variance reaches over their edges."""
    hits = np.repeat([2.0, 9.0, 5.0, 1.0, 8.0], 12)
    found = batched(hits, np.full(60, 10.0))
    assert found is not None
    assert found.low_ratio is not None
    assert found.high_ratio is not None
    assert found.clusters == 5
    error = (hits[::12] / 10).std(ddof=1) / 5**0.5
    assert found.high_ratio - found.low_ratio > 1.9 * 2.776 * error * 0.8
    wide = widened(wilson(300, 600), found.design)
    assert wide is not None
    assert (wide.low_ratio, wide.high_ratio) == pytest.approx((found.low_ratio, found.high_ratio))


@pytest.mark.parametrize(("freedom", "quantile"), [(4, 2.7764), (5, 2.5706), (9, 2.2622), (38, 2.0244)])
def test_student_s_quantiles_are_those_of_the_tables(freedom: int, quantile: float) -> None:
    assert student(freedom) == pytest.approx(quantile, abs=0.001)


def test_fewer_than_five_steps_have_a_share_and_no_interval() -> None:
    assert batched([1] * 4, [2] * 4) == Ratio(0.5, None, None, 4)
    assert batched([], []) is batched([0], [0]) is None
    with pytest.raises(ValueError, match="finite"):
        batched([float("nan")], [1])
    assert batched([1] * 50, [1] * 50) == Ratio(1.0, 1.0, 1.0, 50)


def test_a_design_of_four_is_as_wide_as_a_quarter_of_the_lookups() -> None:
    wide, quarter = widened(wilson(400, 1_000), 4.0), wilson(100, 250)
    assert wide is not None
    assert quarter is not None
    assert (wide.k, wide.n) == (400, 1_000)
    assert (wide.low_ratio, wide.high_ratio) == pytest.approx((quarter.low_ratio, quarter.high_ratio))
    assert widened(wilson(400, 1_000), None) == widened(wilson(400, 1_000), 0.4) == wilson(400, 1_000)
    assert widened(None, 4.0) is None
