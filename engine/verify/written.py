"""A text with each sign in one written form: ≥ as >=, 2⁵ as 2^5, minus five and 负五 as -5, curly quotes straight. Letters keep their case."""

# ruff: noqa: E501, SIM905 — lists of words and patterns read, diff and are searched better as one text
from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache

from engine.verify import lexicon_en as en
from engine.verify import quantities

_SAME = str.maketrans({
    "“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "‚": "'", "–": "-", "‐": "-", "‑": "-", "−": "-", "×": "*", "∗": "*", "⋅": "*", "÷": "/", "⁄": "/",
    "∕": "/", "≤": "<=", "≥": ">=", "⩽": "<=", "⩾": ">=", "≦": "<=", "≧": ">=", "≠": "!=", "→": "->", "⟶": "->", "←": "<-", "⟵": "<-", "⇒": "=>", "↔": "<->",
    "➕": "+", "➖": "-", "✖": "*", "➗": "/", "♯": "#", "⬅": "<-", "⮕": "->",
    "∶": ":", "~": "~", "〜": "~", "￥": "¥", "™": "", "®": "", "℠": "", "ª": "a", "º": "o", "\ufe0e": "", "\ufe0f": "", "\u200d": "", "\u200b": "", "\ufeff": "", "\u00ad": "", "\ue000": "\ue002", "\ue001": "\ue002",
})  # fmt: skip
_SAME |= dict.fromkeys(
    (0x2794, *range(0x2799, 0x27B0), *range(0x27B1, 0x27BF)), "->"
)  # the arrows among the dingbats; two of them rise or fall
del _SAME[0x279A]
_FOLDED = frozenset("wide narrow compat initial medial final isolated noBreak small square vertical".split())
# Before a mark that is quoted and spoken of: `;` or "." are signs then, whatever they are in a sentence.
SPOKEN_OF = "\ue000"
TAKEN = "\ue001"  # in the place of what is compared elsewhere: a date, a time, an address
BLANK = "\x1f"  # a blank that was not in the text: no mark is said to stand alone beside it
_CURLY = re.compile("[“「]([^”」\n]{2,200})[”」]")  # as prose quotes; code has straight ones
_STRANGE = re.compile(r"[^\x00-\x7f\u3400-\u9fff\uac00-\ud7a3]")
_RAISED = re.compile("[²³¹ʰ-ʸˠ-ˤᴬ-ᵡᵸᶛ-ᶿ⁰-ⁿ]+")
_LOWERED = re.compile("([A-Za-z)]?)([ᵢ-ᵪ₀-ₜⱼ]+)([0-9A-Za-z]?)")

_WITH = re.compile(r"(?<![\w/.-])w/(?:(o(?:ut)?)(?![\w/.])|(?=\s|[A-Za-z]{2,}(?![\w/.]\w)))\s*", re.I)
# Where one of these stands a star is no stress, and a full stop apart from all a folder.
_COMMAND = re.compile(
    r"(?<![\w-])(?:rm|ls|cd|cp|mv|grep|egrep|rg|chmod|chown|mkdir|rmdir|sed|awk|git|ssh|scp|tar|curl|wget|sudo|bash|zsh|npm|pip|docker|rsync|ln"
    r"|xargs|cmd|wildcards?|glob|globs|regex|regexp|shell|terminal|patterns?|folders?|directory|directories|(?:delete|remove|find|list|copy|move|match|matching|search)\b.{1,80}\bfiles?)(?![\w-])"
    r"|(?:^|\s)--?[A-Za-z][\w-]*", re.I)  # fmt: skip
_LIST = re.compile(r"(?m)^[ \t]*(?:[-*]|[+>](?=[ \t]+\D)|#{1,6})[ \t]+")
_STRESS = re.compile(
    r"(?<![\w*])(?:(\*{2,3})(?=[^\W\d_]{2})([^*\n]{1,200}?[^\W\d_])\1|\*(?=[^\W\d_]{2}[^*\n]* )([^*\n]{1,200}?[^\W\d_])\*)(?![\w*])"
)
_SMILES = {")": "🙂", "(": "🙁", "D": "😀", "P": "😛"}
LENGTHS = {
    form: name
    for name, forms in {"m": "m meter meters metre metres", "km": "km kilometer kilometers kilometre kilometres", "cm": "cm centimeter centimeters centimetre centimetres",
                        "mm": "mm millimeter millimeters", "ft": "ft foot feet", "in": "inch inches", "mi": "mile miles", "yd": "yard yards"}.items()
    for form in forms.split()
}  # fmt: skip
_HAN_AREAS = {"平方米": "m^2", "平米": "m^2", "平方公里": "km^2", "平方千米": "km^2", "平方厘米": "cm^2", "平方英尺": "ft^2", "立方米": "m^3", "立方厘米": "cm^3"}  # fmt: skip
_OPERATORS = {"plus": "+", "minus": "-", "times": "*", "multiplied by": "*", "divided by": "/", "to": "-", "through": "-", "~": "-", "到": "-", "至": "-", "加": "+", "加上": "+", "减": "-",
              "减去": "-", "乘": "*", "乘以": "*", "除以": "/", "x": "*"}  # fmt: skip
