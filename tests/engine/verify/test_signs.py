"""Signs, raised digits, brackets and the case of letters: what stands in a text without a word, and turns its answer round."""

# ruff: noqa: E501, SIM905 — a list of likely pieces reads better as one text
from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable
from types import FrameType

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.types import VerifyMode
from engine.verify import parse, verify
from engine.verify.signs import MAX_SPANS, read


def vetoes(one: str, other: str, mode: VerifyMode = VerifyMode.SAFE) -> set[str]:
    return {verdict.rule for verdict in verify(parse(one), parse(other), mode=mode) if verdict.veto}


NEAR = {
    "raised and mathematical": [
        ("What is 25?", "What is 2⁵?"),
        ("x ≥ 5", "x ≤ 5"),
        ("5", "5!"),
        ("What is 10⁶?", "What is 106?"),
        ("What is √16?", "What is ∛16?"),
        ("What is log₂8?", "What is log28?"),
        ("What is 10₂?", "What is 102?"),
        ("x ≠ 5", "x = 5"),
        ("limit of sin(x)/x", "limit of sin(x)*x"),
        ("a/b/c", "a/(b/c)"),
        ("Is a ratio of 1:2 right?", "Is a ratio of 2:1 right?"),
        ("Is gold > lead?", "Is lead > gold?"),
        ("What is x'?", "What is x?"),
        ("What is the mean x̄?", "What is the mean x?"),
        ("What is ℝ?", "What is R?"),
        ("Is ⌊x⌋ whole?", "Is ⌈x⌉ whole?"),
        ("Is x in [a, b)?", "Is x in (a, b]?"),
        ("Is 1/2 a number?", "Is 12 a number?"),
        ("How much is 20 m² in ft²?", "How much is 20 ft² in m²?"),
        ("Is 5 m² more than 3 ft²?", "Is 5 ft² more than 3 m²?"),
        ("How heavy are 12 m² of gravel?", "How heavy are 12 m³ of gravel?"),
    ],
    "rates": [
        ("How fast is 100 km/h?", "How fast is 100 mph?"),
        ("How fast is 100 kilometres per hour?", "How fast is 100 kilometres?"),
        ("Is 5 m/s fast?", "Is 5 km/h fast?"),
        ("Is 10 Mbps fast?", "Is 10 MB/s fast?"),
        ("Is 10 Mb/s fast?", "Is 10 Gbps fast?"),
        ("Is 10 Mbps much?", "Is 10 Mb much?"),
        ("时速100公里快吗", "100公里远吗"),
        ("100km/h快吗", "100km快吗"),
    ],
    "logic": [
        ("What does ∧ mean?", "What does ∨ mean?"),
        ("What does ± mean?", "What does ∓ mean?"),
        ("What is A ⇒ B?", "What is A ⇔ B?"),
    ],
    "code": [
        ("What does A & B do?", "What does A | B do?"),
        ("What does A & B do?", "What does A && B do?"),
        ("What does ?? do?", "What does ?. do?"),
        ("what is !x", "what is x"),
        ("What is [1,2]?", "What is (1,2)?"),
        ("What is the type of 1?", "What is the type of '1'?"),
        ("What does print('a1') show?", "What does print(a1) show?"),
        ("chmod +x", "chmod -x"),
        ("git commit -a", "git commit -m"),
        ("What does rm -r do?", "What does rm -i do?"),
        ("What does grep -v do?", "What does grep -i do?"),
        ("What does grep -v do?", "What does grep -V do?"),
        ("What is ++x?", "What is x++?"),
        ("What is $HOME?", "What is HOME?"),
        ("Which is faster, C or Rust?", "Which is faster, C++ or Rust?"),
        ("What does vec! do in Rust?", "What does vec do in Rust?"),
        ("What is .NET?", "What is net?"),
        ("What does : do in Python?", "What does ; do in Python?"),
        ("What does `;` do?", "What does `,` do?"),
        ("用 & 是什么", "用 | 是什么"),
    ],
    "signs": [
        ("What is the € sign?", "What is the £ sign?"),
        ("What does @ mean?", "What does # mean?"),
        ("Is A→B true?", "Is A←B true?"),
        ("Is A→B→C true?", "Is A→C→B true?"),
        ("北京→上海怎么走", "上海→北京怎么走"),
        ("p < 0.05 显著吗", "p > 0.05 显著吗"),
        ("What does 👍 mean?", "What does 👎 mean?"),
        ("Is $5 much?", "Is €5 much?"),
        ("Is 100% enough?", "Is 100 enough?"),
        ("What is 5‰?", "What is 5%?"),
    ],
    "alone between blanks": [
        ("What does rm -rf / do?", "What does rm -rf . do?"),
        ("What does rm -rf ~ do?", "What does rm -rf / do?"),
        ("What does rm -rf ~ do?", "What does rm -rf . do?"),
        ("What does rm -rf . do?", "What does rm -rf do?"),
        ("What does ls / show?", "What does ls . show?"),
        ("What does ls .. show?", "What does ls . show?"),
        ("What does cd ~ do?", "What does cd / do?"),
        ("what does cd .. do?", "what does cd . do?"),
        ("run ls .", "run ls"),
        ("run cd ..", "run cd ."),
        ("what does cd - do", "what does cd do"),
        ("How do I escape - in regex?", "How do I escape . in regex?"),
        ("How do I escape / in sed?", "How do I escape . in sed?"),
        ("How do I escape ' in SQL?", 'How do I escape " in SQL?'),
        ("How do I type ' on a Mac?", 'How do I type " on a Mac?'),
        ("How do I replace , with ; in Excel?", "How do I replace ; with , in Excel?"),
        ("How do I replace . with , in Excel ?", "How do I replace , with . in Excel ?"),
        ("How do I replace + with - in vim?", "How do I replace - with + in vim?"),
        ("How do I split a string by , in Python?", "How do I split a string by ; in Python?"),
        ("How do I split a string on : in Python?", "How do I split a string on ; in Python?"),
        ("When should I put ; in a sentence?", "When should I put : in a sentence?"),
        ("字符串用 , 分割怎么写", "字符串用 ; 分割怎么写"),
        ("What does HIV- mean?", "What does HIV mean?"),
        ("code .", "code"),
        ("* in regex", "+ in regex"),
        ("> in bash, what is it?", "# in bash, what is it?"),
        ("What does ' ' mean?", "What does '' mean?"),
    ],
    "a star is stress around words alone": [
        ("What does rm *tmp* do?", "What does rm tmp do?"),
        ("what does find -name *test* match", "what does find -name test match"),
        ("How do I delete files matching *log*?", "How do I delete files matching log?"),
        ("What does rm **tmp** do?", "What does rm tmp do?"),
    ],
    "no ornaments": [
        ("How do I play C♯ minor on guitar?", "How do I play C minor on guitar?"),
        ("What is the relative minor of B♭ major?", "What is the relative minor of B major?"),
        ("F♯大调有几个升号", "F大调有几个升号"),
        ("Is A ➡ B allowed?", "Is B ➡ A allowed?"),
        ("Is A ➜ B allowed?", "Is A B allowed?"),
        ("What is 5 ➕ 3?", "What is 5 3?"),
        ("What is 8 ✖ 2?", "What is 8 ➗ 2?"),
        ("Is a 3★ hotel good?", "Is a 3 hotel good?"),
        ("Is a 3 ★ hotel good?", "Is a 3 hotel good?"),
        ("How heavy is 1 M☉?", "How heavy is 1 M?"),
        ("She replied :) what does it mean?", "She replied :( what does it mean?"),
        ("What does :D mean in chat?", "What does :( mean in chat?"),
        ("What does ;) mean?", "What does :-) mean?"),
    ],
    "minus after a Han, kana or Hangul letter": [
        ("疫苗应该在-20℃保存吗", "疫苗应该在20℃保存吗"),
        ("冰箱冷冻室设为-18度可以吗", "冰箱冷冻室设为18度可以吗"),
        ("近视-600度能手术吗", "近视600度能手术吗"),
        ("增长率为-3%正常吗", "增长率为3%正常吗"),
        ("账户余额-100元怎么办", "账户余额100元怎么办"),
        ("为什么-1的平方是1", "为什么1的平方是1"),
        ("冷凍庫を-18度にしていいですか", "冷凍庫を18度にしていいですか"),
        ("냉동실을-18도로 해도 돼?", "냉동실을18도로 해도 돼?"),
        ("血型O-的人能给谁输血", "血型O的人能给谁输血"),
        ("血型是A-的人多吗", "血型是A的人多吗"),
        ("血型Rh-的人多吗", "血型Rh的人多吗"),
        ("值为-x时怎么办", "值为x时怎么办"),
        ("为什么-√2小于0", "为什么√2小于0"),
        ("今天5-10度吗", "今天10-5度吗"),
    ],
    "plus, minus and grades": [
        ("What is GMT-3?", "What is GMT3?"),
        ("时区UTC-5是哪里", "时区UTC5是哪里"),
        ("Who can an O- donor give to?", "Who can an O+ donor give to?"),
        ("Is A+ blood rare?", "Is A- blood rare?"),
        ("Is a grade of A- good?", "Is a grade of A+ good?"),
        ("零下十度穿什么", "十度穿什么"),
        ("负五是整数吗", "五是整数吗"),
        ("Is minus 5 whole?", "Is 5 whole?"),
        ("Is it 10 degrees below zero?", "Is it 10 degrees?"),
        ("What is 5 - 3?", "What is 3 - 5?"),
    ],
}
WITHOUT = [
    ("Can I fly w/o a passport?", "Can I fly with a passport?"),
    ("Can I fly w/o passport", "Can I fly w/ passport"),
    ("Can I log in w/out a password?", "Can I log in with a password?"),
    ("How do I log in W/O a password?", "How do I log in with a password?"),
]
CASE = [
    ("Is 10 Mb/s fast?", "Is 10 MB/s fast?"),
    ("Is 10 Mbps fast?", "Is 10 MBps fast?"),
    ("Is 5 mW much?", "Is 5 MW much?"),
    ("What is a mHz?", "What is a MHz?"),
    ("Is 5m much?", "Is 5M much?"),
    ("What is Σ in maths?", "What is σ in maths?"),
    ("What is Δx?", "What is δx?"),
    ("What is Ω?", "What is ω?"),
    ("What is γ in physics?", "What is Γ in physics?"),
    ("What is π?", "What is Π?"),
    ("Σ是什么意思", "σ是什么意思"),
    ("What is σ_x?", "What is Σ_x?"),
]
SERVES = [
    ("What's the weather?", "what is the weather"),
    ("Set up e-mail", "set up email"),
    ('Open the "file" menu', "open the file menu"),
    ("Buy these:\n- apples\n- pears", "Buy these: apples, pears"),
    ("# Colours\n* red\n* blue", "Colours\n- red\n- blue"),
    ("Salt & pepper", "salt and pepper"),
    ("Is 5% ok?", "is 5 percent ok"),
    ("Is 15 % ok?", "Is fifteen percent ok?"),
    ("Is $5 ok?", "Is 5 dollars ok?"),
    ("Run 10km", "run 10 km"),
    ("Is 5 GB enough?", "is 5gb enough"),
    ("C++ tips", "c++ tips"),
    ("Open at 5 PM?", "open at 5 pm?"),
    ("Is 5G fast?", "is 5g fast?"),
    ("Ｈｅｌｌｏ，ｗｏｒｌｄ！", "Hello, world!"),
    ("What is 3×4?", "What is 3 * 4?"),
    ("What is 3 + 4?", "What is 3 plus 4?"),
    ("What is 2^5?", "What is 2⁵?"),
    ("What is H₂O?", "What is H2O?"),
    ("What is 20°C in Fahrenheit?", "What is 20 degrees Celsius in Fahrenheit?"),
    ("When is x>=5?", "When is x ≥ 5?"),
    ("plot f(x) = x + 1", "plot f(x)=x+1"),
    ("How do I use print() in Python?", "How do I use print in Python?"),
    ("Thanks! 😊", "Thanks!"),
    ("[urgent] reset my password", "reset my password (urgent)"),
    ("How do I get a visa — quickly?", "How do I get a visa quickly?"),
    ("Comment ça marche ?", "Comment ça marche?"),
    ("What is the difference between == and ===?", "What is the difference between === and ==?"),
    ("Does R&D pay?", "does R&D pay"),
    ("Thanks ~", "Thanks"),
    ("Great 👍 , can I have one?", "Great, can I have one?"),
    ("red shoes - cheap ones", "red shoes, cheap ones"),
    ("My phone broke , can I return it ?", "My phone broke, can I return it?"),
    ('Where is the " Save as " button', "Where is the Save as button"),
    ("How do I use **bold** text?", "How do I use bold text?"),
    ("Is *the red one* cheaper?", "Is the red one cheaper?"),
    ("How do I play C# minor?", "How do I play C♯ minor?"),
    ("Is A ➡ B allowed?", "Is A -> B allowed?"),
    ("Can I fly w/o a passport?", "Can I fly without a passport?"),
    ("Do you serve it w/ milk?", "Do you serve it with milk?"),
    ("Thanks :)", "Thanks"),
    ("Which hotel is best ★★★", "Which hotel is best"),
    ("The 🤗 library", "The library"),
    ("Is the 17:00 train late?", "Is the 5 pm train late?"),
    ("Is my card blocked! please help", "Is my card blocked? please help"),
    ("How do I polish it?", "how do i polish it"),
    ("How do I install python on Ubuntu?", "How do I install Python on Ubuntu?"),
    ("3加4等于几", "3+4等于几"),
    ("“你好”是什么意思", "你好是什么意思"),
    ("（急）怎么退款", "怎么退款（急）"),
    ("百分之二十够吗", "20%够吗"),
    ("零下五度冷吗", "-5度冷吗"),
    ("气温-5度穿什么", "气温零下5度穿什么"),
    ("气温-5度穿什么", "气温负五度穿什么"),
    ("温度5-10度穿什么", "温度5到10度穿什么"),
    ("温度5度-10度穿什么", "温度5到10度穿什么"),
    ("3月-5月去哪里玩", "3月到5月去哪里玩"),
    ("从2024-01-02起有效吗", "从2024年1月2日起有效吗"),
    ("打电话010-62751230可以吗", "可以打电话010-62751230吗"),
    ("10平方米大吗", "10m²大吗"),
    ("How many square feet are 20 square metres?", "How much is 20 m² in square feet?"),
    ("How fast is 100 km/h?", "How fast is 100 kilometres per hour?"),
    ("How fast is 100 kph?", "How fast is 100 km per hour?"),
    ("What is km/h?", "What is kilometers per hour?"),
    ("Is 60 mph fast?", "Is 60 miles per hour fast?"),
    ("Is 10 Mb/s fast?", "Is 10 megabits per second fast?"),
    ("100公里每小时快吗", "100km/h快吗"),
    ("时速100公里快吗", "每小时100公里快吗"),
    ("20Mb/s的网速够用吗", "20Mbps的网速够用吗"),
    ("你好，世界。", "你好 世界"),
    ("What is π?", "what is π"),
    ("Η Αθήνα είναι μεγάλη;", "η Αθήνα είναι μεγάλη;"),
    ("Is Σ the sum and σ the spread?", "is Σ the sum and σ the spread"),
]


