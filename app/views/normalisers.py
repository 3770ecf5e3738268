"""Normalisers in words: which spellings of a request share a key."""

from __future__ import annotations

from engine.types import Normaliser

MEANS = {
    Normaliser.NONE.value: "every spelling of a request is looked up as it was sent",
    Normaliser.WHITESPACE.value: "blanks that say nothing in plain prose share a key",
    Normaliser.TEMPLATE.value: "chat templates that print the same share a key, by their values and types",
    Normaliser.SQL.value: "one SQL statement, whatever its blanks and the case of its keywords, shares a key",
    Normaliser.PYTHON.value: "one Python text, whatever its blanks, brackets and line breaks without effect, shares a key",
}


def consequence(in_force: str) -> str:
    """Return what a change means for what is stored."""
    return (
        f"Entries made under the normaliser in force ({in_force}) are not served under another. They are served again when it is set "
        "back, as long as they live."
    )
