"""What the case of a letter says: Mb and MB, mW and MW, Σ and σ, Polish and polish. Of other words it says nothing."""

# ruff: noqa: SIM905 — a list of words reads, diffs and is searched better as one text
from __future__ import annotations

import re

_DATA = re.compile(r"(?<![A-Za-z])([KMGTPkmgtp])i?([bB])(?:ps|/s)?(?![A-Za-z])")
# Milli and mega: the unit as it is written rightly, so that MG and mhz, in one case throughout, say nothing.
_POWER = re.compile(r"(?<![A-Za-z])([mM])(W|Wh|Hz|V|A|J|N|Pa|eV|Ω)(?![A-Za-z])")
_AFTER_NUMBER = re.compile(r"(?<=\d)[ ]?([mM])(g|m|s|l|L|mol|)(?![A-Za-z/'.])")
# A Greek letter alone, or before one Latin letter, stands for something, and for another thing with a capital: Σ and σ, Δx and δx.
_GREEK = re.compile("(?<![A-Za-zÀ-ɏ\u0370-\u03ff])([Α-Ωα-ω])[A-Za-z]?(?![A-Za-zÀ-ɏ\u0370-\u03ff])")
_GREEK_WORD = re.compile("[\u0370-\u03ff]{2}")
_WORD = re.compile(r"[^\W\d_]+")
_CAPITAL_MEANS = frozenset(
    """polish turkey china apple amazon windows word target shell gap swift rust reading nice mobile jordan chad guinea bush mark bill rose
    jack frank will grace hope art mercury lent job bath cork lima pole poles catholic democrat republican liberal conservative august march
    may""".split()
)
_ACRONYMS = frozenset("us it who aids cat dot pet ice sad seal".split())
_SENTENCE_END = frozenset('.!?:;\n"“”(—-*#•>、。，？！：；（「《')
_MANY = 0.6  # of the words begin with a capital: a title, or shouting, in which capitals say nothing
_FEW = 4


def read(text: str) -> tuple[list[str], list[str]]:
    """Return the units and lone Greek letters whose meaning their case decides, as `mb:B`, `mw:m` and `σ:Σ`, and such words, as `polish:P`.

    text: NFC. A word in small letters counts only where capitals are used at all, one at the start of a sentence never.
    """
    units = {
        f"{match[1].lower()}b:{match[2]}" for match in _DATA.finditer(text) if match[0].rstrip("ps/") != match[0].rstrip("ps/").lower()
    }
    units |= {f"{match[2].lower()}:{match[1]}" for match in _POWER.finditer(text)}
    units |= {f"{match[2].lower()}:{match[1]}" for match in _AFTER_NUMBER.finditer(text)}
    if not _GREEK_WORD.search(text):  # in Greek itself Ο and η are articles
        units |= {f"{match[0].lower()}:{match[1]}" for match in _GREEK.finditer(text)}
    return sorted(units), sorted(_words(text))


def _words(text: str) -> set[str]:
    words = list(_WORD.finditer(text))
    capitals = sum(match[0][0].isupper() and match[0] != "I" for match in words)
    if not capitals or (len(words) >= _FEW and capitals > _MANY * len(words)):
        return set()
    found = set()
    for match in words:
        word = match[0]
        lower = word.lower()
        if lower in _ACRONYMS:
            if word == lower or (word.isupper() and len(word) > 1):
                found.add(f"{lower}:{'P' if word != lower else 'p'}")
        elif lower in _CAPITAL_MEANS:
            before = text[: match.start()].rstrip()
            if word == lower:
                found.add(f"{lower}:p")
            elif before and before[-1] not in _SENTENCE_END:
                found.add(f"{lower}:P")
    return found


def differ(left: list[str], right: list[str]) -> str:
    """Return the first that one side has in one case alone, and the other in another alone, else ''."""
    mine, theirs = _cases(left), _cases(right)
    for name in sorted(mine.keys() & theirs.keys()):
        if not mine[name] & theirs[name]:
            return f"{name}:{''.join(sorted(mine[name]))} / {name}:{''.join(sorted(theirs[name]))}"
    return ""


def _cases(found: list[str]) -> dict[str, set[str]]:
    cases: dict[str, set[str]] = {}
    for item in found:
        name, _, case = item.rpartition(":")
        cases.setdefault(name, set()).add(case)
    return cases
