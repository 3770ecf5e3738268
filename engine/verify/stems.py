"""Crude stems of English words."""

from __future__ import annotations


def stem(word: str) -> str:
    """Return a crude stem: enough for two inflections of one word to meet."""
    if len(word) > 4:
        if word.endswith("ies"):
            return word[:-3] + "y"
        for ending in ("ing", "ed"):
            if word.endswith(ending) and len(word) - len(ending) >= 3:
                root = word[: -len(ending)]
                return root[:-1] if len(root) > 3 and root[-1] == root[-2] and root[-1] not in "lsz" else root.removesuffix("e")
        if word.endswith("es") and word[:-2].endswith(("s", "x", "z", "ch", "sh")):
            return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    return word.removesuffix("e") if len(word) > 4 else word
