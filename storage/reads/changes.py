"""What "why did it change?" is answered from: lookups by every dimension, versions in force, silences, restarts, examples.

Everything is bounded: of a wide window one lookup in so many is read, and the answer says how many.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, case, func, select

from storage.models import telemetry_metadata
from storage.payloads import unpack
from storage.reads import hit_rate
from storage.reads.sources import samples
from storage.reads.window import Scope, Window, beside_namespace, every, lookups, picked, rollups, sampled, senders, within
from storage.rollups import ELIGIBLE, HITS

DIMENSIONS = ("namespace", "tenant", "model", "model_version", "client", "fingerprint", "source")
MOST_LOOKUPS = 40_000  # of a window: half a point of a rate is then told apart, and the read stays within some 0.2 s
_MOST_PASSED = 100_000  # rows of an index that are passed over to find a part of the traffic, some 0.1 s
_ENOUGH = 8_000  # found among them, from which they are sample enough
_MOST_FETCHED = 20_000  # rows that are fetched one by one, by another index
EMBEDDER_ATTRIBUTE = "cachescope.embedder"  # engine.semconv.EMBEDDER; storage and engine never import each other

spans = telemetry_metadata.tables["spans"]
payloads = telemetry_metadata.tables["span_payloads"]


class Sample(NamedTuple):
    """One lookup of the response cache in `number`, of a window and scope. number 1 = all of them."""

    number: int
    condition: ColumnElement[bool]


def sample(conn: Connection, window: Window, scope: Scope, *, most: int, count: int | None = None) -> Sample:
    """Return the sample of at most about `most` lookups that is read within a bounded time.

    The indexes of samples are in order of time alone: of a part of the traffic all of it is passed over. Of a namespace that is too
    small a part for that, its own index is read; of another part fewer lookups. count: of all its lookups, where that is known.
    """
    if count is None:
        count = number_of(conn, window, scope)
    wanted = max(1, -(-count // most))
    if wanted == 1 or scope == Scope(purpose=scope.purpose):
        return Sample(every(wanted), of_sample(window, scope, every(wanted)))
    whole = number_of(conn, window, Scope(purpose=scope.purpose))
    number = every(max(wanted, -(-whole // _MOST_PASSED)))
    if count // number < min(_ENOUGH, most):
        if scope.namespace is not None:
            number = max(1, -(-count // min(most, _MOST_FETCHED)))
            each = picked % number == 0  # in these words, which no index of samples has
            return Sample(number, and_(within(lookups, window, scope), lookups.c.cache_kind == "response", each))
        number = every(max(wanted, -(-whole // (4 * _MOST_PASSED))))
    return Sample(number, of_sample(window, scope, number))


def of_sample(window: Window, scope: Scope, number: int) -> ColumnElement[bool]:
    """Return the condition for one lookup of the response cache in `number`."""
    mine = beside_namespace(window, scope) if number > 1 else within(lookups, window, scope)
    return and_(mine, lookups.c.cache_kind == "response", sampled(number))


def number_of(conn: Connection, window: Window, scope: Scope) -> int:
    """Return how many lookups of the response cache the window and scope have."""
    return sum(row.lookups for row in hit_rate.totals(conn, window, scope) if row.cache_kind == "response")


@dataclass(frozen=True, slots=True)
class Versions:
    """One state in which lookups were made, and when it was first and last seen. threshold: None where none applied."""

    namespace: str
    model: str
    model_version: str
    policy_version: int | None
    switch: str
    threshold: float | None
    generation: str
    first_ms: int
    last_ms: int
    lookups: int


@dataclass(frozen=True, slots=True)
class Segments:
    """What one lookup of the response cache in `stride` says of a window.

    counts: (hits, eligible lookups) by values in the order of DIMENSIONS. versions: the states of namespaces and models, the most
    frequent first.
    """

    counts: Mapping[tuple[str, ...], tuple[int, int]]
    versions: tuple[Versions, ...]
    stride: int


_VERSIONS = ("namespace", "model", "model_version", "policy_version", "switch", "threshold", "generation")
_READ = (*DIMENSIONS[:-1], "source_id", *(name for name in _VERSIONS if name not in DIMENSIONS))
_dimensions_of, _version_of = itemgetter(*range(len(DIMENSIONS))), itemgetter(*(_READ.index(name) for name in _VERSIONS))
_MOST_VERSIONS = 2_000


def segments(conn: Connection, window: Window, scope: Scope) -> Segments:
    """Return the window's lookups by every dimension, and the states they were made in: of one read of the sample."""
    number, mine = sample(conn, window, scope, most=MOST_LOOKUPS)
    columns = [lookups.c[name] for name in _READ]
    hit, eligible = (func.sum(func.iif(lookups.c.outcome.in_(outcomes), 1, 0)) for outcomes in (HITS, ELIGIBLE))
    query = select(*columns, func.min(lookups.c.at_ms), func.max(lookups.c.at_ms), func.count(), hit, eligible)
    counts: dict[tuple[Any, ...], tuple[int, int]] = {}
    states: dict[tuple[Any, ...], list[int]] = {}
    for row in conn.execute(query.where(mine).group_by(*columns)).all():  # with very many tenants a row for nearly each lookup
        *_, first_ms, last_ms, n, hits, of = row
        if of:
            key = _dimensions_of(row)
            held = counts.get(key)
            counts[key] = (hits, of) if held is None else (held[0] + hits, held[1] + of)
        seen = states.setdefault(_version_of(row), [first_ms, last_ms, 0])
        seen[0] = min(seen[0], first_ms)
        seen[1] = max(seen[1], last_ms)
        seen[2] += n
    ranked = sorted(states.items(), key=lambda item: (-item[1][2], repr(item[0])))[:_MOST_VERSIONS]
    rows: list[tuple[Any, ...]] = [(*state, *seen) for state, seen in ranked]
    return Segments(_named(conn, counts), tuple(Versions(*row) for row in rows), number)