@pytest.mark.parametrize(("one", "other"), [pair for pairs in NEAR.values() for pair in pairs])
def test_another_sign_is_another_question_in_every_mode(one: str, other: str) -> None:
    assert all(vetoes(one, other, mode) for mode in VerifyMode)


@pytest.mark.parametrize(("one", "other"), WITHOUT)
def test_w_o_is_a_negation(one: str, other: str) -> None:
    assert all(vetoes(one, other, mode) for mode in VerifyMode)


@pytest.mark.parametrize(("one", "other"), CASE)
def test_a_unit_of_another_case_is_another_unit(one: str, other: str) -> None:
    assert all("case" in vetoes(one, other, mode) for mode in VerifyMode)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Where can I find Polish lessons?", "Where can I find polish lessons?"),
        ("Is turkey warm in May?", "Is it true that Turkey is warm in May?"),
        ("Why does IT take so long?", "Why does it take so long?"),
    ],
)
def test_a_word_that_a_capital_makes_another_word_is_vetoed_from_hard_mode_on(one: str, other: str) -> None:
    assert "capital" in vetoes(one, other, VerifyMode.HARD)
    assert "capital" in vetoes(one, other, VerifyMode.STRICT)
    assert "capital" not in vetoes(one, other)


@pytest.mark.parametrize(("one", "other"), SERVES)
def test_what_is_punctuation_or_another_way_to_write_goes_on_serving(one: str, other: str) -> None:
    assert not vetoes(one, other, VerifyMode.HARD) & {"sign", "case", "capital"}


