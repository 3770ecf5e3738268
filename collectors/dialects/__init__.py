"""Which vocabulary a span speaks. The scope decides; where it is unknown, the attributes' names do."""

from __future__ import annotations

from collections.abc import Iterable

from collectors.dialects.base import Dialect
from collectors.dialects.betterdb import BETTERDB
from collectors.dialects.genai import GENAI
from collectors.dialects.native import NATIVE
from collectors.dialects.openinference import OPENINFERENCE
from collectors.dialects.openllmetry import OPENLLMETRY
from collectors.dialects.vercel import VERCEL

# In this order: what is most particular first, for `gen_ai.` names appear in several vocabularies.
DIALECTS: tuple[Dialect, ...] = (NATIVE, BETTERDB, OPENINFERENCE, OPENLLMETRY, VERCEL, GENAI)
_MARKS: tuple[tuple[Dialect, tuple[str, ...]], ...] = tuple((dialect, tuple(f"\0{mark}" for mark in dialect.marks)) for dialect in DIALECTS)


def of_scope(scope: str) -> Dialect | None:
    """Return the dialect that a scope is known to speak; the longest prefix wins."""
    known = [(len(prefix), dialect) for dialect in DIALECTS for prefix in dialect.scopes if scope.startswith(prefix)]
    return max(known, key=lambda pair: pair[0])[1] if known else None


def of_attributes(names: Iterable[str]) -> Dialect | None:
    """Return the dialect that the attributes' names show, for scopes nobody has told us of."""
    # One text to search, for this is asked of every span: a NUL before each name stands for "begins with".
    given = "\0" + "\0".join(names)
    for dialect, marks in _MARKS:
        for mark in marks:
            if mark in given:
                return dialect
    return None
