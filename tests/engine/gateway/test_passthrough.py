"""What is no chat completion goes to the upstream and back untouched."""

from __future__ import annotations

import socket

import openai
import pytest

from tests.engine.gateway.conftest import Gateway, Start, cache_status
from tests.support.upstream import StubUpstream


def test_models_pass_through(gateway: Gateway) -> None:
    assert [model.id for model in gateway.openai().models.list()] == ["gpt-test"]


def test_embeddings_pass_through_and_are_a_bypass(gateway: Gateway, upstream: StubUpstream) -> None:
    raw = gateway.openai().embeddings.with_raw_response.create(model="embed-1", input=["a", "b"])
    assert len(raw.parse().data) == 2
    assert cache_status(raw.headers) == {"fwd": "bypass", "detail": "embeddings"}
    assert upstream.calls[-1].headers["authorization"] == "Bearer sk-client"
    gateway.counts(1, outcome="bypass")


def test_method_query_body_and_headers_are_untouched(gateway: Gateway, upstream: StubUpstream) -> None:
    client = gateway.http(headers={"Authorization": "Bearer sk-client", "X-Custom": "kept", "Cookie": "a=b"})
    answer = client.put("/v1/files/a%2Fb%20c?x=1&y=%2F", content=b"\x00\x01\xff raw")
    assert answer.status_code == 201
    assert answer.json() == {
        "method": "PUT",
        "path": "/v1/files/a%2Fb%20c",
        "query": "x=1&y=%2F",
        "body": b"\x00\x01\xff raw".decode("latin-1"),
    }
    assert answer.headers["x-stub"] == "yes"
    assert answer.headers["set-cookie"] == "session=stub"
    headers = upstream.calls[-1].headers
    assert headers["x-custom"] == "kept"
    assert headers["cookie"] == "a=b"
    gateway.http().get("/v1/files")
    assert "cookie" not in upstream.calls[-1].headers  # what the upstream set for one client is not another's
    assert "authorization" in upstream.calls[-1].headers  # the configured upstream key, for a client without a bearer
    assert upstream.calls[-1].headers["authorization"] == "Bearer sk-upstream"


def test_other_methods_on_the_chat_path_pass_through(gateway: Gateway, upstream: StubUpstream) -> None:
    gateway.http().delete("/v1/chat/completions/chatcmpl-1")
    assert (upstream.calls[-1].method, upstream.calls[-1].path) == ("DELETE", "/v1/chat/completions/chatcmpl-1")


@pytest.mark.parametrize("path", ["/v1/../admin", "/v1/%2e%2e/admin", "/v1/x/..%2F..%2Fadmin", "/v1/./models"])
def test_a_path_with_dot_segments_does_not_leave_v1(gateway: Gateway, upstream: StubUpstream, path: str) -> None:
    host, port = gateway.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as raw:
        raw.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert b" 400 " in answer.split(b"\r\n")[0]
    assert not upstream.calls


def test_without_an_upstream_the_answer_names_the_setting(start: Start) -> None:
    gateway = start(upstream_url="")
    with pytest.raises(openai.APIStatusError) as caught:
        gateway.openai().models.list()
    assert caught.value.status_code == 503
    assert "CACHESCOPE_UPSTREAM_URL" in str(caught.value)
