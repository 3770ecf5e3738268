"""Entropy: known answers and what must always hold."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.entropy import entropy, rarefied

COUNTS = st.lists(st.integers(0, 50), min_size=1, max_size=40)


def test_known_answer_of_four_kinds() -> None:
    found = entropy([4, 2, 1, 1])
    assert found is not None
    assert found.plug_in_bits == pytest.approx(1.75)
    assert 2**found.plug_in_bits == pytest.approx(3.364, abs=5e-4)  # effective prompts, of the plug-in
    assert found.miller_madow_bits == pytest.approx(2.0205, abs=5e-5)
    assert found.normalised_ratio == pytest.approx(0.875)
    assert found.effective == pytest.approx(2**found.chao_shen_bits)  # two of four were seen once
    assert (found.n, found.kinds) == (8, 4)


def test_nothing_counted_is_no_entropy_and_one_kind_is_none_at_all() -> None:
    assert entropy([]) is None
    assert entropy([0, 0]) is None
    single = entropy([7])
    assert single is not None
    assert (single.plug_in_bits, single.normalised_ratio, single.effective) == (0.0, None, 1.0)


@pytest.mark.parametrize("bad", [[-1, 2], [float("nan")], [float("inf")]])
def test_impossible_counts_are_refused(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="counts must be finite"):
        entropy(bad)


@given(COUNTS)
def test_entropy_lies_between_zero_and_the_logarithm_of_the_kinds(counts: list[int]) -> None:
    found = entropy(counts)
    if found is None:
        assert sum(counts) == 0
    else:
        assert 0 <= found.plug_in_bits <= np.log2(found.kinds) + 1e-9
        assert found.miller_madow_bits >= found.plug_in_bits
        assert np.isfinite(found.chao_shen_bits)


@given(COUNTS, st.randoms())
def test_order_of_the_kinds_does_not_matter(counts: list[int], random: object) -> None:
    shuffled = sorted(counts)
    first, second = entropy(counts), entropy(shuffled)
    assert (first is None) == (second is None)
    if first and second:
        assert first.plug_in_bits == pytest.approx(second.plug_in_bits)


def test_rarefying_makes_windows_of_different_sizes_comparable() -> None:
    rng = np.random.default_rng(1)
    weights = 1 / np.arange(1, 1001)
    weights /= weights.sum()
    small, large = (np.bincount(rng.choice(1000, size, p=weights), minlength=1000) for size in (500, 5000))
    plain_small, plain_large = entropy(small), entropy(large)
    assert plain_small
    assert plain_large
    equal = rarefied(large, 500)
    assert equal is not None
    assert abs(equal - plain_small.plug_in_bits) < abs(plain_large.plug_in_bits - plain_small.plug_in_bits) / 3
    assert rarefied(small, 501) is None


def test_few_of_many_kinds_are_underestimated_and_chao_and_shen_s_estimate_least() -> None:
    """Zipf's law over 1,000 kinds has 7.489 bits; of 200 observations the plug-in gives 6.00, Miller-Madow 6.39, Chao-Shen 6.85."""
    rng = np.random.default_rng(7)
    weights = 1 / np.arange(1, 1001)
    weights /= weights.sum()
    assert -(weights * np.log2(weights)).sum() == pytest.approx(7.489, abs=0.001)
    found = [one for _ in range(150) if (one := entropy(np.bincount(rng.choice(1000, 200, p=weights), minlength=1000)))]
    assert np.mean([one.plug_in_bits for one in found]) == pytest.approx(6.00, abs=0.05)
    assert np.mean([one.miller_madow_bits for one in found]) == pytest.approx(6.39, abs=0.05)
    assert np.mean([one.chao_shen_bits for one in found]) == pytest.approx(6.85, abs=0.08)
    assert all(one.bits == one.chao_shen_bits for one in found)


@pytest.mark.parametrize(("counts", "bits"), [([1], 0.0), ([1, 1], None), ([500], 0.0), ([10**9, 1], None)])
def test_the_corrected_estimate_is_finite_at_the_edges(counts: list[int], bits: float | None) -> None:
    found = entropy(counts)
    assert found is not None
    assert np.isfinite(found.chao_shen_bits)
    assert bits is None or found.chao_shen_bits == pytest.approx(bits)


@pytest.mark.parametrize("shares", [[0.5, 0.2, 0.1, 0.1, 0.05, 0.05], [0.125] * 8])
def test_the_interval_holds_the_true_entropy_about_as_often_as_it_says(shares: list[float]) -> None:
    truth = -sum(share * math.log2(share) for share in shares)
    rng = np.random.default_rng(3)
    held = 0
    for counts in rng.multinomial(300, shares, size=400):
        found = entropy(counts)
        assert found is not None
        assert found.interval_bits is not None
        held += found.interval_bits[0] <= truth <= found.interval_bits[1]
    assert held / 400 >= 0.92


def test_many_kinds_seen_once_have_no_interval() -> None:
    found = entropy([1, 1, 1, 2])
    assert found is not None
    assert found.interval_bits is None


def test_the_effective_number_lies_in_its_own_interval() -> None:
    """600 kinds, 2,000 observations: the plug-in entropy is biased low, and 2 to its power lies below the corrected interval."""
    counts = np.random.default_rng(3).multinomial(2_000, np.full(600, 1 / 600))
    found = entropy(counts)
    assert found is not None
    assert found.interval_bits is not None
    low, high = (2**limit for limit in found.interval_bits)
    assert 2**found.plug_in_bits < low
    assert low < found.effective < high
