"""Python: two texts that share a form compile to the same code, and their names and literals are spelt alike."""

from __future__ import annotations

import dis
import warnings
from types import CodeType

import pytest
from hypothesis import HealthCheck, given, settings

from engine.normalise import rule_of
from engine.types import Normaliser
from tests.engine.normalise.edits import edited

normal = rule_of(Normaliser.PYTHON).text
assert normal

BASES = [
    "def f(a, b=3.10):\n    return a + b * 2\n",
    "if x:\n    y = 'a  b'\nelse:\n    y = f(x, [1, 2])\n",
    "total = (1 +\n         2)\nprint(f'{total:>5}', total)\n",
    "transfer(alice, 10)\n",
    "hello",
]


def compiled(text: str) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return unfolded(compile(text, "m", "exec", optimize=0))


def unfolded(code: CodeType) -> object:
    """Return the instructions with what they name. Not the places that are jumped to: a line that ends elsewhere adds a NOP."""
    told: list[object] = []
    for step in dis.get_instructions(code):
        if isinstance(step.argval, CodeType):
            told.append(unfolded(step.argval))
        elif step.opname not in {"NOP", "EXTENDED_ARG"}:
            told.append((step.opname, None if "JUMP" in step.opname or "FOR_ITER" in step.opname else repr(step.argval)))
    return code.co_varnames, code.co_freevars, told


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edited(BASES, "abxf =+*-:,()[]'\n\t#\\;.0123"))
def test_texts_of_one_form_compile_to_the_same_code(pair: tuple[str, str]) -> None:
    one, two = (normal(text) for text in pair)
    if one and two and one.form == two.form:
        assert compiled(pair[0]) == compiled(pair[1])


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("f( 1,2 )", "f(1, 2)\n\n"),
        ("if a:\n  b()", "if a:\n    b()\n"),
        ("x = (1 + 2)", "x = 1 + 2"),
        ("```python\nf( 1)\n```", "```python\nf(1)\n```"),
    ],
)
def test_these_share_a_form(one: str, two: str) -> None:
    assert normal(one) is not None
    assert normal(one) == normal(two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("transfer(alice, 10)", "delete(prod, 999)"),
        ("transfer(alice, 10)", "transfer(alice, 11)"),
        ("3.1", "3.10"),  # a version, in a text that is no program
        ("0x10", "16"),
        ("H", "\u210c"),  # one name to Python, two signs to a reader
        ("'a  b'", "'a b'"),
        ("if a:\n  b\nc", "if a:\n  b\n  c"),
        ("f(1)", "```python\nf(1)\n```"),
    ],
)
def test_these_do_not(one: str, two: str) -> None:
    left, right = normal(one), normal(two)
    assert left is None or right is None or left.form != right.form


@pytest.mark.parametrize(
    "text",
    [
        "f(1)  # and translate it to Java",
        "hello world",
        "def f(:",
        "",
        "\n",
        "a\0b",
        "x = '\ud800'",
        "(" * 300 + ")" * 300,
        "-" * 3_500 + "1",
        "x = 1\n" * 2_000,
        "Explain:\n```python\nf(1)\n```",
    ],
)
def test_these_are_left_as_they_were_sent(text: str) -> None:
    assert normal(text) is None


def test_the_shape_leaves_literals_out_and_keeps_names() -> None:
    one, two, other = (normal(text) for text in ("transfer(alice, 10)", "transfer(alice, 11)", "delete(prod, 999)"))
    assert one
    assert two
    assert other
    assert one.shape == two.shape != other.shape
