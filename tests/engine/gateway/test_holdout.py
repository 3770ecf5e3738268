"""A hit that is held out is never worse for its client than a hit: where the upstream fails, it is served."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from engine.breaker import State
from tests.engine.gateway.conftest import Gateway, Start, ask, cache_status
from tests.engine.gateway.test_chat import plain, streamed, text
from tests.support.servers import wait_for
from tests.support.upstream import StubUpstream


def told(gateway: Gateway, *, stream: bool) -> tuple[str, dict[str, str | bool]]:
    if stream:
        chunks, headers = streamed(gateway.openai(), **ask())
        return text(chunks), cache_status(headers)
    answer, headers = plain(gateway.openai(), **ask())
    return str(answer.choices[0].message.content), cache_status(headers)


def hold_all_out(gateway: Gateway) -> str:
    """Store an answer and hold each of its hits out; return the answer."""
    kept, _ = told(gateway, stream=False)
    change = {"namespace": "default", "changes": {"holdout_ratio": 1.0}, "expected_version": 0, "operation_id": "op"}
    gateway.control("POST", "/policy", json=change)
    return kept


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("behaviour", [{"mode": "error", "status": 503}, {"mode": "error", "status": 429}, {"mode": "hang"}])
def test_what_was_held_out_is_served_when_the_upstream_fails(
    start: Start, upstream: StubUpstream, behaviour: dict[str, Any], stream: bool
) -> None:
    gateway = start(upstream_timeout_s=1.0 if behaviour["mode"] == "hang" else 600.0)
    kept = hold_all_out(gateway)
    upstream.behave(**behaviour)
    said, status = told(gateway, stream=stream)
    assert (said, status["hit"], status["detail"]) == (kept, True, "exact")
    assert len(upstream.chats) == 2
    gateway.counts(1, outcome="exact_hit")
    gateway.counts(0, outcome="error")


@pytest.mark.parametrize("stream", [False, True])
def test_a_held_out_lookup_that_the_upstream_answers_is_a_miss(gateway: Gateway, upstream: StubUpstream, stream: bool) -> None:
    hold_all_out(gateway)
    upstream.behave(answer="Another answer.")
    said, status = told(gateway, stream=stream)
    assert (said, status["fwd"]) == ("Another answer.", "miss")


def test_a_purge_meanwhile_hides_what_was_held_out(gateway: Gateway, upstream: StubUpstream) -> None:
    hold_all_out(gateway)
    hold = threading.Event()
    upstream.behave(mode="error", status=503, hold=hold)
    with gateway.http(headers={"Authorization": "Bearer sk-client"}) as client:
        answers: list[int] = []
        asking = threading.Thread(target=lambda: answers.append(client.post("/v1/chat/completions", json=ask()).status_code))
        asking.start()
        wait_for(lambda: len(upstream.chats) == 2, what="the upstream is asked")
        gateway.control("POST", "/purge", json={"namespace": "default", "operation_id": "p1"})
        hold.set()
        asking.join(90)
    assert answers == [503]


def test_nothing_is_held_out_while_the_breaker_of_its_model_is_not_closed(gateway: Gateway, upstream: StubUpstream) -> None:
    hold_all_out(gateway)
    gateway.state.lanes.of("gpt-test").breaker.state = State.OPEN
    assert told(gateway, stream=False)[1]["hit"] is True
    assert len(upstream.chats) == 1
