"""What a prompt says that a vector does not: numbers, dates, names, negation, opposites, order. Made once, kept with the entry."""

# ruff: noqa: E501 — one pattern reads better unbroken
from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Any

import orjson

from engine.verify import english, letters, names, places, quantities, signs, units
from engine.verify.chinese import read as read_chinese
from engine.verify.marked import QUOTE, QUOTE_END, Marks, unmarked
from engine.verify.written import raised, rated, spelled

VERSION = 5  # part of every parse: parses of another version are never compared
_BEGIN = f'{{"v":{VERSION},'
MAX_CHARS = 2_000
MAX_ITEMS = 64

_LITERALS = re.compile(
    r"`{1,3}(?P<code>[^`]{1,200})`{1,3}"
    r"|[\"“「](?P<quoted>[^\"”」]{1,120})[\"”」]|《(?P<title>[^》]{1,60})》"
    r"|(?P<url>https?://[^\s\"'<>，。]{3,200})|(?P<email>[\w.+-]{1,64}@[\w-]+\.[\w.-]{1,64})"
    r"|(?P<file>(?<![\w/])(?:[\w~.-]*/)*[A-Za-z0-9_-]{1,60}\.(?:py|js|ts|jsx|tsx|java|go|rs|rb|c|cc|cpp|h|hpp|cs|php|sh|sql|txt|md|csv|tsv|json|ya?ml"
    r"|toml|ini|conf|cfg|xml|html?|css|pdf|docx?|xlsx?|pptx?|png|jpe?g|gif|svg|mp[34]|zip|gz|tar|log|db|exe|bat|env)\b)"
    r"|(?<=\s)(?P<operator>(?!->)[=!<>+*/&|^~%-]{2,3}|=)(?=[\s,.?!]|$)"
    r"|(?P<name>(?<![A-Za-z0-9])(?:[A-Za-z]+[+#]{1,2}(?![A-Za-z0-9])|--?[a-z][a-z-]{1,30}(?![A-Za-z])|\$[A-Z_]{2,40}|[A-Za-z]\w*_\w+|(?<!_)[A-Za-z_]\w*(?:\.\w+)*\(\)"
    r"|[a-z]+[A-Z]\w*|(?:[A-Z][a-z]+){2,}|[A-Za-z]{1,12}-?\d[A-Za-z0-9-]*|\d+[A-Za-z]+\d[A-Za-z0-9]*))",
    re.ASCII,
)
_HAN = re.compile(r"[\u4e00-\u9fff]")
_SCRIPTS = (
    ("ja", re.compile(r"[\u3040-\u30ff]")),
    ("ko", re.compile(r"[\uac00-\ud7af]")),
    ("zh", _HAN),
    ("ru", re.compile(r"[\u0400-\u04ff]")),
    ("ar", re.compile(r"[\u0600-\u06ff]")),
    ("hi", re.compile(r"[\u0900-\u097f]")),
    ("el", re.compile(r"[\u0370-\u03ff]")),
    ("he", re.compile(r"[\u0590-\u05ff]")),
    ("th", re.compile(r"[\u0e00-\u0e7f]")),
)
_LATIN_WORD = re.compile(r"[A-Za-zÀ-ɏḀ-ỿ]+")
# Between two numbers only, and no part of a date or of a version: 2024-05-01, 50/30/20.
_OPERATOR = re.compile(
    r"(?<![\d/.-])\d+(?:\.\d+)?\s*([-+*/^×÷−]|(?:plus|minus|times|multiplied by|divided by)\b|加|减|乘以?|除以)\s*(?=\d+(?!\d*[/-]\d))",
    re.I,
)
_OPERATORS = {"×": "*", "÷": "/", "−": "-", "plus": "+", "minus": "-", "times": "*", "multiplied by": "*", "divided by": "/",
              "加": "+", "减": "-", "乘": "*", "乘以": "*", "除以": "/"}  # fmt: skip
# What may differ between two texts that are taken for one without any rule.
_SENTENCE = re.compile(r"[\s.,;:!?…'\"‘’“”、。，；：？！]+")
_AREA = re.compile(r"(?<=\d)\s?(k?m|ft)[2²](?![A-Za-z\d])")
_UNIT_LIKE = re.compile(r"^[vV]\d+(?:\.\d+)*$")


