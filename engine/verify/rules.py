"""The rules over two parses. A rule outside the mode still speaks, without a veto, so that its worth can be learnt from the spans."""

# ruff: noqa: E501, SIM905 — lists of words and patterns read, diff and are searched better as one text
from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import orjson

from engine.types import Verdict, VerifyMode
from engine.verify import lexicon_en, lexicon_zh, names, places, quantities
from engine.verify.clauses import modal, subject
from engine.verify.compare import Parse, both, middles, only
from engine.verify.english import content
from engine.verify.marks import capital, case, sign
from engine.verify.parse import VERSION
from engine.verify.stems import stem
from engine.verify.wording import act, addition, inserted, remainder, replaced, substitution, unlike, unlisted

Rule = Callable[[Parse, Parse], str]  # the detail when the two differ, else ''

_DETAIL_CHARS = 80
_PREFIXES = ("un", "dis", "non", "non-", "in", "im", "ir", "il", "de", "mis", "anti", "anti-", "re-", "in-")
_TODAY = frozenset({"R0", "R今天"})
_SYMMETRIC = frozenset("and or vs versus with between & , both 和 与 跟 同 及 或 还 是 、".split())
_DENIES = frozenset("不没无未非")
_EXCLUSIVE = ({"all", "some"}, {"all", "any"}, {"all", "none"}, {"all", "most"}, {"all", "half"}, {"both", "either"}, {"both", "neither"},
              {"always", "sometimes"}, {"always", "never"}, {"always", "often"}, {"always", "rarely"}, {"often", "rarely"}, {"often", "never"},
              {"at_least", "at_most"}, {"more_than", "less_than"}, {"at_least", "less_than"}, {"at_most", "more_than"}, {"some", "none"},
              {"everyone", "someone"}, {"most", "some"}, {"sometimes", "never"}, {"either", "neither"},
              {"before", "during"}, {"after", "during"})  # fmt: skip
# How do I change my address, and where: one answer serves both.
_ALIKE_QUESTIONS = ({"way", "place"}, {"way", "person"}, {"way", "thing"}, {"thing", "place"}, {"thing", "person"}, {"thing", "time"}, {"thing", "duration"},
                    {"thing", "price"}, {"time", "duration"})  # fmt: skip


def verify(query_parse: str, candidate_parse: str, *, mode: VerifyMode) -> tuple[Verdict, ...]:
    """Return what the rules say of two parses; no verdict with a veto = the candidate may serve. Symmetric.

    A parse that is empty, broken or of another version is vetoed: what cannot be checked must not serve.
    """
    # One parse, so one digest of the two texts: they are the same but for case and sentence punctuation, and no sign or unit differs.
    if query_parse and query_parse == candidate_parse:
        return () if _load(query_parse) is not None else (Verdict("unparsed", veto=True),)
    left, right = _load(query_parse), _load(candidate_parse)
    if left is None or right is None:
        return (Verdict("unparsed", veto=True),)
    active = MODES[mode]
    verdicts = []
    for name, rule in RULES.items():
        detail = rule(left, right)
        if detail:
            verdicts.append(Verdict(name, name in active, detail[:_DETAIL_CHARS]))
    return tuple(verdicts)


def may_go_on(verdicts: Iterable[Verdict]) -> bool:
    """Return whether a less similar candidate may serve after this one: nothing vetoed it, or only what differs by a value."""
    return all(verdict.rule in VALUES for verdict in verdicts if verdict.veto)


def _load(text: str) -> Parse | None:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
    return value if isinstance(value, dict) and value.get("v") == VERSION else None


def _numbers(left: Parse, right: Parse) -> tuple[list[str], list[str]]:
    mine, theirs = only(left.get("n", ()), right.get("n", ()))
    for number in list(mine):
        match = next((other for other in theirs if _same(number, other)), None)
        if match is not None:
            mine.remove(number)
            theirs.remove(match)
    return mine, theirs


