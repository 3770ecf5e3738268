"""What-if of a threshold: hits are monotone, and nothing is counted twice."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.thresholds import Labelled, Scored, advise, review_order, what_if

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


def test_reversals_above_every_paraphrase_are_not_separable() -> None:
    """zilliztech/GPTCache#694: a question and its reversal score up to 0.9997 on nine encoders, and paraphrases may score 0.7."""
    reversals = [0.83, 0.88, 0.91, 0.94, 0.95, 0.97, 0.98, 0.99, 0.9997]
    pairs = [Labelled(score, False) for score in reversals] + [Labelled(0.7, True)] * 9
    found = advise(pairs, 0.8)
    assert found is not None
    assert found.threshold is None
    assert found.false_hits is not None
    assert (found.false_hits.k, found.false_hits.n) == (9, 9)


def test_an_antonym_above_its_synonym_is_not_separable_and_comes_first() -> None:
    """vllm-project/semantic-router#2691: enable and turn on 2FA score 0.673, enable and disable 2FA 0.823."""
    rows = "score,label\n0.673,1\n0.823,0".splitlines()[1:]
    pairs = [Labelled(float(score), label == "1") for score, label in (row.split(",") for row in rows)]
    found = advise(pairs, 0.8)
    assert found is not None
    assert found.threshold is None
    assert [pairs[place].similarity for place in review_order(pairs)] == [0.823, 0.673]


def test_the_lowest_threshold_with_few_wrong_hits_is_advised() -> None:
    pairs = [Labelled(0.9 + place / 1000, True) for place in range(40)]
    pairs += [Labelled(0.95, False), Labelled(0.85, False), Labelled(0.84, False), Labelled(0.80, True)]
    found = advise(pairs, 0.84)
    assert found is not None
    assert found.threshold == 0.9
    assert found.kept is not None
    assert found.wrong is not None
    assert (found.kept.k, found.kept.n, found.wrong.k, found.wrong.n) == (40, 41, 1, 41)
    assert found.false_hits is not None
    assert (found.false_hits.k, found.false_hits.n) == (3, 43)


def test_labels_of_one_kind_say_nothing() -> None:
    assert advise([]) is None
    assert advise([Labelled(0.9, True)]) is None
    assert advise([Labelled(0.9, False)], 0.8) is None


@given(st.lists(st.builds(Labelled, st.floats(0.7, 1.0), st.booleans()), max_size=30))
def test_advice_keeps_its_bounds_and_the_order_begins_with_the_worst(pairs: list[Labelled]) -> None:
    found = advise(pairs)
    if found is not None and found.threshold is not None:
        above = [pair.serves for pair in pairs if pair.similarity >= found.threshold]
        assert above.count(False) <= 0.05 * len(above)
        assert above.count(True) >= 0.5 * found.right
    ordered = [pairs[place] for place in review_order(pairs)]
    assert sorted(map(repr, ordered)) == sorted(map(repr, pairs))
    wrong = [pair.similarity for pair in pairs if not pair.serves]
    if wrong:
        assert not ordered[0].serves
        assert ordered[0].similarity == max(wrong)
