"""The signs of a text that are no sentence punctuation, with what stands beside them: 2⁵, a?.b, chmod +x, C++, 5!, A→B, -5.

Read before compatibility characters are folded, for that folding makes 25 of 2⁵. A sign goes with its operands as one *span*; the prose
around it stays out, so that one formula in two sentences is one span.
"""

# ruff: noqa: SIM905 — lists of words read, diff and are searched better as one text
from __future__ import annotations

import hashlib
import re
import unicodedata
from collections import Counter

from engine.verify import lexicon_en as lexicon
from engine.verify import units
from engine.verify.sight import NOTHING, Piece, Sight
from engine.verify.written import BLANK, DIGITS, LENGTHS, TAKEN, command, written

MAX_SPANS = 64
_SPAN_CHARS = 48  # of a span as it is kept; a longer one ends in a digest of all of it
_HAN_OPERAND = 2  # characters beside an arrow or a comparison: 北京→上海

_HAN = "\u3400-\u9fff\uac00-\ud7a3\u3040-\u30ff々〇"
_TOKEN = re.compile(
    r"(?P<blank>\s+)"
    r"|(?P<number>\d{1,3}(?:,\d{3})+(?:\.\d+)?(?![\d,])|\d+(?:\.\d+)*)"
    rf"|(?P<han>[{_HAN}]+)|(?P<word>[^\W\d{_HAN}][^\W{_HAN}]*)"
    r"|(?P<sign><=>|<->|===|!==|>>>|\?\.(?!\.)|\?\?=?|\.{2,}=?|->|<-|=>|<=|>=|==|!=|\+\+|--|&&|\|\||\*\*|<<|>>|//|::|:=|[-+*/%&|^]=|''|\"\"|[^\w\s]|.)"
)
_ADDRESS = re.compile(r"https?://([^\s\"'<>，。]{3,200})|([\w.+-]{1,64}@[\w-]+\.[\w.-]{1,64})", re.ASCII)
_QUOTED = re.compile(r"(?<![\w(\[{=+])([\"'])(?!\s)([^\"\n]{2,200}?)(?<!\s)\1(?!\w)")
# But no star that counts, no sun that is a unit, no sharp or flat: 3★, M☉, B♭. Arrows are signs by now.
_PICTURES = re.compile("(?:(?![☉♭♮♯➘➚]|(?<=[0-9])[★☆]|(?<=[0-9] )[★☆])[\U0001f1e6-\U0001faff\u2600-\u27bf\U0001f3fb-\U0001f3ff]\\s*)+")
_APART = re.compile(r"\s[.?!。？！]\s*$")  # a text whose last sentence ends apart from its last word has all its punctuation so
_SYMMETRIC = frozenset(("", *"and or vs versus 和 与 跟 同 及 或 还是".split()))
_BRACKETS = {")": "([", "]": "[(", "}": "{"}  # an interval may be open on one side
_IDENTIFIER = re.compile(r"\w+$")
_AREA = re.compile(rf"(?:{'|'.join(sorted(set(LENGTHS.values())))})\^[23]$")
_COUNT = re.compile(rf"(?:[\d{DIGITS}]|(?:^|[\s-])(?:{'|'.join(lexicon.NUMBER_WORDS)}))$", re.I)
_QUOTES = frozenset("'\"")
_ENDING = frozenset(".,;:!?")
_CASELESS = re.compile(r"^(?:[cf](?:\+\+|#)|\.net|[a-z]{1,2}[+-]|[@#].*)$", re.I)  # written in small letters as often as not
_SHORT = 2
_BLANKED = 4  # places after `(` in which the one word of `( s )` stands


def read(text: str) -> tuple[list[str], list[str]]:
    """Return the spans in their order, each once, and the pictures, which are decoration more often than not.

    text: NFC, as it was written, at most 2,000 characters. At most 64 spans: the last of more is a digest of the rest. Never raises.
    """
    plain = written(text)
    found: list[tuple[str, str]] = []  # a span, and the prose before it

    def address(match: re.Match[str]) -> str:
        found.append(((match[1] or match[2]).rstrip("/.,?!").casefold(), "."))
        return f"{BLANK}{TAKEN}{BLANK}"

    plain = _ADDRESS.sub(address, plain)
    pictures = sorted({"".join(match[0].split()) for match in _PICTURES.finditer(plain)})
    plain = _PICTURES.sub(f"{BLANK}{TAKEN}{BLANK}", plain)
    for _ in range(2):  # a quotation may hold another
        plain = _QUOTED.sub(rf"{BLANK}\2{BLANK}", plain)
    pieces = [Piece(match.lastgroup or "", match[0]) for match in _TOKEN.finditer(plain)]
    typed = command(text)
    _mark(pieces, tokenised=_APART.search(plain) is not None and not typed, typed=typed)
    found += _spans(pieces)
    return _bounded(_ordered(found)), pictures


