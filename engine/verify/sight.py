"""What one sign of a text is, seen from where it stands: punctuation of a sentence, or a sign that says something."""

# ruff: noqa: SIM905 — lists of words read, diff and are searched better as one text
from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

from engine.verify import lexicon_en as lexicon
from engine.verify import units, wordnet
from engine.verify.stems import stem
from engine.verify.written import SPOKEN_OF, TAKEN

_ORDERED = frozenset("< > <= >= -> <- => <=> <-> >> <<".split())
_NAMED = frozenset("is does do did the a an use using used of symbol sign operator character called type".split()) | {SPOKEN_OF}
_SAID_OF = frozenset("do mean means called sign symbol operator character".split())
# After these a mark between blanks is what is treated: split by , and escape -
_TREATED = frozenset(
    """replace escape split separate by with on for type press insert remove delete find search put write print match cd ls rm cp mv
    use using explain""".split()
)
_FOLDERS = frozenset("cd ls rm cp mv cat grep find git add build code open cmd".split())
_APART = frozenset((",", ";", ":", ".", "..", "'", '"'))  # what says something where it stands between blanks
_ASKED_OF = re.compile("[里中用的号是有]$")
_ASKING = re.compile("[是和有怎符运的与代表]")
_ZONES = frozenset(("UTC", "GMT"))
_ABBREVIATED = frozenset("eg ie am pm".split())
_MARKED = frozenset("§‰‱′″‴†‡※¶")
_SHORT = 2


@dataclass(slots=True)
class Piece:
    """A token. strong: a sign to be kept; soft: one that is kept between two that are in one span. left, right: what it takes with it."""

    kind: str
    text: str
    strong: bool = False
    left: bool = False
    right: bool = False

    def operand(self) -> bool:
        """Return whether it stands in formulas even between blanks: a number, a letter, an identifier."""
        text = self.text
        return self.kind == "number" or (
            self.kind == "word" and (len(text) == 1 or not text.isalpha() or (text[1:] != text[1:].lower() and not text.isupper()))
        )

    def prose(self) -> bool:
        return self.kind == "han" or (self.kind == "word" and len(self.text) > 1 and self.text.isalpha())

    def letter(self) -> bool:
        return self.kind == "word" and len(self.text) == 1

    def joins(self) -> bool:
        """Return whether an operator between blanks takes it along."""
        return self.operand() or (self.kind == "sign" and self.text in "()[]{}-+√∛!'\"$")

    def belongs(self) -> bool:
        """Return whether a sign that touches it takes it along."""
        return self.kind in {"word", "number"} or self.strong


NOTHING = Piece("", "")


def _known(word: str) -> bool:
    return word in lexicon.STOP or stem(wordnet.BASE.get(word, word)) in wordnet.GROUPS


def _graded(piece: Piece) -> bool:
    """Return whether a minus may follow that is its own: O-, x-, HIV-, Rh-, Cl-."""
    text = piece.text
    return piece.kind == "word" and (len(text) == 1 or text.isupper() or (len(text) <= _SHORT and text[0].isupper()))


