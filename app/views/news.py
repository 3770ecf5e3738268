"""What one window's sample asks for that the other window has not: looked for in all of that window, not in its sample alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from sqlalchemy import Connection

from app.analysis.clusters import RADIUS, parse, top
from storage.reads import drift as reads
from storage.reads.drift import Mix
from storage.reads.window import Scope, Window

MOST: Final = 25  # kinds that are listed
_MOST_TRIED: Final = 200  # clusters whose likes are looked for, the most frequent first
_SAMPLES: Final = 3


@dataclass(frozen=True, slots=True)
class News:
    """kinds: (lookups, different prompts, the most frequent of these) of each kind that the other window has not, largest first.

    lookups: of the sample, those whose prompt the other window has not. looked: one lookup of it in `looked` was looked through.
    """

    kinds: tuple[tuple[int, int, list[str]], ...] = ()
    lookups: int = 0
    looked: int = 1


def news(conn: Connection, mine: Mix, other: Mix, group: Mapping[str, str], *, of: Window, scope: Scope, clustered: bool) -> News:
    """Return what is in `mine` and not in the window `of`, of which `other` is a sample. None when that is empty."""
    if not other.rows:
        return News()
    counts = Counter(row.prompt_hash for row in mine.rows)
    known = {row.prompt_hash for row in other.rows}
    seen = reads.seen(conn, of, scope, read=other)
    known |= seen.prompts
    kinds: dict[str, dict[str, int]] = {}
    held = {group[name] for name in known if name in group}
    for name, n in counts.items():
        if group[name] not in held:
            kinds.setdefault(group[name], {})[name] = n
    ranked = sorted(kinds.items(), key=lambda one: (-sum(one[1].values()), min(one[1])))
    if clustered and kinds and other.stride > 1:  # else every cluster of that window is known
        ranked = _without_like(ranked, seen.simhashes)
    told = [(sum(each.values()), len(each), top(each, _SAMPLES)) for _, each in ranked[:MOST]]
    return News(tuple(told), sum(n for name, n in counts.items() if name not in known), seen.every)


def _without_like(ranked: list[tuple[str, dict[str, int]]], hashes: Collection[str]) -> list[tuple[str, dict[str, int]]]:
    """Return the clusters to whose leader none of these SimHashes is like, as many as are listed. A leader is a SimHash or a prompt."""
    try:
        codes = parse(sorted(hashes))
    except ValueError:
        return ranked
    kept = []
    for leader, counts in ranked[:_MOST_TRIED]:
        code = _code(leader)
        if code is None or not len(codes) or int(np.bitwise_count(codes ^ code).min()) > RADIUS:
            kept.append((leader, counts))
            if len(kept) == MOST:
                break
    return kept


def _code(leader: str) -> np.uint64 | None:
    try:
        return parse([leader])[0] if len(leader) == 16 else None
    except ValueError:
        return None
