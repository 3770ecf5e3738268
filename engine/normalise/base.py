"""What a normaliser is."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

# A statement this long takes some 50 ms the first time.
MAX_CHARS = 4_096
REMEMBERED = 512
_FENCE = "```"


class Normal(NamedTuple):
    """A text in its normal form. form: equal for two texts only if they mean the same. shape: the same with literals left out,
    '' = there is none; it makes groups for analysis, never a key.
    """

    form: str
    shape: str = ""


class Rule(NamedTuple):
    """A normaliser at work. text: of the last user turn; template: of a Jinja template. Either gives None = as it was sent.

    version: names the rule and all that its forms depend on. Entries under another version are never met.
    """

    version: str
    text: Callable[[str], Normal | None] | None = None
    template: Callable[[str], str | None] | None = None


def unfenced(text: str, languages: Collection[str]) -> tuple[str, str] | None:
    """Return the opening fence ('' = none) and the code of a text that is code and nothing else.

    None: it has a fence, and is not exactly one block of one of these languages.
    """
    if _FENCE not in text:
        return "", text
    opening, _, rest = text.strip().partition("\n")
    code, closing, after = rest.rpartition("\n")
    language = opening.removeprefix(_FENCE).strip()
    whole = opening.startswith(_FENCE) and closing and after.strip() == _FENCE and _FENCE not in code
    return (f"{_FENCE}{language}", code) if whole and language.lower() in languages else None
