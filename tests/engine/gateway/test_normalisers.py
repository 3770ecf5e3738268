"""A namespace's normaliser over the wire: spellings hit, streamed and plain, and a template of the request's own is looked up."""

from __future__ import annotations

from typing import Any

from tests.engine.gateway.conftest import Gateway, ask, cache_status
from tests.engine.gateway.test_chat import plain
from tests.support.upstream import StubUpstream


def normalise(gateway: Gateway, namespace: str, kind: str) -> None:
    change = {"namespace": namespace, "changes": {"normaliser": kind}, "expected_version": 0, "operation_id": f"op-{namespace}"}
    assert gateway.control("POST", "/policy", json=change)["policy"]["normaliser"] == kind


def test_spellings_of_a_statement_are_one_exact_hit(any_gateway: Gateway, upstream: StubUpstream) -> None:
    normalise(any_gateway, "sql", "sql")
    client = any_gateway.openai(Cachescope_Namespace="sql")
    first, _ = plain(client, **ask("SELECT a FROM t WHERE b = 'x  y'"))
    again, headers = plain(client, **ask("select  a\nfrom t where b='x  y';"))
    assert cache_status(headers)["detail"] == "exact"
    assert again.choices[0].message.content == first.choices[0].message.content
    assert (
        "".join(
            chunk.choices[0].delta.content or ""
            for chunk in client.chat.completions.create(**ask("select a from t where b = 'x  y'"), stream=True)
            if chunk.choices
        )
        == first.choices[0].message.content
    )
    assert len(upstream.chats) == 1
    for other in ("SELECT a FROM t WHERE b = 'x y'", "SELECT A FROM t WHERE b = 'x  y'", "SELECT a FROM t WHERE b = 'x  y' -- why?"):
        assert cache_status(plain(client, **ask(other))[1])["fwd"] == "miss"
    assert upstream.chats[-1].json["messages"][-1]["content"].endswith("-- why?")  # the upstream gets what was sent


def test_a_template_of_the_request_s_own_is_looked_up_by_its_tree_and_values(gateway: Gateway, upstream: StubUpstream) -> None:
    normalise(gateway, "vllm", "template")

    def told(source: str, *, namespace: str = "vllm", **values: Any) -> dict[str, str | bool]:
        body = {"chat_template": source, "chat_template_kwargs": values}
        return cache_status(plain(gateway.openai(Cachescope_Namespace=namespace), **ask(), extra_body=body)[1])

    assert told("{{ x }}", namespace="default") == {"fwd": "bypass", "detail": "unknown_field"}
    assert told("{{ x }}{# one #}", x=1)["stored"] is True
    assert told("{{x}}{# two #}", x=1)["hit"] is True
    for source, value in (("{{ x }} ", 1), ("{{ x }}", 1.0), ("{{ x }}", "1"), ("{{ x }}", True)):
        assert told(source, x=value)["fwd"] == "miss"
    assert told("{{ x", x=1) == {"fwd": "bypass", "detail": "unknown_field"}
    assert upstream.chats[-1].json["chat_template"] == "{{ x"
