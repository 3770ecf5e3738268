"""Which keys of a namespace are replayed: all, or those with much of the traffic and a part of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from app.analysis.key_sample import PARTS, KeySample, part
from storage.reads import regret as reads
from storage.reads.regret import StreamRow
from storage.reads.window import Window
from storage.slots import SLOTS, slot

MOST_LOOKUPS: Final = 100_000  # above it keys are sampled: some six seconds of one core
MOST_READ: Final = 2 * MOST_LOOKUPS  # held at once, whatever the keys that were drawn have: some 100 MB
LOOKED_AT: Final = 50_000  # lookups from which the keys with much of the traffic are known
LEAST_SEEN: Final = 5  # of these, before a key is one
MOST_CERTAIN: Final = 1_000
BURSTS: Final = 360  # steps of a window: a key takes some two rows a step, however often it is asked for
FINEST: Final = 1_440  # the same, where a lifetime is so short that an eighth of it asks for more
LEAST_STEP_MS: Final = 1_000


@dataclass(frozen=True, slots=True)
class Taken:
    """rows: in order of time. certain: the keys taken for certain. sample: None = no other key is there. unseen: lookups of keys for
    which none stands, for the sample happened to have no key."""

    rows: list[StreamRow]
    certain: Set[str] = frozenset()
    sample: KeySample | None = None
    unseen: int = 0


def take(conn: Connection, namespace: str, window: Window, keyed: int, *, ttl_ms: int) -> Taken:
    """Return the lookups to replay. keyed: how many have a key.

    Above MOST_LOOKUPS an even sample of lookups shows the keys with most of the traffic: they are taken for certain, for half of what may
    be read, the others by their hash for the other half. Neither choice knows of the other, so that what the others' sample says of all
    others has no bias. Lookups of a key within a step are read as one burst, so that no key fills the room alone.
    """
    if not keyed:
        return Taken([])
    if keyed <= MOST_LOOKUPS:
        return Taken(list(reads.stream(conn, namespace, window)))
    step_ms = max(LEAST_STEP_MS, window.length_ms // FINEST, min(window.length_ms // BURSTS, ttl_ms // 8))
    every = max(1, keyed // LOOKED_AT)
    seen = Counter(reads.some_keys(conn, namespace, window, every=every))
    most = 2 * -(-window.length_ms // step_ms)  # rows that a key takes: hits and misses
    certain, below = choose(seen, every=every, most=most, room=MOST_LOOKUPS)
    rows: list[StreamRow] = []
    for row in reads.bursts(conn, namespace, window, certain=certain, below=below, step_ms=step_ms):
        if row.key not in certain and slot(row.key) >= below:
            continue
        rows.append(row)
        while len(rows) > MOST_READ and below > 1:
            below //= 2
            rows = [kept for kept in rows if kept.key in certain or slot(kept.key) < below]
    return _told(rows, certain, keyed, keys_each=SLOTS // below, step_ms=step_ms)


def choose(seen: Mapping[str, int], *, every: int, most: int, room: int) -> tuple[frozenset[str], int]:
    """Return the keys that are taken for certain, and below which slot the others are.

    seen: how often each key came in a sample of one lookup in `every`. most: rows that a key takes at most, however often it came. room:
    rows of all.
    """
    found, spent = set[str](), 0
    for key, n in Counter(seen).most_common(MOST_CERTAIN):
        spent += min(n * every, most)
        if n < LEAST_SEEN or spent > room // 2:
            break
        found.add(key)
    others = sum(min(n * every, most) for key, n in seen.items() if key not in found)
    below = SLOTS
    while others * below > SLOTS * room // 2 and below > 1:
        below //= 2
    return frozenset(found), below


def _told(rows: list[StreamRow], certain: frozenset[str], keyed: int, *, keys_each: int, step_ms: int) -> Taken:
    of_certain, of_others = 0, [0] * PARTS
    for row in rows:
        if row.key in certain:
            of_certain += row.n
        else:
            of_others[part(row.key)] += row.n
    if not any(of_others):
        return Taken(rows, certain, unseen=max(0, keyed - of_certain))
    return Taken(rows, certain, KeySample(keys_each, len(certain), of_certain, max(0, keyed - of_certain), tuple(of_others), step_ms))
