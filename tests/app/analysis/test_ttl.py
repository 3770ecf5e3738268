"""Hits and space by lifetime."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from app.analysis import ttl
from app.analysis.policies import NO_LIMIT, Stream, stream
from tests.app.analysis.streams import small


@settings(max_examples=60, deadline=None)
@given(requests=small(sized=True), life=st.integers(0, 60))
def test_space_is_that_of_a_plain_replay(requests: Stream, life: int) -> None:
    held: dict[int, int] = {}
    most = 0
    for x, now in zip(requests.ids.tolist(), requests.times.tolist(), strict=True):
        held = {y: at for y, at in held.items() if now - at <= life}
        held.setdefault(x, now)
        most = max(most, sum(int(requests.sizes[y]) for y in held))
    found = ttl.space(requests, life)
    assert found.most == most
    assert 0 <= found.mean <= most


@settings(max_examples=60, deadline=None)
@given(requests=small(), life=st.integers(0, 60))
def test_what_ages_from_its_store_hits_no_more_than_gaps_within_the_lifetime(requests: Stream, life: int) -> None:
    last: dict[int, int] = {}
    hits = 0
    for x, now in zip(requests.ids.tolist(), requests.times.tolist(), strict=True):
        hits += x in last and now - last[x] <= life
        last[x] = now
    assert ttl.unlimited(requests, ttl_ms=life).sum() <= hits


def test_mean_space_is_over_time() -> None:
    requests = stream(["a", "b", "b"], times=[0, 10, 20], sizes=[4, 6])
    assert ttl.space(requests, NO_LIMIT) == ttl.Space(10, 7.0)  # 4 for ten ms, then 10
    assert ttl.space(requests, 5) == ttl.Space(6, 2.5)  # 4 and 6 for five ms each
    assert ttl.space(stream(["a"]), 5) == ttl.Space(1, 1.0)
    assert ttl.space(stream([]), 5) == ttl.Space(0, 0.0)
