"""Wilson's and Newcombe's intervals against published values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.intervals import difference, wilson


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
