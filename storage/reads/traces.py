"""Finding lookups, and everything that is stored of one trace."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Table, and_, func, literal_column, or_, select

from storage.models import COMMON_OUTCOMES, RARE_OUTCOME, telemetry_metadata
from storage.payloads import unpack
from storage.reads.window import Scope, Window, beside_namespace, lookups, newest_from, rollups, within

spans: Table = telemetry_metadata.tables["spans"]
payloads: Table = telemetry_metadata.tables["span_payloads"]
sources: Table = telemetry_metadata.tables["sources"]

MOST_SEARCHED = 20_000  # the newest lookups of the scope whose rows are read for a text or a duration
MOST_PASSED = 200_000  # of all lookups, in order, that are passed over to find them: some 0.1 s, and as much again to read them
_DEARER = 5  # a namespace's lookups are fetched one by one: so many times fewer of them
MOST_SPANS = 20_000  # what a page lays out in about a second


@dataclass(frozen=True, slots=True)
class Search:
    """Narrows a list of lookups. text: an id (trace, entry, candidate) or a part of the prompt. Empty = no condition.

    similarity_from, similarity_to: cosine of the candidate, both ends included; a lookup without a candidate has none. None = no condition.
    """

    outcome: str = ""
    reason: str = ""
    text: str = ""
    min_ms: float = 0.0
    similarity_from: float | None = None
    similarity_to: float | None = None

    @property
    def by_row(self) -> bool:
        """Whether rows have to be read to find what matches: neither an index nor a rollup knows it."""
        return bool(self.text.strip()) or self.min_ms > 0 or not (self.similarity_from is None and self.similarity_to is None)


@dataclass(frozen=True, slots=True)
class Found:
    """A lookup in a list. prompt: None where prompts are not recorded."""

    id: int
    trace_id: bytes
    span_id: bytes
    at_ms: int
    duration_ms: float
    outcome: str
    reason: str
    tier: str
    namespace: str
    tenant: str
    model: str
    similarity: float | None
    threshold: float | None
    purpose: str
    cache_kind: str
    prompt: str | None


_FOUND = tuple(field.name for field in fields(Found))


@dataclass(frozen=True, slots=True)
class Page:
    """At most `limit` lookups, the newest first. more: there are others before the last one.

    from_ms: what is older was not searched for the text, the duration or the similarity; None = all of the window was.
    """

    rows: tuple[Found, ...]
    more: bool
    from_ms: int | None = None


def find(conn: Connection, window: Window, scope: Scope, search: Search, *, limit: int = 200, most_passed: int = MOST_PASSED) -> Page:
    """Return the newest lookups that match. A whole trace id is found in any window.

    most_passed: a text, a duration or a similarity is looked for among those of the newest so many lookups that are in the scope.
    """
    whole = _hex(search.text)
    if whole is not None and len(whole) == 16 and _traced(conn, whole):
        condition, from_ms = lookups.c.trace_id == whole, None
    else:
        if not _any(conn, window, scope, search):
            return Page((), more=False)
        searched, from_ms = _searched(conn, window, scope, search, most_passed)
        condition = _matching(searched, scope, search)
    query = select(*(lookups.c[name] for name in _FOUND)).where(condition)
    rows = conn.execute(query.order_by(lookups.c.at_ms.desc(), lookups.c.id.desc()).limit(limit + 1)).all()
    more = len(rows) > limit
    return Page(tuple(Found(*row) for row in rows[:limit]), more, None if more else from_ms)


def _any(conn: Connection, window: Window, scope: Scope, search: Search) -> bool:
    """Return whether any lookup has the outcome and reason searched for: the rollups know, without a look at a row."""
    found = rollups(conn, window, scope, ("outcome", "reason"))
    wanted = [found.c[name] == value for name, value in (("outcome", search.outcome), ("reason", search.reason)) if value]
    return not wanted or conn.execute(select(found.c.outcome).where(*wanted).limit(1)).first() is not None


def _searched(conn: Connection, window: Window, scope: Scope, search: Search, most_passed: int) -> tuple[Window, int | None]:
    """Return the part of the window that is searched, and its start where that is not the window's. A text is looked for row by row."""
    if not search.by_row:
        return window, None
    # Only the namespace has an index: of a rare tenant's lookups the newest may lie far apart.
    number = most_passed if scope.namespace is None else most_passed // _DEARER
    passed = replace(window, start_ms=newest_from(conn, window, Scope(namespace=scope.namespace, purpose=None), number))
    from_ms = newest_from(conn, passed, scope, MOST_SEARCHED)
    return (window, None) if from_ms <= window.start_ms else (replace(window, start_ms=from_ms), from_ms)