DIGITS = "零〇一二两三四五六七八九十百千"
# Speeds and rates, each with its slash: without one the safe mode could not tell them from a length and a size. Case is a unit's: Mb, MB.
_RATES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"\s?(?<![A-Za-z/])(?:k(?:m/h(?:r|our)?|ph|mh)|(?:km|kilomet(?:er|re)s?) (?:per|an) hour)(?![A-Za-z/])", re.I | re.A), " km/h"),
    (re.compile(r"\s?(?<![A-Za-z/])(?:mi/h(?:r|our)?|mi(?:les?)? (?:per|an) hour)(?![A-Za-z/])", re.I | re.A), " mph"),
    (re.compile(r"(?<![A-Za-z/])([KMGTk])(?:(b)|(B))(?:ps|/sec| per second)(?![A-Za-z/])", re.A), lambda m: f"{m[1].upper()}{m[2] or m[3]}/s"),
    (re.compile(r"(?<![A-Za-z/])(kilo|mega|giga|tera)(?:(bits?)|bytes?)(?: per second|/s(?:ec)?)(?![A-Za-z/])", re.I | re.A),
     lambda m: f"{m[1][0].upper()}{'b' if m[2] else 'B'}/s"),
    (re.compile(r"(?:公里|千米)(?:每小时|/(?:小时|h))"), " km/h"),
    (re.compile(r"(?:时速|每小时)(?:为|是)?(\d+(?:\.\d+)?)\s?(?:公里|千米)(?![每/])"), r"\1 km/h"),
)  # fmt: skip

_STEPS: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    # What other rules compare: dates, times, and abbreviations whose slash is none.
    (re.compile(r"(?<!\d)\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?!\d)|(?<![\d/])\d{1,2}/\d{1,2}/(?:\d{4}|\d{2})(?![\d/])"), f"{BLANK}{TAKEN}{BLANK}"),
    (re.compile(r"(?<![\d:])\d{1,2}:\d{2}(?::\d{2})?(?![\d:])"), f"{BLANK}{TAKEN}{BLANK}"),
    (re.compile(r"\b(?:w/o|n/a|i/o|a/c|c/o|24/7|a/b(?= test))(?!\w)|\bw/(?=\s|\w)", re.I), " "),
    # Other marks of a list; smiles.
    (re.compile(r"(?m)^[ \t]*(?:[•·●]|\d{1,2}[.)、])[ \t]+"), " "),
    (re.compile(r"(?:(?<=\s)|^)[:;]'?-?([)(DP])(?=[\s?!.,]|$)"), lambda m: "😉" if m[0][0] + m[0][-1] == ";)" else _SMILES[m[1]]),
    (re.compile(r"(?<!\w)([`\"'])[ \t]+\1(?!\w)"), f" {SPOKEN_OF} ␣ "),
    (re.compile(r"([`\"'])([.,;:!?'\"-]|\.{2,3})\1(?!\w)"), rf" {SPOKEN_OF} \2 "),
    (re.compile(r"`{1,3}([^`]{1,400})`{1,3}"), rf"{BLANK}\1{BLANK}"),
    (re.compile(r"\b([cf])(?: plus plus)\b", re.I), r"\1++"),
    (re.compile(r"\b([cf]) sharp\b", re.I), r"\1#"),
    (re.compile(r"(?<=\d)(\s?)([kcmd]?m|ft|in|mi|yd)([23])\b", re.A), r" \2^\3"),
    (re.compile(r"(?<=\d)(\s?)(sq\.?\s?(?:m|ft|km)|sqm|sqft)\b", re.A), lambda m: " " + re.sub(r"sq\.?\s?", "", m[2]) + "^2"),
    (re.compile(rf"\b(square|cubic)\s+({'|'.join(LENGTHS)})\b", re.I), lambda m: f"{LENGTHS[m[2].lower()]}^{2 if m[1][0] in 'sS' else 3}"),
    (re.compile("|".join(_HAN_AREAS)), lambda m: f" {_HAN_AREAS[m[0]]} "),
    (re.compile(r"\b(\d+(?:\.\d+)?)\s*(?:degrees?|°)?\s*([CF]\b)?\s*below (?:zero|freezing)\b", re.I), r"-\1 degrees \2"),
    (re.compile(rf"(?<![抱欺辜肩担胜自])(?:零下|负)(?=[\d{DIGITS}])([{DIGITS}]*)"), lambda m: " -" + (_han(m[1]) if m[1] else "")),
    (re.compile(r"(?<=\d)\s*(?:(plus|minus|times|multiplied by|divided by|to|through)\s+|(加上?|减去?|乘以?|除以|到|至|[~x])\s*)(?=-?\d)", re.I),
     lambda m: " " + _OPERATORS[(m[1] or m[2]).lower()] + " "),
    (re.compile(rf"\b(?:minus|negative)\s+(?:(?=\d)|({'|'.join(en.NUMBER_WORDS)})\b)", re.I), lambda m: "-" + (str(en.NUMBER_WORDS[m[1].lower()]) if m[1] else "")),
    (re.compile(r"(?<=\d)\s*degrees?\b", re.I), "°"),
    (re.compile(r"(?<=\d)\s?°\s?(?=[CF]\b|celsius|fahrenheit)", re.I | re.A), " "),
    # Two numbers around a dash: one form, whatever the blanks, and with their unit once: 5度-10度.
    (re.compile(r"(?<=\d)([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3]{1,3})\s*[-~到至]\s*(?=\d+(?:\.\d+)?\1)"), "-"),
    (re.compile(r"(?<=\d)\s*-\s*(?=\d)"), "-"),
)  # fmt: skip


