"""Which words stand with which value: two adults and three children are not three adults and two children.

A value (number, ordinal, date or name) is *tied* to the words of its phrase. Two texts of the same values are the same in this regard
when the values stand in one order, or when each keeps words that no other value has.
"""

# ruff: noqa: SIM905 — lists of words read, diff and are searched better as one text
from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from engine.verify import lexicon_en, lexicon_zh, names
from engine.verify.compare import Parse
from engine.verify.english import PREPOSITIONS, content, tokens
from engine.verify.marked import QUOTE, QUOTE_END, Marks

_MOST_WORDS = 24  # that are tied to one value

_BREAK = re.compile("([\ue200-\uf8ff]|[,;:?!()\\n/&→]|\\.(?!\\w))")
_ORDINALS = {"first": "1"}  # the others are taken out of the text
_BREAKS = frozenset("and or but then plus while whereas vs versus".split())
_ARTICLES = frozenset("a an the my your our his her its their both each".split())
_BREAK_ZH = re.compile(
    "([\ue200-\uf8ff])|([、，。；：？！,.;:?!()（）/&\\s]|还是|然后|之后|和|与|跟|及|或|而|并|再|则)|([A-Za-z][A-Za-z0-9+#]*)|([\u4e00-\u9fff])"
)
_LIGHT_ZH = frozenset("的了吗呢是在有要")
# What may stand between the values of a list whose order says nothing; between numbers only the second kind.
_LISTED = frozenset("and or vs versus , & / 、 和 与 跟 及 或 还是".split())
_JOINS = _LISTED | set(";.?!:；。？！：") | {"并", "而"}
_EITHER = frozenset("or vs versus 或 还是".split())
_RANKS = frozenset(
    """respectively order sequence first then before after priority rank ranked sort sorted next list queue
    分别 依次 顺序 先 然后 排序 之后 再""".split()
)
KINDS = "notdek"  # numbers, ordinals, times, dates, names, identifiers and other literals
_COUNTED = frozenset("person cup box bottle".split())


class _Piece(NamedTuple):
    """kind: v a value, b a break, w a word, p a preposition, f another word."""

    kind: str
    text: str
    of: str = ""  # a value's kind
    unit: str = ""


def tied(text: str, marks: Marks, entities: Iterable[str], lang: str) -> dict[str, list[str]]:
    """Return each kind's values in order with the words of their phrases: `value word word`, `+value …` for the next of a list.

    Kinds with fewer than two values have no order and are left out. A word before the first value begins with ^, one after the last
    with $. `r`: the order of lists means something in this text. `l`: two numbers stand side by side. `c`: the phrases, where there are
    several, each as its words in their order.
    """
    known = {entity for entity in entities if entity}
    pieces = _chinese(text, marks, known) if lang == "zh" else _whole_names(_latin(text, marks, known))
    found = {}
    lists = 0
    for kind in KINDS:
        places = [place for place, piece in enumerate(pieces) if piece.of == kind]
        if len({pieces[place].text for place in places}) > 1:
            found[kind], joined = _kind(pieces, places, kind, chinese=lang == "zh")
            lists += joined
            if not joined and kind not in "ek" and _paired(pieces, places):
                lists += 1
                found["l"] = ["1"]
    if lists > 1 or _RANKS.intersection(piece.text for piece in pieces) or (lang == "zh" and any(word in text for word in _RANKS)):
        found["r"] = ["1"]
    phrases = _phrases(pieces)
    # After any other word than these the order of two phrases may count: take this while on that.
    if len(phrases) > 1 and all(piece.text in _JOINS for piece in pieces if piece.kind == "b"):
        found["c"] = phrases
    return found


def _phrases(pieces: Sequence[_Piece]) -> list[str]:
    phrases: list[list[str]] = [[]]
    for piece in pieces:
        if piece.kind == "b":
            phrases.append([])
        elif piece.kind in "wv":
            phrases[-1].append(piece.text.replace(" ", "_"))
    return [" ".join(phrase) for phrase in phrases if phrase]


def _paired(pieces: Sequence[_Piece], places: Sequence[int]) -> bool:
    """Return whether two numbers or dates stand side by side: they may belong to two names, one to each."""
    return any(_LISTED.issuperset(piece.text for piece in pieces[one + 1 : other]) for one, other in pairwise(places))


