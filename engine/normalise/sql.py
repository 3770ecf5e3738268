"""SQL: blanks and the case of keywords and of the best known functions. Names, literals, operators and their order stay as they are spelt.

Two statements share a form when their tokens do (keywords in any case) and sqlglot reads the same tree from them, in which names
keep their case: a keyword that is a name here is told apart. What dialects cut up otherwise (escapes by backslash, dollar
quotes, brackets, prefixed strings, comments) is left as it was sent: the blanks of a string could be at stake.
"""

# ruff: noqa: SIM905 — a list of words reads, diffs and is searched better as one text
from __future__ import annotations

import logging
import re
from functools import lru_cache
from importlib.metadata import version
from itertools import pairwise
from typing import Any

import orjson
import sqlglot
from sqlglot import exp, serde
from sqlglot.errors import SqlglotError
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType
from sqlglot.tokens import Tokenizer

from engine.normalise.base import MAX_CHARS, REMEMBERED, Normal, Rule, unfenced

# The trees are sqlglot's own, release by release.
VERSION = f"sql/2/{version('sqlglot')}"

_FIRST = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.INSERT, TokenType.UPDATE, TokenType.DELETE, TokenType.MERGE})
_STATEMENTS = (exp.Query, exp.Insert, exp.Update, exp.Delete, exp.Merge)
# Outside of quotation marks: comments, other quotes, names in brackets, escapes, templates.
_OTHERWISE_CUT = re.compile(r"[\\$#{}\[\]`'\"]|--|/\*")
# Reserved nearly everywhere. Where one is a name all the same, the tree tells.
_KEYWORDS = frozenset(
    (
        "ALL AND AS ASC BETWEEN BY CASE CROSS DELETE DESC DISTINCT ELSE END EXISTS FROM FULL GROUP HAVING IN INNER INSERT INTO IS JOIN "
        "LEFT LIKE LIMIT NOT NULL OFFSET ON OR ORDER OUTER RIGHT SELECT SET THEN UNION UPDATE USING VALUES WHEN WHERE WITH"
    ).split()
)
# Functions that no dialect lets anybody define in another case.
_FUNCTIONS = frozenset({"ABS", "AVG", "COALESCE", "COUNT", "LENGTH", "LOWER", "MAX", "MIN", "ROUND", "SUM", "TRIM", "UPPER"})
# Functions of MySQL that are no functions where a blank stands before the bracket (manual, "Function Name Parsing and Resolution").
_TOUCH_THEIR_BRACKET = re.compile(
    r"(?:ADD|SUB)DATE|BIT_(?:AND|OR|XOR)|CAST|COUNT|CUR(?:DATE|TIME)|DATE_(?:ADD|SUB)|EXTRACT|GROUP_CONCAT|MAX|MID|MIN|NOW|POSITION|"
    r"(?:SESSION|SYSTEM)_USER|STD|STDDEV(?:_POP|_SAMP)?|SUBSTR(?:ING)?|SUM|SYSDATE|TRIM|VARIANCE|VAR_(?:POP|SAMP)"
)
_ALNUM = re.compile(r"[\w$@#]")
_SURROGATE = re.compile("[\ud800-\udfff]")  # no text that a statement can be written in
_BLANKS = " \n\r\t"
_QUOTED = frozenset({TokenType.STRING, TokenType.IDENTIFIER})
_LITERAL = frozenset({TokenType.STRING, TokenType.NUMBER})
# Read as a type, then as a call: twice the time for each such parenthesis inside another.
_MOST_TYPES_DEEP, _MOST_DEEP = 2, 16
_SEVERAL = re.compile(r"\?(?: , \?)+")

# Its warnings quote the statement, which is a tenant's.
logging.getLogger("sqlglot").setLevel(logging.CRITICAL)


