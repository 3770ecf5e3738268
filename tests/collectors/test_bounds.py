"""Strings are cut with a marker, and never inside of what a reader sees as one character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from collectors.otlp.bounds import Bounds

CHARACTERS = [
    "a",
    "\u4e2d",
    "e\u0301",  # with an accent of its own
    "\u0915\u093f",  # Devanagari, with a vowel sign
    "\u1112\u1161\u11ab",  # a Korean syllable in its parts
    "\U0001f44d\U0001f3fd",  # a thumb, with a skin tone
    "\U0001f468\u200d\U0001f469\u200d\U0001f467",  # a family, joined
    "\U0001f1e9\U0001f1ea",  # a flag of two letters
    "\U0001f3f4" + "".join(map(chr, (0xE0067, 0xE0062, 0xE0065, 0xE006E, 0xE0067, 0xE007F))),  # a region's flag, of tags
    "1\ufe0f\u20e3",  # a key
]


def kept(text: str, most: int) -> str:
    cut, _, marker = Bounds(most).text(text).rpartition("…[cut: ")
    assert marker == f"{len(text)} characters]"
    return cut


@hypothesis_settings(deadline=None, max_examples=200)
@given(st.lists(st.sampled_from(CHARACTERS), min_size=2, max_size=30), st.integers(8, 40))
def test_a_cut_lies_between_characters_and_takes_as_many_as_it_can(given_characters: list[str], most: int) -> None:
    text = "".join(given_characters)
    if len(text) <= most:
        assert Bounds(most).text(text) == text
        return
    whole = [sum(map(len, given_characters[:number])) for number in range(len(given_characters) + 1)]
    assert len(kept(text, most)) == max(length for length in whole if length <= most)


@pytest.mark.parametrize("text", ["e" + "\u0301" * 500, "\u200d" * 500, "\U0001f1e9" * 501])
def test_what_is_no_writing_is_cut_all_the_same(text: str) -> None:
    assert 0 < len(kept(text, 100)) <= 100
