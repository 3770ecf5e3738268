"""A miss that one gateway process works on is waited for in another: what reaches it is whole, and a killed leader is found out."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import redis

from tests.engine.gateway.conftest import ask, cache_status
from tests.engine.gateway.test_run import answers, begin
from tests.support.servers import RedisServer, free_port, wait_for
from tests.support.upstream import StubUpstream

pytestmark = pytest.mark.redis
CHAT = "/v1/chat/completions"


@dataclass
class Said:
    """What a client got so far. broken: the connection ended before the answer did."""

    status: dict[str, str | bool] = field(default_factory=dict)
    body: bytes = b""
    broken: bool = False

    @property
    def text(self) -> str:
        """The whole text, of a stream or of a plain answer."""
        if not self.body.startswith(b"data:"):
            return str(json.loads(self.body)["choices"][0]["message"]["content"])
        events = self.body.decode().split("\n\n")
        assert events[-2:] == ["data: [DONE]", ""]
        chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
        return "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if chunk["choices"])


class Asked:
    """The lookups and leases that gateways ask of a Redis, as its MONITOR tells."""

    def __init__(self, monitor: redis.client.Monitor) -> None:
        self._monitor = monitor
        self._over: set[str] = set()  # keys of what was waited for before: some more may be told of them

    def by_both(self, *, leases: int, lookups: int) -> None:
        """Wait for so many lookups, and until so many leases were asked for by two gateways: one holds each, the other waits for it."""
        deadline, looked_up = time.monotonic() + 60, 0
        owners: dict[str, set[str]] = {}
        while looked_up < lookups or sum(len(both) == 2 for both in owners.values()) < leases:
            assert time.monotonic() < deadline, "no other gateway asks for the lease"
            words = self._monitor.next_command()["command"].split(" ")  # each gateway polls: one comes every quarter of a second
            if words[0] == "EVALSHA" and words[3].startswith("cs1:l:") and (key := words[3].split(":")[2]) not in self._over:
                owners.setdefault(key, set()).add(words[4])
            looked_up += words[0] == "HMGET" and words[1].startswith("cs1:e:") and words[1].split(":")[2] not in self._over
        self._over |= owners.keys()


@dataclass
class Pair:
    """Two gateway processes on one Redis, and their clients."""

    one: subprocess.Popen[str]
    ports: tuple[int, int]
    asked: Asked
    pool: ThreadPoolExecutor

    def ask(self, number: int, text: str, *, stream: bool) -> tuple[Future[Said], Said]:
        """Ask gateway 0 or 1; return the future of all that it says, and what it has said so far."""
        said = Said()

        def call() -> Said:
            body = ask(text, stream=stream)
            try:
                with httpx.stream("POST", f"http://127.0.0.1:{self.ports[number]}{CHAT}", json=body, timeout=90) as answer:
                    assert answer.status_code == 200
                    said.status = cache_status(answer.headers)
                    for data in answer.iter_bytes():
                        said.body += data
            except httpx.TransportError:
                said.broken = True
            return said

        return self.pool.submit(call), said


@pytest.fixture
def pair(redis_server: RedisServer, upstream: StubUpstream) -> Iterator[Pair]:
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(8))  # its calls end with the processes
        ports = free_port(), free_port()
        processes = [begin(redis_server.url, f"127.0.0.1:{port}", upstream.url) for port in ports]
        for process in processes:
            stack.callback(process.communicate, timeout=60)
            stack.callback(process.kill)
        wait_for(lambda: all(answers(port) for port in ports), what="both gateways are ready")
        client = stack.enter_context(redis.Redis.from_url(redis_server.url))
        for port in ports:
            wait_for(lambda port=port: _hits(port), what="it knows the generation")
        monitor = stack.enter_context(client.monitor())
        yield Pair(processes[0], ports, Asked(monitor), pool)


def _hits(port: int) -> object:
    answer = httpx.post(f"http://127.0.0.1:{port}{CHAT}", json=ask("the first of its namespace"), timeout=90)
    return cache_status(answer.headers).get("hit")


def calls(upstream: StubUpstream, text: str) -> int:
    return sum(call.json["messages"][-1]["content"] == text for call in upstream.chats)


def test_followers_in_another_process_get_what_is_whole_and_outlive_their_leader(pair: Pair, upstream: StubUpstream) -> None:
    get_nothing_until_it_is_whole(pair, upstream)
    get_nothing_of_what_is_no_whole_text(pair, upstream, "a tool call", 3, tool_calls=True)
    get_nothing_of_what_is_no_whole_text(pair, upstream, "cut", 2, mode="cut")
    outlive_their_leader(pair, upstream)


def get_nothing_until_it_is_whole(pair: Pair, upstream: StubUpstream) -> None:
    hold = threading.Event()
    upstream.behave(hold=hold)
    leader, heard = pair.ask(0, "whole", stream=True)
    wait_for(lambda: heard.body, what="the leader's client has the first half")
    followers = [pair.ask(1, "whole", stream=stream) for stream in (True, False)]
    pair.asked.by_both(leases=1, lookups=3)
    assert [said for _, said in followers] == [Said(), Said()], "neither a head nor a byte"
    hold.set()
    expected = leader.result(timeout=90).text
    assert expected.startswith("Answer to: whole")
    assert [future.result(timeout=90).text for future, _ in followers] == [expected, expected]
    assert [said.status for _, said in followers] == [{"fwd": "miss", "collapsed": True}] * 2
    assert calls(upstream, "whole") == 1


def get_nothing_of_what_is_no_whole_text(pair: Pair, upstream: StubUpstream, text: str, expected: int, **behaviour: Any) -> None:
    hold = threading.Event()
    upstream.behave(hold=hold, **behaviour)
    leader, heard = pair.ask(0, text, stream=True)
    wait_for(lambda: heard.body, what="the leader's client has the first half")
    if "mode" in behaviour:
        upstream.behave()  # those who ask for themselves are answered
    followers = [pair.ask(1, text, stream=True) for _ in range(2)]
    pair.asked.by_both(leases=1, lookups=3)
    hold.set()
    assert (b"upstream_cut" in leader.result(timeout=90).body) == ("mode" in behaviour)
    for future, said in followers:
        assert future.result(timeout=90).body.endswith(b"data: [DONE]\n\n")
        assert b"upstream_cut" not in said.body
        assert (b"tool_calls" in said.body) == ("tool_calls" in behaviour)
    assert calls(upstream, text) == expected


def outlive_their_leader(pair: Pair, upstream: StubUpstream) -> None:
    """One asks in the dead leader's stead, for each of the two questions, and its half stream is nobody's answer."""
    hold = threading.Event()
    upstream.behave(hold=hold)
    plain, _ = pair.ask(0, "plain", stream=False)
    streamed, heard = pair.ask(0, "streamed", stream=True)
    wait_for(lambda: heard.body and calls(upstream, "plain"), what="the leader asks, and its stream has begun")
    followers = [(text, *pair.ask(1, text, stream=stream)) for text in ("plain", "streamed") for stream in (True, False)]
    pair.asked.by_both(leases=2, lookups=6)
    assert (calls(upstream, "plain"), calls(upstream, "streamed")) == (1, 1)
    assert [said for _, _, said in followers] == [Said()] * 4
    os.kill(pair.one.pid, signal.SIGKILL)
    assert plain.result(timeout=90) == Said(broken=True)
    assert streamed.result(timeout=90).broken, "a client that has half of it sees that it is not whole"
    # Nothing ends the dead one's leases but their expiry.
    wait_for(lambda: calls(upstream, "plain") == 2 and calls(upstream, "streamed") == 2, what="the other gateway asks")
    hold.set()
    for text, future, _ in followers:
        assert future.result(timeout=90).text.startswith(f"Answer to: {text} ")
    for text in ("plain", "streamed"):
        told = [said.status.get("collapsed") for asked, _, said in followers if asked == text]
        assert told.count(True) == 1, "one asks, the other waits for it"
        assert pair.ask(1, text, stream=False)[0].result(timeout=90).status["hit"] is True
    assert (calls(upstream, "plain"), calls(upstream, "streamed")) == (2, 2)
