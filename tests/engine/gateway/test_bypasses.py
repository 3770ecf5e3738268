"""Every request that is not looked up is counted once, with its reason, and nothing of it is stored or served."""

from __future__ import annotations

import json
from typing import Any

import pytest

from engine.breaker import Breaker
from engine.errors import InvalidSetting
from engine.gateway.answers import usage_of
from engine.gateway.lanes import Lanes
from engine.gateway.upstream import Upstream
from tests.engine.gateway.conftest import ADMIN, Gateway, ask, cache_status, settings_for
from tests.support.servers import wait_for
from tests.support.upstream import StubUpstream

CHATS: dict[str, tuple[dict[str, Any], str, str]] = {
    # reason: body, query, namespace
    "unknown_field": (ask(odd=1), "", "default"),
    "too_deep": (ask(tools=json.loads("[" * 150 + "]" * 150)), "", "default"),
    "multi_choice": (ask(n=2), "", "default"),
    "non_text": (ask(modalities=["text", "audio"]), "", "default"),
    "duplicate_name": (ask(seed=1), "", "default"),
    "imprecise_number": (ask(seed=2**64), "", "default"),
    "query_string": (ask(), "?api-version=1", "default"),
    "switch_off": (ask(), "", "off"),
}


def test_each_bypass_is_counted_with_its_reason_and_nothing_is_kept(gateway: Gateway, upstream: StubUpstream) -> None:
    change = {"namespace": "off", "changes": {"switch": "off"}, "expected_version": 0, "operation_id": "op"}
    gateway.control("POST", "/policy", json=change)
    client = gateway.http()
    for reason, (body, query, namespace) in CHATS.items():
        for _ in range(2):
            raw = json.dumps(body).replace('"seed": 1}', '"seed": 1, "seed": 1}')
            headers = {"Cachescope-Namespace": namespace, "Content-Type": "application/json"}
            answer = client.post(f"/v1/chat/completions{query}", content=raw, headers=headers)
            assert answer.status_code == 200
            assert cache_status(answer.headers) == {"fwd": "bypass", "detail": reason}
    assert client.post("/v1/embeddings", json={"model": "e", "input": "a"}).status_code == 200
    for path in ("/v1/completions", "/v1/responses"):
        answer = client.post(path, json={"model": "m", "prompt": "a"})
        assert cache_status(answer.headers) == {"fwd": "bypass", "detail": "not_cached"}
    client.get("/v1/models")
    prefix = 'cachescope_bypasses_total{reason="'

    def counted() -> dict[str, float]:
        counters = gateway.state.telemetry.counters()
        return {key.removeprefix(prefix).removesuffix('"}'): value for key, value in counters.items() if key.startswith(prefix)}

    wait_for(lambda: "embeddings" in counted(), what="the last one is counted, after its answer")
    assert counted() == {**dict.fromkeys(CHATS, 2), "embeddings": 1, "not_cached": 2}
    gateway.counts(2 * len(CHATS) + 1, outcome="bypass")
    assert len(upstream.chats) == 2 * len(CHATS)
    for namespace in ("default", "off"):
        assert gateway.control("GET", "/visible", params={"namespace": namespace})["visible"] == 0


@pytest.mark.parametrize("authorization", ["", "Bearer", "Bearer wrong", f"Basic {ADMIN}", f"bearer {ADMIN}x"])
def test_the_control_api_opens_to_the_token_alone(gateway: Gateway, authorization: str) -> None:
    for method, path in (("GET", "/state"), ("POST", "/purge"), ("DELETE", "/keys/0a"), ("PUT", "/state"), ("GET", "/nothing")):
        answer = gateway.http().request(method, f"/control/v1{path}", headers={"Authorization": authorization} if authorization else {})
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == "invalid_admin_token"


def test_a_number_of_tokens_that_no_span_can_hold_is_none() -> None:
    most = {"prompt_tokens": 2**63 - 1, "completion_tokens": 2**63}
    assert usage_of(most, price=None).input_tokens == 2**63 - 1
    assert usage_of(most, price=None).output_tokens is None


def test_a_password_in_the_upstream_s_url_is_refused_and_not_shown(sqlite_url: str) -> None:
    lanes = Lanes(Breaker, hits_stopped=lambda: False, waited=lambda in_time: None)
    with pytest.raises(InvalidSetting, match="upstream_api_key") as refused:
        Upstream(settings_for(sqlite_url, "http://user:secret@127.0.0.1:9/v1"), lanes)
    assert "secret" not in str(refused.value)
