"""What the gateway does not take, hold or pass on: pages of other sites, bodies without end, paths that tenants would share."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from engine.gateway import relay
from engine.gateway import upstream as upstream_module
from engine.gateway.guard import host_of
from tests.engine.gateway.conftest import Gateway, Start, ask, cache_status
from tests.engine.gateway.test_auth import make_key
from tests.engine.gateway.test_chat import plain, streamed
from tests.engine.rig import rig
from tests.support.servers import free_port, wait_for
from tests.support.upstream import StubUpstream, serving

PATH = "/v1/chat/completions"
EVENT = b'data: {"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]}\n\n'


@pytest.mark.parametrize(
    ("method", "path"), [("POST", PATH), ("GET", "/v1/models"), ("GET", "/healthz"), ("GET", "/metrics"), ("GET", "/control/v1/state")]
)
def test_pages_of_other_sites_and_rebound_names_are_refused(gateway: Gateway, upstream: StubUpstream, method: str, path: str) -> None:
    for headers, code in (({"Sec-Fetch-Site": "cross-site"}, "cross_site"), ({"Host": "evil.example:8080"}, "host_not_allowed")):
        answer = gateway.http().request(method, path, headers=headers, json=ask())
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, code)
    assert not upstream.calls


def test_clients_of_this_machine_pass(gateway: Gateway) -> None:
    plain(gateway.openai(), **ask())
    streamed(gateway.openai(), **ask("another"))
    for host in ("localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]:8080", "127.8.9.1"):
        assert gateway.http().get("/healthz", headers={"Host": host, "Sec-Fetch-Site": "same-origin"}).status_code == 200


def test_a_gateway_for_other_machines_takes_every_name(start: Start) -> None:
    gateway = start(bind=f"0.0.0.0:{free_port()}")
    assert gateway.http().get("/healthz", headers={"Host": "cache.example"}).status_code == 200
    assert host_of("[::1]:8080") == host_of("::1") == "::1"


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/files"), ("GET", "/v1/responses/r"), ("GET", PATH), ("POST", "/v1/audio/speech/x"), ("DELETE", "/v1/models/m")],
)
def test_tenants_reach_only_paths_without_objects(start: Start, upstream: StubUpstream, method: str, path: str) -> None:
    gateway = start()
    headers = {"Authorization": f"Bearer {make_key(gateway)['key']}"}
    answer = gateway.http().request(method, path, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "passthrough_not_allowed")
    assert not upstream.calls
    for allowed in ("/v1/completions", "/v1/moderations", "/v1/audio/speech", "/v1/images/generations"):
        assert gateway.http().post(allowed, headers=headers).status_code == 201
    assert gateway.http().get("/v1/models", headers=headers).status_code == 200
    if path == "/v1/files":
        assert start(passthrough_all=True).http().get(path, headers=headers).status_code == 201


def _scripted(*parts: bytes, kind: str, left: list[bool] | None = None) -> Starlette:
    """Return an upstream that answers these parts, and with `left` goes on until its client leaves."""

    async def body() -> AsyncIterator[bytes]:
        try:
            for part in parts:
                yield part
            while left is not None:
                yield b"more"
                await asyncio.sleep(0.005)  # lets the server see that its client has left
        finally:
            if left is not None:
                left.append(True)

    async def answer(request: Request) -> Response:
        await request.body()
        return StreamingResponse(body(), media_type=kind)

    return Starlette(routes=[Route("/{rest:path}", answer, methods=["GET", "POST"])])


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_too_large_to_hold_is_a_502(start: Start, monkeypatch: pytest.MonkeyPatch, stream: bool) -> None:
    monkeypatch.setattr(upstream_module, "MAX_RECORD_BYTES", 1000)
    port = free_port()
    with serving(_scripted(b" " * 600, b" " * 600, kind="application/json"), port):
        answer = start(upstream_url=f"http://127.0.0.1:{port}").http().post(PATH, json=ask(stream=stream))
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_too_large")


def test_a_passed_through_stream_ends_when_its_client_leaves(start: Start) -> None:
    port = free_port()
    left: list[bool] = []
    with serving(_scripted(kind="text/plain", left=left), port):
        with start(upstream_url=f"http://127.0.0.1:{port}").http().stream("GET", "/v1/files") as answer:
            next(answer.iter_raw())
        wait_for(lambda: left, what="the upstream's stream is cancelled")


def test_a_stream_with_an_odd_chunk_comes_whole_and_is_not_stored(start: Start) -> None:
    port = free_port()
    sent = b'data: {"type": "ping"}\n\n' + EVENT + b"data: [DONE]\n\n"
    with serving(_scripted(sent, kind="text/event-stream"), port):
        gateway = start(upstream_url=f"http://127.0.0.1:{port}")
        for _ in range(2):
            answer = gateway.http().post(PATH, json=ask(stream=True))
            assert answer.content == sent
            assert cache_status(answer.headers) == {"fwd": "miss"}
        gateway.counts(2, outcome="miss")


def test_a_stream_without_events_ends_in_the_error_event(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "MAX_RECORD_BYTES", 1000)
    port = free_port()
    with serving(_scripted(EVENT, b"x" * 2000, kind="text/event-stream"), port):
        answer = start(upstream_url=f"http://127.0.0.1:{port}").http().post(PATH, json=ask(stream=True))
    assert answer.content.startswith(EVENT + b"data: {")
    assert b"upstream_garbage" in answer.content


async def test_a_copy_in_memory_is_asked_of_the_store_again(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False, memory_ttl_s=30.0) as one, rig(tmp_path, semantic=False) as two:
        await one.teach("What is it?", "old")
        await two.cache.view.refresh()
        await two.teach("What is it?", "new", refresh=True)
        assert (await one.ask("What is it?")).tier == "memory"
        one.clock.now_ms += 30_000
        after = await one.ask("What is it?")
        assert after.tier == "store"
        assert after.entry is not None
        assert b"new" in after.entry.body
        assert (await one.ask("What is it?")).tier == "memory"