def _latin(text: str, marks: Marks, known: set[str]) -> list[_Piece]:
    pieces: list[_Piece] = []
    quoted = False
    for part in _BREAK.split(text):
        if part == QUOTE_END:
            quoted = False
        elif marks.is_mark(part):
            kind, value = marks.of(part)
            quoted = quoted or value.startswith(QUOTE)
            pieces.append(_value(kind, value))
        elif quoted or not part.strip():
            continue
        elif len(part) == 1 and not part.isalnum():
            pieces.append(_Piece("b", part))
        else:
            pieces.extend(piece for piece in (_word(token, known) for token in tokens(part)) if piece.of or piece.text not in _ARTICLES)
    return pieces


def _whole_names(pieces: Sequence[_Piece]) -> list[_Piece]:
    """Return the pieces with names that follow each other as one: Hugging Face."""
    found: list[_Piece] = []
    for piece in pieces:
        if found and piece.of == found[-1].of == "e":
            found[-1] = _Piece("v", f"{found[-1].text}_{piece.text}", "e")
        else:
            found.append(piece)
    return found


def _word(token: str, known: set[str]) -> _Piece:
    name = names.ALIASES.get(token, token)
    if name in known or token in known:
        return _Piece("v", name, "e")
    if token in _ORDINALS:
        return _Piece("v", _ORDINALS[token], "o")
    if token in _BREAKS:
        return _Piece("b", token)
    if token in PREPOSITIONS or token in {"than", "of"}:
        return _Piece("p", token)
    return _Piece("f", token) if token in lexicon_en.STOP else _Piece("w", content(token))


def _value(kind: str, value: str) -> _Piece:
    number, _, unit = value.partition("|") if kind == "n" else (value, "", "")
    if kind == "e" and not value.replace(" ", "").isalpha():
        kind = "k"
    return _Piece("v", number, "t" if kind == "d" and value[:1] in "tT" else kind, unit)


def _chinese(text: str, marks: Marks, known: set[str]) -> list[_Piece]:
    for name in sorted(known, key=len, reverse=True):
        if name[0] > "\u3000" and name in text:
            text = text.replace(name, marks.put("e", name))
    pieces: list[_Piece] = []
    quoted = False
    for match in _BREAK_ZH.finditer(text + QUOTE_END):
        mark, stop, latin, han = match.groups()
        if mark == QUOTE_END:
            quoted = False
        elif mark:
            kind, value = marks.of(mark)
            quoted = quoted or value.startswith(QUOTE)
            pieces.append(_value(kind, value))
        elif quoted or (stop and stop.isspace()):
            continue
        elif stop:
            pieces.append(_Piece("b", stop))
        elif latin:
            name = names.ALIASES.get(latin.lower(), latin.lower())
            pieces.append(_Piece("v", name, "e"))
        else:
            pieces.append(_Piece("f" if han in _LIGHT_ZH else "w", han))
    return pieces


def _kind(pieces: Sequence[_Piece], places: Sequence[int], kind: str, *, chinese: bool) -> tuple[list[str], int]:
    """Return the values of a kind with what is tied to them, and the number of lists among them."""
    words: list[dict[str, None]] = [{} for _ in places]
    joined = [False] * len(places)
    edges = [-1, *places, len(pieces)]
    for gap in range(len(edges) - 1):
        between = pieces[edges[gap] + 1 : edges[gap + 1]]
        left = words[gap - 1] if gap else None
        right = words[gap] if gap < len(places) else None
        if left is not None and right is not None:
            joined[gap] = _one_list(between, kind, before=pieces[: edges[gap]], after=pieces[edges[gap + 1] + 1 :][:1])
        _share(between, left, right, pieces[edges[gap]] if gap else None, chinese=chinese)
    items = []
    for place, found, listed in zip(places, words, joined, strict=True):
        if pieces[place].unit:
            found["|" + pieces[place].unit] = None
        value = pieces[place].text.replace(" ", "_")
        items.append(" ".join(("+" * listed + value, *list(found)[:_MOST_WORDS])))
    return items, sum(listed and not joined[place - 1] for place, listed in enumerate(joined))


