"""Prompts that are much alike, by their vectors or the SimHash of these; and entries that serve too many of them, or too few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Codes = NDArray[np.uint64]
RADIUS = 7  # of 64 bits: an expected Hamming distance of 64 acos(s) / pi makes it a cosine of about 0.94
LEAST_COSINE = 0.94
_MOST_LEADERS = 500  # clusters that gather others; what is left over then stands alone
COLLAPSE, SCATTER = 20, 20  # different prompts behind one entry, or in one cluster that makes an entry for nearly each


def parse(texts: Sequence[str]) -> Codes:
    """Return SimHashes (16 hex digits each) as unsigned 64-bit integers. Raises ValueError for anything else."""
    return np.array([int(text, 16) for text in texts], dtype=np.uint64)


def clusters(codes: Codes, weights: Sequence[int], *, radius: int = RADIUS) -> NDArray[np.int64]:
    """Return the cluster of each different SimHash, shape (u,): the place of its leader in `codes`.

    The most frequent one leads: all that are within `radius` of it and of no earlier leader are its cluster. Deterministic: equal
    weights go by the SimHash.
    """
    order = np.lexsort((codes, -np.asarray(weights, dtype=np.int64)))
    return _led(order, lambda left, leader: np.bitwise_count(codes[left] ^ codes[leader]) <= radius)


def of_vectors(vectors: NDArray[np.float32], weights: Sequence[int], *, least: float = LEAST_COSINE) -> NDArray[np.int64]:
    """Return the cluster of each prompt by its vector, shape (u,): the place of its leader, as `clusters` does.

    vectors: shape (u, d), L2-normalised. Near is a cosine of `least` or more. Equal weights go by their place.
    """
    order = np.argsort(-np.asarray(weights, dtype=np.int64), kind="stable")
    return _led(order, lambda left, leader: vectors[left] @ vectors[leader] >= least)


def _led(order: NDArray[np.int64], near: Callable[[NDArray[np.int64], np.int64], NDArray[np.bool_]]) -> NDArray[np.int64]:
    found = np.full(len(order), -1, dtype=np.int64)
    left = order
    for _ in range(_MOST_LEADERS):
        if not len(left):
            break
        leader = left[0]
        like = near(left, leader)
        like[0] = True  # whatever rounding does to its likeness with itself
        found[left[like]] = leader
        left = left[~like]
    found[left] = left
    return found


class Served(NamedTuple):
    """One lookup, as far as findings need it. cluster: '' = not known. entry: the one that served or was stored, '' = none."""

    prompt: str
    cluster: str
    entry: str
    hit: bool


@dataclass(frozen=True, slots=True)
class Finding:
    """kind: collapse (many prompts, one entry) or scatter (like prompts, an entry for each). of: an entry's id, or a cluster.

    prompts, entries, lookups: how many different ones. samples: the most frequent prompts' hashes. named: its busiest entries' ids.
    """

    kind: str
    of: str
    prompts: int
    entries: int
    lookups: int
    samples: tuple[str, ...]
    named: tuple[str, ...] = ()


def findings(served: Sequence[Served], *, most: int = 5) -> list[Finding]:
    """Return the entries that serve 20 different prompts or more, and the clusters of 20 or more in which most make an own entry."""
    by_entry: dict[str, list[Served]] = {}
    by_cluster: dict[str, list[Served]] = {}
    for one in served:
        if one.hit and one.entry:
            by_entry.setdefault(one.entry, []).append(one)
        if one.cluster:
            by_cluster.setdefault(one.cluster, []).append(one)
    collapsed = [_finding("collapse", entry, rows) for entry, rows in by_entry.items() if _many(rows, COLLAPSE)]
    scattered = [_finding("scatter", cluster, rows) for cluster, rows in by_cluster.items() if _many(rows, SCATTER) and _alone(rows)]
    return [
        *sorted(collapsed, key=lambda one: (-one.prompts, one.of))[:most],
        *sorted(scattered, key=lambda one: (-one.entries, one.of))[:most],
    ]


def _many(rows: Sequence[Served], least: int) -> bool:
    return len(rows) >= least and _different(rows) >= least


def _different(rows: Sequence[Served]) -> int:
    return len({row.prompt for row in rows})


def _alone(rows: Sequence[Served]) -> bool:
    """Return whether the cluster's prompts mostly made entries of their own."""
    made = {row.entry for row in rows if row.entry and not row.hit}
    return len(made) * 2 >= _different(rows)


def _finding(kind: str, of: str, rows: Sequence[Served]) -> Finding:
    counts: dict[str, int] = {}
    for row in rows:
        counts[row.prompt] = counts.get(row.prompt, 0) + 1
    entries = Counter(row.entry for row in rows if row.entry)
    return Finding(kind, of, len(counts), len(entries), len(rows), tuple(top(counts, 3)), tuple(top(entries, 3)))


def top(counts: Mapping[str, int], most: int) -> list[str]:
    """Return the most frequent names, equal ones by name."""
    return sorted(counts, key=lambda name: (-counts[name], name))[:most]
