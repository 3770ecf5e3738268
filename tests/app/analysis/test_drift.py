"""Divergence of two windows: known answers, bounds, and a null that is calibrated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis.drift import compare, jensen_shannon, psi

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


def test_an_empty_window_is_no_answer() -> None:
    assert compare({}, {"a": 3}) is None


def test_a_quiet_stream_is_rarely_called_changed_and_a_shifted_one_is() -> None:
    rng = np.random.default_rng(3)
    weights = 1 / np.arange(1, 31)
    weights /= weights.sum()

    def window(shares: np.ndarray) -> dict[str, int]:
        return {str(i): int(n) for i, n in enumerate(rng.multinomial(300, shares))}

    quiet = [compare(window(weights), window(weights), draws=100, seed=i) for i in range(60)]
    assert sum(one.changed for one in quiet if one) <= 8  # 5 % of 60 is 3; 8 or more has probability below 0.02
    shifted = compare(window(weights), window(weights[::-1]))
    assert shifted is not None
    assert shifted.changed
    assert shifted.p_value < 0.01