def _mark(pieces: list[Piece], *, tokenised: bool, typed: bool) -> None:
    """Say of each sign whether it is kept and what it takes with it. tokenised: punctuation stands apart from words in
    this text. typed: it holds a command.
    """
    solid = [place for place, piece in enumerate(pieces) if piece.kind != "blank"]
    pairs, ends = _pairs(pieces, solid), _run_ends(pieces)
    lone = Counter(piece.text for place, piece in enumerate(pieces) if piece.text in _QUOTES and _lone(pieces, place))
    seen: list[tuple[Piece, Sight]] = []
    for rank, place in enumerate(solid):
        piece = pieces[place]
        if piece.kind == "word":
            # An identifier's underscore is a sign; so is a letter of a mathematical alphabet: ℝ.
            piece.strong = "_" in piece.text or (len(piece.text) == 1 and "<font>" in unicodedata.decomposition(piece.text))
        if piece.kind != "sign":
            continue
        near = rank > 0 and solid[rank - 1] == place - 1
        if piece.text in "([{" or piece.text in _BRACKETS:
            # One without the other is a sign of its own, unless it is that of `a)`.
            piece.strong = place not in pairs and not near
            continue
        before = pieces[solid[rank - 1]] if rank else NOTHING
        after = pieces[solid[rank + 1]] if rank + 1 < len(solid) else NOTHING
        close = rank + 1 < len(solid) and solid[rank + 1] == place + 1
        # Quotes that stand apart in twos are badly set.
        quoted = piece.text in _QUOTES and lone[piece.text] % 2 == 0
        sight = Sight(
            piece.text,
            before,
            after,
            near,
            close,
            ends=ends[place],
            first=rank < _SHORT,
            apart=tokenised or quoted or _parted(pieces, place),
            typed=typed,
        )
        piece.strong = sight.kept()
        if piece.strong:
            seen.append((piece, sight))
        elif piece.text == "." and near and close:
            piece.left = piece.right = before.belongs() and after.belongs()
    inner, enclosed = _Inner(pieces), 0
    for opening in sorted(opening for opening, closing in pairs.items() if opening < closing):
        closing = pairs[opening]
        if inner.formal(pieces, opening, closing):
            _enclose(pieces, opening, closing)
            # Once for the outermost: pairs never cross.
            for place in range(max(opening, enclosed), closing):
                pieces[place].right = True
            enclosed = max(enclosed, closing)
    for piece, sight in seen:
        piece.left, piece.right = sight.takes()


def _parted(pieces: list[Piece], place: int) -> bool:
    """Return whether a blank beside it was put there for what was taken out: quotes, stress, an address."""
    return any(BLANK in piece.text for piece in pieces[max(0, place - 1) : place + 2])


def _lone(pieces: list[Piece], place: int) -> bool:
    return all(not 0 <= near < len(pieces) or pieces[near].kind == "blank" for near in (place - 1, place + 1))


def _enclose(pieces: list[Piece], opening: int, closing: int) -> None:
    """Put two brackets and what touches them into one span."""
    pieces[opening].strong = pieces[closing].strong = True
    pieces[opening].left |= opening > 0 and pieces[opening - 1].belongs()
    after = pieces[closing + 1] if closing + 1 < len(pieces) else NOTHING
    pieces[closing].right |= after.kind in {"word", "number"}


def _run_ends(pieces: list[Piece]) -> list[bool]:
    """Return for each place whether nothing but ends of sentences and closing quotes follows up to the next blank."""
    found = [True] * len(pieces)
    for place in range(len(pieces) - 2, -1, -1):
        after = pieces[place + 1]
        closes = after.kind == "sign" and (set(after.text) <= _ENDING or after.text in "\"')]»」』”’")
        found[place] = after.kind == "blank" or (closes and found[place + 1])
    return found


def _pairs(pieces: list[Piece], solid: list[int]) -> dict[int, int]:
    """Return the places of brackets that belong together, both ways."""
    stack: list[int] = []
    found = {}
    for place in solid:
        text = pieces[place].text
        if text in {"(", "[", "{"}:
            stack.append(place)
        elif text in _BRACKETS and stack and pieces[stack[-1]].text in _BRACKETS[text]:
            opening = stack.pop()
            found[opening], found[place] = place, opening
    return found


