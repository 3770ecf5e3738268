"""The control API: what the console, the CLI and the worker ask of a gateway."""

from __future__ import annotations

import time

import pytest

from engine.breaker import State
from tests.engine.gateway.conftest import ADMIN, Gateway, Start, ask, cache_status
from tests.engine.gateway.test_chat import plain
from tests.support.servers import wait_for
from tests.support.upstream import StubUpstream


def test_state_tells_what_the_gateway_is(gateway: Gateway, upstream: StubUpstream) -> None:
    plain(gateway.openai(), **ask())
    state = gateway.control("GET", "/state")
    assert state["store"] == {"url_scheme": "sqlite", "ok": True, "error": ""}
    assert state["upstream"] == {"configured": True, "host": "127.0.0.1", "failing": []}
    assert state["embedder"]["ok"] is False
    assert "none" in state["embedder"]["reason"]
    assert state["keys"] == 0
    assert state["prompts_recorded"] is True
    assert state["demo"] is False
    assert 0 <= state["control_age_ms"] < 30_000
    assert len(state["gateway_id"]) == 16
    assert state["counters"]


def test_a_purge_hides_one_namespace_at_once_and_its_undo_brings_it_back(any_gateway: Gateway, upstream: StubUpstream) -> None:
    clients = {name: any_gateway.http(headers={"Cachescope-Namespace": name}) for name in ("a[1]*?", "a1x", "other")}

    def told(name: str) -> dict[str, str | bool]:
        return cache_status(clients[name].post("/v1/chat/completions", json=ask()).headers)

    for name in clients:
        told(name)
        assert told(name)["hit"] is True
    preview = any_gateway.control("GET", "/preview", params={"namespace": "a[1]*?"})
    assert preview["entries"] == 1
    assert preview["tenants"] == {"anonymous": 1}
    assert preview["sample"][0]["namespace"] == "a[1]*?"
    assert any_gateway.control("GET", "/visible", params={"namespace": "a[1]*?"})["visible"] == 1

    purge = any_gateway.control("POST", "/purge", json={"namespace": "a[1]*?", "operation_id": "op-1"})
    assert purge["entries"] == 1
    assert purge["state"] == "hidden"
    again = any_gateway.control("POST", "/purge", json={"namespace": "a[1]*?", "operation_id": "op-1"})
    assert again["new"] == purge["new"]
    assert any_gateway.control("GET", "/visible", params={"namespace": "a[1]*?"})["visible"] == 0
    listed = {space["name"]: space for space in any_gateway.control("GET", "/namespaces")["namespaces"]}
    assert set(listed) == {"a[1]*?", "a1x", "other"}
    assert [known["id"] for known in listed["a[1]*?"]["purges"]] == ["op-1"]
    assert told("a1x")["hit"] is True
    assert told("other")["hit"] is True

    any_gateway.control("POST", "/undo", json={"purge_id": purge["id"], "operation_id": "op-2"})
    assert told("a[1]*?")["hit"] is True
    assert len(upstream.chats) == 3

    second = any_gateway.control("POST", "/purge", json={"namespace": "a[1]*?", "operation_id": "op-3"})
    assert told("a[1]*?") == {"fwd": "miss", "stored": True}
    remaining, deleted = 1, 0
    while remaining:
        done = any_gateway.control("POST", "/reclaim", json={"purge_id": second["id"], "batch": 100})
        deleted, remaining = deleted + done["deleted"], done["remaining"]
    assert told("a[1]*?")["hit"] is True
    assert any_gateway.asked("POST", "/undo", json={"purge_id": second["id"], "operation_id": "op-4"}).status_code == 409


def test_the_switch_and_the_version_of_a_policy(gateway: Gateway, upstream: StubUpstream) -> None:
    client = gateway.openai()
    plain(client, **ask())
    change = {"namespace": "default", "changes": {"switch": "off"}, "expected_version": 0, "operation_id": "op-1"}
    policy = gateway.control("POST", "/policy", json=change)["policy"]
    assert (policy["switch"], policy["version"]) == ("off", 1)
    assert cache_status(plain(client, **ask())[1]) == {"fwd": "bypass", "detail": "switch_off"}
    assert gateway.asked("POST", "/policy", json={**change, "operation_id": "op-2"}).status_code == 409
    wrong = {**change, "changes": {"threshold": 7}, "expected_version": 1, "operation_id": "op-3"}
    assert gateway.asked("POST", "/policy", json=wrong).status_code == 400
    gateway.control("POST", "/policy", json={**change, "changes": {"switch": "on"}, "expected_version": 1, "operation_id": "op-4"})
    assert cache_status(plain(client, **ask())[1])["hit"] is True