PIECES = st.sampled_from(
    """What is does x y n 5 25 2 10 the value of Polish polish Mb MB mW MW 什么 是 北京 负 零下 五 , . ! ? ; : … 。 ？ ( ) [ ] { } < > ≤ ≥ = ≠ + - * / × ÷ ± √ ² ⁵ ₂ ½ ① & | ^ ~ @ # $ € % ° ' "
    ` _ \\ → ← ++ -- ?? ?. -> && 😀 ™ ﬁ Ａ x̄ ℝ \u200d \ue000""".split()
)
MIXED = st.lists(st.tuples(PIECES, st.sampled_from(["", " "])), max_size=14).map(lambda parts: "".join(map("".join, parts)))
# What a sentence may have or lack, and what is no character of its own. All else that is no letter and no blank is a sign here.
PUNCTUATION = frozenset(".,;:!?…'\"“”‘’、。，；：？！\u200d\ufe0f")


def skeleton(text: str) -> str:
    """Return the text but for blanks, case and sentence punctuation, by an own reading of its characters."""
    return "".join(char for char in unicodedata.normalize("NFC", text) if char not in PUNCTUATION and not char.isspace()).casefold()


@given(MIXED, MIXED)
def test_two_texts_have_one_parse_only_if_their_signs_and_letters_are_the_same(one: str, other: str) -> None:
    if parse(one) == parse(other):
        assert skeleton(one) == skeleton(other)