def _one_list(between: Sequence[_Piece], kind: str, *, before: Sequence[_Piece], after: Sequence[_Piece]) -> bool:
    """Return whether two values are members of one list, in which order says nothing: 5 or 2, 5 GHz or 2 GHz."""
    said = [piece.text for piece in between]
    if said and [piece.text for piece in after] == said[:1]:
        del said[0]
    if not said or not _LISTED.issuperset(said):
        return False
    # x and y are 2 and 3: numbers have an order, but for a choice, and for what lies between them.
    return kind in "tdek" or _EITHER.issuperset(said) or bool(before and before[-1].text == "between")


def _share(
    between: Sequence[_Piece], left: dict[str, None] | None, right: dict[str, None] | None, first: _Piece | None, *, chinese: bool
) -> None:
    """Tie the words between two values to the one, to the other, or to both where nothing says to which."""
    stops = [place for place, piece in enumerate(between) if piece.kind == "b"]
    start, end = (stops[0], stops[-1] + 1) if stops else (len(between), 0)
    mine, theirs = between[:start], between[end:]
    if not stops and left is not None and right is not None:
        lead, trail = _claimed(between, first, chinese=chinese)
        mine, theirs = between[: len(between) - trail], between[lead:]
    if left is not None:
        left.update(dict.fromkeys(("$" if right is None else "") + _name(piece) for piece in mine if piece.kind in "wv"))
    if right is not None:
        right.update(dict.fromkeys(("^" if left is None else "") + _name(piece) for piece in theirs if piece.kind in "wv"))
        if theirs and theirs[-1].kind == "p":
            right["·" + theirs[-1].text] = None


def _claimed(between: Sequence[_Piece], first: _Piece | None, *, chinese: bool) -> tuple[int, int]:
    """Return how many of the words between two values are the first's alone, and how many the second's."""
    if chinese:
        counted = (
            first is not None
            and first.of == "n"
            and bool(between)
            and (first.unit in _COUNTED or (not first.unit and between[0].text in lexicon_zh.MEASURES))
        )
        bare = first is not None and first.of == "n" and not first.unit and not counted
        return (len(between), 0) if counted else (0, len(between)) if bare else (0, 0)
    lead = 0
    # Between two names a verb is of both, unless a preposition follows: acquires Google YouTube, a file with pandas.
    if first is not None and (first.of in "no" or (between[-1:] and between[-1].kind == "p")):
        lead = 1 if between and between[0].text == "of" else 0
        while lead < len(between) and between[lead].kind == "w":
            lead += 1
    trail = 0
    while trail < len(between) - lead and between[-1 - trail].kind == "w":
        trail += 1
    if lead + trail < len(between) and between[-1 - trail].kind == "p":
        trail += 1
    return lead, trail


def _name(piece: _Piece) -> str:
    return piece.text.replace(" ", "_") if piece.kind == "w" else f"{piece.of}:{piece.text.replace(' ', '_')}"


def order(left: Parse, right: Parse) -> str:
    """The same values, but they stand in another order and did not keep their words; or the words changed places among them."""
    mine, theirs = left.get("V", {}), right.get("V", {})
    ranked = "r" in mine or "r" in theirs
    for kind in KINDS:
        if kind in mine and kind in theirs:
            found = _moved(_read(mine[kind]), _read(theirs[kind]), ranked=ranked)
            if found:
                return found
    return _parts_of_dates(mine, theirs)


def moved_phrases(left: Parse, right: Parse) -> bool:
    """Return whether two texts are of the same phrases in another order: open the door and close the window, and the other way round."""
    mine, theirs = left.get("V", {}), right.get("V", {})
    first, second = ([phrase.split() for phrase in side.get("c", ())] for side in (mine, theirs))
    if not first or in_lists(left, right) or len(first) != len(second):
        return False
    if sorted(first) == sorted(second):
        return True
    while first and first[0] == second[0]:
        first, second = first[1:], second[1:]
    while first and first[-1] == second[-1]:
        first, second = first[:-1], second[:-1]
    if len(first) != 2:
        return False
    # What stands before both and after both stays where it is: shall I [take a] and [b now], shall I [take b] and [a now].
    (one, other), (other2, one2) = first, second
    for size in range(min(len(one), len(other2))):
        mine_alone, theirs_alone = one[size:], other2[size:]
        if one[:size] == other2[:size] and _follows(other, theirs_alone, one2, mine_alone):
            return True
    return False


