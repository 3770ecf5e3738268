"""How far two answers to one question agree: what a held-out hit would have said, and what the upstream said instead."""

from __future__ import annotations

import re
from collections import Counter

import orjson

MAX_CHARS = 20_000  # of each answer
_WORD = re.compile(r"[\u3400-\u9fff]|\d+(?:[.,]\d+)*|[^\W\d_]+")


def agreement(one: bytes, other: bytes) -> float | None:
    """Return the share of words that two chat completions have in common, 0..1; None when either has no text.

    Dice's coefficient over words, or over characters where a script has no spaces; case and order do not count. One word may turn an
    answer round: it is a measure of difference, not of being right. Source: Dice 1945, Ecology 26, 297-302.
    """
    mine, theirs = Counter(_words(one)), Counter(_words(other))
    total = mine.total() + theirs.total()
    return 2 * (mine & theirs).total() / total if mine and theirs else None


def _words(body: bytes) -> list[str]:
    try:
        text = orjson.loads(body)["choices"][0]["message"]["content"]
    except (orjson.JSONDecodeError, KeyError, IndexError, TypeError):
        return []
    return _WORD.findall(text[:MAX_CHARS].lower()) if isinstance(text, str) else []
