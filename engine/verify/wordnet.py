"""WordNet's frequent synonyms and irregular forms, read once from the table that tools/wordnet.py makes."""

from __future__ import annotations

from importlib import resources


def _read() -> tuple[dict[str, tuple[str, ...]], frozenset[str], dict[str, str]]:
    groups: dict[str, tuple[str, ...]] = {}
    nouns: set[str] = set()
    base: dict[str, str] = {}
    for row in resources.files("engine.verify").joinpath("wordnet_en.txt").read_text(encoding="utf-8").splitlines():
        if row.startswith("="):
            form, lemma = row[1:].split()
            base[form] = lemma
        elif row[:1] not in {"#", ""}:
            word, *numbers = row.split()
            if word.endswith("*"):
                word = word[:-1]
                nouns.add(word)
            groups[word] = tuple(numbers)
    return groups, frozenset(nouns), base


# Word -> the groups it stands in; words that are nouns above all; irregular form -> base form.
GROUPS, NOUNS, BASE = _read()
