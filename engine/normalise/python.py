"""Python: blanks, brackets and line breaks without effect. Names, literals and structure stay as they are.

Two texts share a form when Python reads the same tree from them and their names and literals are spelt alike (3.1 is no 3.10,
which a tree cannot tell). A text with a comment is left as it was sent: a model reads what Python does not.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import warnings
from functools import lru_cache

import orjson

from engine.normalise.base import MAX_CHARS, REMEMBERED, Normal, Rule, unfenced

# Trees and their print are those of this Python.
VERSION = f"python/1/{sys.version_info.major}.{sys.version_info.minor}"

# Python's warnings of a tenant's code do not belong on our stderr.
_NAME = "<normaliser>"
warnings.filterwarnings("ignore", module=re.escape(_NAME))

_BLANK = frozenset({tokenize.ENCODING, tokenize.NEWLINE, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER, tokenize.OP})


@lru_cache(maxsize=REMEMBERED)
def normal(text: str) -> Normal | None:
    """Return the module's normal form and its shape, None when the text is no Python or has a comment."""
    found = unfenced(text, ("python", "py", "python3")) if len(text) <= MAX_CHARS else None
    if found is None:
        return None
    fence, code = found
    try:
        tree = ast.parse(code, filename=_NAME)
        spelt = [(token.type, token.string) for token in tokenize.generate_tokens(io.StringIO(code).readline)]
        if not tree.body or any(kind == tokenize.COMMENT for kind, _ in spelt):
            return None
        form = [fence, [string for kind, string in spelt if kind not in _BLANK], ast.dump(tree)]
        return Normal(orjson.dumps(form).decode(), _shape(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError, tokenize.TokenError, orjson.JSONEncodeError):
        return None


def _shape(tree: ast.Module) -> str:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant):
            node.value, node.kind = type(node.value).__name__, None
    return ast.dump(tree)


def rule() -> Rule:
    return Rule(VERSION, text=normal)
