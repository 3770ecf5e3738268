"""Blanks that say nothing: words, lines and paragraphs stay what they are."""

from __future__ import annotations

import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.normalise import rule_of
from engine.types import Normaliser
from tests.engine.normalise.edits import edited

normal = rule_of(Normaliser.WHITESPACE).text
assert normal

BASES = [
    "How do I reset it? Thanks.",
    "Dear team,\n\nplease help me.\nYours, Bob",
    "什么是缓存？ 谢谢",
    "1 2 3",
    "- one\n- two",
    "I can't go",
]


def said(text: str) -> object:
    """Return what a reader of the text sees: paragraphs of lines of words, blanks told apart from none."""
    lines = [line.strip(" ") for line in text.strip(" \n").split("\n")]
    return [[re.split(" +", line) for line in paragraph.split("\n")] for paragraph in re.split("\n{2,}", "\n".join(lines))]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edited(BASES, "ab ,\n2"))
def test_texts_of_one_form_say_the_same(pair: tuple[str, str]) -> None:
    one, two = (normal(text) for text in pair)
    if one and two and one == two:
        assert said(pair[0]) == said(pair[1])
    if two:
        assert "".join(two.form.split()) == "".join(pair[1].split())
        assert normal(two.form) == two  # and so a text and its own form share a key


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(st.sampled_from("ab  \n\t.'\"`|_>#[\u00a0\u3000")))
def test_what_blanks_may_mean_something_in_is_left_as_it_was_sent(text: str) -> None:
    if set(text) & set('\t"`|_>#[\u00a0\u3000'):
        assert normal(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "What does 'a  b' mean?",
        "How many spaces are in a  b",
        "这里有几个空格：a  b",
        "name   age\nBob      5",  # a table: which column is the 5 in?
        "if x:\n  y",
        "She said ’a  b’",
        "Fill in:  I    apples",
        "a\rb",
        "x" * 5_000,
        "Give the SHA256 of: hello  world",
        "Base64 this: a,  b",
        "Reverse: ab  c",
        "Repeat after me: hi   there",
        "Is  foo bar  a palindrome",
        "Wie viele Leerzeichen stehen in: a  b",
        "Combien de caractères dans: a  b",
        "Сколько пробелов: а  б",
        "把下面的話倒過來寫：你好，  世界",
    ],
)
def test_these_are_left_as_they_were_sent(text: str) -> None:
    assert normal(text) is None


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Add 12 500  300", "Add 12  500 300"),
        ("Which word is - .... .   -- .- -.", "Which word is - .... . -- .- -."),
        ("What is n o w  h e r e", "What is n o w h e r e"),
        ("Sort each\n\ndog\n\ncat\n\n\nbird\n\nant", "Sort each\n\ndog\n\n\ncat\n\nbird\n\nant"),
        ("Rank: hot dog  ice cream", "Rank: hot  dog ice cream"),
        ("hot dog  ice cream  apple pie", "hot  dog ice cream apple  pie"),
        ("As web page\nroses are red  \nviolets are blue", "As web page\nroses are red\nviolets are blue"),
        ("Proofread the cat  sat.", "Proofread the cat sat."),
        ("Compute the MD5 of one  two", "Compute the MD5 of one two"),
        ("Are one  two and one two identical", "Are one two and one two identical"),
        ("Wie viele Leerzeichen hat eins  zwei", "Wie viele Leerzeichen hat eins zwei"),
        ("Сколько пробелов тут  там", "Сколько пробелов тут там"),
        ("2  3/4", "2 3/4"),
    ],
)
def test_these_do_not(one: str, two: str) -> None:
    forms = normal(one), normal(two)
    assert None in forms or forms[0] != forms[1]


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Please, tell me more.", "Please,  tell me more. "),
        ("How do I reset it? ", "  How do I reset it?"),
        ("\r\nDear team,\r\n\r\n\r\nplease help.", "Dear team,  \n\nplease help."),
        ("I can't.  Why?", "I can't. Why?"),
    ],
)
def test_these_share_a_form(one: str, two: str) -> None:
    assert normal(one) == normal(two)
    assert normal(one) is not None
