"""The control API does what its description says, and describes all that it does."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from engine.gateway.openapi import PATHS, PREFIX, description
from engine.records import _FIELDS
from engine.types import Policy
from tests.engine.gateway.conftest import ADMIN, Gateway
from tests.engine.gateway.described import control_api, judge

HEADERS = {"Authorization": f"Bearer {ADMIN}"}


def test_schemathesis_finds_nothing(tmp_path: Path) -> None:
    """Sixty requests or so; `python -m tests.bench.control_api_fuzz` makes thousands."""
    with control_api(tmp_path) as url:
        found_nothing, said = judge(url, tmp_path, "--phases", "fuzzing", "--max-examples", "2", "--seed", "7", timeout_s=240)
    assert found_nothing, said


def test_every_route_is_described_and_no_other(gateway: Gateway) -> None:
    client = gateway.http(headers=HEADERS)
    shown = client.get("/control/v1/openapi.json").json()
    assert shown["paths"].keys() == {PREFIX + path for path in PATHS}
    for path, operations in shown["paths"].items():
        answers = {method: client.request(method.upper(), path.replace("{key_id}", "0a")) for method in ("get", "post", "delete", "put")}
        assert {method for method, answer in answers.items() if answer.status_code != 405} == operations.keys(), path
        allowed = answers["put"].headers["allow"]
        assert allowed == ", ".join(sorted(method.upper() for method in operations))


def test_every_field_of_a_policy_is_described() -> None:
    schemas = description()["components"]["schemas"]
    assert schemas["Changes"]["properties"].keys() == set(_FIELDS)
    assert schemas["Policy"]["properties"].keys() == {field.name for field in dataclasses.fields(Policy)}


def test_the_description_needs_the_token_too(gateway: Gateway) -> None:
    refused = gateway.http().get("/control/v1/openapi.json")
    assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/reclaim", {"purge_id": "a", "batch": True}, 400),
        ("/reclaim", {"purge_id": "a", "batch": 7.5}, 400),
        ("/reclaim", {"purge_id": "a", "batch": 7.0}, 404),
        ("/reclaim", {"purge_id": "a", "operation_id": 5}, 400),
        ("/undo", {"purge_id": "a", "operation_id": "\u009b"}, 400),
        ("/policy", {"namespace": "a", "changes": {"switch": "on"}, "expected_version": False, "operation_id": "o"}, 400),
        ("/policy", {"namespace": "a", "changes": {"switch": "on"}, "expected_version": -1, "operation_id": "o"}, 400),
        ("/policy", {"namespace": "a", "changes": {"normaliser": "sql"}, "expected_version": 0.0, "operation_id": "o"}, 200),
        ("/warm", {"namespace": "a", "tenant": "t", "model_version": {}, "body": {"model": "m", "messages": [{"role": "user"}]}}, 400),
    ],
)
def test_values_of_another_kind_are_told_apart(gateway: Gateway, path: str, body: dict[str, object], status: int) -> None:
    answer = gateway.http(headers=HEADERS).post(f"/control/v1{path}", json=body)
    assert answer.status_code == status, answer.text
