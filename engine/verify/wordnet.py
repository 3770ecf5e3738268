"""WordNet's frequent synonyms and irregular forms, read once from the table that tools/wordnet.py makes."""

from __future__ import annotations

from importlib import resources

from engine.verify.stems import stem


def _read() -> tuple[dict[str, tuple[int, ...]], frozenset[str], dict[str, str]]:
    groups: dict[str, tuple[int, ...]] = {}
    nouns: set[str] = set()
    base: dict[str, str] = {}
    numbers: dict[str, int] = {}  # one object a group, however many words stand in it
    for row in resources.files("engine.verify").joinpath("wordnet_en.txt").read_text(encoding="utf-8").splitlines():
        if row.startswith("="):
            form, lemma = row[1:].split()
            base[form] = lemma
        elif row[:1] not in {"#", ""}:
            word, *codes = row.split()
            form = stem(word.removesuffix("*"))
            if word.endswith("*"):
                nouns.add(form)
            found = tuple(numbers.setdefault(code, int(code)) for code in codes)
            groups[form] = groups[form] + found if form in groups else found
    return groups, frozenset(nouns), base


# Stem -> the groups it stands in; stems of words that are nouns above all; irregular form -> base form.
GROUPS, NOUNS, BASE = _read()