@given(
    st.sampled_from(["What is {}?", "Explain {} to me", "{}", "How would you write {} in a report?", "{}是什么意思", "请解释 {} 一下"]),
    st.sampled_from(["x{}y", "x {} y", "2{}5", "7 {} 3", "({}x)", "f(x){}g(x)", "a_b{}c"]),
    st.lists(st.sampled_from("≤ ≥ ≠ = < > + * / ± ∓ √ ∧ ∨ ¬ & | ^ → ← ⇒ == && || << >> ∈ ∉ ⊂ ⊃ # @ ² ³".split()), min_size=2, max_size=2, unique=True),
)  # fmt: skip
def test_a_formula_with_another_sign_never_serves(sentence: str, formula: str, signs: list[str]) -> None:
    one, other = (sentence.format(formula.format(sign)) for sign in signs)
    assert all(vetoes(one, other, mode) for mode in VerifyMode)
    without = sentence.format(formula.format(""))
    assert vetoes(one, without) or signs[0] == "&"  # `and`, between two words


@given(st.lists(st.characters() | st.characters(categories=["Cs"]) | PIECES, max_size=40).map("".join))
def test_any_text_has_a_parse_that_serves_itself(text: str) -> None:
    known = parse(text)
    assert not any(verdict.veto for verdict in verify(known, known, mode=VerifyMode.STRICT))