def written(text: str) -> str:
    """Return the text with one form for each sign. text: NFC, at most 2,000 characters."""
    if not text.isascii():
        text = _CURLY.sub(rf"{BLANK}\1{BLANK}", text).translate(_SAME)
        text = _LOWERED.sub(_lowered, raised(text))
        text = _STRANGE.sub(lambda match: _folded(match[0]), text)
    if "**" in text or text.count("*") > 1:
        text = text if command(text) else _STRESS.sub(rf"{BLANK}\2\3{BLANK}", text)
    if "\n" in text.strip():  # of one line no list is made: `* in regex`
        text = _LIST.sub(" ", text)
    for pattern, replacement in _STEPS:
        text = pattern.sub(replacement, text)
    return text


def command(text: str) -> bool:
    """Return whether the text holds a command, its flag, or speaks of files by a pattern."""
    return _COMMAND.search(text) is not None


def rated(text: str) -> str:
    """Return the text with km/h, kilometres per hour and 公里每小时 as km/h, Mbps as Mb/s."""
    for pattern, form in _RATES:
        text = pattern.sub(form, text)
    return text


def spelled(text: str) -> str:
    """Return the text with w/o and w/ as the words they stand for."""
    return _WITH.sub(lambda match: "without " if match[1] else "with ", text)


def raised(text: str) -> str:
    """Return the text with 2⁵ as 2^5."""
    return _RAISED.sub(lambda match: "^" + _plain(match[0]), text)


def _lowered(match: re.Match[str]) -> str:
    """H₂O is H2O and x₁ is x1; but log₂8 is not log28, and 10₂ not 102."""
    before, lowered, after = match[1], _plain(match[2]), match[3]
    return f"{before}{lowered}{after}" if before not in {"", ")"} and not after.isdigit() else f"{before}_{lowered} {after}"


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKC", text).replace("−", "-")


@lru_cache(maxsize=4_096)
def _folded(char: str) -> str:
    """Return a compatibility character in its usual form, where that is the same sign or letter: Ａ, ﬁ, ℃, Ⅳ, ½, ①."""
    tag = unicodedata.decomposition(char).partition(">")[0].removeprefix("<")
    if tag in _FOLDED or (tag == "font" and ord(char) > 0xFFFF):
        return unicodedata.normalize("NFKC", char).translate(_SAME)
    if tag in {"fraction", "circle"}:
        return f" {unicodedata.normalize('NFKC', char).translate(_SAME)} "
    return " " if unicodedata.category(char) == "Cc" else char


def _han(numeral: str) -> str:
    return str(quantities.han_value(numeral))
