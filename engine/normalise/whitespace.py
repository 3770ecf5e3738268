"""Blanks that say nothing, in plain prose alone: at line ends, around the text, doubled after a mark, more than one empty line.

Words are neither joined nor parted, lines stay lines, paragraphs stay paragraphs. Left as it was sent is whatever blanks may
mean something in: code, tables, quotations, indented lines, blanks doubled between two words (`Reverse ab  c`) or anywhere in a text
with a colon, which may name what is to be worked on to the letter, paragraphs some of which are further apart than others, and a
text that speaks of blanks, lines, lengths, characters, or of how something is written.
"""

from __future__ import annotations

import re

from engine.normalise.base import MAX_CHARS, Normal, Rule

VERSION = "whitespace/2"

# No quotation marks, tabs, other blanks, underscores (gaps to fill in) or signs of code and markup.
_PROSE = re.compile(r"(?:[^\W_]|[ \n.,;:!?()%&/+$€£…，。；：！？、（）《》·–—'’-])*")
_QUOTED = re.compile(r"(?<![^\W_])['’]|['’](?![^\W_])")  # an apostrophe stands between letters
_SPEAKS_OF_BLANKS = re.compile(
    r"\b(?:align|ascii|base64|binary|blank|byte|charact|chars?\b|cipher|clean|column|compar|concat|copy|correct|count|csv|decod|decrypt|diff|"
    r"digest|doubl|echo|edit|empt|encod|encrypt|equal|error|escap|exact|fill|fix|format|gap|grammar|haiku|hash|hex|html|identical|indent|"
    r"join|json|layout|length|letter|lines?\b|linebreak|lint|literal|long|markdown|match|md5|mistake|morse|newline|normali[sz]|pad|paragraph|"
    r"parse|poem|position|print|proofread|punctuat|quot|regex|render|repeat|reproduc|same|sha\d|spac|spell|split|stanza|string|strip|styl|"
    r"symbol|tab|tidy|token|trailing|transcrib|trim|typo|unicode|url|utf|verbatim|verse|white|wrap|wrong|xml|yaml|"
    # The same in some other languages; a stem without a sign stands for the word with one as well.
    r"caract|carácter|espac|espaç|leer|ligne|l[ií]nea|linha|longitud|longueur|spazi|vac[ií]|vide|zeichen|zeile|букв|длин|пробел|символ|строк)"
    r"|[空格行字符缩縮进進换換段填诗詩长長]|スペース|タブ|공백|글자|띄어|문자|줄",
    re.IGNORECASE,
)
_MARK = ".,;!?，。；！？、"
_DOUBLED = re.compile(r" {2,}")
_AFTER_A_MARK = re.compile(rf"(?<=[^\W_][{_MARK}]) {{2,}}(?=[^\W\d_])")
_COLON = re.compile("[:：]")
_HARD_BREAK = re.compile(r" {2,}\n(?! *(?:\n|$))")  # Markdown's line break, which a single line end is not
_EMPTY_LINES = re.compile(r"\n{2,}")


def normal(text: str) -> Normal | None:
    """Return the prose with the blanks that say nothing left out, None when it is to stay as it was sent."""
    if len(text) > MAX_CHARS or not text.strip():
        return None
    plain = text.replace("\r\n", "\n")
    if not _PROSE.fullmatch(plain) or _QUOTED.search(plain) or _SPEAKS_OF_BLANKS.search(plain) or _HARD_BREAK.search(plain):
        return None
    whole = "\n".join(line.rstrip(" ") for line in plain.split("\n")).strip("\n")
    if "\n" not in whole:
        whole = whole.strip(" ")
    closed = whole if _COLON.search(whole) else _AFTER_A_MARK.sub(" ", whole)
    # Two blanks between words may be a table's, or what is asked about; one at a line's beginning is an indent; where some paragraphs
    # are further apart than others, they may be groups.
    if _DOUBLED.search(closed) or closed.startswith(" ") or "\n " in closed or len(set(_EMPTY_LINES.findall(closed))) > 1:
        return None
    return Normal(_EMPTY_LINES.sub("\n\n", closed))


def rule() -> Rule:
    return Rule(VERSION, text=normal)