def _same(number: str, other: str) -> bool:
    """Return whether two written numbers are one: 5 and 5 km (a unit left out), 2 h and 120 min."""
    value, _, unit = number.partition("|")
    value2, _, unit2 = other.partition("|")
    if value == value2 and (not unit or not unit2 or {unit, unit2} == {"yuanyen", "cny"} or {unit, unit2} == {"yuanyen", "jpy"}):
        return True
    base = quantities.base(number) if unit and unit2 else None
    return base is not None and base == quantities.base(other)


def _value(number: str) -> str:
    return number.partition("|")[0]


def number(left: Parse, right: Parse) -> str:
    mine, theirs = _numbers(left, right)
    first, second = only(map(_value, mine), map(_value, theirs))
    return both(first, second) or both(*only(left.get("o", ()), right.get("o", ())))


def unit(left: Parse, right: Parse) -> str:
    mine, theirs = _numbers(left, right)
    shared = {_value(item) for item in mine} & {_value(item) for item in theirs}
    found = both((item for item in mine if _value(item) in shared), (item for item in theirs if _value(item) in shared))
    return found or both(*only(left.get("u", ()), right.get("u", ())))


def number_one_sided(left: Parse, right: Parse) -> str:
    """A number has nothing to stand against. An ordinal will do: World War 2, the second world war."""
    mine, theirs = _numbers(left, right)
    if bool(mine) == bool(theirs):
        return ""
    left_only, right_only = only(left.get("o", ()), right.get("o", ()))
    ordinals = right_only if mine else left_only
    return " ".join(number for number in mine or theirs if number not in ordinals)


def date(left: Parse, right: Parse) -> str:
    return both(*_dates(left, right))


def date_one_sided(left: Parse, right: Parse) -> str:
    mine, theirs = _dates(left, right)
    if bool(mine) == bool(theirs):
        return ""
    # Who asks without a day asks about today.
    return " ".join(part for part in mine or theirs if part not in _TODAY)


def _dates(left: Parse, right: Parse) -> tuple[list[str], list[str]]:
    """Return the parts of dates on one side alone. Five o'clock is five in the morning as well as in the evening."""
    mine, theirs = only(left.get("d", ()), right.get("d", ()))
    return [part for part in mine if not _same_time(part, theirs)], [part for part in theirs if not _same_time(part, mine)]


def _same_time(part: str, others: Iterable[str]) -> bool:
    return part[0] in "tT" and any({part[0], other[0]} == {"t", "T"} and _clock(part) == _clock(other) for other in others)


def _clock(part: str) -> tuple[int, str]:
    return int(part[1:3]) % 12, part[3:]


def antonym(left: Parse, right: Parse) -> str:
    """One side of an axis here, only the other side there; or a word against itself with un-, dis-, in-, non-."""
    if left.get("l") != right.get("l"):
        return ""
    axes, axes2 = set(left.get("x", "").split()), set(right.get("x", "").split())
    if left.get("b") or right.get("b"):
        extra, extra2 = _single_axes(left, right)
        axes |= extra
        axes2 |= extra2
    for code in sorted(axes - axes2):
        other = code[:-1] + ("-" if code[-1] == "+" else "+")
        if other in axes2 and other not in axes:
            return f"axis {code} / {other}"
    return _prefixed(left, right)


def _single_axes(left: Parse, right: Parse) -> tuple[set[str], set[str]]:
    """Return the axes of one-character terms within the one place where two near-equal Chinese texts differ."""
    middle, middle2, common = middles(left.get("s", ""), right.get("s", ""))
    if len(middle) > 4 or len(middle2) > 4 or common < 3:
        return set(), set()
    return tuple(  # type: ignore[return-value]
        {code for char in part if char in whole.get("b", "") for code in lexicon_zh.AXES.get(char, ())}
        for part, whole in ((middle, left), (middle2, right))
    )


