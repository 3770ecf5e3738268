"""Writing what senders sent: one transaction, idempotent on (trace_id, span_id).

A span that is there already changes nothing: no rollup, no summary, no counter but `duplicates`. A lookup lands with its span or
not at all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError, InterfaceError, ProgrammingError

from storage import calls, decisions, retention, rollups, sources
from storage.rows import REPEAT, LookupRow, SourceBatch, SpanRow, WriteResult
from storage.slots import PICKS, pick
from storage.store import Store

UNSTORABLE: Final = "unstorable"  # the reason under which rows that SQLite cannot hold are counted

_SPAN_COLUMNS: Final = ("id", "trace_id", "span_id", "parent_id", "source_id", *SpanRow._fields[3:-1], "waits_for")
_LOOKUP_COLUMNS: Final = ("id", "trace_id", "span_id", "source_id", *LookupRow._fields[2:])


def _insert(table: str, columns: Sequence[str]) -> str:
    names = ", ".join(f'"{column}"' for column in columns)
    return f"INSERT INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))}) ON CONFLICT (trace_id, span_id) DO NOTHING"  # noqa: S608


_SPAN: Final = _insert("spans", _SPAN_COLUMNS)
_LOOKUP: Final = _insert("lookups", _LOOKUP_COLUMNS)
_PAYLOAD: Final = "INSERT INTO span_payloads (span_id, payload) VALUES (?, ?)"
_SUMMARY: Final = """
INSERT INTO trace_summaries (trace_id, start_ns, end_ns, spans, errors, lookups, root_name, service)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (trace_id) DO UPDATE SET
  start_ns = min(start_ns, excluded.start_ns), end_ns = max(end_ns, excluded.end_ns),
  spans = spans + excluded.spans, errors = errors + excluded.errors, lookups = lookups + excluded.lookups,
  service = CASE WHEN service = '' OR (root_name = '' AND excluded.root_name <> '') THEN excluded.service ELSE service END,
  root_name = CASE WHEN root_name = '' THEN excluded.root_name ELSE root_name END
