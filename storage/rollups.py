"""Lookups by time and dimensions, at 10 s, 1 min and 1 h: counts, integer sums and a mergeable sketch.

Every sum is of integers rounded once per lookup, so a rollup equals the raw rows it stands for whatever order they came in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from operator import add
from typing import Any, Final

from sqlalchemy import Connection

from storage.rows import LookupRow
from storage.sketch import Sketch

# Each width divides the next: a coarser row is the sum of finer ones.
WIDTHS_MS: Final[dict[str, int]] = {"rollups_10s": 10_000, "rollups_1m": 60_000, "rollups_1h": 3_600_000}
# What one lookup may add to a sum: 115 days, 10,000 US dollars or ten trillion tokens. 900,000 of these fit in SQLite's 64 bits.
_LIMIT: Final = 10**13

_DIMENSIONS: Final = ("at_ms", "cache_kind", "source_id", "purpose", "namespace", "tenant", "model", "tier", "outcome", "reason")
_SUMS: Final = (
    "lookups",
    "duration_us",
    "input_tokens",
    "input_tokens_n",
    "output_tokens",
    "cost_nusd",
    "cost_n",
    "saved_nusd",
    "saved_usd_n",
    "saved_us",
    "saved_us_n",
)


def _upsert(table: str, dimensions: tuple[str, ...]) -> str:
    columns = (*dimensions, *_SUMS, "duration_sketch")
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608 - names from above
        f" ON CONFLICT ({', '.join(dimensions)}) DO UPDATE SET {', '.join(f'{name} = {name} + excluded.{name}' for name in _SUMS)},"
        " duration_sketch = sketch_merge(duration_sketch, excluded.duration_sketch)"
    )


_UPSERTS: Final = {table: _upsert(table, _DIMENSIONS) for table in WIDTHS_MS}
# Over all dimensions but these.
TOTALS: Final = {"rollups_1m": "totals_1m", "rollups_1h": "totals_1h"}
TOTAL_DIMENSIONS: Final = ("at_ms", "cache_kind", "purpose", "outcome")
_TOTAL_PLACES: Final = tuple(_DIMENSIONS.index(name) for name in TOTAL_DIMENSIONS)
_TOTAL_UPSERTS: Final = {table: _upsert(TOTALS[table], TOTAL_DIMENSIONS) for table in TOTALS}
_REMOVED: Final = "SELECT kind, before_ms FROM removed"  # the kinds of rollups have their tables' names
_FINEST_MS: Final = WIDTHS_MS["rollups_10s"]
_Key = tuple[Any, ...]
_Groups = dict[_Key, tuple[list[int], Sketch]]


class Totals:
    """What a batch adds to the rollups, by dimensions."""

    def __init__(self) -> None:
        self._groups: _Groups = {}

    def add(self, source_id: int, lookups: Iterable[LookupRow]) -> None:
        groups = self._groups
        for row in lookups:
            key = (
                row.at_ms - row.at_ms % _FINEST_MS,
                row.cache_kind,
                source_id,
                row.purpose,
                row.namespace,
                row.tenant,
                row.model,
                row.tier,
                row.outcome,
                row.reason,
            )
            group = groups.get(key)
            if group is None:
                group = groups[key] = ([0] * len(_SUMS), Sketch())
            sums, sketch = group
            sums[0] += 1
            sums[1] += scaled(row.duration_ms, 1_000)
            if row.input_tokens is not None:
                sums[2] += max(-_LIMIT, min(_LIMIT, row.input_tokens))
                sums[3] += 1
            if row.output_tokens is not None:
                sums[4] += max(-_LIMIT, min(_LIMIT, row.output_tokens))
            if row.cost_usd is not None:
                sums[5] += scaled(row.cost_usd, 1_000_000_000)
                sums[6] += 1
            if row.saved_usd is not None:
                sums[7] += scaled(row.saved_usd, 1_000_000_000)
                sums[8] += 1
            if row.saved_ms is not None:
                sums[9] += scaled(row.saved_ms, 1_000)
                sums[10] += 1
            sketch.add(row.duration_ms)

    def write(self, connection: Connection) -> None:
        """Add all to the rollups of every width. The connection is a writing store's: its `sketch_merge` is used."""
        groups = self._groups
        for table, width in WIDTHS_MS.items():
            if width != _FINEST_MS:
                groups = _summed(groups, lambda key, width=width: (key[0] - key[0] % width, *key[1:]))  # type: ignore[misc]
            _add(connection, _UPSERTS[table], groups)
            if table in TOTALS:
                totals = _summed(groups, lambda key: tuple(key[place] for place in _TOTAL_PLACES))
                _add(connection, _TOTAL_UPSERTS[table], totals)

    def take_back(self, connection: Connection) -> None:
        """Remove all from the rollups of every width, where it was added before. A row that stands for no lookup goes."""
        groups = self._groups
        removed_ms: dict[str, int] = {kind: before_ms for kind, before_ms in connection.exec_driver_sql(_REMOVED)}  # noqa: C416 - rows
        for table, width in WIDTHS_MS.items():
            if width != _FINEST_MS:
                groups = _summed(groups, lambda key, width=width: (key[0] - key[0] % width, *key[1:]))  # type: ignore[misc]
            # What retention has removed, or is about to, holds no longer what was added.
            left = {key: group for key, group in groups.items() if key[0] >= removed_ms.get(table, 0)}
            _take_back(connection, table, _DIMENSIONS, left)
            if table in TOTALS:
                totals = _summed(left, lambda key: tuple(key[place] for place in _TOTAL_PLACES))
                _take_back(connection, TOTALS[table], TOTAL_DIMENSIONS, totals)


