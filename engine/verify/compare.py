"""What the rules need to set two parses side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

Parse = dict[str, Any]

COMPARED = 120  # tokens of each text, where a rule takes more than one walk through them


def both(left: Iterable[str], right: Iterable[str]) -> str:
    """Return `a / b` when each side has something of its own, else ''."""
    mine, theirs = list(left), list(right)
    return f"{' '.join(mine)} / {' '.join(theirs)}" if mine and theirs else ""


def only(left: Iterable[str], right: Iterable[str]) -> tuple[list[str], list[str]]:
    first, second = Counter(left), Counter(right)
    return sorted((first - second).elements()), sorted((second - first).elements())


def middles(left: str, right: str) -> tuple[list[str], list[str], int]:
    """Return what remains of two token sequences without their common start and end, and the common tokens' number."""
    first, second = left.split(), right.split()
    start = 0
    shortest = min(len(first), len(second))
    while start < shortest and first[start] == second[start]:
        start += 1
    end = 0
    while end < shortest - start and first[-1 - end] == second[-1 - end]:
        end += 1
    return first[start : len(first) - end], second[start : len(second) - end], start + end
