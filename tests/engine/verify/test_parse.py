# ruff: noqa: E501, SIM905 — a list of likely pieces reads better as one text
from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.types import VerifyMode
from engine.verify import parse, verify
from engine.verify.parse import language

ANY_TEXT = st.text(st.characters(), max_size=300)
LIKELY = st.lists(
    st.sampled_from(
        "not 3 1,000 2.5 $ % km 5pm 12:30 2024-05-01 May May 3 first second one two hundred and thousand 三 千 百 万 亿 第 点 半 周 五 月 日 年 百分之 上午 从 到 把 转成 没有 不 "
        'from to into ` " “ ” 《 》 C++ foo_bar() http://a.b/c x@y.z \ud800 \x00 ４２ ½ Ⅳ'.split(" ")
    ),
    max_size=30,
).map(" ".join)
GLUED = LIKELY.map(lambda text: text.replace(" ", ""))


@given(st.one_of(ANY_TEXT, LIKELY, GLUED))
def test_parse_never_raises_and_a_text_never_vetoes_itself(text: str) -> None:
    parsed = parse(text)
    assert json.loads(parsed)["v"] == 5
    for mode in VerifyMode:
        assert verify(parsed, parse(text), mode=mode) == ()


@given(st.one_of(ANY_TEXT, LIKELY, GLUED), st.one_of(ANY_TEXT, LIKELY, GLUED))
def test_verify_never_raises_and_is_symmetric(a: str, b: str) -> None:
    one = verify(parse(a), parse(b), mode=VerifyMode.HARD)
    two = verify(parse(b), parse(a), mode=VerifyMode.HARD)
    assert {(v.rule, v.veto) for v in one} == {(v.rule, v.veto) for v in two}


def test_a_parse_is_bounded() -> None:
    for text in ("7 " * 100_000, "x" * 200_000, "三" * 200_000, "`" * 200_000, "ﷺ" * 200_000, "A " * 100_000, "“" * 50_000 + "从" * 50_000):
        assert len(parse(text)) < 40_000


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1,500 euros", ["1500|eur"]),
        ("three thousand five hundred", ["3500"]),
        ("twenty-five kg", ["25|kg"]),
        ("$2.50", ["2.5|usd"]),
        ("50k users", ["50000"]),
        ("1.5 million people", ["1500000|person"]),
        ("version v1.2.3", ["1.2.3"]),
        ("35 percent", ["35|percent"]),
        ("三千五百元", ["3500|cny"]),
        ("三千五", ["3500"]),
        ("3.5万", ["35000"]),
        ("百分之二十", ["20|percent"]),
        ("两斤苹果", ["2|jin"]),
        ("一万二千人", ["12000|person"]),
        ("which one is it", []),
        ("三国和四川，一样", []),
    ],
)
def test_numbers_are_written_in_one_form(text: str, numbers: list[str]) -> None:
    assert json.loads(parse(text)).get("n", []) == numbers


@pytest.mark.parametrize(
    ("text", "dates"),
    [
        ("on 4 July 1776", ["D4", "M7", "Y1776"]),
        ("on July 4th, 1776", ["D4", "M7", "Y1776"]),
        ("2024-03-05", ["D5", "M3", "Y2024"]),
        ("at 5:30 pm", ["T17:30"]),
        ("1776年7月4日", ["D4", "M7", "Y1776"]),
        ("五月一日", ["D1", "M5"]),
        ("下午五点半", ["T17:30"]),
        ("at 3 o'clock", ["t03:00"]),
        ("by noon", ["T12:00"]),
        ("星期二", ["W2"]),
        ("You may march on", []),
    ],
)
def test_dates_are_written_in_one_form(text: str, dates: list[str]) -> None:
    assert json.loads(parse(text)).get("d", []) == dates


def test_language_is_told_by_script_and_function_words() -> None:
    assert language("How do I do that?") == "en"
    assert language("怎么重置密码？") == "zh"
    assert language("Wie kann ich das machen und warum nicht?") == "de"
    assert language("パスワードをリセット") == "ja"
    assert language("") == ""
