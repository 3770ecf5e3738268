"""What is no request is refused as one; whatever JSON comes, nothing else happens."""

from __future__ import annotations

import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.digests import hmac_sha256
from engine.encoding import MAX_DEPTH, encode
from engine.errors import InvalidRequest
from tests.engine.rig import chat
from tests.engine.test_keys import canonical


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {},
        {"model": "", "messages": [{"role": "user", "content": "x"}]},
        {"model": "m", "messages": []},
        {"model": "m", "messages": ["x"]},
        {"model": "m", "messages": [{"content": "x"}]},
        {"model": "m", "messages": [{"role": "user", "content": 5}]},
        {"model": "m", "messages": [{"role": "user", "content": [{"text": "x"}]}]},
        chat(temperature=float("nan")),
    ],
)
def test_a_malformed_body_is_refused(body: Any) -> None:
    with pytest.raises(InvalidRequest):
        canonical(body)


def test_deep_nesting_is_refused_before_python_gives_up() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(InvalidRequest, match=str(MAX_DEPTH)):
        canonical(chat(tools=deep))


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=12,
)
_fields = st.sampled_from(
    ["model", "messages", "tools", "stop", "n", "temperature", "tool_choice", "modalities", "parallel_tool_calls", "odd", "stream"]
)
_message = st.dictionaries(st.sampled_from(["role", "content", "name", "tool_calls", "audio", "odd"]), _json, max_size=4)


@given(st.dictionaries(_fields, _json, max_size=6) | _json)
def test_no_json_raises_anything_but_invalid_request(body: Any) -> None:
    for candidate in (body, {**chat(), **body} if isinstance(body, dict) else body):
        try:
            canonical(candidate)
        except InvalidRequest:
            continue


@given(st.lists(_message, min_size=1, max_size=3))
def test_no_message_raises_anything_but_invalid_request(messages: list[Any]) -> None:
    typed = [{**message, "role": "user"} for message in messages]
    for sent in (messages, typed):
        try:
            found = canonical({"model": "m", "messages": sent})
        except InvalidRequest:
            continue
        found.prompt.encode()


_plain = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(alphabet="ab:1;", max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(alphabet="ab", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(_plain, _plain)
def test_the_canonical_bytes_tell_any_two_values_apart(left: Any, right: Any) -> None:
    same = json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
    assert (encode(left) == encode(right)) == same


@given(st.binary(max_size=200), st.binary(max_size=300))
def test_the_hmac_is_the_standard_librarys(key: bytes, message: bytes) -> None:
    assert hmac_sha256(key, message) == hmac.digest(key, message, "sha256")
