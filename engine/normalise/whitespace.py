"""Blanks that say nothing, in plain prose alone: at line ends, around the text, doubled between words, more than one empty line.

Words are neither joined nor parted, lines stay lines, paragraphs stay paragraphs. Left as it was sent is whatever blanks may
mean something in: code, tables, quotations, indented lines, numbers, single letters and signs (`12  500 300` is no `12 500  300`),
gaps of several sizes, and a text that speaks of blanks, lines, lengths, characters, or of how something is written.
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
_MARK = ".,;:!?，。；：！？、"
_DOUBLED = re.compile(r" {2,}")
_AFTER_A_MARK = re.compile(rf"(?<=[^\W_][{_MARK}]) {{2,}}(?=[^\W\d_])")
_BETWEEN_WORDS = re.compile(r"(?<=[^\W\d_]) {2,}(?=[^\W\d_])")
_SPELT_OUT = re.compile(r"(?<![^\W_])[^\W\d_] +[^\W\d_](?![^\W_])")  # n o w  h e r e
_HARD_BREAK = re.compile(r" {2,}\n(?! *(?:\n|$))")  # Markdown's line break, which a single line end is not
_EMPTY_LINES = re.compile(r"\n{2,}")


def normal(text: str) -> Normal | None:
    """Return the prose with the blanks that say nothing left out, None when it is to stay as it was sent."""
    if len(text) > MAX_CHARS:
        return None
    plain = text.replace("\r\n", "\n")
    if not _PROSE.fullmatch(plain) or _QUOTED.search(plain) or _SPEAKS_OF_BLANKS.search(plain) or _HARD_BREAK.search(plain):
        return None
    whole = "\n".join(line.rstrip(" ") for line in plain.split("\n")).strip("\n")
    lines = whole.count("\n")
    closed = _AFTER_A_MARK.sub(" ", whole if lines else whole.strip(" "))
    if lines:
        # Two blanks inside one of several lines may be a table's; one at a line's beginning is an indent; where some paragraphs are
        # further apart than others, they may be groups.
        if _DOUBLED.search(closed) or closed.startswith(" ") or "\n " in closed or len(set(_EMPTY_LINES.findall(closed))) > 1:
            return None
        return Normal(_EMPTY_LINES.sub("\n\n", closed))
    return _line(closed)


def _line(text: str) -> Normal | None:
    """Return a single line's form. Where a few gaps of several are wider, or one in a list, they may part phrases."""
    form = _BETWEEN_WORDS.sub(" ", text)
    wide = _BETWEEN_WORDS.findall(text)
    uneven = len(wide) > 1 and (len(set(wide)) > 1 or text.count(" ") != sum(map(len, wide)))
    telling = bool(wide) and (uneven or ":" in text or bool(_SPELT_OUT.search(text)))
    return None if telling or _DOUBLED.search(form) else Normal(form)


def rule() -> Rule:
    return Rule(VERSION, text=normal)
