"""Who does it to whom, and whether it must or may be done, told by the words beside the verb."""

# ruff: noqa: SIM905 — lists of words read, diff and are searched better as one text
from __future__ import annotations

from itertools import pairwise

from engine.verify.compare import COMPARED, Parse
from engine.verify.english import content

_OBJECTS = {"i": "me", "we": "us", "he": "him", "they": "them"}
_ASKING = frozenset("who what".split())
_ARTICLES = frozenset("a an the".split())
_DO = frozenset("do does did".split())
_OPENING = frozenset("must may can could do does did am is are".split())
_MUST = ("must", "have to", "has to", "need to", "needs to", "required to", "obliged to")
_MAY = ("may", "can", "could", "allowed to", "permitted to")


def subject(left: Parse, right: Parse) -> str:
    """Subject and object changed places in two questions of the same content: did Google acquire, acquired Google."""
    if left.get("l") != "en" or right.get("l") != "en" or sorted(left.get("w", "").split()) != sorted(right.get("w", "").split()):
        return ""
    return _turned(left, right) or _turned(right, left)


def _turned(one: Parse, other: Parse) -> str:
    """Return the subject and its verb where the other text has the same verb with the same word after it, and another before it."""
    named = set(one.get("w", "").split())
    first, second = _sequence(one), _sequence(other)
    if not _DO.intersection(first) and not _OBJECTS.keys() & set(first):
        return ""
    after = {(content(verb), content(word)) for verb, word in pairwise(first)}
    for place in range(1, len(first)):
        subject, verb = first[place - 1], content(first[place])
        theirs = _OBJECTS.get(subject)
        noun = place > 1 and first[place - 2] in _DO and content(subject) in named and not _DO & set(second)
        if verb not in named or not (theirs or noun) or (verb, content(theirs or subject)) in after:
            continue
        for before, word, then in zip(second, second[1:], second[2:], strict=False):
            if content(word) == verb and content(then) == content(theirs or subject) and (before in _ASKING or content(before) in named):
                return f"{subject} {first[place]} / {word} {then}"
    return ""


def _sequence(side: Parse) -> list[str]:
    return [word for word in side.get("s", "").split()[:COMPARED] if word not in _ARTICLES]


def modal(left: Parse, right: Parse) -> str:
    """One asks whether something must be done, the other whether it may, and nothing else of the questions differs."""
    if left.get("l") != "en" or right.get("l") != "en":
        return ""
    (kind, rest), (kind2, rest2) = _modality(left), _modality(right)
    return f"{kind} / {kind2}" if {kind, kind2} == {"must", "may"} and rest == rest2 else ""


def _modality(side: Parse) -> tuple[str, list[str]]:
    tokens = side.get("s", "").split()
    if not tokens or tokens[0] not in _OPENING:
        return "", tokens
    text = f" {' '.join(tokens)} "
    for kind, forms in (("must", _MUST), ("may", _MAY)):
        for form in forms:
            if f" {form} " in text:
                return kind, [word for word in text.replace(f" {form} ", " ", 1).split() if word not in _OPENING]
    return "", tokens
