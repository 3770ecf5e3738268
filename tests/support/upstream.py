"""A real OpenAI-shaped upstream on a free port, whose behaviour a test scripts. It counts and keeps every call."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import struct
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.support.servers import free_port, wait_for

Json = dict[str, Any]


@dataclass(frozen=True)
class Behaviour:
    """What the upstream does with a chat request.

    model: the one that behaves so, '' = all do; the others answer.
    mode: ok | error | hang | garbage | refuse (a 422 that repeats the body) | ignore_stream, and for streams die (mid-way) |
    cut (ends without [DONE]) | no_done | stream_error | garbled | ping (begins with a chunk that is no completion).
    hold: an event that must be set before an answer is finished: how a test keeps calls in flight without sleeping.
    linger: an event that must be set before a finished stream's connection ends.
    """

    mode: str = "ok"
    model: str = ""
    status: int = 500
    delay_s: float = 0.0
    chunk_delay_s: float = 0.0
    answer: str | None = None
    tool_calls: bool = False
    finish_reason: str | None = "stop"
    usage: bool = True
    reasoning: Any = None
    refuse_stream_options: bool = False
    hold: threading.Event | None = None
    linger: threading.Event | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass
class Call:
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Json:
        parsed: Json = json.loads(self.body)
        return parsed


@dataclass
class StubUpstream:
    """Runs in a thread. `calls` are all calls seen, `chats` those of chat completions, `cancelled` the streams left early."""

    port: int = field(default_factory=free_port)
    behaviour: Behaviour = Behaviour()
    calls: list[Call] = field(default_factory=list)
    cancelled: int = 0
    streaming: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def chats(self) -> list[Call]:
        return [call for call in self.calls if call.path == "/v1/chat/completions"]

    def behave(self, **changes: Any) -> None:
        self.behaviour = replace(Behaviour(), **changes)

    # Endpoints

    async def chat(self, request: Request) -> Response:
        await self._keep(request)
        body, how = self.calls[-1].json, self.behaviour
        if how.model and body.get("model") != how.model:
            how = Behaviour()
        if how.delay_s:
            await asyncio.sleep(how.delay_s)
        if how.mode == "hang":
            await asyncio.sleep(3600)
        if how.mode == "error":
            await _held(how)
            return _error(how.status, dict(how.headers))
        if how.mode == "garbage":
            return Response(b'{"choices": [{"message": ', media_type="application/json")
        if how.refuse_stream_options and "stream_options" in body:
            return JSONResponse({"error": {"message": "Unknown parameter: stream_options", "code": "unknown_parameter"}}, 400)
        if how.mode == "refuse":
            return JSONResponse({"detail": [{"loc": ["body"], "msg": "not valid", "input": body}]}, 422)
        if body.get("stream") and how.mode != "ignore_stream":
            return StreamingResponse(self._stream(body, how), media_type="text/event-stream", headers=dict(how.headers))
        await _held(how)
        return JSONResponse(completion(body, how), headers=dict(how.headers))

    async def _stream(self, body: Json, how: Behaviour) -> AsyncIterator[bytes]:
        self.streaming += 1
        finished = False
        try:
            chunks = list(_chunks(body, how))
            if how.mode == "ping":
                yield _event({"type": "ping"})
            for number, chunk in enumerate(chunks):
                if number == len(chunks) // 2:
                    await _held(how)
                    if how.mode == "die":
                        raise ConnectionResetError
                    if how.mode == "cut":
                        finished = True
                        return
                    if how.mode == "stream_error":
                        yield _event({"error": {"message": "overloaded", "type": "server_error"}})
                        break
                    if how.mode == "garbled":
                        yield b"data: {not json\n\n"
                yield _event(chunk)
                if how.chunk_delay_s:
                    await asyncio.sleep(how.chunk_delay_s)
            options = body.get("stream_options") or {}
            if options.get("include_usage") and how.usage:
                yield _event({**_head(body, "chat.completion.chunk"), "choices": [], "usage": _usage(body, how)})
            if how.mode != "no_done":
                yield b"data: [DONE]\n\n"
            finished = True
            while how.linger is not None and not how.linger.is_set():
                await asyncio.sleep(0.005)
        finally:
            self.streaming -= 1
            self.cancelled += not finished

    async def embeddings(self, request: Request) -> Response:
        await self._keep(request)
        asked = self.calls[-1].json["input"]
        texts = asked if isinstance(asked, list) else [asked]
        vector: object = [0.25, 0.5]
        if self.calls[-1].json.get("encoding_format") == "base64":
            vector = base64.b64encode(struct.pack("<2f", 0.25, 0.5)).decode()
        data = [{"object": "embedding", "index": number, "embedding": vector} for number in range(len(texts))]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return JSONResponse({"object": "list", "data": data, "model": "embed-1", "usage": usage})

    async def models(self, request: Request) -> Response:
        await self._keep(request)
        return JSONResponse({"object": "list", "data": [{"id": "gpt-test", "object": "model", "created": 1, "owned_by": "stub"}]})

    async def echo(self, request: Request) -> Response:
        await self._keep(request)
        call = self.calls[-1]
        told = {"method": call.method, "path": call.path, "query": call.query, "body": call.body.decode("latin-1")}
        return JSONResponse(told, 201, headers={"x-stub": "yes", "set-cookie": "session=stub"})

    async def _keep(self, request: Request) -> None:
        path = request.scope["raw_path"].decode()
        headers = dict(request.headers.items())
        self.calls.append(Call(request.method, path, request.url.query, headers, await request.body()))

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self.chat, methods=["POST"]),
                Route("/v1/embeddings", self.embeddings, methods=["POST"]),
                Route("/v1/models", self.models),
                Route("/{rest:path}", self.echo, methods=["GET", "POST", "PUT", "DELETE", "PATCH"]),
            ]
        )


async def _held(how: Behaviour) -> None:
    while how.hold is not None and not how.hold.is_set():
        await asyncio.sleep(0.005)


def _head(body: Json, kind: str) -> Json:
    return {"id": "chatcmpl-stub", "object": kind, "created": 1_760_000_000, "model": body.get("model", "")}


def text_of(body: Json, how: Behaviour) -> str:
    if how.answer is not None:
        return how.answer
    last = body["messages"][-1].get("content")
    return f"Answer to: {last} — 你好 🙂"


def _tool_call() -> Json:
    return {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Zürich"}'}}


def _usage(body: Json, how: Behaviour) -> Json:
    return {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18, "prompt_tokens_details": {"cached_tokens": 3}}


def completion(body: Json, how: Behaviour) -> Json:
    message: Json = {"role": "assistant", "content": text_of(body, how)}
    if how.reasoning is not None:
        message["reasoning"] = how.reasoning
    finish = how.finish_reason
    if how.tool_calls:
        message, finish = {"role": "assistant", "content": None, "tool_calls": [_tool_call()]}, "tool_calls"
    answer = _head(body, "chat.completion") | {"choices": [{"index": 0, "message": message, "finish_reason": finish}]}
    if how.usage:
        answer["usage"] = _usage(body, how)
    return answer


def _chunks(body: Json, how: Behaviour) -> Iterator[Json]:
    head = _head(body, "chat.completion.chunk")

    def chunk(delta: Json, finish: str | None = None) -> Json:
        return head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    yield chunk({"role": "assistant", "content": None if how.tool_calls else ""})
    if how.tool_calls:
        call = _tool_call()
        arguments = call["function"]["arguments"]
        yield chunk({"tool_calls": [{"index": 0, **call, "function": {"name": "weather", "arguments": ""}}]})
        for start in range(0, len(arguments), 5):
            yield chunk({"tool_calls": [{"index": 0, "function": {"arguments": arguments[start : start + 5]}}]})
        yield chunk({}, "tool_calls")
        return
    text = text_of(body, how)
    for start in range(0, len(text), 6):
        yield chunk({"content": text[start : start + 6]})
    yield chunk({}, how.finish_reason)


def _event(chunk: Json) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def _error(status: int, headers: dict[str, str]) -> Response:
    return JSONResponse({"error": {"message": f"stub says {status}", "type": "stub_error", "code": "stub"}}, status, headers=headers)


@contextlib.contextmanager
def serving(app: Any, port: int, *, healthy: Callable[[], object] | None = None) -> Iterator[uvicorn.Server]:
    """Serve an ASGI app in a thread on a loopback port; stop it and wait for it."""
    # A connection that was idle while the machine stood still must not be closed under the client that uses it again.
    config = uvicorn.Config(
        app, host="127.0.0.1", port=port, log_level="critical", ws="none", timeout_graceful_shutdown=1, timeout_keep_alive=600
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        wait_for(lambda: server.started, what=f"a server on port {port} starts")
        if healthy is not None:
            wait_for(healthy, what=f"the server on port {port} is ready")
        yield server
    finally:
        server.should_exit = True
        deadline = time.monotonic() + 60
        while thread.is_alive() and time.monotonic() < deadline:
            thread.join(0.1)
        assert not thread.is_alive(), "a test server did not stop"


@contextlib.contextmanager
def running_upstream() -> Iterator[StubUpstream]:
    stub = StubUpstream()
    with serving(stub.app(), stub.port):
        yield stub
