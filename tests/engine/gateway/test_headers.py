"""A header that goes upstream and may change the answer is part of the key, and one that looks like a credential parts tenants."""

from __future__ import annotations

import pytest

from engine.gateway.headers import is_credential, read
from tests.engine.gateway.conftest import Gateway, Start, ask, cache_status
from tests.engine.gateway.test_auth import make_key
from tests.support.servers import wait_for
from tests.support.upstream import StubUpstream

HARMLESS = {
    "user-agent": "another/1",
    "accept-language": "de",
    "x-stainless-retry-count": "1",
    "x-request-id": "7",
    "traceparent": f"00-{'1' * 32}-{'2' * 16}-01",
    "tracestate": "a=b",
    "baggage": "a=b",
    "x-forwarded-for": "10.0.0.1",
}


def asked(gateway: Gateway, headers: dict[str, str]) -> dict[str, str | bool]:
    answer = gateway.http().post("/v1/chat/completions", json=ask(), headers=headers)
    assert answer.status_code == 200
    return cache_status(answer.headers)


def test_a_header_that_the_upstream_decides_by_is_in_the_key(gateway: Gateway, upstream: StubUpstream) -> None:
    assert asked(gateway, {}) == {"fwd": "miss", "stored": True}
    for provider in ("openai", "anthropic"):
        assert asked(gateway, {"x-portkey-provider": provider}) == {"fwd": "miss", "stored": True}
        assert asked(gateway, {"X-Portkey-Provider": provider, **HARMLESS})["detail"] == "exact"
    assert [call.headers.get("x-portkey-provider") for call in upstream.chats] == [None, "openai", "anthropic"]
    counted = 'cachescope_keyed_headers_total{header="x-portkey-provider"}'
    wait_for(lambda: gateway.state.telemetry.counters().get(counted) == 4, what="the last lookup is counted")


def test_what_has_no_effect_leaves_the_key(gateway: Gateway) -> None:
    asked(gateway, {})
    for name, value in HARMLESS.items():
        assert asked(gateway, {name: value})["hit"] is True, name


def test_a_header_that_is_said_to_have_no_effect_leaves_the_key(start: Start, upstream: StubUpstream) -> None:
    gateway = start(key_ignored_headers=("x-session",))
    assert asked(gateway, {"x-session": "1"})["fwd"] == "miss"
    assert asked(gateway, {"X-Session": "2"})["hit"] is True
    assert upstream.chats[-1].headers["x-session"] == "1"


@pytest.mark.parametrize("name", ["x-goog-api-key", "x-auth-token", "x-amz-security-token", "x-authorization", "x-client-secret"])
def test_what_looks_like_a_credential_parts_tenants(gateway: Gateway, name: str) -> None:
    assert asked(gateway, {name: "alice"})["fwd"] == "miss"
    assert asked(gateway, {name: "mallory"})["fwd"] == "miss"
    assert asked(gateway, {})["fwd"] == "miss"
    assert asked(gateway, {name: "alice"})["hit"] is True
    assert len(gateway.control("GET", "/preview", params={"namespace": "default"})["tenants"]) == 3


def test_values_of_one_name_keep_their_order_and_no_name_runs_into_its_value() -> None:
    def keyed(*pairs: tuple[bytes, bytes]) -> object:
        return read(list(pairs), dict(pairs)).keyed

    assert keyed((b"b", b"1"), (b"a", b"1")) == keyed((b"a", b"1"), (b"b", b"1"))
    assert keyed((b"a", b"1"), (b"a", b"2")) != keyed((b"a", b"2"), (b"a", b"1"))
    for name in (b"x-forwarded-user", b"cf-aig-backend", b"openai-beta"):
        assert keyed((name, b"1")) == ((name, b"1"),)
    assert not is_credential(b"authorization")  # the bearer has its own rules


@pytest.mark.parametrize("name", ["Cachescope-Adapter", "Cachescope-Retrieval-Version"])
def test_adapter_and_retrieval_version_part_keys_and_stay_here(gateway: Gateway, upstream: StubUpstream, name: str) -> None:
    for value in ("", "1", "2"):
        assert asked(gateway, {name: value} if value else {})["fwd"] == "miss"
        assert asked(gateway, {name: value})["hit"] is True
    assert not [header for call in upstream.chats for header in call.headers if header.startswith("cachescope-")]
    too_long = gateway.http().post("/v1/chat/completions", json=ask(), headers={name: "x" * 201})
    assert (too_long.status_code, too_long.json()["error"]["code"]) == (400, "invalid_header")


def test_keys_of_two_scopes_share_nothing_and_no_header_names_a_scope(gateway: Gateway) -> None:
    none, nurses, doctors = (make_key(gateway, **({"scope": scope} if scope else {})) for scope in ("", "nurses", "doctors"))  # type: ignore[arg-type]
    for made in (none, nurses, doctors):
        assert asked(gateway, {"Authorization": f"Bearer {made['key']}"})["fwd"] == "miss"
        assert asked(gateway, {"Authorization": f"Bearer {made['key']}", "Cachescope-Scope": "nurses"})["hit"] is True
    listed = gateway.control("GET", "/keys")["keys"]
    assert [key["scope"] for key in listed] == ["", "nurses", "doctors"]