def test_warming_stores_for_the_tenant_with_the_upstream_key_and_writes_nothing_twice(gateway: Gateway, upstream: StubUpstream) -> None:
    tenant = next(iter(_tenant_of(gateway)))
    order = {
        "namespace": "faq",
        "tenant": tenant,
        "model_version": "",
        "body": ask("warm me", stream=True),
        "operation_id": "op-1",
    }
    first = gateway.control("POST", "/warm", json=order)
    assert first["outcome"] == "miss"
    assert first["stored"] is True
    assert upstream.chats[-1].headers["authorization"] == "Bearer sk-upstream"
    again = gateway.control("POST", "/warm", json=order)
    assert (again["outcome"], again["stored"], again["entry_id"]) == ("exact_hit", False, first["entry_id"])
    _, headers = plain(gateway.openai(Cachescope_Namespace="faq"), **ask("warm me"))
    assert cache_status(headers)["hit"] is True
    assert headers["cachescope-entry"] == first["entry_id"]
    gateway.counts(2, purpose="warmup")
    upstream.behave(mode="error", status=429)
    failed = gateway.control("POST", "/warm", json={**order, "body": ask("another")})
    assert failed == {"outcome": "error", "stored": False, "entry_id": "", "reason": "upstream_429"}


def test_warming_asks_with_what_else_parts_the_key(gateway: Gateway, upstream: StubUpstream) -> None:
    key = gateway.control("POST", "/keys", json={"tenant": "acme", "scope": "ward 7"})["key"]
    order = {"namespace": "default", "tenant": "acme", "body": ask(), "adapter": "lora-é", "retrieval_version": "7", "scope": "ward 7"}
    assert gateway.control("POST", "/warm", json=order)["stored"] is True
    assert not [name for name in upstream.chats[-1].headers if name.startswith("cachescope")]
    headers = {"Authorization": f"Bearer {key}", "Cachescope-Adapter": "lora-é".encode(), "Cachescope-Retrieval-Version": "7"}
    with gateway.http(headers=headers) as client:
        assert cache_status(client.post("/v1/chat/completions", json=ask()).headers)["hit"] is True
        assert cache_status(client.post("/v1/chat/completions", json=ask(), headers={"Cachescope-Adapter": "b"}).headers)["fwd"] == "miss"
    for name in ("adapter", "retrieval_version", "scope"):
        assert gateway.asked("POST", "/warm", json={**order, name: "a\nb"}).status_code == 400


def test_what_is_stored_is_told_by_key(any_gateway: Gateway) -> None:
    def stored(*keys: str) -> list[str]:
        found: list[str] = any_gateway.control("POST", "/stored", json={"namespace": "default", "keys": keys})["stored"]
        return found

    with any_gateway.http() as client:
        for number in range(12):
            client.post("/v1/chat/completions", json=ask(f"question {number}"))
    sample = any_gateway.control("GET", "/preview", params={"namespace": "default"})["sample"]
    keys = [head["key"] for head in sample]
    assert len(keys) == 10
    assert stored("0" * 64, *keys) == keys
    assert any_gateway.control("POST", "/stored", json={"namespace": "faq", "keys": keys}) == {"stored": []}
    any_gateway.control("POST", "/purge", json={"namespace": "default", "operation_id": "op"})
    assert stored(*keys) == []
    for keys_asked in (["0" * 63], ["x" * 64], [7], "0" * 64, ["0" * 64] * 1_001):
        assert any_gateway.asked("POST", "/stored", json={"namespace": "default", "keys": keys_asked}).status_code == 400


