"""The rules over how two questions are worded: what is wanted, one word for another, one thing more."""

# ruff: noqa: SIM905 — lists of words read, diff and are searched better as one text
from __future__ import annotations

from collections.abc import Iterable

from engine.verify import acts, light_zh, wordnet, words
from engine.verify.compare import COMPARED, Parse, both, middles, only
from engine.verify.english import content
from engine.verify.stems import stem

_DETERMINERS = frozenset("a an the my our your all every each this that any some is are".split())
_THING = 3  # characters of a thing's name, where the other is named by one
_SEGMENT = 4  # tokens of what differs between two texts that are otherwise the same
_SHORTEST = 2  # tokens of a question that another one can add to
_LONG, _LONG_CHINESE = 40, 70  # content words, characters in common: two texts of one story, of whose rest a vector tells little
_LISTED = frozenset({"en", "zh"})  # languages with lists of synonyms, opposites and light words
_CAUSE = content("cause")
_FEW = 24  # content words of one side alone: with more, the two are worded too differently to be matched word for word


def act(left: Parse, right: Parse) -> str:
    """Each side wants something done, and the main verbs are of different kinds: restore a deleted, delete a restored project."""
    if left.get("l") != right.get("l"):
        return ""
    mine, theirs = left.get("a", ()), right.get("a", ())
    if not acts.differ(mine, theirs, lang=left.get("l", "")):
        return ""
    if left.get("l") != "zh" and (_spoken_of(mine, right) or _spoken_of(theirs, left)):
        return ""
    return both(mine, theirs) if _shared_content(left, right) else ""


def _spoken_of(verbs: Iterable[str], other: Parse) -> bool:
    """Return whether one of the acts is named in the other text, too, and not only to describe (a *running* or *deleted* project)."""
    tokens = other.get("s", "").split()[:COMPARED]
    named = set()
    for before, token in zip(["", *tokens], tokens, strict=False):
        describes = token.endswith("ed") or token in wordnet.BASE or (token.endswith("ing") and before in _DETERMINERS)
        if not describes:
            named.add(stem(token))
    return any(words.kin(stem(verb), word) for verb in verbs for word in named)


def _shared_content(left: Parse, right: Parse) -> bool:
    return bool(set(left.get("w", "").split()) & set(right.get("w", "").split())) or not (left.get("w") and right.get("w"))


def replaced(left: Parse, right: Parse) -> str:
    """Two sentences of the same content but for one word, which is no known synonym, however they are built."""
    if left.get("l") != right.get("l"):
        return ""
    return _replaced_chinese(left, right) if left.get("l") == "zh" else _replaced_word(left, right)


def _replaced_word(left: Parse, right: Parse) -> str:
    first, second = left.get("w", "").split(), right.get("w", "").split()
    mine, theirs = _unlike(left, right)
    if not mine or not theirs or (len(mine) == len(first) and len(theirs) == len(second)):
        return ""
    if min(len(mine), len(theirs)) == 1 >= abs(len(mine) - len(theirs)):
        slots, slots2 = _slots(left, first), _slots(right, second)
        for one in mine:
            for other in theirs:
                # Two names or two nouns, and nothing else: whatever the sentences look like, they speak of different things.
                named = words.names(one, other) and len(mine) == len(theirs)
                if named or _same_slot(slots.get(one, ()), slots2.get(other, ())):
                    return f"{' '.join(mine)} / {' '.join(theirs)}"
    middle, middle2, around = middles(left.get("r", ""), right.get("r", ""))
    if around >= 2 and max(len(middle), len(middle2)) <= _SEGMENT and set(middle) & set(mine) and set(middle2) & set(theirs):
        return f"{' '.join(middle)} / {' '.join(middle2)}"
    return ""


def _unlike(left: Parse, right: Parse) -> tuple[list[str], list[str]]:
    """Return the content words of each side that name something and have no like on the other."""
    mine, theirs = only(left.get("w", "").split(), right.get("w", "").split())
    if max(len(mine), len(theirs)) > _FEW:
        return mine, theirs
    return _without(_naming(mine, left), theirs), _without(_naming(theirs, right), mine)


def _naming(found: Iterable[str], side: Parse) -> list[str]:
    """Return the words without those that a question's frame brings along: `cause` is one where a reason is asked for."""
    frame = _CAUSE if "reason" in side.get("k", ()) else ""
    return [word for word in found if word not in words.LIGHT and word != frame]


def _without(these: list[str], others: list[str]) -> list[str]:
    return [word for word in these if not any(words.same(word, other) for other in others)]


def _slots(parsed: Parse, sequence: list[str]) -> dict[str, list[list[str]]]:
    found: dict[str, list[list[str]]] = {}
    for word, slot in zip(sequence, parsed.get("j", "").split(), strict=False):
        found.setdefault(word, []).append(slot.split("|", 1))
    return found


def _same_slot(mine: Iterable[list[str]], theirs: Iterable[list[str]]) -> bool:
    """Return whether two words stand at one place: the same before and after, or the same content word or preposition on one side."""
    for left, right in mine:
        for left2, right2 in theirs:
            before, after = left == left2, right == right2
            if (before and after) or (before and left[0] != ".") or (after and right[0] != "."):
                return True
    return False


