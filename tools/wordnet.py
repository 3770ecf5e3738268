"""Write engine/verify/wordnet_en.txt from WordNet 3.0's files: `python tools/wordnet.py /usr/share/wordnet` (Debian: wordnet-base).

Which English words can mean the same: words of one synset in a frequent sense, and a verb with the noun or adjective made of it, but for
its agent (withdraw and withdrawal, never employ and employer). A line `word id …` lists a word's groups, `word* id …` those of a word that
is a noun above all; `=form lemma` is an irregular form.
"""

from __future__ import annotations

import argparse
import re
from collections import defaultdict
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "engine" / "verify" / "wordnet_en.txt"
PARTS = {"n": "noun", "v": "verb", "a": "adj", "r": "adv"}
_WORD = re.compile(r"[a-z]{3,16}")
_AGENT = ("er", "or", "ee", "ist", "ant", "ent", "man")
_NOT_FORMS = frozenset(("left", "lost", "better", "best", "worse", "worst"))  # left has another meaning; the others are antonyms' sides
_MOST_SENSES = 3
_LICENCE_LINES = 28


def senses(folder: Path, part: str) -> dict[str, tuple[bool, list[int]]]:
    """Return of each word whether it was met in the tagged texts, and the offsets of its first sense and of the next two that were."""
    found = {}
    for line in (folder / f"index.{PARTS[part]}").read_text(encoding="utf-8").splitlines():
        fields = line.split()
        if line.startswith(" ") or not _WORD.fullmatch(fields[0]):
            continue
        pointers = int(fields[3])
        tagged, offsets = int(fields[5 + pointers]), [int(field) for field in fields[6 + pointers :]]
        found[fields[0]] = (tagged > 0, offsets[: max(1, min(tagged, _MOST_SENSES))])
    return found


def synsets(folder: Path, part: str) -> dict[int, tuple[list[str], list[tuple[str, int]]]]:
    """Return each synset's words and, of its derivations, (part of speech, offset)."""
    found = {}
    for line in (folder / f"data.{PARTS[part]}").read_text(encoding="utf-8").splitlines():
        if line.startswith(" "):
            continue
        fields = line.split(" | ")[0].split()
        count = int(fields[3], 16)
        words = [fields[4 + 2 * place].split("(")[0] for place in range(count)]
        start = 5 + 2 * count
        links = [fields[place : place + 4] for place in range(start, start + 4 * int(fields[start - 1]), 4)]
        found[int(fields[0])] = (words, [(link[2], int(link[1])) for link in links if link[0] == "+"])
    return found


def groups(folder: Path) -> tuple[dict[str, set[str]], set[str]]:
    """Return the groups of each word, and those in which a word is common."""
    data = {part: synsets(folder, part) for part in PARTS}
    verbs = senses(folder, "v")
    of: dict[str, set[str]] = defaultdict(set)
    common: set[str] = set()
    for part in PARTS:
        for word, (met, offsets) in senses(folder, part).items():
            for offset in offsets:
                words, links = data[part][offset]
                if word not in words:
                    continue  # written with a capital: a name
                of[word].add(f"{part}{offset}")
                if met:
                    common.add(f"{part}{offset}")
                for kind, target in links:
                    if part in "na" and kind == "v":
                        made_of = [
                            verb for verb in data["v"][target][0] if verb[:3] == word[:3] and target in verbs.get(verb, (False, []))[1]
                        ]
                        if made_of and not (word.endswith(_AGENT) and not word.endswith("ment")):
                            of[word].add(f"v{target}")
    return of, common


def nouns(folder: Path) -> set[str]:
    """Return the words that were met as a noun more often than as anything else, or exist as nouns only."""
    count: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for line in (folder / "cntlist.rev").read_text(encoding="utf-8").splitlines():
        key, _, met = line.split()
        word, kind = key.split("%")
        count[word][kind[0]] += int(met)
    others = {word for part in "var" for word in senses(folder, part)}
    return {
        word
        for word in senses(folder, "n")
        if word not in others or count[word]["1"] > sum(met for kind, met in count[word].items() if kind != "1")
    }


def irregular(folder: Path, known: dict[str, set[str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in ("verb", "noun", "adj"):
        for line in (folder / f"{part}.exc").read_text(encoding="utf-8").splitlines():
            form, lemma = line.split()[:2]
            # A form that is a word of its own counts as one, but for participles: spoken, broken.
            own = any(name[0] != "a" for name in known.get(form, ())) or form in _NOT_FORMS or (part == "noun" and form[:-1] in known)
            if _WORD.fullmatch(form) and lemma in known and not own and (form[:1] == lemma[:1] or part == "verb"):
                found.setdefault(form, lemma)
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    folder = options.parse_args().folder
    of, common = groups(folder)
    words_of: dict[str, set[str]] = defaultdict(set)
    for word, names in of.items():
        for name in names:
            words_of[name].add(word)
    number = {
        name: str(place) for place, name in enumerate(sorted(name for name, words in words_of.items() if len(words) > 1 and name in common))
    }
    noun = nouns(folder)
    rows = [
        f"{word}{'*' * (word in noun)} {' '.join(sorted(number[name] for name in names if name in number))}"
        for word, names in sorted(of.items())
    ]
    rows = [row for row in rows if not row.endswith(" ")]
    forms = [f"={form} {lemma}" for form, lemma in sorted(irregular(folder, of).items())]
    with (folder / "data.noun").open(encoding="utf-8") as file:
        licence = ["#" + re.sub(r"^\s+\d+", "", next(file)).rstrip() for _ in range(_LICENCE_LINES)]
    TARGET.write_text(
        "\n".join([f"# Made by tools/{Path(__file__).name} from WordNet 3.0.", *licence, *rows, *forms]) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
