"""Who may ask: tenant keys when any were made, else the client's own bearer."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from typing import ClassVar

import openai
import pytest
import redis

from engine.gateway.auth import Auth
from engine.gateway.errors import GatewayError
from engine.records import TenantKey
from tests.engine.gateway.conftest import ADMIN, SECRET, Gateway, Start, ask, cache_status
from tests.engine.gateway.test_chat import plain
from tests.support.servers import RedisServer, free_port, wait_for
from tests.support.upstream import StubUpstream


def make_key(gateway: Gateway, tenant: str = "acme", **limits: list[str]) -> dict[str, str]:
    made: dict[str, str] = gateway.control("POST", "/keys", json={"tenant": tenant, **limits})
    return made


def refused(client: openai.OpenAI, status: int, code: str) -> str:
    with pytest.raises(openai.APIStatusError) as caught:
        plain(client, **ask())
    assert caught.value.status_code == status
    assert caught.value.code == code
    return str(caught.value)


def tenants(gateway: Gateway, namespace: str = "default") -> dict[str, int]:
    found: dict[str, int] = gateway.control("GET", "/preview", params={"namespace": namespace})["tenants"]
    return found


def test_without_keys_the_clients_bearer_is_forwarded_and_its_hmac_is_the_tenant(gateway: Gateway, upstream: StubUpstream) -> None:
    plain(gateway.openai("sk-mine"), **ask())
    assert upstream.chats[-1].headers["authorization"] == "Bearer sk-mine"
    digest = hmac.new(SECRET, b"sk-mine", hashlib.sha256).hexdigest()
    assert tenants(gateway) == {f"anon-{digest[:16]}": 1}
    gateway.http().post("/v1/chat/completions", json=ask())
    assert upstream.chats[-1].headers["authorization"] == "Bearer sk-upstream"
    assert tenants(gateway)["anonymous"] == 1


def test_with_keys_made_only_they_open_and_the_upstream_gets_the_configured_key(any_gateway: Gateway, upstream: StubUpstream) -> None:
    key = make_key(any_gateway)["key"]
    assert key.startswith("csk_")
    assert key.count("_") >= 2
    _, headers = plain(any_gateway.openai(key), **ask())
    assert cache_status(headers)["fwd"] == "miss"
    assert upstream.chats[-1].headers["authorization"] == "Bearer sk-upstream"
    assert tenants(any_gateway) == {"acme": 1}
    head, _, secret = key.rpartition("_")
    for wrong in ("sk-client", "csk_nothing_here", key + "x", f"{head}_{'x' * len(secret)}", head + "_", "csk_"):
        message = refused(any_gateway.openai(wrong), 401, "invalid_api_key")
        assert secret not in message
    answer = any_gateway.http().post("/v1/chat/completions", json=ask())
    assert answer.status_code == 401
    assert any_gateway.http().get("/v1/models").status_code == 401
    assert len(upstream.calls) == 1


def test_two_keys_of_one_tenant_share_and_two_tenants_do_not(gateway: Gateway) -> None:
    one, same, other = make_key(gateway), make_key(gateway), make_key(gateway, "umbrella")
    plain(gateway.openai(one["key"]), **ask())
    assert cache_status(plain(gateway.openai(same["key"]), **ask())[1])["hit"] is True
    assert cache_status(plain(gateway.openai(other["key"], Cachescope_Tenant="acme"), **ask(user="acme"))[1])["fwd"] == "miss"


def test_a_revoked_key_is_refused_and_the_gateway_does_not_open(gateway: Gateway) -> None:
    made = make_key(gateway)
    client = gateway.openai(made["key"])
    plain(client, **ask())
    gateway.control("DELETE", f"/keys/{made['id']}")
    assert "revoked" in refused(client, 401, "invalid_api_key")
    refused(gateway.openai("sk-client"), 401, "invalid_api_key")


def test_a_key_may_use_only_its_namespaces_and_model_versions(gateway: Gateway) -> None:
    key = make_key(gateway, namespaces=["faq", "a[1]*"], model_versions=["7"])["key"]
    refused(gateway.openai(key), 403, "namespace_not_allowed")
    refused(gateway.openai(key, Cachescope_Namespace="a1x"), 403, "namespace_not_allowed")
    refused(gateway.openai(key, Cachescope_Namespace="faq", Cachescope_Model_Version="8"), 403, "model_version_not_allowed")
    plain(gateway.openai(key, Cachescope_Namespace="faq", Cachescope_Model_Version="7"), **ask())
    plain(gateway.openai(key, Cachescope_Namespace="a[1]*"), **ask())


def test_a_tenant_key_is_never_forwarded_when_none_were_made(gateway: Gateway, upstream: StubUpstream) -> None:
    refused(gateway.openai("csk_abc_def"), 401, "invalid_api_key")
    assert not upstream.calls


def test_keys_are_hashed_at_rest_and_never_shown_again(gateway: Gateway, sqlite_url: str) -> None:
    made = make_key(gateway)
    listed = gateway.control("GET", "/keys")["keys"]
    assert [key["id"] for key in listed] == [made["id"]]
    assert "hash" not in listed[0]
    assert "key" not in listed[0]
    secret = made["key"].rpartition("_")[2]
    for path in Path(sqlite_url.removeprefix("sqlite:///")).parent.iterdir():
        assert secret.encode() not in path.read_bytes()


def test_the_control_api_needs_the_admin_token(gateway: Gateway, start: Start) -> None:
    for path in ("/state", "/namespaces", "/keys", "/gateways", "/nothing"):
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": f"Basic {ADMIN}"}):
            answer = gateway.http(headers=headers).get(f"/control/v1{path}")
            assert answer.status_code == 401
            assert set(answer.json()["error"]) == {"code", "message"}
    off = start(admin_token="")
    for headers in ({}, {"Authorization": "Bearer"}):
        answer = off.http(headers=headers).get("/control/v1/state")
        assert answer.status_code == 403
        assert "CACHESCOPE_ADMIN_TOKEN" in answer.json()["error"]["message"]


def test_a_key_made_at_one_gateway_is_known_to_another_by_its_next_poll_within_a_second(start: Start) -> None:
    one, two = start(), start()
    assert two.state.settings.engine.control_poll_s < 1
    key = make_key(one)["key"]

    def known() -> bool:
        try:
            plain(two.openai(key), **ask())
        except openai.AuthenticationError:
            return False
        return True

    wait_for(known, what="the second gateway knows the key")


@pytest.mark.redis
def test_a_store_that_lost_its_keys_does_not_open_the_gateway(start: Start, redis_server: RedisServer, upstream: StubUpstream) -> None:
    gateway = start(cache_url=redis_server.url)
    key = make_key(gateway)["key"]
    with redis.Redis.from_url(redis_server.url) as store:
        store.flushall()
    wait_for(lambda: not gateway.state.cache.view.keys, what="the gateway has seen the empty store")
    for client in (gateway.openai(key), gateway.openai("sk-client")):
        assert "cachescope key create" in refused(client, 503, "keys_lost")
    for path in ("/v1/models", "/v1/files"):
        assert gateway.http().get(path).json()["error"]["code"] == "keys_lost"
    assert not upstream.calls
    plain(gateway.openai(make_key(gateway)["key"]), **ask())


def test_a_gateway_for_other_machines_asks_for_keys_also_when_there_are_none(start: Start, upstream: StubUpstream, tmp_path: Path) -> None:
    gateway = start(bind=f"0.0.0.0:{free_port()}")
    refused(gateway.openai("sk-client"), 503, "keys_lost")
    assert gateway.http().post("/v1/chat/completions", json=ask()).json()["error"]["code"] == "keys_lost"
    assert not upstream.calls
    plain(gateway.openai(make_key(gateway)["key"]), **ask())
    plain(start(bind=f"0.0.0.0:{free_port()}", insecure=True, cache_url=f"sqlite:///{tmp_path / 'other.db'}").openai("sk-client"), **ask())


class _Unread:
    keys: ClassVar[dict[str, TenantKey]] = {}
    loaded = False
    keyed = False


def test_before_the_keys_are_read_an_own_bearer_passes_on_this_machine_only() -> None:
    def auth(*, keys_required: bool) -> Auth:
        return Auth(_Unread(), secret=SECRET, upstream_api_key="sk-up", admin_token="", keys_required=keys_required)

    assert auth(keys_required=False).identify("Bearer sk-mine").authorization == "Bearer sk-mine"
    for required, authorization in ((True, "Bearer sk-mine"), (True, ""), (False, ""), (False, "Bearer csk_a_b")):
        with pytest.raises(GatewayError) as caught:
            auth(keys_required=required).identify(authorization)
        assert caught.value.code == "keys_not_loaded"


CREDENTIALS = ("api-key", "x-api-key", "cookie", "openai-organization", "openai-project")


@pytest.mark.parametrize("bearer", [{}, {"Authorization": "Bearer sk-shared"}])
@pytest.mark.parametrize("name", CREDENTIALS)
def test_other_credentials_part_tenants_and_go_upstream_without_a_key_of_ours(
    gateway: Gateway, upstream: StubUpstream, name: str, bearer: dict[str, str]
) -> None:
    def said(value: str) -> str | bool:
        answer = gateway.http().post("/v1/chat/completions", json=ask(), headers={name: value, **bearer})
        return cache_status(answer.headers).get("hit", False)

    assert [said("one"), said("two"), said("one")] == [False, False, True]
    assert not cache_status(gateway.http().post("/v1/chat/completions", json=ask(), headers=bearer).headers).get("hit")
    for call, value in zip(upstream.chats, ("one", "two"), strict=False):
        assert call.headers[name] == value
        assert call.headers.get("authorization") == bearer.get("Authorization")


def test_no_two_sets_of_credentials_are_spelled_alike(gateway: Gateway) -> None:
    sets = ({"api-key": "a", "cookie": "b"}, {"api-key": "a1:b"}, {"x-api-key": "a", "cookie": "b"}, {"api-key": "b", "cookie": "a"})
    for number, headers in enumerate(sets):
        gateway.http().post("/v1/chat/completions", json=ask(), headers=headers)
        assert len(tenants(gateway)) == number + 1


def test_with_tenant_keys_other_credentials_stay_here(gateway: Gateway, upstream: StubUpstream) -> None:
    headers = {"Authorization": f"Bearer {make_key(gateway)['key']}", **dict.fromkeys(CREDENTIALS, "mine")}
    for stream in (False, True):
        assert gateway.http().post("/v1/chat/completions", json=ask(f"{stream}", stream=stream), headers=headers).status_code == 200
    assert gateway.http().get("/v1/models", headers=headers).status_code == 200
    assert len(upstream.calls) == 3
    for call in upstream.calls:
        assert call.headers["authorization"] == "Bearer sk-upstream"
        assert not call.headers.keys() & set(CREDENTIALS)
    assert tenants(gateway) == {"acme": 2}


@pytest.mark.parametrize("name", CREDENTIALS)
def test_a_tenant_key_in_another_header_is_not_forwarded_either(gateway: Gateway, upstream: StubUpstream, name: str) -> None:
    assert gateway.http().get("/v1/models", headers={name: "csk_abc_def"}).status_code == 401
    assert not upstream.calls


def test_an_authorization_of_another_scheme_is_the_clients_own(gateway: Gateway, upstream: StubUpstream) -> None:
    said = ["Basic dXNlcjpwdw==", "Basic b3RoZXI6cHc=", "sk-bare", "Bearer sk-bare", "Bearer Basic dXNlcjpwdw=="]
    for number, value in enumerate(said):
        gateway.http().post("/v1/chat/completions", json=ask(), headers={"Authorization": value})
        assert upstream.chats[-1].headers["authorization"] == value
        assert len(tenants(gateway)) == number + 1


def test_with_tenant_keys_another_scheme_is_refused(gateway: Gateway, upstream: StubUpstream) -> None:
    make_key(gateway)
    headers = {"Authorization": "Basic dXNlcjpwdw=="}
    assert gateway.http().post("/v1/chat/completions", json=ask(), headers=headers).status_code == 401
    assert not upstream.calls


@pytest.mark.parametrize("value", ["csk_abc_def", "Token csk_abc_def"])
def test_a_tenant_key_under_another_scheme_is_not_forwarded(gateway: Gateway, upstream: StubUpstream, value: str) -> None:
    assert gateway.http().get("/v1/models", headers={"Authorization": value}).status_code == 401
    assert not upstream.calls
