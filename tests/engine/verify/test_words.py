from __future__ import annotations

import pytest

from engine.verify import words
from engine.verify.english import content
from engine.verify.stems import stem


@pytest.mark.parametrize(
    ("one", "other"), [("delete", "remove"), ("buy", "purchase"), ("withdraw", "withdrawal"), ("refund", "refundable"), ("big", "large")]
)
def test_synonyms_are_the_same_word(one: str, other: str) -> None:
    assert words.same(stem(one), stem(other))
    assert words.same(stem(other), stem(one))


@pytest.mark.parametrize(
    ("one", "other"),
    [("mocha", "mochi"), ("gravel", "gavel"), ("hepatitis", "hepatosis"), ("diary", "dairy")],
)
def test_words_one_slip_apart_are_different_words(one: str, other: str) -> None:
    assert not words.same(stem(one), stem(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [("employer", "employee"), ("brand", "brandy"), ("text", "texture"), ("edit", "delete"), ("cat", "dog")],
)
def test_words_that_look_or_mean_alike_are_different_words(one: str, other: str) -> None:
    assert not words.same(stem(one), stem(other))


def test_irregular_forms_count_as_their_base_form() -> None:
    assert content("spoken") == content("speak")
    assert content("bought") == content("buy")
    assert content("left") != content("leave")


def test_two_nouns_and_two_unknown_words_are_names_of_different_things() -> None:
    assert words.names(stem("colour"), stem("brand"))
    assert words.names("quicksort", "heapsort")
    assert not words.names(stem("bring"), stem("carry"))
    assert not words.names("quicksort", stem("quickly"))