def _traced(conn: Connection, trace_id: bytes) -> bool:
    return conn.execute(select(lookups.c.id).where(lookups.c.trace_id == trace_id).limit(1)).first() is not None


def _matching(window: Window, scope: Scope, search: Search) -> ColumnElement[bool]:
    clauses = [within(lookups, window, scope)]
    if search.outcome and search.outcome not in COMMON_OUTCOMES:
        # In so many words: an index of a part of the rows is used only where its condition stands.
        clauses = [beside_namespace(window, scope), literal_column(RARE_OUTCOME)]
    if search.outcome:
        clauses.append(lookups.c.outcome == search.outcome)
    if search.reason:
        clauses.append(lookups.c.reason == search.reason)
    if search.min_ms > 0:
        clauses.append(lookups.c.duration_ms >= search.min_ms)
    if search.similarity_from is not None:
        clauses.append(lookups.c.similarity >= search.similarity_from)
    if search.similarity_to is not None:
        clauses.append(lookups.c.similarity <= search.similarity_to)
    text = search.text.strip()
    if text:
        wanted = [lookups.c.prompt.contains(text, autoescape=True)]
        if len(text.split()) == 1:  # other senders' ids need not be hex
            ids = {text, text.lower()}
            wanted += [lookups.c[name].in_(ids) for name in ("entry_id", "candidate_id", "prompt_hash")]
        clauses.append(or_(*wanted))
    return and_(*clauses)


def _hex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text.strip())
    except ValueError:
        return None


def reasons(conn: Connection, window: Window, scope: Scope) -> list[str]:
    """Return the reasons that occur in the window, sorted."""
    found = rollups(conn, window, scope, ("reason",))
    return sorted(row[0] for row in conn.execute(select(found.c.reason).where(found.c.reason != "").distinct()))


@dataclass(frozen=True, slots=True)
class StoredSpan:
    """A span. Times as sent: the end may lie before the start. attributes, events: of spans that are lookups alone, else empty.

    call_role: what it says of a model call (storage.rows). raw_input_tokens: as sent, before token_rule.
    """

    span_id: bytes
    parent_id: bytes | None
    name: str
    kind: int
    start_ns: int
    end_ns: int
    status: int
    status_message: str
    service: str
    operation: str
    provider: str
    model: str
    input_tokens: int | None
    output_tokens: int | None
    cached_input_tokens: int | None
    cost_usd: float | None
    is_call: bool
    call_role: str
    token_rule: str
    raw_input_tokens: int | None
    cache_write_tokens: int | None
    attributes: dict[str, Any]
    events: list[Any]


_SPAN = tuple(field.name for field in fields(StoredSpan))[:-2]


def trace_spans(conn: Connection, trace_id: bytes) -> list[StoredSpan]:
    """Return the spans of a trace, the earliest first; at most 20,000."""
    told = select(lookups.c.span_id).where(lookups.c.trace_id == trace_id)
    query = (
        select(*(spans.c[name] for name in _SPAN), payloads.c.payload)
        .join_from(spans, payloads, (payloads.c.span_id == spans.c.id) & spans.c.span_id.in_(told), isouter=True)
        .where(spans.c.trace_id == trace_id)
        .order_by(spans.c.start_ns, spans.c.id)
        .limit(MOST_SPANS)
    )
    return [_stored(tuple(row)) for row in conn.execute(query)]


def trace_size(conn: Connection, trace_id: bytes) -> int:
    """Return how many spans of the trace are stored."""
    return conn.execute(select(func.count()).select_from(spans).where(spans.c.trace_id == trace_id)).scalar() or 0


def _stored(row: tuple[Any, ...]) -> StoredSpan:
    attributes, events = contents(row[-1])
    return StoredSpan(**dict(zip(_SPAN, row[:-1], strict=True)), attributes=attributes, events=events)


def contents(data: bytes | None) -> tuple[dict[str, Any], list[Any]]:
    """Return attributes and events. A payload that cannot be read costs its attributes, not the trace."""
    if not data:
        return {}, []
    try:
        read = json.loads(unpack(data))
    except ValueError:
        return {}, []
    return dict(read.get("attributes") or {}), list(read.get("events") or [])


def trace_lookups(conn: Connection, trace_id: bytes) -> list[dict[str, Any]]:
    """Return every column of the trace's lookups, the earliest first."""
    query = select(lookups).where(lookups.c.trace_id == trace_id).order_by(lookups.c.at_ms, lookups.c.id)
    return [dict(row) for row in conn.execute(query).mappings()]
