"""Prompts by window: what entropy and drift are computed from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from sqlalchemy import Connection, and_, func, or_, select

from storage.models import SAMPLE_STEPS
from storage.reads.changes import Sample, number_of, of_sample, sample
from storage.reads.window import Scope, Window, beside_namespace, lookups, picked, within

MOST_ROWS = 8_000
# Of a comparison that someone waits for: more than some thousands tell of smaller changes than are worth acting on.
ENOUGH, MOST_BRIEF = 1_500, 4_000
LEAST = 500  # by chance two samples' Kolmogorov-Smirnov distance is 0.086 at most, in 95 of 100: 0.1 is worth acting on
FEWEST = 130  # expected: fewer than 100, below which nothing is compared, then come once in 250 times
# Rows of an index of samples that are passed over to find a part of the traffic, some 25 ms; of a small part four times as many.
PASSED = 80_000
MOST_LOOKED_BRIEFLY = 12_000
_STEPS = (1, *SAMPLE_STEPS)
_DIGITS = 16  # of a SimHash
MAX_SAMPLES = 200
MOST_LOOKED = 100_000  # lookups that are looked through for what a sample has not: some 0.2 s
MOST_FETCHED = 20_000  # of one namespace, whose rows are fetched one by one


@dataclass(frozen=True, slots=True)
class PromptSample:
    """One prompt's newest text (None where texts are not recorded) and where it was asked. id: of the lookup that it was read from."""

    prompt_hash: str
    prompt: str | None
    namespace: str
    tenant: str
    id: int


class Asked(NamedTuple):
    """One lookup, as far as drift needs it. tokens: of the input, None = not reported. similarity: of the candidate, None = none."""

    id: int
    prompt_hash: str
    prompt_simhash: str
    tokens: int | None
    similarity: float | None
    outcome: str
    entry_id: str


@dataclass(frozen=True, slots=True)
class Mix:
    """Lookups of a window in the order of time, those of one millisecond by their own ids. stride: one in so many was read.

    left_out: those that were read and must not count. thorough: read by the worker, which looks through more for what is not here.
    """

    rows: tuple[Asked, ...]
    stride: int
    left_out: tuple[Asked, ...] = ()
    thorough: bool = True


def mix(conn: Connection, window: Window, scope: Scope, *, count: int | None = None, thorough: bool = True) -> Mix:
    """Return about 8,000 of the window's lookups with a prompt, or all where there are fewer. count: of its lookups, where it is known.

    thorough=False: as few as tell what is worth acting on, 1,500 to 3,000, all where there are 4,000 or fewer, read within a bounded time.
    """
    number, mine = sample(conn, window, scope, most=MOST_ROWS, count=count) if thorough else _brief(conn, window, scope, count)
    # An exact hit has no candidate, whatever a sender recorded with it. A held-out one is a miss with its own entry; the indexes do not
    # have that it was held out, and nothing else that is like itself is a miss, but for a veto.
    own = or_(lookups.c.outcome == "exact_hit", and_(lookups.c.outcome == "miss", lookups.c.similarity >= 1))
    similarity = func.iif(own, None, lookups.c.similarity)
    tokens = func.iif(lookups.c.input_tokens >= 0, lookups.c.input_tokens, None)
    columns = [
        *(lookups.c[name] for name in ("id", "prompt_hash", "prompt_simhash")),
        tokens,
        similarity,
        lookups.c.outcome,
        lookups.c.entry_id,
    ]
    condition = and_(mine, lookups.c.prompt_hash != "")
    query = select(*columns).where(condition).order_by(lookups.c.at_ms, picked)
    return Mix(tuple(map(Asked._make, conn.execute(query).all())), number, thorough=thorough)


def _brief(conn: Connection, window: Window, scope: Scope, count: int | None) -> Sample:
    """Return the sample with lookups enough that passes over the fewest rows of its index.

    A namespace too small to be found so is read by its own index, row by row; another part too small to be compared, from all lookups.
    """
    everything = scope == Scope(purpose=scope.purpose)
    if count is None:
        count = number_of(conn, window, scope)
    whole = count if everything else number_of(conn, window, Scope(purpose=scope.purpose))
    step = max((one for one in _STEPS if count // one >= ENOUGH), default=1)
    for least, passed in ((LEAST, PASSED), (FEWEST, 4 * PASSED)):
        if whole // step > passed or count // step < least:
            step = next((one for one in _STEPS if whole // one <= passed), _STEPS[-1])
        if count // step >= least:
            break
    if scope == Scope(namespace=scope.namespace, purpose=scope.purpose) and not everything and count // step < min(count, LEAST):
        number = max(1, -(-count // ENOUGH))
        each = picked % number == 0  # in these words, which no index of samples has
        return Sample(number, and_(within(lookups, window, scope), lookups.c.cache_kind == "response", each))
    if count // step < min(count, FEWEST):
        step = 1
    if step == 1 and count <= MOST_BRIEF:
        return Sample(1, and_(beside_namespace(window, scope), lookups.c.cache_kind == "response"))
    number = step * max(1, -(-(count // step) // (2 * ENOUGH)))
    return Sample(number, of_sample(window, scope, number))


class Seen(NamedTuple):
    """What was asked for in a window. every: one of so many lookups was looked through; 1 = all of it."""

    prompts: frozenset[str]
    simhashes: frozenset[str]
    every: int


def seen(conn: Connection, window: Window, scope: Scope, *, read: Mix) -> Seen:
    """Return the prompts and SimHashes of the window, from its covering index; of a wide window those of a dense sample of it.

    read: the window's mix. Of a part of the traffic no more lookups are looked through than it was read from, but of a namespace by the
    worker.
    """
    named = scope.namespace is not None
    if read.stride == 1 or scope != Scope(namespace=scope.namespace if read.thorough else None, purpose=scope.purpose):
        found: Iterable[tuple[str, str]] = ((row.prompt_hash, row.prompt_simhash) for row in (*read.rows, *read.left_out))
        return _told(found, read.stride)
    if read.thorough:
        number, mine = sample(conn, window, scope, most=MOST_FETCHED if named else MOST_LOOKED)
    else:
        count = number_of(conn, window, scope)
        number = next((one for one in _STEPS if count // one <= MOST_LOOKED_BRIEFLY), _STEPS[-1])
        mine = of_sample(window, scope, number)
    rows = conn.execute(select(lookups.c.prompt_hash, lookups.c.prompt_simhash).where(mine))
    return _told(((row[0], row[1]) for row in rows), number)


def _told(pairs: Iterable[tuple[str, str]], every: int) -> Seen:
    different = set(pairs)
    return Seen(frozenset(one for one, _ in different), frozenset(one for _, one in different if len(one) == _DIGITS), every)


def samples(conn: Connection, ids: Iterable[int]) -> dict[str, PromptSample]:
    """Return the texts of the first 200 of these lookups, by prompt; of several with one prompt the newest."""
    columns = [lookups.c[name] for name in PromptSample.__dataclass_fields__]
    rows = conn.execute(select(*columns).where(lookups.c.id.in_(list(islice(ids, MAX_SAMPLES)))).order_by(lookups.c.at_ms, picked))
    return {row.prompt_hash: PromptSample(*row) for row in rows}


def texts(conn: Connection, ids: Iterable[int]) -> dict[str, str]:
    """Return the recorded texts of these lookups by prompt; those without a text are left out."""
    wanted = list(ids)
    query = select(lookups.c.prompt_hash, lookups.c.prompt).where(lookups.c.id.in_(wanted), lookups.c.prompt.is_not(None))
    return {row.prompt_hash: row.prompt for row in conn.execute(query)}
