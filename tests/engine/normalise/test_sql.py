"""SQL: two statements that share a form give the same rows, wherever their blanks and capitals are."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlglot.tokens import Tokenizer

from engine.normalise import rule_of
from engine.normalise.sql import _KEYWORDS
from engine.types import Normaliser
from tests.engine.normalise.edits import edited

normal = rule_of(Normaliser.SQL).text
assert normal

BASES = [
    "SELECT a, 'x  y' FROM t WHERE b = 1 AND c <> 'it''s' ORDER BY a",
    'SELECT "A b", count(*) AS n FROM t GROUP BY "A b" HAVING count(*) > 0',
    "WITH u AS (SELECT a FROM t) SELECT u.a - -1, 1.50, max(t.b) FROM u JOIN t ON t.a = u.a WHERE t.c IN ('a', 'B') LIMIT 3",
    "UPDATE t SET b = b + 1 WHERE c LIKE 'a%'",
]
NASTY = "abB'\"-*/ \n\t;,.()=<>1\\#$[]`N"


def rows(statement: str) -> object:
    """Return what SQLite makes of the statement, and what of its texts in quotes."""
    with sqlite3.connect(":memory:") as database:
        database.execute('CREATE TABLE t (a, b, c, "A b", n, x)')
        data = [(1, 1, "a", "q", 1, "x  y"), (2, 1, "B", "q", 2, "x y"), (1, 3, "it's", "Q", 3, ""), (0, 0, "ab", None, 4, "AB")]
        database.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?, ?)", data)
        try:
            found = database.execute(statement).fetchmany(50)
        except sqlite3.Error:
            return "no statement", list(quoted(statement))
        return found, database.execute("SELECT * FROM t").fetchall(), list(quoted(statement))


def quoted(statement: str) -> Iterator[str]:
    at = 0
    while at < len(statement):
        mark = statement[at]
        if mark in "'\"":
            end = at + 1
            while end < len(statement) and (statement[end] != mark or statement[end + 1 : end + 2] == mark):
                end += 2 if statement[end] == mark else 1
            yield statement[at : end + 1]
            at = end
        at += 1


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(edited(BASES, NASTY))
def test_statements_of_one_form_give_the_same_rows(pair: tuple[str, str]) -> None:
    one, two = (normal(text) for text in pair)
    if one and two and one.form == two.form:
        assert rows(pair[0]) == rows(pair[1])


WORDS = {"SELECT", "FROM", "WHERE", "AND", "ORDER", "BY", "GROUP", "COUNT"}


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_blanks_and_the_case_of_keywords_do_not_matter_and_all_else_does(data: st.DataObject) -> None:
    tokens = ["SELECT", "a", ",", "COUNT", "(", "b", ")", "FROM", "Users", "WHERE", "c", "=", "'x  Y'", "AND", "d", ">", "1.50"]
    blank = st.sampled_from([" ", "  ", "\n", "\t", " \r\n "])

    def spelt(parts: list[str]) -> str:
        cased = [part.lower() if part in WORDS and data.draw(st.booleans()) else part for part in parts]
        return "".join(("" if part == "(" else data.draw(blank)) + part for part in cased) + data.draw(st.sampled_from(["", ";", " ; "]))

    ours = normal(spelt(tokens))
    assert ours is not None
    assert ours == normal(spelt(tokens))
    place = data.draw(st.sampled_from([index for index, token in enumerate(tokens) if token not in WORDS]))
    other = {"'x  Y'": "'x Y'", "1.50": "1.5", "Users": "users", "=": "<>", ">": ">=", ",": "+", "a": "A", "b": "B", "c": "C", "d": "e"}
    changed = [*tokens[:place], other.get(tokens[place], f"{tokens[place]} {tokens[place]}"), *tokens[place + 1 :]]
    theirs = normal(spelt(changed))
    assert theirs is None or theirs.form != ours.form


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1 -- and drop nothing",
        "SELECT /* two */ 2",
        "SELECT [my  column] FROM t",
        "SELECT `a  b` FROM t",
        "SELECT 'a\\' , b  , \\'c'",
        "SELECT $$a  b$$",
        "SELECT N'a  b'",
        "SELECT q'[a'  b  'c]' FROM t",
        "SELECT 'a'\n'b'",
        "SELECT '''a'  b''' FROM t",
        "SELECT 1; SELECT 2",
        "SELECT a FROM t WHERE b = 1AND c = 2",
        "SELECT a FROM t WHERE b = 1.AND c = 2",
        'SELECT "\ud800" FROM t',
        "SELECT a FROM",
        "show tables",
        "hello world",
        "Which users are from Berlin?",
        "Explain this:\n```sql\nSELECT 1\n```",
        "```sql\nSELECT 1\n```\nand why?",
        "```python\nSELECT 1\n```",
        "SELECT " + "(" * 2_000,
        "SELECT " + "STRUCT(" * 14 + "a" + ")" * 14,  # 18 s for the parser
        "SELECT " + "DATE(" * 3 + "a" + ")" * 3,
        "SELECT " + "(" * 17 + "a" + ")" * 17,
        "SELECT a FROM t WHERE b IN (" + "1, " * 2_000 + "1)",
        "",
    ],
)
def test_these_are_left_as_they_were_sent(text: str) -> None:
    assert normal(text) is None


SPELLINGS = [
    ("select a from t group by a order  by b", "SELECT a FROM t GROUP\nBY a ORDER BY b"),
    ("select count(*), Max( a ) from t where a is not null", "SELECT COUNT(*), MAX(a) FROM t WHERE a IS NOT NULL"),
    ("select date(date(a)) from t", "SELECT date(date(a))  FROM t"),
    ("insert into t (a) values (1)", "INSERT INTO t(a) VALUES(1);"),
    ("select case when a in (1) then 2 else 3 end from t", "SELECT CASE WHEN a IN (1) THEN 2 ELSE 3 END FROM t"),
]


@pytest.mark.parametrize(("one", "two"), SPELLINGS)
def test_these_share_a_form(one: str, two: str) -> None:
    assert normal(one) is not None
    assert normal(one) == normal(two)


def test_a_word_that_may_be_a_name_keeps_its_case() -> None:
    """ClickHouse tells columns apart by case, MySQL and BigQuery tables."""
    places = ("SELECT {} FROM t", "SELECT a AS {} FROM t", "SELECT a FROM {}", "SELECT t.{} FROM t", "SELECT {}(a) FROM t")
    merged = []
    for word in sorted(word for word in Tokenizer.KEYWORDS if word.isalpha() and word not in _KEYWORDS):
        for place in places:
            upper, lower = (normal(place.format(spelt)) for spelt in (word, word.lower()))
            if upper and lower and upper.form == lower.form:
                merged.append(place.format(word))
    assert merged == []


def test_a_function_apart_from_its_bracket_is_none_for_mysql() -> None:
    apart, close = normal("SELECT count (*) FROM t"), normal("SELECT count(*) FROM t")
    assert apart
    assert close
    assert apart.form != close.form
    assert normal("SELECT a FROM t WHERE a IN (1)") == normal("SELECT a FROM t WHERE a IN(1)")


def test_a_block_of_code_alone_is_code() -> None:
    assert normal("```sql\nselect  1\n```\n") == normal("```sql\nSELECT 1\n```")
    assert normal("```sql\nselect  1\n```\n") is not None


def test_the_shape_leaves_literals_out_and_the_form_does_not() -> None:
    one, two = normal("SELECT * FROM t WHERE id = 1 AND c IN ('a', 'b')"), normal("SELECT * FROM t WHERE id = 2 AND c IN ('c')")
    assert one
    assert two
    assert one.shape == two.shape == "SELECT * FROM t WHERE id = ? AND c IN ( ? )"
    assert one.form != two.form


def test_a_statement_is_not_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    for text in ("SELECT secretword FROM t FOR JSON AUTO", "WITH secretword AS (SHOW x) SELECT 1", "INSERT secretword"):
        normal(text)
    assert "secretword" not in caplog.text
