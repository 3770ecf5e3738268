"""Divergence of two windows: known answers, bounds, and a null that is calibrated."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.analysis import drift

SIDES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=20)


def of(statistic: drift.Statistic, left: list[float], right: list[float]) -> float:
    now, before = np.array(left, dtype=float), np.array(right, dtype=float)
    totals = (max(side.sum(), 1.0) for side in (now, before))
    return float(statistic.told(statistic.parts(now, before, *totals, len(now)).sum()))


def js(left: list[int], right: list[int]) -> float:
    return of(drift.JS, left, right)


def test_known_answers() -> None:
    assert js([5, 3, 2], [4, 4, 2]) == pytest.approx(0.009186, abs=5e-7)
    assert js([1, 0, 0], [0, 1, 0]) == pytest.approx(1.0)
    assert of(drift.PSI, [5e6, 3e6, 2e6], [4e6, 4e6, 2e6]) == pytest.approx(0.05108, abs=5e-6)  # half an observation is nothing here
    # 2.0 bits less 1.5, each with Miller and Madow's (K - 1) / (2 N ln 2).
    assert of(drift.ENTROPY, [4, 4, 4, 4], [8, 4, 4, 0]) == pytest.approx(0.5 + 1 / (32 * np.log(2)))
    numbers = [np.repeat([1.0, 2.0, 3.0], each) for each in ([36, 12, 0], [12, 12, 24])]
    found = drift.of_numbers(*numbers)
    assert found is not None
    assert found.effect == pytest.approx(0.5)


def test_a_mix_compared_is_its_definition_over_the_blocks_dealt() -> None:
    rng = np.random.default_rng(5)
    before, now = rng.integers(0, 9, 240), rng.integers(2, 12, 260)
    found = drift.of_kinds(before, now, drift.JS)
    assert found is not None
    assert found.n == 240
    thinner = now[drift.thinned(260, 240)]
    assert found.effect == pytest.approx(js(list(np.bincount(thinner, minlength=12)), list(np.bincount(before, minlength=12))))


def test_the_median_distance_of_hashes_is_that_of_all_pairs() -> None:
    """MMD by hand, with the kernel's width from every pair of two different lookups."""
    codes = np.random.default_rng(9).integers(0, 2**63, 48).astype(np.uint64)
    apart = np.array([[int(a ^ b).bit_count() for b in map(int, codes)] for a in map(int, codes)], dtype=float)
    kernel = np.exp(-apart / np.median(apart[np.triu_indices(48, 1)]))
    x, y, across = kernel[:24, :24], kernel[24:, 24:], kernel[:24, 24:]
    expected = (x.sum() - 24) / (24 * 23) + (y.sum() - 24) / (24 * 23) - 2 * across.mean()
    found = drift.of_hashes(codes[:24], codes[24:])
    assert found is not None
    assert found.effect == pytest.approx(expected, abs=1e-12)


def test_a_fixed_limit_of_psi_would_be_passed_by_chance() -> None:
    """Ten equal bins of two like windows: PSI is above 5 (1/n + 1/n), 0.1 at n = 100, in 83 % of them: a chi-square of 9 above 5.

    The half a lookup added to each bin takes three points off at n = 100.
    """
    rng = np.random.default_rng(8)
    for n, off in ((100, 0.03), (10_000, 0.0)):
        now, before = (rng.multinomial(n, np.full(10, 0.1), size=5_000).astype(float) for _ in range(2))
        assert np.mean(drift.PSI.parts(now, before, n, n, 10).sum(axis=1) > 10 / n) == pytest.approx(0.834 - off, abs=0.015)


def test_vectors_of_one_distribution_are_rarely_called_another() -> None:
    """MMD's permutations reject some 6 % of like windows at 0.05: of 200, a true 6 % gives 4 to 21 but for one time in 500."""
    rng = np.random.default_rng(12)
    sides = rng.normal(size=(400, 48, 8)).astype(np.float32)
    sides /= np.linalg.norm(sides, axis=2, keepdims=True)
    found = [drift.of_vectors(sides[2 * i], sides[2 * i + 1], seed=i) for i in range(200)]
    assert 4 <= sum(one.p_value <= 0.05 for one in found if one) <= 21