def _named(conn: Connection, counts: Mapping[tuple[Any, ...], tuple[int, int]]) -> dict[tuple[str, ...], tuple[int, int]]:
    """Return the counts by the senders' names, which several of them may share, in place of their ids."""
    names = {row[0]: f"{row[1]} {row[2]}".strip() for row in conn.execute(select(senders.c.id, senders.c.service, senders.c.instance))}
    found: dict[tuple[str, ...], tuple[int, int]] = {}
    for (*values, sender), (hits, of) in counts.items():
        key = (*values, names.get(sender, str(sender)))
        held = found.get(key)
        found[key] = (hits, of) if held is None else (held[0] + hits, held[1] + of)
    return found


EMBEDDED = ("semantic_hit", "miss")  # outcomes of lookups that may have had a candidate by similarity


def embedder(conn: Connection, window: Window, scope: Scope) -> str:
    """Return the embedder of the newest lookup that had a candidate; '' when none of the newest 1,000 that may have had one says."""
    latest = (
        select(lookups.c.id)
        .where(within(lookups, window, scope), lookups.c.cache_kind == "response", lookups.c.outcome.in_(EMBEDDED))
        .order_by(lookups.c.at_ms.desc(), picked)
        .limit(1_000)
        .subquery()
    )
    newest = (
        select(payloads.c.payload)
        .join(spans, payloads.c.span_id == spans.c.id)
        .join(lookups, and_(lookups.c.trace_id == spans.c.trace_id, lookups.c.span_id == spans.c.span_id))
        .join(latest, latest.c.id == lookups.c.id)
        .where(lookups.c.candidates.is_not(None))
        .order_by(lookups.c.at_ms.desc(), picked)
        .limit(1)
    )
    data = conn.execute(newest).scalar()
    try:
        attributes = json.loads(unpack(data)).get("attributes") if data else {}
    except ValueError:
        return ""
    return str((attributes or {}).get(EMBEDDER_ATTRIBUTE, ""))


@dataclass(frozen=True, slots=True)
class Activity:
    """Lookups of one sender in one bucket. at_ms: the bucket's start."""

    service: str
    at_ms: int
    lookups: int


def activity(conn: Connection, window: Window, *, step_ms: int) -> list[Activity]:
    """Return every sender's lookups by bucket, of any purpose, oldest first. Buckets without any are absent."""
    found = rollups(conn, window, Scope(purpose=None), ("source_id", "lookups"), step_ms=step_ms)
    bucket = (found.c.at_ms - found.c.at_ms % step_ms).label("bucket")
    query = (
        select(senders.c.service, bucket, func.sum(found.c.lookups))
        .join_from(found, senders, senders.c.id == found.c.source_id)
        .group_by(senders.c.service, bucket)
        .order_by(bucket)
    )
    return [Activity(*row) for row in conn.execute(query)]


@dataclass(frozen=True, slots=True)
class Reset:
    """A scraped counter fell: its process was restarted before this time."""

    at_ms: int
    service: str


_COUNTER = "cachescope_spans_total"
# One series of each of a gateway's processes: a restart resets all of them. A page of several processes names each beside the result.
_CREATED = func.json_extract(samples.c.labels, "$.result") == "created"


