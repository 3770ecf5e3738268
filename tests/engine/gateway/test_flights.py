"""Concurrent identical misses reach the upstream once; the others wait, and get what the one got, when it is a whole text."""

from __future__ import annotations

import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from engine.gateway.flights import MAX_LANDED_BYTES
from engine.lookup import Lookup
from engine.types import Outcome
from tests.engine.gateway.conftest import Gateway, Start, ask, cache_status
from tests.engine.gateway.test_chat import plain, streamed, text
from tests.support.servers import wait_for
from tests.support.upstream import StubUpstream

MANY = 32


def at_once(gateway: Gateway, upstream: StubUpstream, asks: list[Any], **behaviour: Any) -> list[Any]:
    """Run all asks while the upstream holds its answer back, until all but one of them wait."""
    hold = threading.Event()
    upstream.behave(hold=hold, **behaviour)
    with ThreadPoolExecutor(len(asks)) as pool:
        futures = [pool.submit(one) for one in asks]
        wait_for(lambda: gateway.flights.waiting == len(asks) - 1, what="all but the leader wait")
        hold.set()
        return [future.result(timeout=90) for future in futures]


def test_32_concurrent_identical_misses_reach_the_upstream_once(any_gateway: Gateway, upstream: StubUpstream) -> None:
    clients = [any_gateway.openai() for _ in range(MANY)]
    answers = at_once(any_gateway, upstream, [lambda client=client: plain(client, **ask()) for client in clients])
    assert len(upstream.chats) == 1
    assert len({answer.model_dump_json() for answer, _ in answers}) == 1
    told = [cache_status(headers) for _, headers in answers]
    assert told.count({"fwd": "miss", "stored": True}) == 1
    assert told.count({"fwd": "miss", "collapsed": True}) == MANY - 1
    any_gateway.counts(MANY - 1, outcome="coalesced")
    any_gateway.counts(1, outcome="miss")


def test_a_coalesced_lookup_says_how_long_it_waited(gateway: Gateway, upstream: StubUpstream, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Lookup] = []
    record = gateway.state.telemetry.record

    def kept(lookup: Lookup, **more: Any) -> None:
        ended.append(lookup)
        record(lookup, **more)

    monkeypatch.setattr(gateway.state.telemetry, "record", kept)
    clients = [gateway.openai() for _ in range(3)]
    at_once(gateway, upstream, [lambda c=c: plain(c, **ask()) for c in clients])
    wait_for(lambda: len(ended) == 3, what="all three are recorded")
    waited = [lookup for lookup in ended if lookup.outcome is Outcome.COALESCED]
    assert len(waited) == 2
    assert all([step.name for step in lookup.steps][-1] == "wait" for lookup in waited)


def test_32_concurrent_identical_streamed_misses_reach_the_upstream_once(any_gateway: Gateway, upstream: StubUpstream) -> None:
    clients = [any_gateway.openai() for _ in range(MANY)]
    answers = at_once(any_gateway, upstream, [lambda client=client: streamed(client, **ask()) for client in clients])
    assert len(upstream.chats) == 1
    said = {text(chunks) for chunks, _ in answers}
    assert len(said) == 1
    assert said.pop().startswith("Answer to")
    assert {chunks[-1].choices[0].finish_reason for chunks, _ in answers} == {"stop"}
    told = [cache_status(headers) for _, headers in answers]
    assert told.count({"fwd": "miss"}) == 1
    assert told.count({"fwd": "miss", "collapsed": True}) == MANY - 1
    any_gateway.counts(MANY)
    any_gateway.counts(MANY - 1, outcome="coalesced")
    any_gateway.counts(1, outcome="miss")


def test_streams_and_plain_requests_share_one_call(gateway: Gateway, upstream: StubUpstream) -> None:
    clients = [gateway.openai() for _ in range(8)]

    def one(client: openai.OpenAI, stream: bool) -> str:
        if stream:
            return text(streamed(client, **ask())[0])
        return str(plain(client, **ask())[0].choices[0].message.content)

    answers = at_once(gateway, upstream, [lambda c=c, s=n % 2 == 0: one(c, s) for n, c in enumerate(clients)])
    assert len(upstream.chats) == 1
    assert len(set(answers)) == 1
    assert answers[0]


@pytest.mark.parametrize("stream", [False, True])
def test_an_upstream_error_is_its_leaders_alone(gateway: Gateway, upstream: StubUpstream, stream: bool) -> None:
    clients = [gateway.openai() for _ in range(8)]

    def one(client: openai.OpenAI) -> int:
        with pytest.raises(openai.APIStatusError) as caught:
            client.chat.completions.create(**ask(), stream=stream)
        return caught.value.status_code

    assert at_once(gateway, upstream, [lambda c=c: one(c) for c in clients], mode="error", status=429) == [429] * 8
    assert len(upstream.chats) == 8, "each asked once, and none after the other"


@pytest.mark.parametrize("behaviour", [{"tool_calls": True}, {"finish_reason": "length"}])
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_no_whole_text_is_given_to_nobody_else(
    gateway: Gateway, upstream: StubUpstream, behaviour: dict[str, Any], stream: bool
) -> None:
    clients = [gateway.openai() for _ in range(8)]
    one = streamed if stream else plain
    answers = at_once(gateway, upstream, [lambda c=c: one(c, **ask()) for c in clients], **behaviour)
    assert len(upstream.chats) == 8
    assert [cache_status(headers) for _, headers in answers] == [{"fwd": "miss"}] * 8
    gateway.counts(8, outcome="miss")
    gateway.counts(0, outcome="coalesced")


