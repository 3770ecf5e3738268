"""Wilson's and Newcombe's intervals against published values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.intervals import Ratio, clustered, difference, widened, wilson
from tests.bench.coverage_bench import coverage


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


def test_a_design_of_four_is_as_wide_as_a_quarter_of_the_lookups() -> None:
    wide, quarter = widened(wilson(400, 1_000), 4.0), wilson(100, 250)
    assert wide is not None
    assert quarter is not None
    assert (wide.k, wide.n) == (400, 1_000)
    assert (wide.low_ratio, wide.high_ratio) == pytest.approx((quarter.low_ratio, quarter.high_ratio))
    assert widened(wilson(400, 1_000), None) == widened(wilson(400, 1_000), 0.4) == wilson(400, 1_000)
    assert widened(None, 4.0) is None