def _follows(other: list[str], start: list[str], one: list[str], start2: list[str]) -> bool:
    return other[: len(start)] == start and one[: len(start2)] == start2 and other[len(start) :] == one[len(start2) :]


def in_lists(left: Parse, right: Parse) -> bool:
    """Return whether the order of a list of words may say which number is whose: x and y are 2 and 3."""
    return any(name in side.get("V", {}) for side in (left, right) for name in "lr")


class _Tied(NamedTuple):
    """outer: those of the words that stand before the first value or after the last: they often belong to the sentence."""

    value: str
    listed: bool
    words: frozenset[str]
    outer: frozenset[str]


def _read(items: Sequence[str]) -> list[_Tied]:
    found = []
    for item in items:
        value, *words = item.split(" ")
        outer = frozenset(word for word in words if word[:1] in "^$")
        found.append(_Tied(value.lstrip("+"), value.startswith("+"), frozenset(word.lstrip("^$") for word in words), outer))
    return found


def _moved(mine: Sequence[_Tied], theirs: Sequence[_Tied], *, ranked: bool) -> str:
    shared = {item.value for item in mine} & {item.value for item in theirs}
    if len(shared) < 2:
        return ""
    first, second = (_sequence(side, shared, ranked=ranked) for side in (mine, theirs))
    if Counter(first) != Counter(second):
        if len(first) == len(second):  # one value more often, another less: is it A or B? I say A
            return f"{' '.join(first)} / {' '.join(second)}"
        first, second = list(dict.fromkeys(first)), list(dict.fromkeys(second))
    owners, owners2 = _owners(mine), _owners(theirs)
    outer = frozenset().union(*(item.outer for item in mine)) & frozenset().union(*(item.outer for item in theirs))
    strange = [
        word
        for word in (owners.keys() & owners2.keys()) - {word[1:] for word in outer}
        # A preposition may only link the phrases: flour with sugar, sugar with flour.
        if word[0] != "·" and owners[word].isdisjoint(owners2[word]) and owners[word] <= shared and owners2[word] <= shared
    ]
    if first == second:
        # One word may stand elsewhere in a sentence that is built in another way; two that change places say another thing.
        crossed = {value for word in strange for value in owners[word]}
        return " ".join(sorted(strange)) if len(crossed) > 1 else ""
    kept = {
        value
        for word in owners.keys() & owners2.keys()
        if owners[word] == owners2[word] and len(owners[word]) == 1
        for value in owners[word]
    }
    return f"{' '.join(first)} / {' '.join(second)}" if strange or len(shared - kept) > 1 else ""


def _sequence(side: Sequence[_Tied], shared: set[str], *, ranked: bool) -> list[str]:
    """Return the shared values in their order; the members of a list by name, unless their order means something."""
    groups: list[list[str]] = []
    for item in side:
        if item.listed and groups and not ranked:
            groups[-1].append(item.value)
        else:
            groups.append([item.value])
    return [value for group in groups for value in sorted(group) if value in shared]


def _owners(side: Sequence[_Tied]) -> dict[str, set[str]]:
    owners: dict[str, set[str]] = {}
    for item in side:
        for word in item.words:
            owners.setdefault(word, set()).add(item.value)
    return owners


def _parts_of_dates(left: Mapping[str, Sequence[str]], right: Mapping[str, Sequence[str]]) -> str:
    """Return days that changed their months: from 5 May to 7 June, from 7 May to 5 June."""
    mine, theirs = ([item.value for item in _read(side.get("d", ()))] for side in (left, right))
    parts, parts2 = (Counter(part for value in side for part in re.findall("[A-Z][^A-Z]*", value)) for side in (mine, theirs))
    if set(mine) == set(theirs) or parts != parts2:
        return ""
    return f"{' '.join(mine)} / {' '.join(theirs)}"
