"""Each policy against known answers, against libCacheSim, and against what any policy must keep to."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.eviction import POLICIES
from engine.eviction.base import EvictionPolicy
from engine.eviction.ranks import Heat, warmed
from engine.eviction.tinylfu import FrequencySketch
from tests.engine.eviction.replay import misses, oracle, zipf

TEXTBOOK = np.array([7, 0, 1, 2, 0, 3, 0, 4, 2, 3, 0, 3, 2, 1, 2, 0, 1, 7, 0, 1])
SAME = np.ones(8, dtype=np.int64)


@pytest.mark.parametrize(("name", "faults"), [("lru", 12), ("fifo", 15), ("sieve", 11)])
def test_the_textbook_s_reference_string_faults_as_it_should(name: str, faults: int) -> None:
    assert misses(POLICIES[name], TEXTBOOK, SAME, 3) == faults


def test_miss_counts_are_libcachesim_s() -> None:
    """Exactly for FIFO, LRU and SIEVE, within half a point of the miss ratio for the others; unit sizes and bytes."""
    ids = zipf(20_000, 3_000, alpha=1.0, seed=5)
    sizes = np.random.default_rng(3).integers(500, 4_000, 3_000)
    names = ["fifo", "lru", "sieve", "lfu", "s3-fifo", "w-tinylfu", "gdsf"]
    for of, capacities in ((np.ones(3_000, dtype=np.int64), (600, 1_000)), (sizes, (800_000, 2_000_000))):
        jobs = [(name, capacity) for name in names for capacity in capacities]
        for (name, capacity), ratio in zip(jobs, oracle(ids, of, jobs), strict=True):
            missed = misses(POLICIES[name], ids, of, capacity)
            if name in {"fifo", "lru", "sieve"}:
                assert missed == round(ratio * len(ids)), (name, capacity)
            else:
                assert abs(missed / len(ids) - ratio) < 0.005, (name, capacity, missed / len(ids), ratio)


def test_lru_k_keeps_what_comes_again_against_a_scan() -> None:
    """Two hot objects between many that come once: LRU loses them each time, LRU-2 never after their second use."""
    ids = np.array([number for turn in range(200) for number in (0, 1, *range(10 + 8 * turn, 18 + 8 * turn))])
    sizes = np.ones(ids.max() + 1, dtype=np.int64)
    assert misses(POLICIES["lru"], ids, sizes, 6) == len(ids)
    assert misses(POLICIES["lru-k"], ids, sizes, 6) <= len(ids) - 2 * 200 + 2 * 3


def test_gdsf_keeps_what_is_dear_for_its_size() -> None:
    policy = POLICIES["gdsf"](100)
    policy.add("cheap", 10, 1.0)
    policy.add("dear", 10, 50.0)
    policy.add("large and dear", 80, 50.0)
    assert [policy.make_room(1) for _ in range(3)] == ["cheap", "large and dear", "dear"]


def test_heat_halves_with_each_half_life_and_grows_by_one_with_each_use() -> None:
    never = -math.inf
    log_heat = never
    known = [(0.0, 1.0), (0.0, 2.0), (1.0, 2.0), (3.0, 1.5), (3.5, 1.5 * 0.5**0.5 + 1)]  # half-lives since the epoch, the heat after a use
    for now, heat in known:
        log_heat = warmed(log_heat, now)
        assert 2 ** (log_heat - now) == pytest.approx(heat, rel=1e-12)
    # Far from the epoch neither a heat nor its weight there could be held as a number.
    assert 2 ** (warmed(warmed(never, 1e6), 1e6 + 1) - (1e6 + 1)) == pytest.approx(1.5)
    assert warmed(0.0, 1e6) == 1e6


def test_heat_forgets_what_was_asked_for_often_long_ago() -> None:
    policy = Heat[str](100, half_life=4)
    policy.add("once hot", 1)
    for _ in range(7):
        policy.hit("once hot")  # 6 or so now, 0.01 after nine half-lives
    policy.add("now", 1)
    for _ in range(36):
        policy.hit("now")
    policy.add("new", 1)
    assert [policy.make_room(1) for _ in range(3)] == ["once hot", "new", "now"]


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.booleans()), max_size=120), st.sampled_from([0.5, 3.0, 20.0]))
def test_the_coldest_leaves_as_plainly_decayed_counters_say(asked: list[tuple[str, bool]], half_life: float) -> None:
    """Counters that are all halved bit by bit at each request, those of as many keys that left as are held among them."""
    policy = Heat[str](5, half_life=half_life)
    heats: dict[str, float] = {}
    held: list[str] = []
    left: list[str] = []
    for key, leaves in asked:
        if leaves and key in held:
            policy.remove(key)
            held.remove(key)
            del heats[key]
            continue
        if key not in held and len(held) == 5:
            coldest = policy.make_room(1)
            assert heats[coldest] == pytest.approx(min(heats[other] for other in held), rel=1e-9)
            held.remove(coldest)
            left.append(coldest)
            while len(left) > len(held):
                del heats[left.pop(0)]
        heats = {other: heat * 0.5 ** (1 / half_life) for other, heat in heats.items()}
        heats[key] = heats.get(key, 0.0) + 1.0
        if key in held:
            policy.hit(key)
        else:
            policy.add(key, 1)
            held.append(key)
            left = [other for other in left if other != key]


def test_heat_misses_less_than_lru_by_zipf_and_less_than_lfu_when_what_is_asked_for_moves() -> None:
    still = zipf(20_000, 3_000, alpha=1.0, seed=5)
    moving = np.concatenate([zipf(10_000, 3_000, alpha=1.0, seed=seed) for seed in (1, 2, 3)])  # other keys are the hot ones each time

    def ratio(make: Callable[[int], EvictionPolicy[str]], ids: np.ndarray) -> float:
        return misses(make, ids, np.ones(3_000, dtype=np.int64), 300) / len(ids)

    assert ratio(POLICIES["heat"], still) < ratio(POLICIES["lru"], still) - 0.05
    assert ratio(POLICIES["heat"], moving) < ratio(POLICIES["lfu"], moving) - 0.02


@pytest.mark.parametrize("name", POLICIES)
@pytest.mark.parametrize("seed", range(3))
def test_every_key_leaves_once_and_only_held_ones_leave(name: str, seed: int) -> None:
    rng = random.Random(seed)
    policy, held = POLICIES[name](10_000), dict[str, int]()
    for _ in range(4_000):
        key, size = str(rng.randrange(200)), rng.choice((1, 90, 300, 2_500))
        act = rng.random()
        if key in held and act < 0.15:
            policy.remove(key)
            del held[key]
        elif key in held and act < 0.3:
            policy.resize(key, size)
            held[key] = size
        elif key in held:
            policy.hit(key)
        else:
            while sum(held.values()) + size > 10_000:
                del held[policy.make_room(size)]
            policy.add(key, size)
            held[key] = size
    while held:
        del held[policy.make_room(1)]
    policy.add("after all", 1)
    policy.clear()
    policy.add("after all", 1)
    assert policy.make_room(1) == "after all"


def test_a_sketch_counts_what_is_frequent_and_forgets_with_time() -> None:
    sketch = FrequencySketch(1_024)
    for number in range(3_000):
        sketch.count(f"often {number % 10}")
        sketch.count(number)
    assert all(sketch.frequency(f"often {number}") >= 250 for number in range(10))
    assert np.mean([sketch.frequency(f"never {number}") for number in range(100)]) < 10
    for number in range(40_000):
        sketch.count(number % 2_000)
    assert all(sketch.frequency(f"often {number}") < 150 for number in range(10))
