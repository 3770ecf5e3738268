"""Every number that a page shows is defined in the one table that its tooltip is drawn from."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pandas as pd  # type: ignore[import-untyped]
import pytest

from app.ui import tables
from app.views import definitions

ROOT = Path(__file__).resolve().parents[3]
# Headings of columns that name or tell something and count nothing.
TEXTS = frozenset(
    re.split(
        r"\|",
        "act|analysed until (UTC)|answered by|at (UTC)|asked (UTC)|became|begun (UTC)|best knob|by|cache|call|can be warmed"
        "|candidate|command|demo|detail|dialect|dimension|entry|entry ids|expires (UTC)|finding|first|fitted (UTC)"
        "|for example|held out|how|in|instance|its own hits say|kind|knob|label|labels|last error"
        "|lifetime|line|meaning|measure|method|metric|misleads|missing|mode|model|name|namespace|new"
        "|normaliser|notes|outcome|policy|prompt|provider|provisional|reason|reclaim|record|role|rule"
        "|rule for cached tokens|scope|server|service|set (UTC)|shape|so this is hidden|source|start (UTC)"
        "|state|stored (UTC)|switch|system|taken as|tenant|threshold|time|time (UTC)|time to live|trace"
        "|trace id|traces|type|undo|unit|until (UTC)|values to blame|vanished|verdict|verification|what|what changed"
        "|what it is|what it means|when it is full|which|worth it",
    )
)


def trees(*folders: str) -> Iterator[ast.AST]:
    for folder in folders:
        for file in sorted((ROOT / folder).glob("*.py")):
            yield ast.parse(file.read_text())


def calls(name: str, *folders: str) -> Iterator[ast.Call]:
    for tree in trees(*folders):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name:
                yield node


def headings() -> set[str]:
    """Return the keys of every dict that a function of rows holds: the columns of the tables."""
    found = set()
    for tree in trees("app/views", "app/charts"):
        for function in ast.walk(tree):
            if isinstance(function, ast.FunctionDef) and (function.name.endswith("rows") or function.name == "table"):
                keys = [key for node in ast.walk(function) if isinstance(node, ast.Dict) for key in node.keys]
                found |= {key.value for key in keys if isinstance(key, ast.Constant) and isinstance(key.value, str)}
    return found


def test_every_column_is_a_text_or_has_a_definition() -> None:
    shown = headings()
    assert len(shown) > 150
    assert not sorted(heading for heading in shown - TEXTS if not definitions.column(heading))
    assert not sorted(TEXTS - shown)
    assert not sorted(set(definitions.COLUMNS) - shown)
    assert definitions.column("missed at 25 %")
    assert definitions.column("exact hit")


def test_every_dial_has_a_definition() -> None:
    labels = {call.args[0].value for call in calls("Dial", "app/views") if call.args and isinstance(call.args[0], ast.Constant)}
    assert len(labels) > 20
    assert not sorted(str(label) for label in labels if not definitions.dial(str(label)))


def test_every_chart_has_a_definition() -> None:
    keys = [
        ast.unparse(keyword.value).removeprefix("f").strip("'\"")
        for call in calls("chart", "app/ui", "pages")
        for keyword in call.keywords
        if keyword.arg == "key"
    ]
    assert len(keys) > 10
    assert not [key for key in keys if not definitions.chart(key)]
    assert {key.partition("_")[0] for key in keys} == set(definitions.CHARTS)


def test_a_click_on_every_chart_does_something_or_the_table_says_why_not() -> None:
    """A chart is told to be selectable exactly where it is."""
    acting = set()
    for call in calls("chart", "app/ui", "pages"):
        given = {keyword.arg: ast.unparse(keyword.value).removeprefix("f").strip("'\"") for keyword in call.keywords}
        if "key" in given:
            acting.add((given["key"].partition("_")[0], "click" in given))
    assert {name for name, click in acting if not click} == set(definitions.UNSELECTABLE)
    assert {name for name, click in acting if click} == set(definitions.CLICKS)
    assert not set(definitions.CLICKS) & set(definitions.UNSELECTABLE)
    assert set(definitions.CLICKS) | set(definitions.UNSELECTABLE) == set(definitions.CHARTS)


@pytest.mark.parametrize("own", [None, tables.percent_bar("hit rate")])
def test_a_column_tells_its_definition_unless_it_has_one_of_its_own(own: object) -> None:
    told = tables.configured(pd.DataFrame([{"hit rate": 1.0, "namespace": "faq"}]).columns, {} if own is None else {"hit rate": own})
    assert "no data" in told["hit rate"]["help"]
    assert "namespace" not in told
    assert tables.configured(["n"], {"n": tables.number("n", help="its own")})["n"]["help"] == "its own"