"""
_ERROR_STATUS: Final = 2  # OTLP StatusCode


def write(store: Store, batches: Sequence[SourceBatch], *, now_ms: int) -> list[WriteResult]:
    """Store the batches in one transaction and return what each added, in order. When this returns, it is committed.

    Rows that SQLite cannot hold (a number beyond 64 bits, a lone surrogate, NaN) are counted as rejects of their source with the
    reason `unstorable`; the rest lands.
    Raises StoreBusy and StoreFull (nothing was written; try again), StoreCorrupt, StoreReadOnly.
    """
    if not batches:
        return []
    try:
        return _write(store, batches, now_ms=now_ms)
    except (OverflowError, ValueError, TypeError, IntegrityError, InterfaceError, ProgrammingError):
        # Looking at every value of every batch would cost more than writing it: it is done when the database refused one.
        sound = [_sound(batch) for batch in batches]
        if sound == list(batches):
            raise
        return _write(store, sound, now_ms=now_ms)


@dataclass(slots=True)
class _Landed:
    """What of a batch was new."""

    source_id: int
    spans: list[SpanRow] = field(default_factory=list)
    lookups: list[LookupRow] = field(default_factory=list)


def _write(store: Store, batches: Sequence[SourceBatch], *, now_ms: int) -> list[WriteResult]:
    results = []
    totals = rollups.Totals()
    with store.write() as connection:
        from_ns = retention.raw_from_ms(connection) * 1_000_000
        if from_ns:
            batches = [_not_expired(batch, from_ns) for batch in batches]
        landed = [_Landed(sources.find_or_make(connection, batch.source, now_ms=now_ms)) for batch in batches]
        settled = calls.settle(
            connection, [(one.source_id, batch.source.scope, batch.spans) for batch, one in zip(batches, landed, strict=True)]
        )
        _insert_spans(connection, batches, landed, settled)
        _insert_lookups(connection, batches, landed, settled)
        for batch, new in zip(batches, landed, strict=True):
            totals.add(new.source_id, new.lookups)
            result = WriteResult(len(new.spans), len(batch.spans) - len(new.spans), len(new.lookups))
            _count(connection, batch, new, result, now_ms=now_ms)
            results.append(result)
        totals.write(connection)
        _summarise(connection, landed)
        _take_back(connection, settled)
    return results


def _insert_spans(connection: Connection, batches: Sequence[SourceBatch], landed: Sequence[_Landed], settled: calls.Settled) -> None:
    owners = [(new, row) for batch, new in zip(batches, landed, strict=True) for row in batch.spans]
    if not owners:
        return
    if settled.repeats:
        owners = [(new, row._replace(is_call=False, call_role=REPEAT) if row[:2] in settled.repeats else row) for new, row in owners]
    waits = settled.waits.get
    first = _next_number(connection, "spans")
    values = [(number, *row[:3], new.source_id, *row[3:-1], waits(row[:2])) for number, (new, row) in enumerate(owners, first)]
    payloads = []
    for number in _insert_new(connection, "spans", _SPAN, values):
        new, row = owners[number - first]
        new.spans.append(row)
        payloads.append((number, row.payload))
    if payloads:
        connection.exec_driver_sql(_PAYLOAD, payloads)


def _take_back(connection: Connection, settled: calls.Settled) -> None:
    """Uncount what was counted before, and is now known to repeat another call."""
    for source_id, number in settled.uncounted.items():
        sources.count(connection, source_id, calls=-number)
    if not settled.taken_back:
        return
    totals = rollups.Totals()
    for source_id, row in settled.taken_back:
        totals.add(source_id, [row])
        sources.count(connection, source_id, lookups=-1)
        sources.add_call_facts(connection, source_id, {f"kind:{row.cache_kind}": -1})
        connection.exec_driver_sql("UPDATE trace_summaries SET lookups = lookups - 1 WHERE trace_id = ?", (row.trace_id,))
    totals.take_back(connection)


def _insert_lookups(connection: Connection, batches: Sequence[SourceBatch], landed: Sequence[_Landed], settled: calls.Settled) -> None:
    owners = []
    told = []
    for batch, new in zip(batches, landed, strict=True):
        if batch.lookups:
            fresh = {row[:2]: row for row in new.spans}
            for row in batch.lookups:
                span = fresh.get(row[:2])
                if span is not None and _stands(row, span.call_role):
                    owners.append((new, row))
                    told.append(decisions.Told(new.source_id, row, span))
    if not owners:
        return
    once = decisions.settle(connection, told)
    if once.lost:
        owners = [(new, row) for new, row in owners if row[:2] not in once.lost]
    settled.taken_back += once.taken_back
    for source_id, facts in once.twice.items():
        sources.add_call_facts(connection, source_id, facts)
    if not owners:
        return
    # A lookup may outlive its span; a resend of that span is new, its lookup is not. So what landed is asked for here too.
    # An id is the number of arrival and, in its lowest bits, a hash: what a sample picks does not depend on who came first.
    first = _next_number(connection, "lookups", of=PICKS)
    values = [(number * PICKS + pick(*row[:2]), *row[:2], new.source_id, *row[2:]) for number, (new, row) in enumerate(owners, first)]
    for found in _insert_new(connection, "lookups", _LOOKUP, values):
        new, row = owners[found // PICKS - first]
        new.lookups.append(row)


def _stands(row: LookupRow, role: str) -> bool:
    """Return whether a lookup counts beside its span's role."""
    return role != REPEAT or row.cache_kind not in calls.CALL_KINDS


def _next_number(connection: Connection, table: str, *, of: int = 1) -> int:
    """Return the number of the next row. of: how many ids share a number."""
    # The write lock is held, so nobody else takes a number: those that exist afterwards are of the rows that were new.
    return int(connection.exec_driver_sql(f"SELECT coalesce(max(id), 0) / {of} + 1 FROM {table}").scalar_one())  # noqa: S608


def _insert_new(connection: Connection, table: str, statement: str, values: list[tuple[Any, ...]]) -> Iterable[int]:
    """Insert the rows, whose first values are ids that rise; return the ids of those that were new, in order."""
    if connection.exec_driver_sql(statement, values).rowcount == len(values):
        return [row[0] for row in values]  # nearly always: nothing came twice
    return connection.exec_driver_sql(f"SELECT id FROM {table} WHERE id >= ? ORDER BY id", values[0][:1]).scalars().all()  # noqa: S608


