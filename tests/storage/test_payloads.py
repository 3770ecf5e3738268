"""Payloads: what went in comes out, and what was stored stays readable."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.payloads import _DICTIONARY, pack, unpack


@given(st.binary(max_size=4_096))
def test_what_was_packed_is_unpacked(document: bytes) -> None:
    assert unpack(pack(document)) == document


def test_the_dictionary_is_part_of_the_format() -> None:
    """A change would make every stored payload unreadable: give the new dictionary a mark of its own."""
    assert hashlib.sha256(_DICTIONARY).hexdigest() == "832e6a35a3e53539f036e3cd095381a8929d9dbe18c684a4864d3d1774e4ce25"


def test_the_names_that_spans_carry_take_little_room() -> None:
    document = b'{"attributes":{"cachescope.outcome":"miss","gen_ai.request.model":"m-1","gen_ai.usage.input_tokens":12},"events":[]}'
    assert len(pack(document)) < len(document) / 2


@pytest.mark.parametrize("data", [b"", b"x\x9c", b"\x01", b"\x01nothing", pack(b"{}" * 99)[:-1]])
def test_what_is_no_payload_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="payload"):
        unpack(data)
