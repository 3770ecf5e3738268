"""When two English content words count as one: own groups of synonyms, WordNet's, and a verb with the noun made of it."""

# ruff: noqa: E501, SIM905 — a list of words reads, diffs and is searched better as one text
from __future__ import annotations

from engine.verify import acts, wordnet
from engine.verify import lexicon_en as lexicon
from engine.verify.english import content
from engine.verify.stems import stem
from engine.verify.synonyms_en import MORE_SYNONYMS, SYNONYMS


def _stems(text: str) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for number, group in enumerate(text.strip().replace("|", "\n").split("\n")):
        for word in group.split():
            # Content words are stems of a group's first word: both are reached.
            for form in (stem(word), content(word)):
                found.setdefault(form, set()).add(number)
    return {word: frozenset(numbers) for word, numbers in found.items()}


_GROUPS = _stems(SYNONYMS.strip() + "\n" + MORE_SYNONYMS.strip())
# Verbs whose likeness is decided by the lists of acts: WordNet has `edit` and `delete` in one group.
_ACTS = frozenset(content(word) for word in acts.ENGLISH)
# Endings as stems have them, for what WordNet lacks: refund and refundable. Others make other words: brand and brandy, text and texture.
_MADE_OF = ("abl", "ibl", "ing")
# Content that a question's frame brings along: it names nothing to be told apart.
LIGHT = frozenset(form for word in """command function data kind type work find see look offer available possible actually best easy right proper properly correct
    correctly able work works happen begin guide tutorial example today please way info information detail details make made get take have give let put
    matter case situation good idea recommend suggest advice tip simple simply quick quickly basically meant mean point thing stuff stand
    say call know wonder try wish hope able allow okay safe come go become keep happen recommended usual usually normally typically generally exact
    exactly specific specifically certain use used using employ utilize provide provided provides given contain contains include specify specified particular current currently still yet already ever help also too again instead hey ok sorry question curious wonder
    remind bit asap urgent urgently soon quickly guys folks sir sure simply anyway btw fyi lol idea honestly basically literally""".split() for form in (stem(word), content(word)))  # fmt: skip

# Where a question is asked from, as a rule: in the app, on my account.
PLACES = frozenset(
    content(word)
    for word in "account app application website site system page screen device computer phone browser program software service".split()
)


def same(one: str, other: str) -> bool:
    """Return whether two stems are synonyms. A slip of the keys is another word: `mocha` and `mochi` differ by one, too."""
    one, other = one.removesuffix("ly"), other.removesuffix("ly")
    if one == other or _GROUPS.get(one, frozenset()) & _GROUPS.get(other, frozenset()):
        return True
    if one in _ACTS and other in _ACTS:
        return False
    return kin(one, other)


def kin(one: str, other: str) -> bool:
    """Return whether WordNet has two stems in one group, or one is made of the other: refund and refundable."""
    groups = wordnet.GROUPS.get(other, ())
    if one == other or any(group in groups for group in wordnet.GROUPS.get(one, ())):
        return True
    short, long = sorted((one, other), key=len)
    return len(short) >= 4 and long.startswith(short) and long[len(short) :].removeprefix(short[-1]) in _MADE_OF


def names(one: str, other: str) -> bool:
    """Return whether both stems are nouns above all, or both no common English words: names or terms."""
    return (one in wordnet.NOUNS and other in wordnet.NOUNS) or not (_known(one) or _known(other))


def _known(word: str) -> bool:
    return word in wordnet.GROUPS or word in _GROUPS or word in lexicon.AXES
