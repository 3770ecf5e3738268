"""Short texts whose words are the same, and the pairs that a cosine alone takes for one question."""

from __future__ import annotations

import pytest

from engine.types import VerifyMode
from engine.verify import parse, verify


def vetoed(one: str, two: str, mode: VerifyMode) -> bool:
    return any(verdict.veto for verdict in verify(parse(one), parse(two), mode=mode))


@pytest.mark.parametrize(
    ("one", "two"),
    [("dog bites man", "man bites dog"), ("Alice paid Bob", "Bob paid Alice"), ("狗咬人", "人咬狗"), ("狗咬了人", "人咬了狗")],
)
def test_who_did_it_to_whom_is_told_in_three_words(one: str, two: str) -> None:
    """Their cosines are .99 with the embedder that the gateway has by default."""
    assert all(vetoed(one, two, mode) for mode in VerifyMode)


@pytest.mark.parametrize(("one", "two"), [("cats and dogs", "dogs and cats"), ("猫和狗", "狗和猫"), ("tea or coffee", "coffee or tea")])
def test_what_stands_in_any_order_may_serve(one: str, two: str) -> None:
    assert not vetoed(one, two, VerifyMode.HARD)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("How do I speed up inference?", "How do I deploy the model?"),
        ("How do I speed up inference?", "How do I slow down inference?"),
        ("What is the weather in Beijing?", "How do I speed up inference?"),
        ("今天北京天气怎么样？", "如何加速模型推理？"),
        ("如何加速推理？", "如何减慢推理？"),
    ],
)
def test_the_pairs_of_the_demo_that_served_at_a_cosine_of_a_half(one: str, two: str) -> None:
    assert vetoed(one, two, VerifyMode.HARD)
    assert not vetoed("How can I make inference faster?", "How do I speed up inference?", VerifyMode.HARD)