def language(text: str) -> str:
    """Return a two-letter guess by script and, for Latin letters, by function words; `` where there is nothing to go by."""
    latin = _LATIN_WORD.findall(text)
    for code, pattern in _SCRIPTS:
        count = len(pattern.findall(text))
        if count >= max(1, len(latin)) or (code in {"ja", "ko"} and count >= 2):
            return code
    return english.latin_language([word.lower() for word in latin[:200]])


def parse(text: str) -> str:
    """Return the parse as compact JSON, at most a few times the text's length. Text past 2,000 characters is not read.

    Never raises. Fields: v version, l language, n numbers, o ordinals, d dates, e entities, u units named without a number,
    x antonym axes, b one-character axes, g negators, q quantifiers, k what is asked for, s the sequence of tokens, w content tokens, j what stands before and after
    each of them, r the sequence without a question's frame, f and t what
    stands in the from and to roles, y what stands before `to`, a the main verbs, m signs with what stands beside them, i pictures, c units and p words by their case, z digest of the text but for case and sentence punctuation (two texts have one parse
    only if they have one digest), h hash of a text that was cut.
    """
    exact = unicodedata.normalize("NFC", text[:MAX_CHARS].encode("utf-8", "replace").decode())[:MAX_CHARS]
    one_form = rated(exact)
    clean = raised(_AREA.sub(r" sq\1", spelled(one_form)))
    clean = unicodedata.normalize("NFKC", clean)[: 2 * MAX_CHARS]
    clean = unmarked(clean.replace("’", "'").replace("‘", "'"))
    lang = language(clean)
    entities: list[str] = []
    entities.extend(_OPERATORS.get(sign.lower(), sign) for sign in _OPERATOR.findall(clean))
    clean = _OPERATOR.sub(lambda match: match[0].replace(match[1], _OPERATORS.get(match[1].lower(), match[1])), clean)
    marks = Marks()
    blanked = _LITERALS.sub(lambda match: _literal(match, entities, marks), clean)
    found = quantities.extract(blanked, han=bool(_HAN.search(blanked)), marks=marks)
    reader = read_chinese if lang == "zh" else english.read
    fields = reader(clean, found.rest, lang)
    entities.extend(fields.pop("e"))
    entities = [names.ALIASES.get(entity, entity) for entity in entities if entity]
    spans, pictures = signs.read(one_form)
    by_case, capitals = letters.read(exact)
    record: dict[str, Any] = {
        "v": VERSION,
        "l": lang,
        "n": bounded(found.numbers),
        "o": bounded(found.ordinals),
        "d": bounded(sorted(set(found.dates))),
        "e": bounded(sorted(set(entities))),
        "V": {kind: bounded(items) for kind, items in places.tied(found.marked, marks, entities, lang).items()},
        **fields,
        "m": spans,
        "i": bounded(pictures),
        "c": bounded(by_case),
        "p": bounded(capitals),
        "z": hashlib.sha256(_SENTENCE.sub(" ", exact).strip().casefold().encode()).hexdigest()[:16],
    }
    if len(text) > MAX_CHARS:
        record["h"] = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return orjson.dumps({key: value for key, value in record.items() if value}).decode()


def bounded(items: list[str]) -> list[str]:
    """Return the items, or the first 63 of more than 64 and a digest of the rest, so that what differs there is seen."""
    if len(items) <= MAX_ITEMS:
        return items
    rest = "\0".join(items[MAX_ITEMS - 1 :]).encode("utf-8", "surrogatepass")
    return [*items[: MAX_ITEMS - 1], f"#{hashlib.sha256(rest).hexdigest()[:16]}"]


def is_current(known: str) -> bool:
    """Return whether this is a parse as `parse` makes it now, which alone can be compared."""
    return known.startswith(_BEGIN)


def _literal(match: re.Match[str], entities: list[str], marks: Marks) -> str:
    kind, value = match.lastgroup, match[match.lastgroup or 0].strip()
    if kind == "name":
        if _UNIT_LIKE.match(value) or re.fullmatch(r"\d+[A-Za-z]+", value):
            return match[0]
        lower = value.lower()
        if lower.rstrip("0123456789.-") in units.UNITS and not lower[:1].isdigit():
            return match[0]
        entities.append(lower)
        return f" {marks.put('e', names.ALIASES.get(lower, lower))} "
    literal = re.sub(r"\s+", " ", value).casefold()
    entities.append(literal)
    # Words within quotes still count as words; code, links and file names do not.
    if kind in {"quoted", "title"}:
        return f" {marks.put('e', QUOTE + literal)} {value} {QUOTE_END} "
    return f" {marks.put('e', literal)} "
