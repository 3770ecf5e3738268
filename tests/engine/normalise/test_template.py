"""Prompt templates: two that share a form print the same, whichever options the server has set."""

from __future__ import annotations

import jinja2
import pytest
from hypothesis import HealthCheck, given, settings

from engine.normalise import rule_of
from engine.types import Normaliser
from tests.engine.normalise.edits import edited

form = rule_of(Normaliser.TEMPLATE).template
assert form

BASES = [
    "{% for m in messages %}\n<{{ m['role'] }}>{{ m.content }}\n{% endfor %}\n{{ x }}",
    "{# a note #}\n{%- if x > 1.0 %} a  b {% else %}c{% endif %}{{ 'q' ~ x }}\n",
    "a{{ x | default('none') }}b  {# c #}  d",
]
VALUES = {"messages": [{"role": "user", "content": "hi"}, {"role": "tool", "content": 1}], "x": 1.0}
SERVERS = [
    jinja2.Environment(trim_blocks=trim, lstrip_blocks=lstrip, keep_trailing_newline=keep)
    for trim, lstrip, keep in ((False, False, False), (True, True, False), (False, False, True), (True, True, True))
]


def printed(source: str) -> list[str]:
    told = []
    for server in SERVERS:
        try:
            told.append(server.from_string(source).render(VALUES))
        except (jinja2.TemplateError, TypeError, ValueError, ZeroDivisionError) as error:
            told.append(type(error).__name__)
    return told


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edited(BASES, "{}%#- \nax'1.|"))
def test_templates_of_one_form_print_the_same(pair: tuple[str, str]) -> None:
    one, two = (form(text) for text in pair)
    if one is not None and one == two:
        assert printed(pair[0]) == printed(pair[1])


@pytest.mark.parametrize(("one", "two"), [("a{{x}}b", "a{{ x }}b"), ("a{# one #}b", "a{# two #}b"), ("a{# one #}b", "ab")])
def test_these_share_a_form(one: str, two: str) -> None:
    assert form(one) is not None
    assert form(one) == form(two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("a{# c #}\nb", "a\nb"),
        ("a\n", "a"),
        ("a\n", "a\n{# c #}"),
        ("a\r\n", "a\r\n{##}"),
        ("{{ x }} b", "{{ x }}  b"),
        ("{{ 1 }}", "{{ 1.0 }}"),
        ("{{ '1' }}", "{{ 1 }}"),
    ],
)
def test_these_do_not(one: str, two: str) -> None:
    assert form(one) != form(two)


@pytest.mark.parametrize("text", ["{% nonsense %}", "{{", "{{ x" + "(" * 3_000, "x" * 40_000])
def test_what_jinja_cannot_read_has_no_form(text: str) -> None:
    assert form(text) is None
