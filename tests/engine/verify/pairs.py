"""Our own pairs of prompts and their split: rules were written while looking at the development half alone."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


@dataclass(frozen=True, slots=True)
class Pair:
    """label: True = the same answer serves both. kind: paraphrase, or the kind of near-miss."""

    label: bool
    kind: str
    a: str
    b: str

    @property
    def held_out(self) -> bool:
        return hashlib.sha256(f"{self.a}\t{self.b}".encode()).digest()[0] % 2 == 1


def load(language: str, *, held_out: bool | None = None) -> list[Pair]:
    """Return the pairs of `en` or `zh`: one half, or all of them."""
    rows = (GOLDEN / f"pairs_{language}.tsv").read_text(encoding="utf-8").splitlines()
    fields = [row.split("\t") for row in rows if not row.startswith(("#", "label\t"))]
    pairs = [Pair(label == "1", kind, a, b) for label, kind, a, b in fields]
    return [pair for pair in pairs if held_out is None or pair.held_out is held_out]