@lru_cache(maxsize=REMEMBERED)
def normal(text: str) -> Normal | None:
    """Return one statement's normal form and its shape, None when the text is no such statement."""
    found = unfenced(text, ("sql",)) if len(text) <= MAX_CHARS and not _SURROGATE.search(text) else None
    if found is None:
        return None
    fence, code = found
    code = code.strip(_BLANKS).removesuffix(";").rstrip(_BLANKS)
    try:
        tokens = Tokenizer().tokenize(code)
        if not tokens or tokens[0].token_type not in _FIRST or _is_deep(tokens) or not _is_cut_alike(code, tokens):
            return None
        trees = sqlglot.parse(code)
    except (SqlglotError, RecursionError):
        return None
    if len(trees) != 1 or not isinstance(trees[0], _STATEMENTS) or trees[0].find(exp.Command):
        return None
    words = _words(code, tokens)
    shape = " ".join("?" if token.token_type in _LITERAL else word for token, word in zip(tokens, words, strict=True))
    return Normal(orjson.dumps([fence, words, _tree(trees[0])]).decode(), _SEVERAL.sub("?", shape))


def _is_deep(tokens: list[Token]) -> bool:
    """Return whether the parentheses are nested so deeply that a short text would take seconds."""
    opened: list[bool] = []
    before = None
    for token in tokens:
        if token.token_type is TokenType.L_PAREN:
            opened.append(before in Parser.TYPE_TOKENS)
            if sum(opened) > _MOST_TYPES_DEEP or len(opened) > _MOST_DEEP:
                return True
        elif token.token_type is TokenType.R_PAREN and opened:
            opened.pop()
        before = token.token_type
    return False


def _is_cut_alike(code: str, tokens: list[Token]) -> bool:
    """Return whether every dialect would cut the text into these tokens, with nothing but blanks between them."""
    if "\\" in code:
        return False
    at, numeral = 0, False
    for token in tokens:
        piece, blanks, at = code[token.start : token.end + 1], code[at : token.start], token.end + 1
        # Nor do all dialects part `1AND` or `1.AND`.
        touching = not blanks and _ALNUM.match(piece) and (numeral or _ALNUM.match(code[token.start - 1 : token.start]))
        numeral = token.token_type is TokenType.NUMBER
        if blanks.strip(_BLANKS) or touching:
            return False
        if token.token_type in _QUOTED and piece[:1] in {"'", '"'}:
            # Three quotes open one string for some; a letter beside the quotes makes another kind of string.
            if (
                (len(piece) > 2 and piece[:3] == piece[0] * 3)
                or _ALNUM.match(code[token.start - 1 : token.start])
                or _ALNUM.match(code[at : at + 1])
            ):
                return False
        elif _OTHERWISE_CUT.search(piece):
            return False
    # Strings that stand side by side are one, if a line ends between them.
    beside = any(one.token_type in _QUOTED and two.token_type in _QUOTED for one, two in pairwise(tokens))
    return not beside and not code[at:].strip(_BLANKS)


def _words(code: str, tokens: list[Token]) -> list[str]:
    """Return the tokens as they are spelt, keywords and the best known functions in capitals."""
    words = []
    for token, after in zip(tokens, [*tokens[1:], None], strict=True):
        piece = code[token.start : token.end + 1]
        capitals = piece.upper().split()  # GROUP BY is one token
        if token.token_type is TokenType.VAR:
            folded = capitals[0] in _FUNCTIONS and after is not None and after.token_type is TokenType.L_PAREN
        else:
            folded = token.token_type not in _QUOTED and _KEYWORDS.issuperset(capitals)
        word = " ".join(capitals) if folded else piece
        apart = after is not None and after.token_type is TokenType.L_PAREN and after.start > token.end + 1
        words.append(f"{word} " if apart and _TOUCH_THEIR_BRACKET.fullmatch(capitals[0]) else word)
    return words


def _tree(tree: exp.Expr) -> list[dict[str, Any]]:
    # Without the places in the text.
    return [{name: value for name, value in row.items() if name != "m"} for row in serde.dump(tree)]


def rule() -> Rule:
    return Rule(VERSION, text=normal)
