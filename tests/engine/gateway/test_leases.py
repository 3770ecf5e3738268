"""Concurrent identical misses of several gateways on one store reach the upstream once, streams as well."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.engine.gateway.conftest import Gateway, Start, ask, cache_status
from tests.engine.gateway.test_chat import plain, streamed, text
from tests.support.servers import RedisServer, wait_for
from tests.support.upstream import StubUpstream


@pytest.fixture(params=["sqlite", pytest.param("redis", marks=pytest.mark.redis)])
def pair(request: pytest.FixtureRequest, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Gateway, Gateway]:
    """Two gateways on one store, which know the namespace's generation. A machine that stands still costs no lease."""
    monkeypatch.setattr("engine.leases.DONE_MS", 60_000)
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    if request.param == "redis":
        server: RedisServer = request.getfixturevalue("redis_server")
        url = server.url
    both = start(cache_url=url), start(cache_url=url)
    for gateway in both:
        gateway.state.leases._lease_ms = 60_000
    plain(both[0].openai(), **ask("the first of its namespace"))
    wait_for(lambda: all(g.state.cache.view.space("default").generations.write for g in both), what="both know the generation")
    return both


def said(client: openai.OpenAI, *, stream: bool) -> tuple[str, dict[str, str | bool]]:
    if stream:
        chunks, headers = streamed(client, **ask())
        return text(chunks), cache_status(headers)
    answer, headers = plain(client, **ask())
    return str(answer.choices[0].message.content), cache_status(headers)


def together(
    pair: tuple[Gateway, Gateway], upstream: StubUpstream, act: Callable[[threading.Event], object], **behaviour: Any
) -> list[Any]:
    """Ask one gateway and then, while the upstream holds its answer, both; return all answers."""
    hold, before = threading.Event(), len(upstream.chats)
    upstream.behave(hold=hold, **behaviour)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(said, pair[0].openai(), stream=False)
        wait_for(lambda: len(upstream.chats) == before + 1, what="the leader asks")
        rest = [pool.submit(said, pair[number % 2].openai(), stream=number % 3 == 0) for number in range(1, 7)]
        wait_for(lambda: pair[0].flights.waiting == 3 and pair[1].flights.waiting == 2, what="all others wait")
        act(hold)
        return [future.result(timeout=90) for future in [first, *rest]]


def test_one_upstream_call_for_both_and_a_stream_gets_it_too(pair: tuple[Gateway, Gateway], upstream: StubUpstream) -> None:
    before = len(upstream.chats)
    answers = together(pair, upstream, lambda hold: hold.set())
    assert len(upstream.chats) == before + 1
    assert len({content for content, _ in answers}) == 1
    assert [told.get("collapsed") for _, told in answers] == [None] + [True] * 6
    wait_for(lambda: sum(g.lookups(outcome="coalesced") for g in pair) == 6, what="the followers are counted")


def test_an_answer_that_is_no_whole_text_is_asked_for_by_each(pair: tuple[Gateway, Gateway], upstream: StubUpstream) -> None:
    before = len(upstream.chats)
    answers = together(pair, upstream, lambda hold: hold.set(), finish_reason="length")
    assert len(upstream.chats) == before + 7
    assert [told.get("collapsed") for _, told in answers] == [None] * 7


def test_a_leader_whose_client_leaves_is_followed_by_another(pair: tuple[Gateway, Gateway], upstream: StubUpstream) -> None:
    hold, before = threading.Event(), len(upstream.chats)
    upstream.behave(hold=hold)
    stream = pair[0].openai().chat.completions.create(**ask(), stream=True)
    wait_for(lambda: len(upstream.chats) == before + 1, what="the leader asks")
    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(said, pair[1].openai(), stream=False)
        wait_for(lambda: len(pair[1].state.cache.flights) == 1, what="the other gateway has joined")
        with contextlib.suppress(openai.APIError):
            stream.close()
        wait_for(lambda: len(upstream.chats) == before + 2, what="the other gateway asks")
        hold.set()
        assert other.result(timeout=90)[1] == {"fwd": "miss", "stored": True}