def resets(conn: Connection, window: Window, *, limit: int = 50) -> list[Reset]:
    """Return the restarts of scraped gateways, or of single processes of theirs, in the window, oldest first; the newest `limit`."""
    before = func.lag(samples.c.value).over(partition_by=(samples.c.source_id, samples.c.labels), order_by=samples.c.at_ms)
    ids = [row[0] for row in conn.execute(select(senders.c.id).where(senders.c.kind == "scrape"))]
    series = (
        select(samples.c.source_id, samples.c.at_ms, samples.c.value, before.label("earlier"))
        .where(samples.c.source_id.in_(ids), samples.c.name == _COUNTER, _CREATED)
        .where(samples.c.at_ms >= window.start_ms, samples.c.at_ms < window.end_ms)
        .subquery()
    )
    query = (
        select(series.c.at_ms, senders.c.service)
        .distinct()  # processes that went together are one restart
        .join(senders, senders.c.id == series.c.source_id)
        .where(series.c.value < series.c.earlier)
        .order_by(series.c.at_ms.desc())
        .limit(limit)
    )
    return [Reset(*row) for row in conn.execute(query)][::-1]


@dataclass(frozen=True, slots=True)
class Evicted:
    """Entries that left memory, or were removed from the store, for want of space: of a scraped gateway, before and after a time.

    at_ms: the first reading after it.
    """

    service: str
    at_ms: int
    before: int
    after: int


_REMOVALS = "cachescope_removals_total"
_FOR_SIZE = func.json_extract(samples.c.labels, "$.cause") == "size"


def evictions(conn: Connection, at_ms: int, length_ms: int) -> list[Evicted]:
    """Return what scraped gateways evicted in as long before the time as after it, by service. A restart's first value counts whole."""
    earlier = func.lag(samples.c.value).over(partition_by=(samples.c.source_id, samples.c.labels), order_by=samples.c.at_ms)
    ids = [row[0] for row in conn.execute(select(senders.c.id).where(senders.c.kind == "scrape"))]
    series = (
        select(samples.c.source_id, samples.c.at_ms, samples.c.value, earlier.label("earlier"))
        .where(samples.c.source_id.in_(ids), samples.c.name == _REMOVALS, _FOR_SIZE)
        .where(samples.c.at_ms >= at_ms - length_ms, samples.c.at_ms < at_ms + length_ms)
        .subquery()
    )
    grown = case((series.c.value < series.c.earlier, series.c.value), else_=series.c.value - series.c.earlier)
    after = series.c.at_ms >= at_ms
    query = (
        select(
            senders.c.service,
            func.min(case((after, series.c.at_ms))),
            func.sum(case((after, 0.0), else_=grown)),
            func.sum(case((after, grown), else_=0.0)),
        )
        .join(senders, senders.c.id == series.c.source_id)
        .where(series.c.earlier.is_not(None))
        .group_by(senders.c.service)
        .order_by(senders.c.service)
    )
    return [Evicted(service, first, round(before), round(now)) for service, first, before, now in conn.execute(query) if first is not None]


@dataclass(frozen=True, slots=True)
class Example:
    """A lookup to look at. prompt: None where prompts are not recorded."""

    trace_id: bytes
    at_ms: int
    outcome: str
    reason: str
    namespace: str
    tenant: str
    prompt: str | None


def examples(
    conn: Connection, window: Window, scope: Scope, literals: Sequence[tuple[str, str]], *, outcomes: Sequence[str], limit: int = 5
) -> list[Example]:
    """Return the newest lookups with these values (dimension, value) and outcomes. Looks at 20,000 of the newest at most."""
    # All that is asked about stands in the index: only the few that are shown are read as rows.
    newest = (
        select(lookups.c.id, lookups.c.outcome, *(lookups.c[name] for name in DIMENSIONS[:-1]), _service())
        .join_from(lookups, senders, senders.c.id == lookups.c.source_id)
        .where(within(lookups, window, scope), lookups.c.cache_kind == "response")
        .order_by(lookups.c.at_ms.desc(), picked)
        .limit(20_000)
        .subquery()
    )
    found = select(newest.c.id).where(newest.c.outcome.in_(outcomes), *(newest.c[name] == value for name, value in literals)).limit(limit)
    columns = [lookups.c[name] for name in Example.__dataclass_fields__]
    query = select(*columns).where(lookups.c.id.in_(found)).order_by(lookups.c.at_ms.desc(), picked)
    return [Example(*row) for row in conn.execute(query)]


def _service() -> Any:
    return func.trim(senders.c.service + " " + senders.c.instance).label("source")