@dataclass(slots=True)
class Sight:
    """A sign and its neighbours. before, after: without blanks, NOTHING at the ends of the text. near, close: whether these
    touch it. ends: nothing but ends of sentences follows up to the next blank. first: a word of its sentence stands before it, no more.
    apart: this mark stands between blanks in this text even where it is punctuation. typed: the text holds a command.
    """

    text: str
    before: Piece
    after: Piece
    near: bool
    close: bool
    ends: bool
    first: bool
    apart: bool
    typed: bool

    def kept(self) -> bool:
        """Return whether it is a sign rather than punctuation of a sentence."""
        text = self.text
        if text not in {SPOKEN_OF, TAKEN} and not self.near and not self.close and self._alone():
            return True
        judge = _JUDGED.get(text)
        if judge is not None:
            return judge(self)
        if text[0] == ".":
            return self.close and not (self.near and self.before.prose())
        if len(text) > 1 or text.isascii():
            return True
        category = unicodedata.category(text)
        if category in {"Ps", "Pe"}:  # ⌊x⌋, but no quotation
            return not ("\u3008" <= text <= "\u301f" or text >= "\ufe10")
        return text in _MARKED or not category.startswith(("P", "Z", "Cf"))

    def _alone(self) -> bool:
        """Return whether a sign between blanks is spoken of."""
        text, before, after = self.text, self.before.text.lower(), self.after.text.lower()
        if before == SPOKEN_OF or after in _SAID_OF or text == "..":
            return True
        if text in {"-", "--"}:  # a dash after a common word is punctuation more often
            return before in _TREATED or (self.typed and bool(before and after))
        if text in {"'", '"'} and self.apart:
            return False
        if before in _NAMED or before in _FOLDERS or (before in _TREATED and bool(after)):
            return True
        return text in _APART and not self.apart and bool(before) and (bool(after) or text == ".")

    def takes(self) -> tuple[bool, bool]:
        """Return whether what stands before and after it belongs to its span."""
        between = bool(self.before.text and self.after.text) and self.near == self.close
        if between and self.text in _ORDERED and self._sides():
            return True, True
        if between and not self.near:
            return self.before.joins(), self.after.joins()
        return self.near and self.before.belongs(), self.close and self.after.belongs()

    def _sides(self) -> bool:
        """Return whether two words or names stand on both sides: gold > lead, 北京→上海; not `what does > mean`."""
        named = all(side.kind in {"word", "han"} and side.text.lower() not in lexicon.STOP for side in (self.before, self.after))
        return named and not _ASKED_OF.search(self.before.text) and not _ASKING.match(self.after.text)

    def _exclaims(self) -> bool:
        before = self.before
        # 5!, n! and (n+1)!; `what does vec! do`: no sentence ends before a small letter, unless with a greeting.
        if self.near and (before.kind == "number" or before.letter() or before.strong):
            return True
        if self.near and self.ends:
            return before.kind == "word" and self.after.text[:1].islower() and not self.first and not _known(before.text.lower())
        return self._asks()

    def _asks(self) -> bool:
        before, after = self.before, self.after
        if not before.text or (self.near and self.ends):
            return not before.text and self.close
        if not self.near:
            # Alone it ends a sentence, as the French write it, or the text.
            return self.close or len(self.text) > 1 or bool(after.text and not after.text[:1].isupper())
        if len(self.text) > 1:
            return True
        if "han" in {before.kind, after.kind}:
            return False
        return not (before.prose() and (after.prose() or after.text == "I"))

    def _hyphen(self) -> bool:
        before, after = self.before, self.after
        if self.near and self.close:
            return self._between()
        if self.close:
            return after.kind != "han"
        if self.near:  # O-, A-
            return before.strong or _graded(before)
        return before.operand() and after.joins()

    def _between(self) -> bool:
        """Return whether a dash that touches both sides is no hyphen."""
        before, after = self.before, self.after
        if before.kind == "han":  # -18 after a Han, kana or Hangul letter: no hyphen stands there
            return after.kind in {"han", "number"} or after.letter() or (bool(after.text) and after.text in ".√∛∞(|")
        if after.kind == "han":  # O- before one
            return before.strong or before.kind == "number" or _graded(before)
        if before.text.upper() in _ZONES:
            return after.kind == "number"
        name = before.letter() and before.text.isupper() and after.kind == "number"  # F-16
        words = any(side.kind == "word" and len(side.text) > 1 for side in (before, after))
        return before.strong or not (name or words)

    def _slash(self) -> bool:
        before, after = self.before, self.after
        if not before.text or not after.text or self.near != self.close:
            return True
        if before.kind == "number":
            return after.kind != "word" or after.letter()
        return not self.near or not (before.prose() and after.prose())

    def _colon(self) -> bool:
        if self.close and not self.near:
            return self.after.kind == "word"
        if not self.close and self.near:
            return False
        return self.before.operand() and (self.after.operand() if self.close else self.after.joins())

    def _ampersand(self) -> bool:
        before, after = self.before, self.after
        if before.kind == after.kind == "word" and before.text.isupper() and after.text.isupper():  # R&D
            return not self.near and before.letter() and after.letter()
        if before.text.lower() in _NAMED or _ASKED_OF.search(before.text) or (after.kind == "han" and _ASKING.match(after.text)):
            return True
        return not (before.prose() and after.prose())

    def _quote(self) -> bool:
        """A quote of one character or number, of nothing, an inch or a prime; one within code."""
        before, after = self.before, self.after
        if len(self.text) > 1:
            return True
        if self.near and self.close and before.kind == after.kind == "word":
            return False
        if self.close and (after.kind == "number" or after.letter()):
            return True
        return self.near and (before.kind == "number" or before.letter() or (before.kind == "sign" and before.text in "([{=+"))

    def _point(self) -> bool:
        """`.env`, and `a.b`, which is no abbreviation."""
        if not (self.near and self.close):
            return self.close
        pair = self.before.text + self.after.text
        return self.before.letter() and self.after.letter() and pair.islower() and pair not in _ABBREVIATED

    def _money(self) -> bool:
        return "number" not in {self.before.kind, self.after.kind}

    def _percent(self) -> bool:
        if self.before.kind != "number":
            return True
        return (self.after.kind == "number" or self.after.letter()) and self.near == self.close

    def _tilde(self) -> bool:
        if self.near or self.close:
            return self.close and self.before.kind != "han"
        return bool(self.after.text) and "han" not in {self.before.kind, self.after.kind}

    def _degree(self) -> bool:
        return "han" not in {self.before.kind, self.after.kind}

    def _dash(self) -> bool:
        return self.near != self.close and not (self.close and self.after.kind == "han")


_JUDGED: dict[str, Callable[[Sight], bool]] = {
    "!": Sight._exclaims,
    **dict.fromkeys(("?", "??", "?."), Sight._asks),
    "-": Sight._hyphen,
    "--": Sight._dash,
    "/": Sight._slash,
    ":": Sight._colon,
    "&": Sight._ampersand,
    **dict.fromkeys(("'", '"', "''", '""'), Sight._quote),
    ".": Sight._point,
    "%": Sight._percent,
    "~": Sight._tilde,
    "°": Sight._degree,
    **dict.fromkeys(units.SIGNS, Sight._money),
    **dict.fromkeys((",", ";", SPOKEN_OF, TAKEN), lambda sight: False),
}