def steps(text: str) -> int:
    """Return how many lines of Python are run to read a text's signs."""
    count = 0

    def trace(frame: FrameType, event: str, _: object) -> Callable[..., object]:
        nonlocal count
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        read(text)
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("runs", [",", ";", "!", ".", "()", "[{(|)}]", "f(|)", "(a|)", "x+", '"', "* ", "_", "**a ", "_ ", ":) "])
def test_the_work_grows_with_the_length_not_with_its_square(runs: str) -> None:
    left, _, right = runs.partition("|")
    read(left + right)  # what is kept of single characters is made
    short, long = (steps(left * times + right * times) for times in (100, 400))
    assert long < 6 * short


@given(MIXED)
def test_signs_are_read_from_any_text_within_bounds(text: str) -> None:
    spans, pictures = read(unicodedata.normalize("NFC", text))
    assert len(spans) <= MAX_SPANS
    assert all(len(span) <= 64 for span in spans + pictures)


@pytest.mark.parametrize("sign", ["+", "x+", "(", "[a]", "²", "a_", "'", "?", "-5 ", "→", "😀 a ", "~x "])
def test_more_signs_than_are_kept_are_still_told_apart(sign: str) -> None:
    one = parse((sign * 2_000)[:1_990] + " #a")
    assert len(one) < 40_000
    assert any(verdict.veto for verdict in verify(one, parse((sign * 2_000)[:1_990] + " #b"), mode=VerifyMode.SAFE))


def test_a_parse_says_its_version_so_that_one_that_saw_no_signs_never_serves() -> None:
    old = orjson.loads(parse("What is 25?")) | {"v": 3}
    assert {verdict.rule for verdict in verify(parse("What is 25?"), orjson.dumps(old).decode(), mode=VerifyMode.SAFE)} == {"unparsed"}
