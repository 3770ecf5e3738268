"""Replays of eviction policies: the textbook's counts, plain implementations, and what must hold for all of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.analysis.optimum import belady
from app.analysis.policies import NO_LIMIT, POLICIES, Policy, Stream, replay, stream
from app.analysis.ttl import unlimited
from tests.app.analysis.streams import TEXTBOOK, plain, small, tinylfu, zipf

TTLS = st.sampled_from([NO_LIMIT, 0, 3, 20])


@pytest.mark.parametrize(("policy", "faults"), [("lru", 12), ("fifo", 15), ("sieve", 11)])
def test_textbook_string(policy: Policy, faults: int) -> None:
    assert 20 - replay(policy, stream(TEXTBOOK), 3).sum() == faults


@settings(max_examples=150, deadline=None)
@given(requests=small(sized=True), capacity=st.integers(0, 12), ttl=TTLS, policy=st.sampled_from(["fifo", "lru", "sieve"]))
def test_queues_equal_plain_ones(requests: Stream, capacity: int, ttl: int, policy: Policy) -> None:
    assert replay(policy, requests, capacity, ttl_ms=ttl).tolist() == plain(policy, requests, capacity, ttl)


@settings(max_examples=60, deadline=None)
@given(requests=small(sized=True), capacity=st.integers(0, 12), ttl=TTLS)
def test_no_policy_beats_a_cache_without_limit_and_all_equal_it_when_nothing_must_go(requests: Stream, capacity: int, ttl: int) -> None:
    most = unlimited(requests, ttl_ms=ttl)
    room = int(requests.sizes.sum()) * 200  # W-TinyLFU's window is a hundredth
    for policy in POLICIES:
        assert replay(policy, requests, capacity, ttl_ms=ttl).sum() <= most.sum(), policy
        assert replay(policy, requests, room, ttl_ms=ttl).tolist() == most.tolist(), policy


@settings(max_examples=60, deadline=None)
@given(requests=small(), capacity=st.integers(1, 12))
def test_no_policy_beats_min(requests: Stream, capacity: int) -> None:
    best = belady(requests, capacity).sum()
    assert [policy for policy in POLICIES if replay(policy, requests, capacity).sum() > best] == []


@pytest.mark.parametrize(
    ("policy", "ratio"), [("lru", 0.6545), ("sieve", 0.5618), ("s3fifo", 0.5562), ("wtinylfu", 0.5498), ("lfu", 0.5648)]
)
def test_known_miss_ratios_on_zipf(policy: Policy, ratio: float) -> None:
    assert 1 - replay(policy, zipf(20_000, 300_000), 1_000).mean() == pytest.approx(ratio, abs=0.01)


@pytest.mark.parametrize("capacity", [50, 400])
def test_tinylfu_equals_a_plain_one_by_the_rules_of_its_paper(capacity: int) -> None:
    requests = zipf(2_000, 20_000)
    assert requests.n - int(replay("wtinylfu", requests, capacity).sum()) == tinylfu(requests.ids.tolist(), capacity)


def test_gdsf_keeps_what_is_dear_for_its_size() -> None:
    requests = stream([0, 1, 2, 0, 1, 3, 0, 1], sizes=[1, 1, 1, 1])
    dear = replay("gdsf", requests, 2, costs=np.array([10.0, 1.0, 1.0, 1.0]))
    assert dear[[3, 6]].all()
    assert not dear[[4, 7]].any()
    assert replay("gdsf", requests, 2, costs=np.zeros(4)).tolist() == replay("gdsf", requests, 2).tolist()


@pytest.mark.parametrize("policy", POLICIES)
def test_edges(policy: Policy) -> None:
    nothing = stream(np.zeros(0, np.int64))
    assert replay(policy, nothing, 3).size == 0
    assert replay(policy, stream(["a"] * 5), 1).tolist() == [False, True, True, True, True]
    assert not replay(policy, stream(["a"] * 5), 0).any()
    assert not replay(policy, stream(range(50)), 9).any()
    with pytest.raises(ValueError, match="capacity of -1"):
        replay(policy, nothing, -1)


def test_a_clock_that_steps_back_is_held_and_bad_shapes_are_refused() -> None:
    assert stream(["b", "a", "b"], times=[5, 3, 9]).times.tolist() == [5, 5, 9]
    with pytest.raises(ValueError, match="takes no space"):
        stream(["a"], sizes=[0])
    with pytest.raises(ValueError, match="expected 1 times"):
        stream(["a"], times=[1, 2])
