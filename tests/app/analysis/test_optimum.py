"""The offline optimum: the textbook's counts, an integer program, and exhaustive search."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.analysis import optimum
from app.analysis.policies import NO_LIMIT, Stream, replay, stream
from tests.app.analysis.streams import TEXTBOOK, small

SIZES, COSTS = {1: 2, 3: 2, 4: 3}, {1: 5.0, 3: 10.0, 4: 3.0, 7: 2.0}
PLAIN = stream(TEXTBOOK)
SIZED = stream(TEXTBOOK, sizes=[SIZES.get(key, 1) for key in sorted(set(TEXTBOOK))])
VALUES = np.array([COSTS.get(key, 1.0) for key in TEXTBOOK])


def best(requests: Stream, values: list[float], capacity: int, ttl: int, *, bypass: bool = True) -> float:
    """Return the optimum by trying everything: each request may keep or drop whatever is held."""
    states: dict[frozenset[tuple[int, int]], float] = {frozenset(): 0.0}  # held (key, stored at) -> most value
    for x, now, value in zip(requests.ids.tolist(), requests.times.tolist(), values, strict=True):
        following: dict[frozenset[tuple[int, int]], float] = {}
        for held, total in states.items():
            live = {(y, at) for y, at in held if ttl < 0 or now - at <= ttl}
            entry = next((one for one in live if one[0] == x), None)
            gained = total + (value if entry else 0.0)
            rest = sorted(live - {entry})  # type: ignore[arg-type]
            new = entry or (x, now)
            for mask in range(1 << len(rest)):
                kept = [one for i, one in enumerate(rest) if mask >> i & 1]
                for more in ([], [new]):
                    chosen = frozenset(kept + more)
                    if sum(int(requests.sizes[y]) for y, _ in chosen) <= capacity and (more or bypass or requests.sizes[x] > capacity):
                        following[chosen] = max(following.get(chosen, 0.0), gained)
        states = following
    return max(states.values())


def test_textbook_string() -> None:
    assert 20 - optimum.belady(PLAIN, 3).sum() == 9
    assert optimum.belady(PLAIN, 3, bypass=True).sum() == 12
    assert optimum.best_fixed(PLAIN, np.ones(20), 3).sum() == 11
    assert replay("lru", PLAIN, 3).sum() == 8  # regret 3 against the best fixed set


def test_textbook_string_with_sizes_and_costs() -> None:
    found = optimum.intervals(SIZED, VALUES)
    relaxed, whole = optimum.foo(found, 4), optimum.foo(found, 4, whole=True)
    assert relaxed
    assert whole
    assert relaxed[0] == pytest.approx(38.5)
    assert whole[0] == pytest.approx(38)
    assert optimum.bracket(SIZED, VALUES, 4) == optimum.Bracket(38.0, pytest.approx(38.5), "FOO")  # type: ignore[arg-type]
    assert found.value @ optimum.pfoo_high(found, 4) >= 38.5
    assert optimum.bracket(SIZED, VALUES, 4).high_by.sum() == pytest.approx(38.5)


@settings(max_examples=60, deadline=None)
@given(requests=small(most=40, sized=True), capacity=st.integers(0, 12), data=st.data())
def test_brackets_hold_the_integer_program_s_optimum(requests: Stream, capacity: int, data: st.DataObject) -> None:
    by_key = data.draw(st.lists(st.integers(0, 9), min_size=requests.keys, max_size=requests.keys))
    values = np.array([by_key[x] for x in requests.ids], dtype=np.float64)
    solved = optimum.foo(optimum.intervals(requests, values), capacity, whole=True)
    assert solved
    for lp_most in (0, 10_000):
        found = optimum.bracket(requests, values, capacity, lp_most=lp_most)
        assert found.low - 1e-6 <= solved[0] <= found.high + 1e-6, found


@pytest.mark.parametrize("ttl", [NO_LIMIT, 4, 15])
@pytest.mark.parametrize("alike", [True, False])
def test_brackets_hold_the_optimum_found_by_trying_everything(ttl: int, *, alike: bool) -> None:
    rng = np.random.default_rng(ttl + 1)
    for _ in range(200):
        ids = rng.integers(0, 3, rng.integers(0, 11))
        requests = stream(ids, times=np.cumsum(rng.integers(0, 10, ids.size)), sizes=rng.integers(1, 6, np.unique(ids).size))
        values = np.ones(ids.size) if alike else rng.choice([0.0, 1.0, 1.0, 3.0, 10.0], ids.size)
        capacity = int(rng.integers(0, 12))
        truth = best(requests, values.tolist(), capacity, ttl)
        for lp_most in (0, 10_000):
            found = optimum.bracket(requests, values, capacity, ttl_ms=ttl, lp_most=lp_most)
            assert found.low - 1e-6 <= truth <= found.high + 1e-6, (requests, values, capacity)
            assert capacity < requests.sizes.sum() or truth == pytest.approx(found.high)


@settings(max_examples=40, deadline=None)
@given(requests=small(most=12), capacity=st.integers(0, 4), bypass=st.booleans())
def test_min_is_the_optimum_of_equal_entries(requests: Stream, capacity: int, bypass: bool) -> None:
    assert optimum.belady(requests, capacity, bypass=bypass).sum() == best(requests, [1.0] * requests.n, capacity, -1, bypass=bypass)


def test_min_s_heap_keeps_its_bounds() -> None:
    """Uses that expire again and again, while a large entry has left few held: run without the compiler, which checks no bounds."""
    small, large, late = 12, 12, 13
    ids = np.array([*range(small), *[0] * 2_037, large, *[0] * 2_089, late, *[0, 1] * 20, *[0] * 200], np.int64)
    sizes = np.array([1] * small + [9, 1], np.int64)
    requests = Stream(ids, np.arange(ids.size, dtype=np.int64) * 10, sizes)
    following = optimum.next_request(ids, requests.keys)
    plainly = optimum._belady.py_func(ids, sizes, requests.times, following, 5, 12, False)  # type: ignore[attr-defined]
    assert plainly.tolist() == optimum.belady(requests, 12, ttl_ms=5).tolist() == [False] * ids.size


def test_expired_intervals_are_infeasible() -> None:
    requests = stream(["a", "a", "a"], times=[0, 6, 12])
    assert optimum.intervals(requests, np.ones(3), ttl_ms=5).end.tolist() == []
    # Each gap is short enough, but the entry of time 0 is too old at 12, and made again then.
    assert optimum.bracket(requests, np.ones(3), 1, ttl_ms=10) == optimum.Bracket(1.0, 1.0, "PFOO")
    assert optimum.unlimited(requests, ttl_ms=10).tolist() == [False, True, False]
    assert optimum.belady(requests, 1, ttl_ms=10).tolist() == [False, True, False]
    # Dropped before time 6 and made again then, it hits where more is to be saved.
    assert optimum.bracket(requests, np.array([1.0, 1.0, 5.0]), 1, ttl_ms=10).high == 5.0


def test_many_intervals_are_bracketed_closely_without_a_program() -> None:
    rng = np.random.default_rng(5)
    requests = stream(rng.zipf(1.3, 20_000) % 3_000)
    found = optimum.bracket(requests, np.ones(requests.n), 200, lp_most=0)
    assert found.method == "PFOO"
    assert found.low == optimum.belady(requests, 200, bypass=True).sum()
    assert found.low <= found.high <= found.low * 1.1


def test_edges() -> None:
    nothing = stream(np.zeros(0, np.int64))
    assert optimum.bracket(nothing, np.zeros(0), 5) == optimum.Bracket(0.0, 0.0, "PFOO")
    one = stream(["a"])
    assert optimum.bracket(one, np.ones(1), 5).high == 0
    same = stream(["a"] * 9)
    assert optimum.bracket(same, np.ones(9), 1) == optimum.Bracket(8.0, 8.0, "PFOO")
    assert optimum.bracket(same, np.zeros(9), 1).high == 0
    assert optimum.best_fixed(same, np.ones(9), 0).sum() == 0
