"""What-if of a threshold: hits are monotone, and nothing is counted twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.thresholds import Scored, what_if

LOOKUPS = st.lists(st.tuples(st.floats(0.7, 1.0), st.booleans()), max_size=30).map(
    lambda rows: [Scored(i, similarity, passed, served=passed and similarity >= 0.9) for i, (similarity, passed) in enumerate(rows)]
)


def test_lowering_gains_the_passed_and_leaves_out_the_vetoed() -> None:
    lookups = [
        Scored(1, 0.95, True, True),
        Scored(2, 0.88, True, False),
        Scored(3, 0.89, False, False),
        Scored(4, 0.80, True, False),
    ]
    found = what_if(lookups, 0.85)
    assert (found.gained, found.lost, found.vetoed, found.hits_now, found.hits_then) == ((2,), (), 1, 1, 2)


def test_raising_loses_hits() -> None:
    found = what_if([Scored(1, 0.95, True, True), Scored(2, 0.99, True, True)], 0.97)
    assert (found.gained, found.lost) == ((), (1,))


@given(LOOKUPS, st.floats(0.7, 1.0), st.floats(0.7, 1.0))
def test_hits_never_grow_with_the_threshold(lookups: list[Scored], one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert what_if(lookups, low).hits_then >= what_if(lookups, high).hits_then


@given(LOOKUPS, st.floats(0.7, 1.0))
def test_the_books_balance(lookups: list[Scored], threshold: float) -> None:
    found = what_if(lookups, threshold)
    assert found.hits_then == found.hits_now + len(found.gained) - len(found.lost)


def test_a_threshold_that_is_no_cosine_is_refused() -> None:
    with pytest.raises(ValueError, match="not a cosine"):
        what_if([], 85.0)