def inserted(left: Parse, right: Parse) -> str:
    """One text is the other with one more thing said: flu, and flu in babies."""
    if left.get("l") != right.get("l"):
        return ""
    if left.get("l") == "zh":
        blocks = [light_zh.without_light("".join(block)) for block in _added(left, right)[1]]
        return " ".join(block for block in blocks if len(block) > 1)  # one character is as often part of a word said in full
    short, added = _added(left, right)
    if len(added) != 1:
        return ""
    long = right if short is left else left
    full = long.get("w", "").split()
    present = short.get("w", "").split()
    more = [word for block in added for word in block if word in full and word not in words.PLACES]
    return " ".join(_without(_naming(more, long)[:_FEW], present))


def _added(left: Parse, right: Parse) -> tuple[Parse, list[list[str]]]:
    """Return the shorter text, and what the longer says besides, by place; nothing when it does not say all of the shorter."""
    short, long = sorted((left, right), key=lambda side: len(side.get("r", "").split()))
    less, more = short.get("r", "").split(), long.get("r", "").split()
    if len(less) < _SHORTEST:
        return short, []
    blocks: list[list[str]] = [[]]
    place = 0
    for token in more:
        if place < len(less) and token == less[place]:
            place += 1
            blocks.append([])
        else:
            blocks[-1].append(token)
    return short, [block for block in blocks if block] if place == len(less) else []


def _replaced_chinese(left: Parse, right: Parse) -> str:
    first, second = left.get("w", "").split(), right.get("w", "").split()
    middle, middle2, common = middles(left.get("w", ""), right.get("w", ""))
    # Of about equal length only: where they differ, it is as often one thing said in another way.
    sizes = sorted((len(middle), len(middle2)))
    near = sizes[0] == sizes[1] >= 1 or (sizes[0] > 1 and sizes[1] - sizes[0] == 1)
    near = near or (sizes[0] == 1 and sizes[1] <= _THING and bool(light_zh.THINGS & {*(middle if len(middle) == 1 else middle2)}))
    if common >= 2 and near and sizes[1] <= 4 and not set(middle) & set(middle2):
        return f"{''.join(middle)} / {''.join(middle2)}"
    mine, theirs = only(first, second)
    if 2 <= len(mine) == len(theirs) <= 4 and len(first) - len(mine) >= 3 and _together(first, mine) and _together(second, theirs):
        return f"{''.join(mine)} / {''.join(theirs)}"
    return ""


def _together(sequence: list[str], part: list[str]) -> bool:
    """Return whether the tokens of a part stand side by side."""
    size = len(part)
    return any(sorted(sequence[place : place + size]) == part for place in range(len(sequence) - size + 1))


def unlike(left: Parse, right: Parse) -> str:
    """Each side names something, three things or more in all, and nothing of it is on the other side, not even by a like word."""
    if left.get("l") != right.get("l"):
        return ""
    if left.get("l") == "zh":
        first, second = (set(light_zh.without_light("".join(side.get("r", "").split()))) for side in (left, right))
        return both(sorted(first), sorted(second)) if min(len(first), len(second)) > 1 and not first & second else ""
    named, named2 = (sorted(_naming(set(side.get("w", "").split()), side)) for side in (left, right))
    if set(named) & set(named2) or len(named) + len(named2) <= _SHORTEST or max(len(named), len(named2)) > _FEW:
        return ""
    return both(named, named2) if _without(named, named2) == named and _without(named2, named) == named2 else ""


def remainder(left: Parse, right: Parse) -> str:
    """Two long texts are alike for the most part, and what is left names something else: two questions after one and the same story."""
    first, second = left.get("w", "").split(), right.get("w", "").split()
    mine, theirs = only(first, second)
    chinese = left.get("l") == right.get("l") == "zh"
    if len(first) - len(mine) < max(_LONG_CHINESE if chinese else _LONG, 2 * len(mine), 2 * len(theirs)):
        return ""
    if chinese:
        middle, middle2, _ = middles(left["w"], right["w"])
        mine, theirs = only(*(light_zh.without_light(light_zh.without_question("".join(part))) for part in (middle, middle2)))
    elif max(len(mine), len(theirs)) <= _FEW:
        mine, theirs = _unlike(left, right)
    return f"{' '.join(mine) or '-'} / {' '.join(theirs) or '-'}" if mine or theirs else ""


def unlisted(left: Parse, right: Parse) -> str:
    """Another word, or another order of words, in a language without lists of its own, where every word may be the one that counts."""
    if left.get("l") in _LISTED and right.get("l") in _LISTED:
        return ""
    middle, middle2, _ = middles(left.get("w", ""), right.get("w", ""))
    return f"{' '.join(middle) or '-'} / {' '.join(middle2) or '-'}" if middle or middle2 else ""


def substitution(left: Parse, right: Parse) -> str:
    return both(*_unlike_sets(left, right))


def addition(left: Parse, right: Parse) -> str:
    mine, theirs = _unlike_sets(left, right)
    return " ".join(mine or theirs) if bool(mine) != bool(theirs) else ""


def _unlike_sets(left: Parse, right: Parse) -> tuple[list[str], list[str]]:
    if left.get("l") == right.get("l") == "zh":
        return only(*(set(light_zh.without_light("".join(side.get("r", "").split()))) for side in (left, right)))
    return _unlike(left, right)
