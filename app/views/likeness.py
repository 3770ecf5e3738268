"""Which prompts are much alike: by the SimHashes that senders record, and by the vectors that the worker makes of a sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from app.analysis import drift
from app.analysis.clusters import clusters, of_vectors, parse
from storage.reads.drift import Asked, Mix

MOST_EMBEDDED = 200  # lookups of each window whose prompts are embedded: some hundred texts, seconds of the worker's time
_HASHED = 0.8  # share of lookups with a SimHash or a vector from which clusters stand for the mix


@dataclass(frozen=True, slots=True)
class Vectors:
    """Vectors of prompts, L2-normalised, by prompt, and who made them. why_not: why there are none."""

    embedder: str
    of: Mapping[str, NDArray[np.float32]]
    why_not: str = ""


NO_VECTORS = Vectors("", MappingProxyType({}))
Embed = Callable[[Mapping[str, str]], Vectors]  # texts by prompt -> vectors of those that could be embedded


def thinned(mix: Mix) -> list[Asked]:
    """Return the lookups whose prompts are embedded: evenly spread, so that what is embedded has the mix's shares."""
    return [mix.rows[at] for at in drift.thinned(len(mix.rows), min(len(mix.rows), MOST_EMBEDDED))]


def grouping(*mixes: Mix, vectors: Vectors = NO_VECTORS) -> tuple[dict[str, str], bool]:
    """Return prompt -> cluster over all windows at once, and whether most are grouped by likeness; else each prompt is its own.

    By SimHash first; then prompts with vectors are put together by these, each with the cluster that its leader is in.
    """
    rows = [row for mix in mixes for row in mix.rows]
    own = {row.prompt_hash: row.prompt_hash for row in rows}
    hashed = [row for row in rows if len(row.prompt_simhash) == 16]
    by_hash = _by_simhash(hashed)
    group = own | by_hash
    weights = Counter(row.prompt_hash for row in rows)
    embedded = sorted(vectors.of.keys() & own.keys())
    if embedded:
        leaders = of_vectors(np.stack([vectors.of[name] for name in embedded]), [weights[name] for name in embedded])
        group |= {name: group[embedded[leader]] for name, leader in zip(embedded, leaders, strict=True)}
    known = by_hash.keys() | set(embedded)
    alike = sum(weights[name] for name in known) >= _HASHED * len(rows)
    return (group, True) if rows and known and alike else (own, False)


def _by_simhash(hashed: Sequence[Asked]) -> dict[str, str]:
    weights = Counter(row.prompt_simhash for row in hashed)
    names = sorted(weights)
    try:
        leaders = clusters(parse(names), [weights[name] for name in names])
    except ValueError:
        return {}
    of = {name: names[leader] for name, leader in zip(names, leaders, strict=True)}
    return {row.prompt_hash: of[row.prompt_simhash] for row in hashed}
