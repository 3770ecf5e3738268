"""Blanks that say nothing, in plain prose alone: at line ends, around the text, doubled after a mark, more than one empty line.

Words are neither joined nor parted, lines stay lines, paragraphs stay paragraphs. Left as it was sent is whatever blanks may
mean something in: code, tables, quotations, indented lines, blanks doubled between two words or anywhere in a text with a colon, which
may name what is to be worked on to the letter, and a text that speaks of blanks, lines, lengths or characters.
"""

from __future__ import annotations

import re

from engine.normalise.base import MAX_CHARS, Normal, Rule

VERSION = "whitespace/1"

# No quotation marks, tabs, other blanks, underscores (gaps to fill in) or signs of code and markup.
_PROSE = re.compile(r"(?:[^\W_]|[ \n.,;:!?()%&/+$€£…，。；：！？、（）《》·–—'’-])*")
_QUOTED = re.compile(r"(?<![^\W_])['’]|['’](?![^\W_])")  # an apostrophe stands between letters
_SPEAKS_OF_BLANKS = re.compile(
    r"\b(?:blank|byte|charact|chars?\b|column|count|doubl|empt|exact|fill|format|gap|haiku|indent|layout|length|letter|lines?\b|linebreak|"
    r"literal|long|newline|paragraph|poem|position|spac|stanza|symbol|tab|token|typo|verbatim|verse|white|wrap)"
    r"|[空格行字符缩縮进進换換段填诗詩长長]",
    re.IGNORECASE,
)
_DOUBLED = re.compile(r" {2,}")
_AFTER_A_MARK = re.compile(r"(?<=[.,;!?]) {2,}")
_EMPTY_LINES = re.compile(r"\n{3,}")


def normal(text: str) -> Normal | None:
    """Return the prose with the blanks that say nothing left out, None when it is to stay as it was sent."""
    if len(text) > MAX_CHARS:
        return None
    plain = text.replace("\r\n", "\n")
    if not _PROSE.fullmatch(plain) or _QUOTED.search(plain) or _SPEAKS_OF_BLANKS.search(plain):
        return None
    lines = [line.rstrip(" ") for line in plain.split("\n")]
    while lines and not lines[0]:
        del lines[0]
    while lines and not lines[-1]:
        del lines[-1]
    if len(lines) < 2:
        lines = ["".join(lines).strip(" ")]
    text = "\n".join(lines)
    closed = text if ":" in text or "：" in text else _AFTER_A_MARK.sub(" ", text)
    # Two blanks between words may be a table's, or what is asked about; one at a line's beginning is an indent.
    if _DOUBLED.search(closed) or any(line.startswith(" ") for line in lines):
        return None
    return Normal(_EMPTY_LINES.sub("\n\n", closed))


def rule() -> Rule:
    return Rule(VERSION, text=normal)