def _count(connection: Connection, batch: SourceBatch, new: _Landed, result: WriteResult, *, now_ms: int) -> None:
    newest_ms = max((row.end_ns for row in new.spans), default=None)
    sources.count(
        connection,
        new.source_id,
        accepted=result.accepted,
        duplicates=result.duplicates,
        lookups=result.lookups,
        described=sum(row.call_role != "" for row in new.spans),
        calls=sum(row.is_call for row in new.spans),
        dropped=batch.dropped,
        last_span_ms=None if newest_ms is None else newest_ms // 1_000_000,
    )
    if batch.rejects:
        sources.add_rejects(connection, new.source_id, batch.rejects, now_ms=now_ms)
    if batch.missing and result.lookups:
        # The counts are the whole batch's: for one that is new in part they may be too high, but not above its new lookups.
        missing = {name: min(number, result.lookups) for name, number in batch.missing.items() if number > 0}
        sources.add_missing(connection, new.source_id, missing)
    told = calls.facts(new.spans, new.lookups)
    if told:
        sources.add_call_facts(connection, new.source_id, told)
    if batch.error:
        sources.note_error(connection, new.source_id, batch.error, now_ms=now_ms)


@dataclass(slots=True)
class _Summary:
    start_ns: int
    end_ns: int
    service: str
    spans: int = 0
    errors: int = 0
    lookups: int = 0
    root: tuple[int, str, str] | None = None  # start, name, service of the earliest root


def _summarise(connection: Connection, landed: Iterable[_Landed]) -> None:
    summaries: dict[bytes, _Summary] = {}
    for new in landed:
        for row in new.spans:
            summary = summaries.get(row.trace_id)
            if summary is None:
                summary = summaries[row.trace_id] = _Summary(row.start_ns, row.end_ns, row.service)
            summary.spans += 1
            summary.start_ns = min(summary.start_ns, row.start_ns)
            summary.end_ns = max(summary.end_ns, row.end_ns)
            summary.errors += row.status == _ERROR_STATUS
            if row.parent_id is None and row.name:
                root = (row.start_ns, row.name, row.service)
                summary.root = root if summary.root is None else min(summary.root, root)
        for lookup in new.lookups:
            summaries[lookup.trace_id].lookups += 1
    if summaries:
        rows = []
        for trace_id, one in summaries.items():
            _, name, service = one.root or (0, "", one.service)
            rows.append((trace_id, one.start_ns, one.end_ns, one.spans, one.errors, one.lookups, name, service))
        connection.exec_driver_sql(_SUMMARY, rows)


def _not_expired(batch: SourceBatch, from_ns: int) -> SourceBatch:
    """Return the batch without the spans that began before a time, counted as rejects, and without their lookups."""
    spans = [row for row in batch.spans if row.start_ns >= from_ns]
    lost = len(batch.spans) - len(spans)
    if not lost:
        return batch
    rejects = {**batch.rejects, retention.EXPIRED: batch.rejects.get(retention.EXPIRED, 0) + lost}
    return replace(batch, spans=spans, rejects=rejects)


def _sound(batch: SourceBatch) -> SourceBatch:
    """Return the batch without what SQLite cannot hold, counted as rejects."""
    spans = [row for row in batch.spans if _storable(row)]
    kept = {row[:2] for row in spans}
    lookups = [row for row in batch.lookups if _storable(row) and row[:2] in kept]
    lost = len(batch.spans) - len(spans)
    bad_lookups = sum(not _storable(row) for row in batch.lookups)
    if not lost and not bad_lookups:
        return batch
    rejects = dict(batch.rejects)
    rejects[UNSTORABLE] = rejects.get(UNSTORABLE, 0) + (lost or bad_lookups)
    return replace(batch, spans=spans, lookups=lookups, rejects=rejects)


def _storable(row: SpanRow | LookupRow) -> bool:
    return all(_value_is_storable(value) for value in row) and None not in _required(row)


def _required(row: SpanRow | LookupRow) -> tuple[object, ...]:
    if isinstance(row, LookupRow):
        return (*row[:17], row.generation, row.partition, row.key, row.fingerprint, row.prompt_hash, row.prompt_simhash)
    return (*row[:2], *row[3:13], row.token_rule, row.is_call, row.call_role, row.payload)


def _value_is_storable(value: object) -> bool:
    match value:
        case None | bool() | bytes():
            return True
        case int():
            return -(1 << 63) <= value < 1 << 63
        case float():
            return math.isfinite(value)
        case str():
            # UTF-8 cannot carry a lone surrogate.
            return not any("\ud800" <= letter <= "\udfff" for letter in value)
    return False
