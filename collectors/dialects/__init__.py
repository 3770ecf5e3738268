"""Which vocabulary a span speaks. The scope decides; where it is unknown, the attributes' names do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from collectors.dialects.base import Dialect
from collectors.dialects.betterdb import BETTERDB
from collectors.dialects.genai import GENAI
from collectors.dialects.higress import HIGRESS
from collectors.dialects.langfuse import LANGFUSE
from collectors.dialects.langsmith import LANGSMITH
from collectors.dialects.litellm import LITELLM
from collectors.dialects.native import NATIVE
from collectors.dialects.openinference import OPENINFERENCE
from collectors.dialects.openlit import OPENLIT
from collectors.dialects.openllmetry import OPENLLMETRY
from collectors.dialects.pydantic_ai import PYDANTIC_AI
from collectors.dialects.redis import REDIS
from collectors.dialects.sentry import SENTRY
from collectors.dialects.strands import STRANDS
from collectors.dialects.vercel import VERCEL
from collectors.dialects.vllm import VLLM

# In this order: what is most particular first, for `gen_ai.` names appear in several vocabularies.
DIALECTS: tuple[Dialect, ...] = (
    NATIVE,
    BETTERDB,
    LANGFUSE,
    LANGSMITH,
    LITELLM,
    OPENINFERENCE,
    OPENLLMETRY,
    OPENLIT,
    VERCEL,
    PYDANTIC_AI,
    STRANDS,
    SENTRY,
    VLLM,
    HIGRESS,
    GENAI,
    REDIS,
)
_MARKS: tuple[str, ...] = tuple(mark for dialect in DIALECTS for mark in dialect.marks)
_REMEMBERED_NAMES = 64  # longer lists of names are looked at anew: what is remembered stays under a few MB


def of_scope(scope: str) -> Dialect | None:
    """Return the dialect that a scope is known to speak; the longest prefix wins."""
    known = [(len(prefix), dialect) for dialect in DIALECTS for prefix in dialect.scopes if scope.startswith(prefix)]
    return max(known, key=lambda pair: pair[0])[1] if known else None


def of_attributes(names: Mapping[str, object]) -> Dialect | None:
    """Return the dialect that the attributes' names show, for scopes nobody has told us of.

    One piece of code writes the same names with every span: the answer for a list of names is remembered.
    """
    return _remembered(tuple(names)) if len(names) <= _REMEMBERED_NAMES else _of_names(names)


def _of_names(names: Iterable[str]) -> Dialect | None:
    shown = [name for name in names if name.startswith(_MARKS)]
    if not shown:
        return None
    return next(dialect for dialect in DIALECTS if dialect.marks and any(name.startswith(dialect.marks) for name in shown))


_remembered = lru_cache(maxsize=1_024)(_of_names)
