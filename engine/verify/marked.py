"""Values taken out of a text, each with a mark in its place, so that their order and their neighbours are still known."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_FIRST, _LAST = 0xE200, 0xF8FE
QUOTE = '"'  # before a value that is quoted
QUOTE_END = "\uf8ff"  # behind quoted words, which are one value and no words of the phrase around
_PRIVATE = re.compile("[\ue000-\uf8ff]")


@dataclass(slots=True)
class Marks:
    """A mark is a character of the private use area. kinds: n numbers, o ordinals, d dates, e names and literals."""

    found: list[tuple[str, str]] = field(default_factory=list)  # kind, value

    def put(self, kind: str, value: str) -> str:
        """Return the mark that stands for this value."""
        self.found.append((kind, value))
        return chr(min(_FIRST + len(self.found) - 1, _LAST))

    def is_mark(self, char: str) -> bool:
        return len(char) == 1 and _FIRST <= ord(char) < _FIRST + len(self.found)

    def of(self, char: str) -> tuple[str, str]:
        """Return a mark's kind and value."""
        return self.found[ord(char) - _FIRST]

    def taken_out(self, text: str) -> str:
        """Return the text without marks; a date leaves a comma, for a phrase ends there."""
        return _PRIVATE.sub(lambda match: "," if self.is_mark(match[0]) and self.of(match[0])[0] == "d" else "", text)


def unmarked(text: str) -> str:
    """Return the text without characters that are taken for marks."""
    return _PRIVATE.sub(" ", text)
