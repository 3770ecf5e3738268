"""Chat completions through the real OpenAI client: hits, misses, and what makes two requests different."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest

from tests.engine.gateway.conftest import Gateway, Start, ask, cache_status
from tests.support.upstream import StubUpstream

WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}


def plain(client: openai.OpenAI, **request: Any) -> tuple[Any, httpx.Headers]:
    raw = client.chat.completions.with_raw_response.create(**request)
    return raw.parse(), raw.headers


def streamed(client: openai.OpenAI, **request: Any) -> tuple[list[Any], httpx.Headers]:
    raw = client.chat.completions.with_raw_response.create(stream=True, **request)
    return list(raw.parse()), raw.headers


def text(chunks: list[Any]) -> str:
    return "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices)


def test_the_same_request_twice_is_an_exact_hit_with_identical_content(any_gateway: Gateway, upstream: StubUpstream) -> None:
    client = any_gateway.openai()
    first, miss = plain(client, **ask())
    second, hit = plain(client, **ask())
    assert second == first
    assert len(upstream.chats) == 1
    assert cache_status(miss) == {"fwd": "miss", "stored": True}
    told = cache_status(hit)
    assert told["hit"] is True
    assert told["detail"] == "exact"
    assert 70_000 < int(told["ttl"]) < 100_000
    assert hit["cachescope-entry"] == miss["cachescope-entry"]
    assert int(hit["age"]) >= 0
    any_gateway.counts(1, outcome="exact_hit", purpose="traffic")
    any_gateway.counts(1, outcome="miss", purpose="traffic")


def test_a_stream_is_stored_and_replayed_with_identical_content(any_gateway: Gateway, upstream: StubUpstream) -> None:
    client = any_gateway.openai()
    first, miss = streamed(client, **ask())
    second, hit = streamed(client, **ask())
    assert text(second) == text(first) != ""
    assert second[0].choices[0].delta.role == "assistant"
    assert second[-1].choices[0].finish_reason == "stop"
    assert {chunk.id for chunk in second} == {"chatcmpl-stub"}
    assert {chunk.object for chunk in second} == {"chat.completion.chunk"}
    assert cache_status(miss) == {"fwd": "miss"}
    assert cache_status(hit)["detail"] == "exact"
    assert hit["content-type"].startswith("text/event-stream")
    assert len(upstream.chats) == 1


def test_a_streamed_miss_then_a_plain_request_is_an_exact_hit_and_the_other_way_round(any_gateway: Gateway, upstream: StubUpstream) -> None:
    client = any_gateway.openai()
    chunks, _ = streamed(client, **ask("first"))
    answer, hit = plain(client, **ask("first"))
    assert cache_status(hit)["detail"] == "exact"
    assert answer.object == "chat.completion"
    assert answer.choices[0].message.content == text(chunks)
    assert answer.usage.prompt_tokens == 11  # asked of the upstream on our own account

    answer, _ = plain(client, **ask("second"))
    chunks, hit = streamed(client, **ask("second"), stream_options={"include_usage": True})
    assert cache_status(hit)["detail"] == "exact"
    assert text(chunks) == answer.choices[0].message.content
    assert chunks[-1].usage == answer.usage
    assert len(upstream.chats) == 2


@pytest.mark.parametrize("stream", [True, False])
def test_tool_calls_pass_through_whole_and_are_not_stored(gateway: Gateway, upstream: StubUpstream, stream: bool) -> None:
    upstream.behave(tool_calls=True)
    client = gateway.openai()
    for _ in range(2):
        if stream:
            with client.chat.completions.stream(**ask(tools=[WEATHER])) as events:
                answer = events.get_final_completion()
        else:
            answer, headers = plain(client, **ask(tools=[WEATHER]))
            assert cache_status(headers) == {"fwd": "miss"}
        assert answer.choices[0].message.tool_calls[0].function.arguments == '{"city": "Zürich"}'
        assert answer.choices[0].finish_reason == "tool_calls"
    assert len(upstream.chats) == 2


def test_whatever_changes_the_answer_or_its_owner_is_no_hit(any_gateway: Gateway, upstream: StubUpstream) -> None:
    client = any_gateway.openai()
    base = ask()
    plain(client, **base)
    others: list[tuple[openai.OpenAI, dict[str, Any]]] = [
        (client, {**base, "messages": [{"role": "system", "content": "Be brief."}, *base["messages"]]}),
        (client, {**base, "temperature": 0.2}),
        (client, {**base, "tools": [WEATHER]}),
        (client, {**base, "model": "gpt-other"}),
        (client, {**base, "messages": [{"role": "user", "content": "What is a cash?"}]}),
        (any_gateway.openai("sk-another-tenant"), base),
        (any_gateway.openai(Cachescope_Namespace="other"), base),
        (any_gateway.openai(Cachescope_Model_Version="2"), base),
    ]
    for number, (who, request) in enumerate(others):
        _, headers = plain(who, **request)
        assert cache_status(headers) == {"fwd": "miss", "stored": True}, number
    assert len(upstream.chats) == 1 + len(others)
    assert any_gateway.lookups(outcome="exact_hit") == 0


def test_the_user_field_neither_names_a_tenant_nor_parts_a_key(gateway: Gateway) -> None:
    plain(gateway.openai(), **ask(user="alice"))
    _, same = plain(gateway.openai(), **ask(user="bob"))
    assert cache_status(same)["hit"] is True
    _, other = plain(gateway.openai("sk-other", X_Tenant="alice", Cachescope_Tenant="alice"), **ask(user="alice"))
    assert cache_status(other)["fwd"] == "miss"


def test_cache_control_in_several_lines_is_one_list(gateway: Gateway) -> None:
    lines = [("Cache-Control", "no-store"), ("Cache-Control", "max-age=0")]
    answer = gateway.http().post("/v1/chat/completions", json=ask(), headers=lines)
    assert cache_status(answer.headers) == {"fwd": "miss"}
    assert cache_status(gateway.http().post("/v1/chat/completions", json=ask()).headers) == {"fwd": "miss", "stored": True}


def test_no_store_and_no_cache_are_obeyed(gateway: Gateway, upstream: StubUpstream) -> None:
    client = gateway.openai()
    _, headers = plain(client, **ask(), extra_headers={"Cache-Control": "no-store"})
    assert "stored" not in cache_status(headers)
    _, headers = plain(client, **ask())
    assert cache_status(headers) == {"fwd": "miss", "stored": True}
    _, headers = plain(client, **ask(), extra_headers={"Cache-Control": "no-cache"})
    assert cache_status(headers) == {"fwd": "request", "stored": True}
    assert len(upstream.chats) == 3


def test_what_is_not_cacheable_bypasses_with_its_reason(gateway: Gateway, upstream: StubUpstream) -> None:
    client = gateway.openai()
    for request, reason in (
        (ask(n=2), "multi_choice"),
        (ask(extra_body={"no_such_field": 1}), "unknown_field"),
        (ask(extra_query={"api-version": "7"}), "query_string"),
    ):
        for _ in range(2):
            _, headers = plain(client, **request)
            assert cache_status(headers) == {"fwd": "bypass", "detail": reason}
    assert len(upstream.chats) == 6
    assert upstream.chats[-1].query == "api-version=7"
    gateway.counts(6, outcome="bypass")


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
@pytest.mark.parametrize("stream", [False, True])
def test_upstream_errors_pass_through_and_are_never_stored(gateway: Gateway, upstream: StubUpstream, status: int, stream: bool) -> None:
    upstream.behave(mode="error", status=status, headers=(("retry-after", "7"), ("x-request-id", "r1")))
    client = gateway.openai()
    with pytest.raises(openai.APIStatusError) as caught:
        client.chat.completions.create(**ask(), stream=stream)
    assert caught.value.status_code == status
    assert caught.value.body == {"message": f"stub says {status}", "type": "stub_error", "code": "stub"}
    assert caught.value.response.headers["retry-after"] == "7"
    assert cache_status(caught.value.response.headers) == {"fwd": "miss"}
    upstream.behave()
    _, headers = plain(client, **ask())
    assert cache_status(headers) == {"fwd": "miss", "stored": True}
    gateway.counts(1, outcome="error")


def test_a_200_that_is_no_completion_passes_through_and_is_not_stored(gateway: Gateway, upstream: StubUpstream) -> None:
    upstream.behave(mode="garbage")
    for _ in range(2):
        answer = gateway.http().post("/v1/chat/completions", json=ask())
        assert answer.status_code == 200
        assert answer.content == b'{"choices": [{"message": '
        assert cache_status(answer.headers) == {"fwd": "miss"}
    assert len(upstream.chats) == 2


@pytest.mark.parametrize("reason", ["content_filter", None])
def test_an_answer_without_a_finish_reason_or_filtered_is_not_stored(gateway: Gateway, upstream: StubUpstream, reason: str | None) -> None:
    upstream.behave(finish_reason=reason)
    for _ in range(2):
        _, headers = plain(gateway.openai(), **ask())
        assert cache_status(headers) == {"fwd": "miss"}


def test_an_upstream_that_hangs_is_a_504(start: Start, upstream: StubUpstream) -> None:
    upstream.behave(mode="hang")
    gateway = start(upstream_timeout_s=0.3)
    for stream in (False, True):
        with pytest.raises(openai.APIStatusError) as caught:
            gateway.openai().chat.completions.create(**ask(), stream=stream)
        assert caught.value.status_code == 504
        assert caught.value.code == "upstream_timeout"
    gateway.counts(2, outcome="error")


def test_an_upstream_that_is_not_there_is_a_502(start: Start) -> None:
    gateway = start(upstream_url="http://127.0.0.1:9")
    with pytest.raises(openai.APIStatusError) as caught:
        gateway.openai().chat.completions.create(**ask())
    assert caught.value.status_code == 502


def test_without_an_upstream_the_503_names_the_setting_and_hits_still_serve(start: Start, sqlite_url: str) -> None:
    warmed = start()
    plain(warmed.openai(), **ask())
    alone = start(upstream_url="")
    _answer, hit = plain(alone.openai(), **ask())
    assert cache_status(hit)["hit"] is True
    for stream in (False, True):
        with pytest.raises(openai.APIStatusError) as caught:
            alone.openai().chat.completions.create(**ask("unheard of"), stream=stream)
        assert caught.value.status_code == 503
        assert "CACHESCOPE_UPSTREAM_URL" in str(caught.value)


@pytest.mark.parametrize("mode", ["die", "cut", "stream_error", "garbled", "no_done"])
def test_a_stream_that_does_not_end_well_is_never_stored(gateway: Gateway, upstream: StubUpstream, mode: str) -> None:
    upstream.behave(mode=mode)
    with gateway.http().stream("POST", "/v1/chat/completions", json=ask(stream=True)) as answer:
        sent = answer.read()
    assert answer.status_code == 200
    assert b"Answer" in sent
    assert sent.endswith(b"data: [DONE]\n\n") == (mode in ("stream_error", "garbled"))
    gateway.counts(0 if mode == "no_done" else 1, outcome="error")
    if mode not in {"garbled", "no_done"}:
        assert b'"error"' in sent  # else a client would take the piece for the whole
    upstream.behave()
    _, headers = plain(gateway.openai(), **ask())
    assert cache_status(headers) == {"fwd": "miss", "stored": True}


def test_the_openai_client_sees_a_cut_stream_as_an_error(gateway: Gateway, upstream: StubUpstream) -> None:
    upstream.behave(mode="die")
    with pytest.raises(openai.APIError):
        streamed(gateway.openai(), **ask())


def test_usage_is_asked_of_a_stream_and_hidden_from_a_client_that_did_not_ask(gateway: Gateway, upstream: StubUpstream) -> None:
    chunks, _ = streamed(gateway.openai(), **ask("a"))
    assert upstream.chats[-1].json["stream_options"] == {"include_usage": True}
    assert all(chunk.choices and chunk.usage is None for chunk in chunks)
    chunks, _ = streamed(gateway.openai(), **ask("b"), stream_options={"include_usage": True})
    assert chunks[-1].usage.prompt_tokens == 11


def test_an_upstream_that_refuses_stream_options_is_asked_without_them(gateway: Gateway, upstream: StubUpstream) -> None:
    upstream.behave(refuse_stream_options=True)
    for number in range(2):
        chunks, _ = streamed(gateway.openai(), **ask(f"question {number}"))
        assert text(chunks)
    assert len(upstream.chats) == 3  # refused once, then remembered
    with pytest.raises(openai.BadRequestError):
        streamed(gateway.openai(), **ask("own wish"), stream_options={"include_usage": True})


def test_a_request_that_is_refused_for_itself_hides_no_later_usage(gateway: Gateway, upstream: StubUpstream) -> None:
    upstream.behave(mode="refuse")
    with pytest.raises(openai.UnprocessableEntityError):
        streamed(gateway.openai(), **ask("not valid"))
    upstream.behave()
    streamed(gateway.openai(), **ask("valid"))
    assert upstream.chats[-1].json["stream_options"] == {"include_usage": True}


def test_a_stream_without_usage_goes_on_in_the_bytes_that_came(gateway: Gateway, upstream: StubUpstream) -> None:
    body = b' {"seed":123456789012345678901234,"temperature":0,"temperature":1,"stream":true,"model":"gpt-test",'
    body += b'"messages":[{"role":"user","content":"a"}]}'
    gateway.http().post("/v1/chat/completions", content=body)
    assert upstream.chats[-1].body == body.replace(b"{", b'{"stream_options":{"include_usage":true},', 1)
    odd = body.replace(b'"stream":true', b'"stream":true,"stream_options":{}')
    gateway.http().post("/v1/chat/completions", content=odd)
    assert upstream.chats[-1].body == odd


def test_an_upstream_that_ignores_stream_answers_whole(gateway: Gateway, upstream: StubUpstream) -> None:
    upstream.behave(mode="ignore_stream")
    answer = gateway.http().post("/v1/chat/completions", json=ask(stream=True))
    assert answer.json()["object"] == "chat.completion"
    assert cache_status(answer.headers) == {"fwd": "miss", "stored": True}


def test_the_upstream_url_is_understood_with_and_without_v1(start: Start, upstream: StubUpstream) -> None:
    for number, url in enumerate((upstream.url, upstream.url + "/", upstream.url.removesuffix("/v1"))):
        answer, _ = plain(start(upstream_url=url).openai(), **ask(f"number {number}"))
        assert answer.choices[0].message.content
    assert [call.path for call in upstream.calls] == ["/v1/chat/completions"] * 3


def test_headers_reach_the_upstream_less_our_own_and_the_trace_goes_on(gateway: Gateway, upstream: StubUpstream) -> None:
    trace = "0af7651916cd43dd8448eb211c80319c"
    client = gateway.openai(Cachescope_Namespace="a[1]*?\\", X_Custom="kept")
    plain(client, **ask(), extra_headers={"traceparent": f"00-{trace}-b7ad6b7169203331-01"})
    headers = upstream.chats[-1].headers
    assert headers["x-custom"] == "kept"
    assert headers["authorization"] == "Bearer sk-client"
    assert not [name for name in headers if name.startswith("cachescope")]
    version, trace_id, span_id, _ = headers["traceparent"].split("-")
    assert (version, trace_id) == ("00", trace)
    assert span_id != "b7ad6b7169203331"
    assert headers["host"] == f"127.0.0.1:{upstream.port}"
