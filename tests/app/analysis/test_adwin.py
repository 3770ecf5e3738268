"""Adaptive windowing over blocks: quiet streams stay whole, a change is found where it was."""

import random

import numpy as np
import pytest

from app.analysis.adwin import adwin, dispersion
from app.analysis.silence import Silence, silences


def blocks(rng: np.random.Generator, *parts: tuple[int, float], size: int = 32) -> tuple[list[int], list[int]]:
    hits = np.concatenate([rng.binomial(size, rate, count) for count, rate in parts])
    return hits.tolist(), [size] * len(hits)


def test_a_quiet_stream_is_not_cut() -> None:
    rng = np.random.default_rng(1)
    assert [adwin(*blocks(rng, (625, 0.6))) for _ in range(3)] == [[], [], []]


def test_a_fall_is_found_where_it_was() -> None:
    (cut,) = adwin(*blocks(np.random.default_rng(2), (313, 0.6), (200, 0.5)))
    assert abs(cut.at - 313) <= 20
    assert cut.before_ratio == pytest.approx(0.6, abs=0.02)
    assert cut.now_ratio == pytest.approx(0.5, abs=0.03)


def test_the_delay_is_as_known() -> None:
    """From 0.6 to 0.5 after 20,000 lookups: noticed after 567 in the median."""
    rng = np.random.default_rng(3)
    delays = []
    for _ in range(5):
        hits, lookups = blocks(rng, (625, 0.6), (60, 0.5))
        delays.append(next(32 * (end - 625) for end in range(626, 686, 3) if adwin(hits[:end], lookups[:end])))
    assert 200 < np.median(delays) < 1_200


def test_two_changes_are_two_cuts() -> None:
    found = adwin(*blocks(np.random.default_rng(4), (200, 0.7), (60, 0.3), (200, 0.7)))
    assert [round(cut.at, -1) for cut in found] == [200, 260]


@pytest.mark.parametrize("lookups", [[], [0, 0, 0], [1], [0, 5, 0]])
def test_next_to_nothing_is_not_cut(lookups: list[int]) -> None:
    assert adwin([0] * len(lookups), lookups) == []


def test_all_hits_and_all_misses_are_not_cut() -> None:
    assert adwin([50] * 100, [50] * 100) == adwin([0] * 100, [50] * 100) == []


def test_bursts_widen_the_bound() -> None:
    rng = np.random.default_rng(5)
    rates = rng.beta(3, 2, 400)  # each block is one session's
    hits, lookups = rng.binomial(40, rates).tolist(), [40] * 400
    assert dispersion(hits, lookups) > 4
    assert adwin(hits, lookups) == []


def test_too_many_blocks_are_refused() -> None:
    with pytest.raises(ValueError, match="use wider ones"):
        adwin([0] * 2_001, [1] * 2_001)


def test_a_gap_in_busy_traffic_is_a_silence_and_a_slow_sender_s_is_none() -> None:
    times = list(range(30))
    busy = {at: 12 for at in times if not 10 <= at < 14}
    assert silences(busy, times, step_ms=1) == [Silence(10, 14, ended=True)]
    assert silences({at: 12 for at in times if at < 25}, times, step_ms=1) == [Silence(25, 30, ended=False)]
    assert silences({at: 1 for at in times if at % 3 == 0}, times, step_ms=1) == []
    assert silences({20: 9, 21: 9, 22: 9, 23: 9, 24: 9, 25: 9, 26: 9, 27: 9, 28: 9, 29: 9}, times, step_ms=1) == []


def test_blocks_of_hits_alone_are_no_rate_above_one() -> None:
    rng = random.Random(20)
    lookups = [rng.randint(5, 40) for _ in range(24)]
    hits = [rng.randint(0, n) if at < 14 else n for at, n in enumerate(lookups)]
    with np.errstate(invalid="raise"):  # parts of lookups sum to a little more than all of them
        assert all(0 <= cut.before_ratio <= cut.now_ratio for cut in adwin(hits, lookups))