@given(SIDES)
def test_the_divergence_is_symmetric_and_within_its_bounds(sides: list[tuple[int, int]]) -> None:
    left, right = [a for a, _ in sides], [b for _, b in sides]
    assert 0.0 <= js(left, right) <= 1.0
    assert js(left, right) == pytest.approx(js(right, left))
    assert js(left, [2 * n for n in left]) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("apart", [0.0, 3.0])
def test_vectors_of_another_distribution_are_told_from_those_of_the_same(apart: float) -> None:
    rng = np.random.default_rng(2)
    sides = [rng.normal(size=(120, 16)) + np.eye(16)[0] * shift for shift in (0.0, apart)]
    before, now = ((side / np.linalg.norm(side, axis=1, keepdims=True)).astype(np.float32) for side in sides)
    found = drift.of_vectors(before, now)
    assert found is not None
    assert (found.p_value <= 0.01) == (apart > 0)
    assert found.effect > found.null if apart else found.effect <= found.null
    assert drift.of_vectors(before[:10], now) is None


def test_mmd_of_vectors_is_its_definition() -> None:
    vectors = np.random.default_rng(3).normal(size=(60, 8))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    x, y = vectors[:30].astype(float), vectors[30:].astype(float)
    squared = [[float(((a - b) ** 2).sum()) for b in vectors.astype(float)] for a in vectors.astype(float)]
    width = float(np.median([squared[i][j] for i in range(60) for j in range(i + 1, 60)]))
    kernel = [[float(np.exp(-one / (2 * width))) for one in row] for row in squared]
    inside = sum(kernel[i][j] + kernel[30 + i][30 + j] for i in range(30) for j in range(30) if i != j) / (30 * 29)
    between = sum(kernel[i][30 + j] for i in range(len(x)) for j in range(len(y))) / 900
    found = drift.of_vectors(vectors[:30], vectors[30:])
    assert found is not None
    assert found.effect == pytest.approx(inside - 2 * between, abs=1e-5)


def test_an_empty_window_is_no_answer() -> None:
    empty, some = np.zeros(0, dtype=np.int64), np.ones(5, dtype=np.int64)
    assert drift.of_kinds(empty, some, drift.JS) is None
    assert drift.of_numbers(empty.astype(float), some.astype(float)) is None
    assert drift.of_hashes(empty.astype(np.uint64), some.astype(np.uint64)) is None


@pytest.mark.parametrize("n", [1, 2, 11])
def test_fewer_observations_than_blocks_are_no_answer(n: int) -> None:
    assert drift.of_kinds(np.zeros(n, dtype=np.int64), np.ones(40, dtype=np.int64), drift.JS) is None


@pytest.mark.parametrize("n", [12, 13, 25])
def test_few_observations_are_no_trouble_and_no_change(n: int) -> None:
    same = np.zeros(n, dtype=np.int64)
    found = drift.of_kinds(same, same, drift.JS)
    assert found is not None
    assert (found.effect, found.p_value, found.halves) == (0.0, 1.0, False)


def quiet(rng: np.random.Generator, shares: np.ndarray, n: int = 400) -> np.ndarray:
    """Prompts as sessions ask them: each is asked again a few times in a row."""
    return np.repeat(rng.choice(len(shares), n, p=shares), rng.geometric(0.4, n))[:n]


def test_a_quiet_stream_is_rarely_called_changed_although_prompts_come_in_bursts() -> None:
    rng = np.random.default_rng(3)
    weights = 1 / np.arange(1, 31)
    weights /= weights.sum()
    found = [drift.of_kinds(quiet(rng, weights), quiet(rng, weights), drift.JS, seed=i) for i in range(60)]
    assert sum(one.p_value <= 0.05 for one in found if one) <= 8  # 5 % of 60 is 3; 8 or more has probability below 0.02
    shifted = drift.of_kinds(quiet(rng, weights), quiet(rng, weights[::-1]), drift.JS)
    assert shifted is not None
    assert shifted.p_value < 0.01
    assert shifted.halves


def test_a_change_of_one_half_alone_does_not_persist() -> None:
    before = np.random.default_rng(1).integers(0, 4, 1_200)
    now = before.copy()
    now[600:] = 9
    found = drift.of_kinds(before, now, drift.JS)
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
