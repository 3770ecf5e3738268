"""How long a string, and how many attributes, of what is sent are kept."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

LEFT_OUT = "cachescope.left_out.attributes"  # the marker: how many attributes of one holder were above the bound
_JOINER = "\u200d"
# The joiner itself, skin tones, the tags of a region's flag, vowels and finals of a Korean syllable.
_CONTINUING = ((_JOINER, _JOINER), ("\U0001f3fb", "\U0001f3ff"), ("\U000e0020", "\U000e007f"), ("\u1160", "\u11ff"))
_FLAG = ("\U0001f1e6", "\U0001f1ff")  # two of these letters are a flag
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
        if not (_continues(value[place]) or value[place - 1] == _JOINER or _inside_flag(value, place)):
            return place
    return at


def _continues(letter: str) -> bool:
    if letter.isascii():
        return False
    return unicodedata.category(letter)[0] == "M" or any(low <= letter <= high for low, high in _CONTINUING)


def _inside_flag(value: str, place: int) -> bool:
    """Return whether a place lies between the two letters of a flag: an odd number of them stands before it."""
    if not _FLAG[0] <= value[place] <= _FLAG[1]:
        return False
    first = place
    while first > 0 and place - first < _MAX_MARKS and _FLAG[0] <= value[first - 1] <= _FLAG[1]:
        first -= 1
    return (place - first) % 2 == 1
