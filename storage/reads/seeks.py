"""How one namespace's or tenant's rollups are found without reading all others': by their keys.

Rollups lie in the order of time, kind, sender, purpose, namespace and tenant. What stands before the value asked for is read from the
six hours' rows, few as they are; then each row is sought.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from sqlalchemy import ColumnElement, Connection, Table, func, select, true, tuple_

from storage.models import telemetry_metadata

_MOST: Final = 64  # values of what stands before in the key: of more all rows are read
_LEAST_PASSED: Final = 10  # lookups that must lie between two sought rows: a row is passed over some ten times as fast as one is sought
_BEFORE: Final = ("cache_kind", "source_id", "purpose", "namespace")  # of the keys, behind the time
_SOUGHT: Final = ("namespace", "tenant")
_PARTS, _PARTS_MS = telemetry_metadata.tables["parts_6h"], 21_600_000
_TOTALS, _TOTALS_MS = telemetry_metadata.tables["totals_1h"], 3_600_000


class _Known(NamedTuple):
    """Of a window: the values of _BEFORE, more than _MOST are not all of them; its first hour; lookups a millisecond."""

    before: tuple[tuple[Any, ...], ...]
    first_ms: int
    lookups_per_ms: float


# A page reads the same few windows many times. A connection is checked out for one snapshot, and forgotten with it.
_known: Final[WeakKeyDictionary[Connection, dict[tuple[int, int], _Known]]] = WeakKeyDictionary()


def of(conn: Connection, start_ms: int, end_ms: int) -> _Known:
    """Return what is known of the window, read once a snapshot."""
    windows = _known.setdefault(conn, {})
    if (start_ms, end_ms) not in windows:
        rows = select(*(_PARTS.c[name] for name in _BEFORE)).where(_PARTS.c.at_ms > start_ms - _PARTS_MS, _PARTS.c.at_ms < end_ms)
        before = tuple(tuple(row) for row in conn.execute(rows.distinct().limit(_MOST + 1)))
        hours = (_TOTALS.c.at_ms > start_ms - _TOTALS_MS, _TOTALS.c.at_ms < end_ms)
        first_ms, lookups = conn.execute(select(func.min(_TOTALS.c.at_ms), func.sum(_TOTALS.c.lookups)).where(*hours)).one()
        begin_ms = start_ms if first_ms is None else max(start_ms, first_ms)
        windows[start_ms, end_ms] = _Known(before, begin_ms, (lookups or 0) / max(1, end_ms - begin_ms))
    return windows[start_ms, end_ms]


def sought(known: _Known, table: Table, times: range, fixed: Mapping[str, str]) -> list[ColumnElement[bool]]:
    """Return a condition that seeks the table's rows of these times, none where all had better be read.

    fixed: the values that columns of its key are narrowed by; it stands in the query as well.
    """
    key = [column.name for column in table.primary_key][1:]
    last = max((at for at, name in enumerate(key) if name in fixed and name in _SOUGHT), default=0)
    open_ = [name for name in key[:last] if name not in fixed]
    if not last or not set(open_) <= set(_BEFORE) or not 0 < len(known.before) <= _MOST:
        return []
    mine = [row for row in known.before if all(fixed.get(name, value) == value for name, value in zip(_BEFORE, row, strict=True))]
    values = sorted({tuple(row[_BEFORE.index(name)] for name in open_) for row in mine})
    if len(values) * _LEAST_PASSED > known.lookups_per_ms * times.step:
        return []
    first_ms = max(times.start, known.first_ms // times.step * times.step)
    return _joined(table, range(first_ms, times.stop, times.step), open_, values)


def any_of(table: Table, times: range, columns: Sequence[str], wanted: Sequence[Sequence[Any]]) -> list[ColumnElement[bool]]:
    """Return the condition for rollups that begin at these times and have any of these values of the columns, sought where keys allow."""
    values = func.json_each(json.dumps(wanted)).table_valued("value").c.value
    named = select(*(func.json_extract(values, f"$[{at}]") for at in range(len(columns))))
    return [table.c.at_ms.in_(times), tuple_(*(table.c[one] for one in columns)).in_(named)]


def _joined(table: Table, times: range, columns: Sequence[str], wanted: Iterable[Sequence[Any]]) -> list[ColumnElement[bool]]:
    """Return the same, each row joined by its key."""
    at_ms = func.json_each(json.dumps(list(times))).table_valued("value")
    values = func.json_each(json.dumps(list(wanted))).table_valued("value")
    named = [func.json_extract(values.c.value, f"$[{at}]").label(name) for at, name in enumerate(columns)]
    # Distinct, so that the planner makes these rows first: it would else read all rows of a time, and compare each with every value.
    rows = select(at_ms.c.value.label("at_ms"), *named).select_from(at_ms.join(values, true())).distinct().subquery()
    return [table.c[name] == rows.c[name] for name in ("at_ms", *columns)]
