"""One cache decision counts once, when a span and a log record tell of it, in whatever order they came.

A record that names a span is stored as a span of its own beneath it, with `call_key` = `key_of` the span named. Of the two the span's
lookup counts: it knows more, such as the score. Only where the span's sender tells of hits alone, the record's does, for it would have
told of a miss. That is a rule for pairs, so the order of arrival cannot matter. What lost stays as a span, marked `retold` when it is
a record's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection

from storage.calls import hashed
from storage.rows import RETOLD, LookupRow, SpanRow

_RESPONSE: Final = "response"  # what a record's lookup is of, and before which it gives way
_HITS_ONLY: Final = "response_hits"
_KINDS: Final = (_RESPONSE, _HITS_ONLY)
BY_SPAN, BY_RECORD = "twice:span", "twice:log"  # facts of the source whose lookup does not count, by what counts instead

_ANY: Final = "SELECT 1 FROM sources WHERE kind = 'otlp_logs' AND lookups > 0 LIMIT 1"
_OF_SPAN: Final = f"SELECT source_id, cache_kind FROM lookups WHERE trace_id = ? AND span_id = ? AND cache_kind IN {_KINDS}"  # noqa: S608
_OF_RECORDS: Final = """
SELECT l.source_id, l.trace_id, l.span_id FROM spans s JOIN lookups l ON l.trace_id = s.trace_id AND l.span_id = s.span_id
WHERE s.call_key = ? AND s.call_role = ''
"""
_GONE: Final = f"""
DELETE FROM lookups WHERE trace_id = ? AND span_id = ? RETURNING {", ".join(f'"{name}"' for name in ("source_id", *LookupRow._fields))}
"""  # noqa: S608 - names of columns
_MARK: Final = "UPDATE spans SET call_role = ? WHERE trace_id = ? AND span_id = ?"


class Told(NamedTuple):
    """A lookup about to be inserted, and its span."""

    source_id: int
    row: LookupRow
    span: SpanRow

    @property
    def by_record(self) -> bool:
        return self.span.call_key is not None and not self.span.call_role


@dataclass(slots=True)
class Once:
    """lost: new lookups that are not to be inserted, by trace and span id. taken_back: (source, lookup) that were counted before.

    twice: source -> BY_SPAN or BY_RECORD -> how often.
    """

    lost: set[tuple[bytes, bytes]] = field(default_factory=set)
    taken_back: list[tuple[int, LookupRow]] = field(default_factory=list)
    twice: dict[int, Counter[str]] = field(default_factory=dict)


def key_of(trace_id: bytes, span_id: bytes) -> int:
    """Return the key of the records that name a span."""
    return hashed("decision", trace_id.hex(), span_id.hex())


def settle(connection: Connection, new: Sequence[Told]) -> Once:
    """Find the decisions told twice among lookups about to be inserted and those stored; delete and mark the stored ones that lose."""
    once = Once()
    records = [one for one in new if one.by_record]
    if not records and connection.exec_driver_sql(_ANY).first() is None:
        return once  # nearly always: a sender tells of its decisions in one way
    deciding = {one.row[:2]: one for one in new if not one.by_record and one.row.cache_kind in _KINDS}
    # Of the driver's own: a probe costs 2 µs so, and 20 through the engine.
    cursor: Any = connection.connection.cursor()
    _meet_records(cursor, deciding, once)
    for record in records:
        _meet_span(cursor, record, deciding, once)
    cursor.close()
    return once


def _meet_records(cursor: Any, deciding: Mapping[tuple[bytes, bytes], Told], once: Once) -> None:
    """Compare new lookups of spans with the stored ones of records that name these spans."""
    for ids, one in deciding.items():
        for source_id, *of_record in cursor.execute(_OF_RECORDS, (key_of(*ids),)).fetchall():
            if one.row.cache_kind == _HITS_ONLY:
                _lose(one, once)
            else:
                _take_back(cursor, source_id, of_record, BY_SPAN, once)


def _meet_span(cursor: Any, record: Told, deciding: Mapping[tuple[bytes, bytes], Told], once: Once) -> None:
    """Compare a new record's lookup with that of the span it names, new or stored."""
    named = (record.row.trace_id, record.span.parent_id or b"")
    new = deciding.get(named)
    source_id, kind = (new.source_id, new.row.cache_kind) if new else cursor.execute(_OF_SPAN, named).fetchone() or (0, "")
    if kind == _RESPONSE:
        once.lost.add(record.row[:2])
        _note(record.source_id, BY_SPAN, once)
        cursor.execute(_MARK, (RETOLD, *record.row[:2]))
    elif kind == _HITS_ONLY and new:
        _lose(new, once)
    elif kind == _HITS_ONLY:
        _take_back(cursor, source_id, named, BY_RECORD, once)


def _lose(one: Told, once: Once) -> None:
    if one.row[:2] not in once.lost:  # several records may name it
        once.lost.add(one.row[:2])
        _note(one.source_id, BY_RECORD, once)


def _take_back(cursor: Any, source_id: int, ids: Sequence[bytes], reason: str, once: Once) -> None:
    for gone in cursor.execute(_GONE, tuple(ids)).fetchall():
        once.taken_back.append((gone[0], LookupRow(*gone[1:])))
        _note(source_id, reason, once)
    if reason == BY_SPAN:
        cursor.execute(_MARK, (RETOLD, *ids))


def _note(source_id: int, reason: str, once: Once) -> None:
    once.twice.setdefault(source_id, Counter())[reason] += 1