class _Inner:
    """What stands between any two places, told in one step each: pieces that are no blanks, Han, words of prose."""

    def __init__(self, pieces: list[Piece]) -> None:
        self._solid, self._han, self._prose = [0], [0], [0]
        for piece in pieces:
            han = piece.kind == "han"
            self._solid.append(self._solid[-1] + (piece.kind != "blank"))
            self._han.append(self._han[-1] + han)
            self._prose.append(self._prose[-1] + (han or (piece.prose() and len(piece.text) > _SHORT)))

    def formal(self, pieces: list[Piece], opening: int, closing: int) -> bool:
        """Return whether two brackets are signs: f(x), [1,2], {name}; not (urgent), item(s) or the empty ones of print()."""
        solid, han, prose = (counts[closing] - counts[opening + 1] for counts in (self._solid, self._han, self._prose))
        before = pieces[opening - 1] if opening else NOTHING
        if pieces[opening].text == "{" or (before.belongs() and before.kind != "word"):
            return True
        if before.kind == "word":
            plural = solid == 1 and bool({"s", "es"} & {piece.text for piece in pieces[opening + 1 : opening + _BLANKED]})
            empty = not solid and pieces[opening].text == "("
            return not plural and not empty and not han
        return not prose and (solid != 1 or pieces[opening].text == "[")


def _spans(pieces: list[Piece]) -> list[tuple[str, str]]:
    """Return each span with the prose before it."""
    found: list[tuple[str, str]] = []
    prose: list[str] = []
    run: list[int] = []

    def close() -> None:
        nonlocal prose
        if any(pieces[place].strong for place in run):
            text = "".join(_written(pieces, place, run) for place in run)
            found.append((text.casefold() if _CASELESS.match(text) else text, " ".join(prose)))
            prose = []
        else:
            prose += [pieces[place].text for place in run]
        run.clear()

    solid = [place for place, piece in enumerate(pieces) if piece.kind != "blank"]
    for place in solid:
        if run and not _joined(pieces, run[-1], place):
            close()
        run.append(place)
    if run:
        close()
    return found


def _joined(pieces: list[Piece], left: int, right: int) -> bool:
    one, other = pieces[left], pieces[right]
    if one.right or other.left:
        return True
    # 2x: a number and its letter, which is no unit.
    return right == left + 1 and one.kind == "number" and other.kind == "word" and other.text.lower() not in units.UNITS


def _written(pieces: list[Piece], place: int, run: list[int]) -> str:
    piece = pieces[place]
    if piece.kind == "number":
        return piece.text.replace(",", "")
    if piece.kind == "han" and len(run) > 1:
        return piece.text[-_HAN_OPERAND:] if place == run[0] else piece.text[:_HAN_OPERAND] if place == run[-1] else piece.text
    return piece.text


def _ordered(found: list[tuple[str, str]]) -> list[str]:
    """Return the spans, each once; those that only an `and` parts stand in one order, for they have none.

    So do areas and volumes where one at most has a value, which is then marked: 20 m² in square feet, how many square feet are 20 m².
    """
    counted = {place for place, (span, prose) in enumerate(found) if _AREA.match(span) and _COUNT.search(prose)}
    free = [f"# {span}" if place in counted else span for place, (span, _) in enumerate(found) if _AREA.match(span)]
    if free and len(counted) <= 1:
        found = [pair for pair in found if not _AREA.match(pair[0])]
    else:
        free = []
    groups: list[list[str]] = []
    for span, prose in found:
        if groups and prose.strip("\"' ,、").lower() in _SYMMETRIC:
            groups[-1].append(span)
        else:
            groups.append([span])
    spans = dict.fromkeys(span for group in groups for span in sorted(group))
    # Identifiers are names: in any order, and begun with a capital where a sentence begins.
    names = sorted({span.casefold() for span in spans if _IDENTIFIER.match(span)})
    return [*(span for span in spans if not _IDENTIFIER.match(span)), *names, *sorted(set(free))]


def _bounded(spans: list[str]) -> list[str]:
    short = [span if len(span) <= _SPAN_CHARS else f"{span[:_SPAN_CHARS]}…{_digest(span)}" for span in spans]
    return short if len(short) <= MAX_SPANS else [*short[: MAX_SPANS - 1], _digest("\0".join(short[MAX_SPANS - 1 :]))]


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
