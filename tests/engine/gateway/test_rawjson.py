"""Names that came twice and numbers that lost digits are found in the bytes, whatever the texts hold."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.gateway.rawjson import oddity

TRICKY = st.text(alphabet='"\\\\: \n{}a\u00e9', max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | TRICKY,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TRICKY, inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(TRICKY, VALUES, max_size=4), st.booleans(), st.sampled_from([(",", ":"), (" , ", " : "), (",", "\n:\t")]))
def test_a_body_without_either_is_none(body: dict[str, Any], ascii_only: bool, separators: tuple[str, str]) -> None:
    raw = json.dumps(body, ensure_ascii=ascii_only, separators=separators).encode()
    assert oddity(raw, orjson.loads(raw)) == ""


@given(st.dictionaries(TRICKY, VALUES, min_size=1, max_size=4), st.sampled_from([(",", ":"), (" , ", " : ")]), st.booleans())
def test_a_name_twice_is_found_at_any_depth(body: dict[str, Any], separators: tuple[str, str], deep: bool) -> None:
    once = json.dumps(body, separators=separators)
    name, value = next(iter(body.items()))
    member = f"{json.dumps(name)}{separators[1]}{json.dumps(value, separators=separators)}"
    twice = f"{once[:-1]},{member}}}"
    raw = (f'{{"a:b": [{twice}]}}' if deep else twice).encode()
    assert oddity(raw, orjson.loads(raw)) == "duplicate_name"


@pytest.mark.parametrize(
    ("number", "found"),
    [
        ("9007199254740993.0", "imprecise_number"),
        ("18446744073709551616", "imprecise_number"),
        ("-9223372036854775809", "imprecise_number"),
        ("1e300", "imprecise_number"),
        ("18446744073709551615", ""),
        ("-9223372036854775808", ""),
        ("0.1", ""),
        ("1e3", ""),
    ],
)
def test_a_number_that_lost_digits_is_found(number: str, found: str) -> None:
    raw = f'{{"a": [{{"b": {number}}}]}}'.encode()
    assert oddity(raw, orjson.loads(raw)) == found
