"""A sharp fall of the share of hits bounds the upstream calls, whatever made the hits stop."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

from engine.gateway.hits import LEAST_LOOKUPS, HitShare
from tests.engine.gateway.conftest import Gateway, ask
from tests.support.servers import wait_for
from tests.support.upstream import StubUpstream


class Day:
    """Lookups at ten a second, so many of a hundred of them hits."""

    def __init__(self) -> None:
        self.hits = HitShare()
        self.rng = random.Random(4)
        self.at_s = 1_000.0

    def go(self, lookups: int, share: float) -> int:
        """Return in how many of them the share had fallen."""
        fell = 0
        for _ in range(lookups):
            self.at_s += 0.1
            self.hits.seen(hit=self.rng.random() < share, at_s=self.at_s)
            fell += self.hits.fell()
        return fell


def test_a_fall_is_told_within_some_lookups_and_ends_with_the_hits_or_after_minutes() -> None:
    day = Day()
    assert day.go(3_000, 0.8) == 0
    day.go(40, 0.0)
    assert day.hits.fell()
    day.go(60, 0.8)
    assert not day.hits.fell(), "hits are back"
    day.go(3_000, 0.8)
    assert 600 < day.go(6_000, 0.0) < 4_500, "what stays is usual after some minutes"
    assert not day.hits.fell()


def test_nothing_falls_where_hits_never_came_were_rare_or_only_begin() -> None:
    for share in (0.0, 0.1, 0.2):
        assert Day().go(3_000, share) == 0
    few = Day()
    few.go(int(LEAST_LOOKUPS) - 50, 0.9)
    assert few.go(30, 0.0) == 0


def test_after_a_purge_the_calls_to_the_upstream_are_bounded(gateway: Gateway, upstream: StubUpstream) -> None:
    with gateway.http(headers={"Authorization": "Bearer sk-client"}) as client:
        for _ in range(int(LEAST_LOOKUPS) + 20):
            assert client.post("/v1/chat/completions", json=ask()).status_code == 200
        gateway.control("POST", "/purge", json={"namespace": "default", "operation_id": "p1"})
        for number in range(40):
            client.post("/v1/chat/completions", json=ask(f"after the purge {number}"))
        hold, before = threading.Event(), len(upstream.chats)
        upstream.behave(hold=hold)
        waits = "cachescope_upstream_waits_total"

        def waited() -> float:
            return sum(value for name, value in gateway.state.telemetry.counters().items() if name.startswith(waits))

        with ThreadPoolExecutor(40) as pool:
            many = [pool.submit(client.post, "/v1/chat/completions", json=ask(f"at once {number}")) for number in range(40)]
            # Two seconds later those that wait go all the same.
            wait_for(lambda: waited() == 8 and len(upstream.chats) == before + 40, what="the rest had to wait")
            hold.set()
            assert {answer.result(timeout=90).status_code for answer in many} == {200}