def test_those_who_waited_for_an_odd_stream_ask_together(gateway: Gateway, upstream: StubUpstream) -> None:
    first, rest = threading.Event(), threading.Event()
    upstream.behave(hold=first, mode="ping")
    clients = [gateway.http() for _ in range(8)]
    with ThreadPoolExecutor(len(clients)) as pool:
        futures = [pool.submit(client.post, "/v1/chat/completions", json=ask(stream=True)) for client in clients]
        wait_for(lambda: gateway.flights.waiting == len(clients) - 1 and upstream.streaming, what="all but the leader wait")
        upstream.behave(hold=rest, mode="ping")
        first.set()
        wait_for(lambda: len(upstream.chats) == len(clients), what="the others ask, none after another's answer")
        rest.set()
        assert all(b"[DONE]" in future.result(timeout=90).content for future in futures)
    gateway.counts(8, outcome="miss")


def test_a_stream_that_dies_is_its_leaders_alone(gateway: Gateway, upstream: StubUpstream) -> None:
    clients = [gateway.openai() for _ in range(4)]

    def one(client: openai.OpenAI) -> str:
        with pytest.raises(openai.APIError) as caught:
            streamed(client, **ask())
        return type(caught.value).__name__

    kinds = at_once(gateway, upstream, [lambda c=c: one(c) for c in clients], mode="die")
    assert kinds == ["APIError"] * 4
    assert len(upstream.chats) == 4


def test_a_refresh_and_a_no_store_call_for_themselves(gateway: Gateway, upstream: StubUpstream) -> None:
    hold = threading.Event()
    upstream.behave(hold=hold)
    with ThreadPoolExecutor(3) as pool:
        futures = [
            pool.submit(plain, gateway.openai(), **ask(), extra_headers={"Cache-Control": control})
            for control in ("no-cache", "no-store", "max-age=0")
        ]
        wait_for(lambda: len(upstream.chats) == 3, what="all three reach the upstream")
        hold.set()
        for future in futures:
            future.result(timeout=90)


def test_a_client_that_leaves_its_stream_cancels_the_upstream_call(gateway: Gateway, upstream: StubUpstream) -> None:
    upstream.behave(hold=threading.Event())
    with gateway.http().stream("POST", "/v1/chat/completions", json=ask(stream=True)) as answer:
        next(answer.iter_raw())
    wait_for(lambda: upstream.cancelled == 1 and upstream.streaming == 0, what="the upstream call is cancelled")
    gateway.counts(1, outcome="error")
    upstream.behave()
    _, headers = plain(gateway.openai(), **ask())
    assert cache_status(headers) == {"fwd": "miss", "stored": True}


def leave(gateway: Gateway, upstream: StubUpstream, *headers: str, **fields: Any) -> None:
    """Ask, and be gone once the upstream has the question."""
    body = json.dumps(ask(**fields)).encode()
    head = ["POST /v1/chat/completions HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", *headers]
    host, port = gateway.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as client:
        client.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + body)
        wait_for(lambda: upstream.chats, what="the upstream is asked")


@pytest.mark.parametrize(("headers", "fields"), [((), {"stream": True}), (("Cache-Control: no-store",), {}), ((), {"n": 2})])
def test_a_client_that_leaves_before_the_first_byte_cancels_as_well(
    gateway: Gateway, upstream: StubUpstream, headers: tuple[str, ...], fields: dict[str, Any]
) -> None:
    upstream.behave(mode="hang")
    leave(gateway, upstream, *headers, **fields)
    gateway.counts(1, outcome="error")


def test_an_answer_that_may_be_stored_is_there_for_the_client_that_gave_up_on_it(gateway: Gateway, upstream: StubUpstream) -> None:
    hold = threading.Event()
    upstream.behave(hold=hold)
    leave(gateway, upstream)
    hold.set()
    gateway.counts(1, outcome="miss")
    assert cache_status(gateway.http().post("/v1/chat/completions", json=ask()).headers)["hit"] is True


def test_a_leader_that_leaves_goes_on_for_its_followers(gateway: Gateway, upstream: StubUpstream) -> None:
    hold = threading.Event()
    upstream.behave(hold=hold)
    with ThreadPoolExecutor(1) as pool:
        with gateway.http(headers={"Authorization": "Bearer sk-client"}).stream(
            "POST", "/v1/chat/completions", json=ask(stream=True)
        ) as answer:
            chunks = answer.iter_raw()  # held: dropping the iterator closes the connection
            next(chunks)
            follower = pool.submit(plain, gateway.openai(), **ask())
            wait_for(lambda: gateway.flights.waiting == 1, what="the follower waits")
        hold.set()
        answered, headers = follower.result(timeout=90)
    assert answered.choices[0].message.content.startswith("Answer to")
    assert cache_status(headers) == {"fwd": "miss", "collapsed": True}
    assert len(upstream.chats) == 1
    assert cache_status(plain(gateway.openai(), **ask())[1])["hit"] is True


def test_without_an_upstream_followers_fail_at_once(start: Start) -> None:
    gateway = start(upstream_url="")

    def one(client: openai.OpenAI) -> int:
        with pytest.raises(openai.APIStatusError) as caught:
            plain(client, **ask())
        return caught.value.status_code

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(one, [gateway.openai() for _ in range(8)])) == [503] * 8


def test_answers_that_just_landed_are_bounded_in_bytes(gateway: Gateway, upstream: StubUpstream) -> None:
    client = gateway.openai()
    upstream.behave(answer="x" * (MAX_LANDED_BYTES // 20))
    for number in range(6):
        plain(client, **ask(f"question {number}"))
        assert 0 < gateway.flights.landed_bytes <= MAX_LANDED_BYTES
    upstream.behave(answer="x" * (MAX_LANDED_BYTES // 4))
    plain(client, **ask("too large to be remembered"))
    assert gateway.flights.landed_bytes == 0
