"""When two English content words count as one: a shared group of synonyms."""

# ruff: noqa: E501, SIM905 — a list of words reads, diffs and is searched better as one text
from __future__ import annotations

from engine.verify import lexicon_en as lexicon
from engine.verify.english import stem
from engine.verify.synonyms_en import MORE_SYNONYMS, SYNONYMS


def _stems(text: str) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for number, group in enumerate(text.strip().replace("|", "\n").split("\n")):
        for word in group.split():
            # Content words are stems of a group's first word: both are reached.
            for form in (stem(word), stem(lexicon.CANONICAL.get(word, word))):
                found.setdefault(form, set()).add(number)
    return {word: frozenset(numbers) for word, numbers in found.items()}


_GROUPS = _stems(SYNONYMS.strip() + "\n" + MORE_SYNONYMS.strip())
# Content that a question's frame brings along: it names nothing to be told apart.
LIGHT = frozenset(stem(word) for word in "command function data kind type work find see look offer available possible actually best easy right proper properly correct correctly able work works happen begin guide tutorial example today please way info information detail details".split())  # fmt: skip


def same(one: str, other: str) -> bool:
    """Return whether two stems are synonyms. A slip of the keys is another word: `mocha` and `mochi` differ by one, too."""
    one, other = one.removesuffix("ly"), other.removesuffix("ly")
    return one == other or bool(_GROUPS.get(one, frozenset()) & _GROUPS.get(other, frozenset()))
