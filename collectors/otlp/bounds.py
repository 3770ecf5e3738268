"""How long a string, and how many attributes, of what is sent are kept."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

LEFT_OUT = "cachescope.left_out.attributes"  # the marker: how many attributes of one holder were above the bound
_JOINER = "\u200d"
_MAX_MARKS = 32  # looked back for a whole character; more marks on one letter are no writing


@dataclass(frozen=True, slots=True)
class Bounds:
    """Strings longer than max_chars are cut with a marker; attributes after the first max_attributes are left out and counted."""

    max_chars: int = 65_536
    max_attributes: int = 1_024

    def text(self, value: str) -> str:
        if len(value) <= self.max_chars:
            return value
        return f"{value[: _whole(value, self.max_chars)]}…[cut: {len(value)} characters]"


def _whole(value: str, at: int) -> int:
    """Return the last place at or before `at` that is not inside of what a reader sees as one character."""
    for place in range(at, max(at - _MAX_MARKS, 0), -1):
        if not (_continues(value[place]) or value[place - 1] == _JOINER):
            return place
    return at


def _continues(letter: str) -> bool:
    return unicodedata.category(letter)[0] == "M" or letter == _JOINER or "\U0001f3fb" <= letter <= "\U0001f3ff"  # skin tones