def _take_back(connection: Connection, table: str, dimensions: tuple[str, ...], groups: _Groups) -> None:
    row = " AND ".join(f"{name} = ?" for name in dimensions)
    changed = ", ".join(f"{name} = ?" for name in (*_SUMS, "duration_sketch"))
    for key, (sums, sketch) in groups.items():
        stored = connection.exec_driver_sql(f"SELECT {', '.join(_SUMS)}, duration_sketch FROM {table} WHERE {row}", key).first()  # noqa: S608
        if stored is None:  # retention was faster
            continue
        left = [before - gone for before, gone in zip(stored[:-1], sums, strict=True)]
        if left[0] <= 0:
            connection.exec_driver_sql(f"DELETE FROM {table} WHERE {row}", key)  # noqa: S608 - names from above
            continue
        kept = Sketch.from_bytes(stored[-1])
        kept.take_away(sketch)
        connection.exec_driver_sql(f"UPDATE {table} SET {changed} WHERE {row}", (*left, kept.to_bytes(), *key))  # noqa: S608


def _add(connection: Connection, upsert: str, groups: _Groups) -> None:
    if groups:
        # The tables are ordered by their keys: neighbours lie on one page.
        rows = [(*key, *sums, sketch.to_bytes()) for key, (sums, sketch) in sorted(groups.items(), key=_key_of)]
        connection.exec_driver_sql(upsert, rows)


def _key_of(group: tuple[_Key, tuple[list[int], Sketch]]) -> _Key:
    return group[0]


def _summed(groups: _Groups, key_of: Callable[[_Key], _Key]) -> _Groups:
    """Return the sums of the groups by another key, of which theirs is finer."""
    found: _Groups = {}
    for key, (sums, sketch) in groups.items():
        wider = key_of(key)
        group = found.get(wider)
        if group is None:
            group = found[wider] = ([0] * len(_SUMS), Sketch())
        group[0][:] = map(add, group[0], sums)
        group[1].merge(sketch)
    return found


def scaled(value: float, factor: int) -> int:
    """Return the value in units of 1/factor, rounded half to even, held within what a sum can take. Raises ValueError for NaN."""
    if not math.isfinite(value):
        raise ValueError(f"a sum takes finite values, not {value}")
    return round(max(-_LIMIT, min(_LIMIT, value * factor)))