def _tenant_of(gateway: Gateway) -> dict[str, int]:
    plain(gateway.openai(), **ask())
    tenants: dict[str, int] = gateway.control("GET", "/preview", params={"namespace": "default"})["tenants"]
    return tenants


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/purge", b"{"),
        ("/purge", b"[]"),
        ("/purge", b'{"namespace": "a"}'),
        ("/purge", b'{"operation_id": "a"}'),
        ("/purge", b'{"namespace": 1, "operation_id": "a"}'),
        ("/policy", b'{"namespace": "a", "changes": [], "expected_version": 0, "operation_id": "o"}'),
        ("/reclaim", b'{"purge_id": "a", "batch": 0}'),
        ("/warm", b'{"namespace": "a", "tenant": "t", "body": 1}'),
        ("/keys", b'{"tenant": ""}'),
        ("/keys", b'{"tenant": "t", "namespaces": "a"}'),
    ],
)
def test_a_malformed_act_is_a_400_that_names_what_is_missing(gateway: Gateway, path: str, body: bytes) -> None:
    answer = gateway.http(headers={"Authorization": f"Bearer {ADMIN}"}).post(f"/control/v1{path}", content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


def test_what_is_not_there_is_a_404(gateway: Gateway) -> None:
    client = gateway.http(headers={"Authorization": f"Bearer {ADMIN}"})
    assert client.post("/control/v1/undo", json={"purge_id": "no"}).status_code == 404
    assert client.delete("/control/v1/keys/no").status_code == 404
    assert client.get("/control/v1/nothing").status_code == 404


def test_gateways_beat_without_changing_the_token_and_leave(start: Start) -> None:
    one, two = start(), start()
    ids = {gateway.state.gateway_id for gateway in (one, two)}

    def beats() -> dict[str, int]:
        return {g["id"]: g["last_ms"] for g in one.control("GET", "/gateways")["gateways"]}

    wait_for(lambda: beats().keys() == ids, what="both gateways have beaten")
    token, now_ms = one.control("GET", "/gateways")["control_token"], time.time() * 1000
    wait_for(lambda: [beat > now_ms for beat in beats().values()] == [True, True], what="both have beaten again")
    assert one.control("GET", "/gateways")["control_token"] == token
    one.control("POST", "/purge", json={"namespace": "x", "operation_id": "op"})
    wait_for(
        lambda: [g["applied"] for g in one.control("GET", "/gateways")["gateways"]] == [True, True],
        what="both say they applied it",
    )


def test_metrics_and_health_need_no_token_on_this_machine(gateway: Gateway) -> None:
    plain(gateway.openai(), **ask())
    assert gateway.http().get("/healthz").text == "ok"
    metrics = gateway.http().get("/metrics")
    assert metrics.status_code == 200
    assert "cachescope_lookups_total" in metrics.text
    assert "cachescope_control_age_seconds" in metrics.text


def test_a_purge_during_a_miss_is_not_undone_by_its_store(gateway: Gateway, upstream: StubUpstream) -> None:
    import threading
    from concurrent.futures import ThreadPoolExecutor

    plain(gateway.openai(), **ask("first"))
    hold = threading.Event()
    upstream.behave(hold=hold)
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(plain, gateway.openai(), **ask("second"))
        wait_for(lambda: len(upstream.chats) == 2, what="the miss is on its way")
        gateway.control("POST", "/purge", json={"namespace": "default", "operation_id": "op"})
        hold.set()
        _, headers = asked.result(timeout=90)
    assert cache_status(headers) == {"fwd": "miss"}
    upstream.behave()
    assert cache_status(plain(gateway.openai(), **ask("second"))[1]) == {"fwd": "miss", "stored": True}


def test_a_hundred_hits_take_no_upstream_call(gateway: Gateway, upstream: StubUpstream) -> None:
    client = gateway.openai()
    for _ in range(101):
        plain(client, **ask())
    assert len(upstream.chats) == 1


def test_an_operator_sees_the_gateways_while_reads_of_requests_are_refused(gateway: Gateway) -> None:
    breaker = gateway.state.breakers.store_read
    wait_for(lambda: gateway.control("GET", "/gateways")["gateways"], what="the gateway has beaten")
    breaker._next_probe = float("inf")
    breaker.state = State.OPEN
    wait_for(lambda: gateway.control("GET", "/gateways")["gateways"], what="the gateway is listed")
