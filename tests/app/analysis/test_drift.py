"""Divergence of two windows: known answers, bounds, and a null that is calibrated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis import drift
from app.analysis.drift import jensen_shannon, psi

P, Q = (0.5, 0.3, 0.2), (0.4, 0.4, 0.2)
SIDES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=20)


def test_known_answers() -> None:
    assert jensen_shannon(P, Q) == pytest.approx(0.009186, abs=5e-7)
    assert psi(P, Q) == pytest.approx(0.05108, abs=5e-6)


def test_nothing_in_common_is_one_bit_and_the_same_is_zero() -> None:
    assert jensen_shannon([1, 0], [0, 1]) == pytest.approx(1.0)
    assert jensen_shannon([3, 4], [6, 8]) == pytest.approx(0.0)


@given(SIDES)
def test_it_is_symmetric_and_within_its_bounds(sides: list[tuple[int, int]]) -> None:
    left, right = [a for a, _ in sides], [b for _, b in sides]
    if not sum(left) or not sum(right):
        with pytest.raises(ValueError, match="without observations"):
            jensen_shannon(left, right)
    else:
        found = jensen_shannon(left, right)
        assert 0.0 <= found <= 1.0
        assert found == pytest.approx(jensen_shannon(right, left))


def test_the_rows_are_the_same_divergence() -> None:
    now, before = np.array([[5.0, 3, 2], [1, 0, 0]]), np.array([[4.0, 4, 2], [0, 1, 0]])
    assert drift.js_rows(now, before) == pytest.approx([0.009186, 1.0], abs=5e-7)
    assert drift.psi_rows(now * 1e6, before * 1e6)[0] == pytest.approx(0.05108, abs=5e-5)
    assert drift.ks_rows(np.array([[1.0, 2, 4]]), np.array([[3.0, 4, 4]])) == pytest.approx([0.5])


def test_an_empty_window_is_no_answer() -> None:
    empty, some = np.zeros(0, dtype=np.int64), np.ones(5, dtype=np.int64)
    assert drift.of_kinds(empty, some, drift.js_rows) is None
    assert drift.of_numbers(empty.astype(float), some.astype(float)) is None
    assert drift.of_hashes(empty.astype(np.uint64), some.astype(np.uint64)) is None


@pytest.mark.parametrize("n", [1, 2, 11, 13])
def test_few_observations_are_no_trouble_and_no_change(n: int) -> None:
    same = np.zeros(n, dtype=np.int64)
    found = drift.of_kinds(same, same, drift.js_rows)
    assert found is not None
    assert (found.effect, found.p_value, found.halves) == (0.0, 1.0, False)


def quiet(rng: np.random.Generator, shares: np.ndarray, n: int = 400) -> np.ndarray:
    """Prompts as sessions ask them: each is asked again a few times in a row."""
    return np.repeat(rng.choice(len(shares), n, p=shares), rng.geometric(0.4, n))[:n]


def test_a_quiet_stream_is_rarely_called_changed_although_prompts_come_in_bursts() -> None:
    rng = np.random.default_rng(3)
    weights = 1 / np.arange(1, 31)
    weights /= weights.sum()
    found = [drift.of_kinds(quiet(rng, weights), quiet(rng, weights), drift.js_rows, seed=i) for i in range(60)]
    assert sum(one.p_value <= 0.05 for one in found if one) <= 8  # 5 % of 60 is 3; 8 or more has probability below 0.02
    shifted = drift.of_kinds(quiet(rng, weights), quiet(rng, weights[::-1]), drift.js_rows)
    assert shifted is not None
    assert shifted.p_value < 0.01
    assert shifted.halves


def test_a_change_of_one_half_alone_does_not_persist() -> None:
    before = np.random.default_rng(1).integers(0, 4, 1_200)
    now = before.copy()
    now[600:] = 9
    found = drift.of_kinds(before, now, drift.js_rows)
    assert found is not None
    assert found.effect > found.null
    assert not found.halves


def test_another_distribution_of_a_number_and_of_hashes_is_seen() -> None:
    rng = np.random.default_rng(4)
    lengths = drift.of_numbers(rng.normal(50, 10, 600), rng.normal(58, 10, 600))
    assert lengths is not None
    assert lengths.p_value < 0.01
    assert lengths.effect == pytest.approx(0.31, abs=0.06)  # 2 Phi(0.4) - 1
    base = rng.integers(0, 2**63, 20).astype(np.uint64)
    noise = lambda some, n: some[rng.integers(0, len(some), n)] ^ (np.uint64(1) << rng.integers(0, 64, n).astype(np.uint64))  # noqa: E731
    same = drift.of_hashes(noise(base, 300), noise(base, 300))
    other = drift.of_hashes(noise(base, 300), noise(base[:8], 300))
    assert same is not None
    assert same.p_value > 0.01
    assert same.effect == pytest.approx(0, abs=0.01)
    assert other is not None
    assert other.p_value < 0.01


def test_p_values_are_adjusted_for_their_number() -> None:
    assert drift.adjusted([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert drift.adjusted([]) == []
