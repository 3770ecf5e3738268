from __future__ import annotations

import pytest

from engine.verify import words
from engine.verify.english import stem


@pytest.mark.parametrize(("one", "other"), [("delete", "remove"), ("buy", "purchase")])
def test_synonyms_are_the_same_word(one: str, other: str) -> None:
    assert words.same(stem(one), stem(other))
    assert words.same(stem(other), stem(one))


@pytest.mark.parametrize(("one", "other"), [("mocha", "mochi"), ("gravel", "gavel"), ("hepatitis", "hepatosis"), ("diary", "dairy")])
def test_words_one_slip_apart_are_different_words(one: str, other: str) -> None:
    assert not words.same(stem(one), stem(other))
