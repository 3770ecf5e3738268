"""Two texts that differ by a few edits: what a normaliser could take for the same."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as st


def edited(bases: Sequence[str], alphabet: str, most: int = 3) -> st.SearchStrategy[tuple[str, str]]:
    """Return pairs of a base and the same with up to `most` pieces of the alphabet put in, taken out or exchanged."""
    pieces = st.sampled_from([*alphabet, "  ", "\n\n", "''"])
    edit = st.tuples(st.sampled_from(["in", "out", "for"]), st.floats(0, 1), pieces)

    def apply(base: str, edits: list[tuple[str, float, str]]) -> tuple[str, str]:
        text = base
        for kind, where, piece in edits:
            at = int(where * len(text))
            text = text[:at] + ("" if kind == "out" else piece) + text[at + (kind != "in") :]
        return base, text

    return st.builds(apply, st.sampled_from(bases), st.lists(edit, min_size=1, max_size=most))