def _prefixed(left: Parse, right: Parse) -> str:
    mine, theirs = only(set(left.get("w", "").split()), set(right.get("w", "").split()))
    if len(mine) > 40 or len(theirs) > 40:
        return ""
    for these, those in ((mine, set(theirs)), (theirs, set(mine))):
        for word in these:
            for prefix in _PREFIXES:
                root = word[len(prefix) :]
                if word.startswith(prefix) and len(root) >= 3 and (root in those or stem(root) in those):
                    return f"{word} / {root}"
            if word.endswith("less") and (word[:-4] + "ful") in those:
                return f"{word} / {word[:-4]}ful"
    return _prefixed_participle(left, right)


def _prefixed_participle(left: Parse, right: Parse) -> str:
    """Compare the words as they are written: the content of `opened` is that of `begin`, which `unopened` is not made of."""
    mine, theirs = (set(side.get("s", "").split()) for side in (left, right))
    for word in sorted(mine ^ theirs):
        those = theirs if word in mine else mine
        root = next((word.removeprefix(prefix) for prefix in ("un", "non-", "dis") if word.startswith(prefix)), "")
        if root.endswith(("ed", "en")) and root in those and root not in (mine & theirs):
            return f"{word} / {root}"
    return ""


def direction(left: Parse, right: Parse) -> str:
    """From and to, or two terms around a verb, changed places."""
    origins, origins2 = set(left.get("f", ())), set(right.get("f", ()))
    starts, ends = origins | set(left.get("y", ())), set(left.get("t", ()))
    starts2, ends2 = origins2 | set(right.get("y", ())), set(right.get("t", ()))
    # What stands in one role on both sides (a verb before `to`) says nothing of the direction.
    crossed, crossed2 = (starts - starts2) & (ends2 - ends), (ends - ends2) & (starts2 - starts)
    if (crossed and crossed2) or ends & origins2 - ends2 - starts or ends2 & origins - ends - starts2:
        return f"{' '.join(sorted(crossed or origins))} / {' '.join(sorted(crossed2 or origins2))}"
    middle, middle2, _ = middles(left.get("s", ""), right.get("s", ""))
    if {tuple(middle), tuple(middle2)} in ({("to",), ("from",)}, {("into",), ("from",)}, {("到",), ("从",)}):
        return f"{middle[0]} / {middle2[0]}"
    return _exchanged(left, right) or subject(left, right)


def _exchanged(left: Parse, right: Parse) -> str:
    """X between Y there, Y between X here: equal sequences but for two segments that changed places around something."""
    first, second, _ = middles(left.get("s", ""), right.get("s", ""))
    size = len(first)
    if size != len(second) or not 3 <= size <= 24 or Counter(first) != Counter(second):
        return ""
    for width in range(1, min(size - 1, 9)):
        if first[:width] != second[size - width :]:
            continue
        for width2 in range(1, min(size - width, 9)):
            if first[size - width2 :] == second[:width2] and first[width : size - width2] == second[width2 : size - width]:
                between = first[width : size - width2]
                listed = all(token in _SYMMETRIC for token in between) and not places.in_lists(left, right)
                if between and not listed and not places.moved_phrases(left, right):
                    return f"{' '.join(first[:width])} / {' '.join(second[:width2])}"
    return ""


def negation(left: Parse, right: Parse) -> str:
    mine, theirs = left.get("g", 0), right.get("g", 0)
    if mine % 2 != theirs % 2:
        return f"{mine} / {theirs}"
    if not mine or left.get("l") != right.get("l") or sorted(left.get("w", "").split()) != sorted(right.get("w", "").split()):
        return ""
    # The same words, and another of them is denied: paid and not logged in, not paid and logged in.
    denied, denied2 = _denied(left), _denied(right)
    return both(sorted(denied), sorted(denied2)) if denied.isdisjoint(denied2) else ""


def _denied(side: Parse) -> set[str]:
    """Return what stands after each negator: the next content word, in Chinese the next character."""
    found, waiting = set(), False
    for token in side.get("s", "").split():
        if side.get("l") == "zh":
            if waiting:
                found.add(token)
            waiting = token in _DENIES
        elif token in lexicon_en.NEGATORS:
            waiting = True
        elif waiting and token not in lexicon_en.STOP:
            found.add(content(token))
            waiting = False
    return found


def entity(left: Parse, right: Parse) -> str:
    """Each side names something that the other does not hold in any form."""
    return both(_unmatched(left, right), _unmatched(right, left))


def _unmatched(left: Parse, right: Parse) -> list[str]:
    known = set(right.get("s", "").split())
    known.update(right.get("e", ()))
    known.update(names.NATIONS.get(word, word) for word in tuple(known))
    joined = right.get("s", "").replace(" ", "")
    found = []
    for name in left.get("e", ()):
        if name[0] in "=!<>+*/&|^~%" or name == "-":
            found += [name] * (name not in right.get("e", ()))
            continue
        if name in known or names.NATIONS.get(name) in known or name + "s" in known or name.removesuffix("s") in known:
            continue
        if (len(name) > 3 or name[:1] > "\u3000") and name.replace(" ", "") in joined:
            continue
        found.append(name)
    return found


def quantifier(left: Parse, right: Parse) -> str:
    mine, theirs = only(left.get("q", ()), right.get("q", ()))
    if "only" in mine or "only" in theirs:
        return f"{' '.join(mine) or '-'} / {' '.join(theirs) or '-'}"
    for word in mine:
        for other in theirs:
            if {word, other} in _EXCLUSIVE:
                return f"{word} / {other}"
    return modal(left, right)


def asked(left: Parse, right: Parse) -> str:
    """One asks where, the other how long: a place, a person, a duration, a price or a reason."""
    mine, theirs = set(left.get("k", ())), set(right.get("k", ()))
    if mine & theirs or not any({one, other} not in _ALIKE_QUESTIONS for one in mine for other in theirs):
        return ""
    return both(sorted(mine), sorted(theirs))


def language(left: Parse, right: Parse) -> str:
    return both([left["l"]], [right["l"]]) if left.get("l") and right.get("l") and left["l"] != right["l"] else ""


def cut(left: Parse, right: Parse) -> str:
    """A text was longer than what was read, and the two are not the same."""
    return "too long" if left.get("h") != right.get("h") else ""


RULES: dict[str, Rule] = {
    "number": number,
    "date": date,
    "antonym": antonym,
    "direction": direction,
    "order": places.order,
    "sign": sign,
    "case": case,
    "capital": capital,
    "negation": negation,
    "entity": entity,
    "unit": unit,
    "quantifier": quantifier,
    "asked": asked,
    "act": act,
    "language": language,
    "cut": cut,
    "number_one_sided": number_one_sided,
    "date_one_sided": date_one_sided,
    "replaced": replaced,
    "inserted": inserted,
    "unlike": unlike,
    "remainder": remainder,
    "unlisted": unlisted,
    "substitution": substitution,
    "addition": addition,
}
SAFE = frozenset({"number", "date", "antonym", "direction", "order", "sign", "case", "cut"})
HARD = SAFE | {
    "capital",
    "negation",
    "entity",
    "unit",
    "quantifier",
    "asked",
    "act",
    "language",
    "number_one_sided",
    "date_one_sided",
    "replaced",
    "inserted",
    "unlike",
    "remainder",
    "unlisted",
}
# What differs is a value of one and the same question: the next candidate may have the right one. Any other veto says that another
# thing is asked, and what stands next among the neighbours of another question is more often wrong still (ADR 033).
VALUES = SAFE | {"capital", "entity", "unit", "number_one_sided", "date_one_sided", "act", "unparsed"}
MODES: dict[VerifyMode, frozenset[str]] = {
    VerifyMode.SAFE: SAFE,
    VerifyMode.HARD: HARD,
    VerifyMode.STRICT: HARD | {"substitution", "addition"},
}
