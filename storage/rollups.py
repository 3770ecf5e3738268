"""Lookups by time and dimensions, from 10 s to 6 h: counts, integer sums and a mergeable sketch.

Every sum is of integers rounded once per lookup, so a rollup equals the raw rows it stands for whatever order they came in.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from operator import add
from types import MappingProxyType
from typing import Any, Final, NamedTuple

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
    "lookup_us",
    "lookup_us_n",
    "cached_tokens",
    "cached_of_tokens",
    "cached_n",
    "judged_n",
    "vetoed_n",
)
_SKETCH: Final = "duration_sketch"


HITS: Final = ("exact_hit", "semantic_hit", "partial_hit", "stale_hit")
ELIGIBLE: Final = (*HITS, "coalesced", "miss")  # what could have been a hit
OUTCOMES: Final = (*ELIGIBLE, "bypass", "error")
PLACE_SUMS: Final = (*OUTCOMES, "hit_tokens", "tokens", "saved_nusd", "spent_nusd", "hits_priced", "misses_priced")


class Narrow(NamedTuple):
    """A table with fewer dimensions than the rollups, or wider steps.

    of: the rollups it is kept as long as. finer: the table whose rows it is summed from, an earlier one: few are summed a second time.
    places: outcomes are columns, and there is no sketch.
    """

    width_ms: int
    dimensions: tuple[str, ...]
    of: str
    finer: str
    places: bool = False


_TOTAL: Final = ("at_ms", "cache_kind", "source_id", "purpose", "outcome")
_PART: Final = ("at_ms", "cache_kind", "source_id", "purpose", "namespace", "tier", "outcome", "reason")
_MODEL: Final = ("at_ms", "cache_kind", "source_id", "purpose", "model", "tier", "outcome", "reason")
_TENANT: Final = ("at_ms", "cache_kind", "source_id", "purpose", "tenant", "tier", "outcome", "reason")
_PRICE: Final = ("at_ms", "cache_kind", "purpose", "model")
_PLACE: Final = ("at_ms", "cache_kind", "purpose", "namespace", "tenant", "model")
NARROW: Final[dict[str, Narrow]] = {
    "parts_1m": Narrow(60_000, _PART, "rollups_1m", "rollups_1m"),
    "totals_1m": Narrow(60_000, _TOTAL, "rollups_1m", "parts_1m"),
    "parts_1h": Narrow(3_600_000, _PART, "rollups_1h", "parts_1m"),
    "totals_1h": Narrow(3_600_000, _TOTAL, "rollups_1h", "parts_1h"),
    "totals_6h": Narrow(21_600_000, _TOTAL, "rollups_1h", "totals_1h"),
    "parts_6h": Narrow(21_600_000, _PART, "rollups_1h", "parts_1h"),
    "rollups_6h": Narrow(21_600_000, _DIMENSIONS, "rollups_1h", "rollups_1h"),
    "models_1h": Narrow(3_600_000, _MODEL, "rollups_1h", "rollups_1h"),
    "tenants_1h": Narrow(3_600_000, _TENANT, "rollups_1h", "rollups_1h"),
    "places_10m": Narrow(600_000, _PLACE, "rollups_1m", "rollups_1m", places=True),
    "prices_10m": Narrow(600_000, _PRICE, "rollups_1m", "places_10m", places=True),
    "places_1h": Narrow(3_600_000, _PLACE, "rollups_1h", "places_10m", places=True),
    "places_6h": Narrow(21_600_000, _PLACE, "rollups_1h", "places_1h", places=True),
}


def _columns(table: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a table's dimensions and its sums, the sketch among them where it has one."""
    narrow = NARROW.get(table)
    dimensions = narrow.dimensions if narrow else _DIMENSIONS
    return dimensions, PLACE_SUMS if narrow and narrow.places else (*_SUMS, _SKETCH)


def _upsert(table: str) -> str:
    dimensions, sums = _columns(table)
    columns = (*dimensions, *sums)
    added = [f"{name} = {name} + excluded.{name}" for name in sums if name != _SKETCH]
    if _SKETCH in sums:
        added.append(f"{_SKETCH} = sketch_merge({_SKETCH}, excluded.{_SKETCH})")
    return (
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608 - names from above
        f" ON CONFLICT ({', '.join(dimensions)}) DO UPDATE SET {', '.join(added)}"
    )


_UPSERTS: Final = {table: _upsert(table) for table in (*WIDTHS_MS, *NARROW)}
_REMOVED: Final = "SELECT kind, before_ms FROM removed"  # the kinds of rollups have their tables' names
_FINEST_MS: Final = WIDTHS_MS["rollups_10s"]
_UNJUDGED: Final = ("exact_hit", "bypass", "error")
_Key = tuple[Any, ...]
_Groups = dict[_Key, tuple[list[int], Sketch]]
_Rows = dict[_Key, tuple[Any, ...]]
_ALL_TIME: Final[Mapping[str, int]] = MappingProxyType({})


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
            # A negative number of tokens, cost or time is a sender's fault: it is in no sum, and not among those that told theirs.
            if row.input_tokens is not None and row.input_tokens >= 0:
                sums[2] += min(_LIMIT, row.input_tokens)
                sums[3] += 1
                # Only of those that are counted: else the sum is of more lookups than its number says.
                if row.output_tokens is not None and row.output_tokens >= 0:
                    sums[4] += min(_LIMIT, row.output_tokens)
            if row.cost_usd is not None and row.cost_usd >= 0:
                # The call of a coalesced lookup is another's, and paid for there, whatever a sender tells.
                sums[5] += 0 if row.outcome == "coalesced" else scaled(row.cost_usd, 1_000_000_000)
                sums[6] += 1
            if row.saved_usd is not None and row.saved_usd >= 0:
                sums[7] += scaled(row.saved_usd, 1_000_000_000)
                sums[8] += 1
            if row.saved_ms is not None and row.saved_ms >= 0:
                sums[9] += scaled(row.saved_ms, 1_000)
                sums[10] += 1
            if row.lookup_ms is not None and row.lookup_ms >= 0:
                sums[11] += scaled(row.lookup_ms, 1_000)
                sums[12] += 1
            cached, given = row.cached_input_tokens, row.input_tokens
            # A cached part larger than the whole is a sender's fault and in no ratio.
            if cached is not None and given is not None and 0 <= cached <= given <= _LIMIT:
                sums[13] += cached
                sums[14] += given
                sums[15] += 1
            # An exact hit has no candidate, whatever a sender recorded with it; one that was held out names its own entry, and none near.
            exact = row.held_out and row.candidates is None and (row.similarity or 0) >= 1
            if row.similarity is not None and row.outcome not in _UNJUDGED and not exact:
                sums[16] += 1
                sums[17] += row.passed is False and row.threshold is not None and row.similarity >= row.threshold
            sketch.add(row.duration_ms)

    def write(self, connection: Connection) -> None:
        """Add all to the rollups of every width. The connection is a writing store's: its `sketch_merge` is used."""
        for table, rows in self._by_table():
            if rows:
                # The tables are ordered by their keys: neighbours lie on one page.
                connection.exec_driver_sql(_UPSERTS[table], [(*key, *rows[key]) for key in sorted(rows)])

    def take_back(self, connection: Connection) -> None:
        """Remove all from the rollups of every width, where it was added before. A row that stands for no lookup goes."""
        removed_ms: dict[str, int] = {kind: before_ms for kind, before_ms in connection.exec_driver_sql(_REMOVED)}  # noqa: C416 - rows
        for table, rows in self._by_table(removed_ms):
            _take_back(connection, table, rows)

    def _by_table(self, from_ms: Mapping[str, int] = _ALL_TIME) -> Iterator[tuple[str, _Rows]]:
        """Yield the rows of every table. from_ms: what retention has removed of one, or is about to, is left out."""
        summed: dict[str, _Groups] = {"rollups_10s": self._groups}
        for finer, table in pairwise(WIDTHS_MS):
            summed[table] = _summed(summed[finer], _DIMENSIONS, _DIMENSIONS, WIDTHS_MS[table])
        placed: dict[str, _Rows] = {}
        for table, narrow in NARROW.items():
            if not narrow.places:
                summed[table] = _summed(summed[narrow.finer], _columns(narrow.finer)[0], narrow.dimensions, narrow.width_ms)
            elif narrow.finer in placed:
                placed[table] = _widened(placed[narrow.finer], NARROW[narrow.finer].dimensions, narrow)
            else:
                placed[table] = _placed(summed[narrow.finer], narrow.width_ms)
        packed: dict[int, bytes] = {}  # by sketch: tables share most of them
        for table, groups in summed.items():
            left_ms = _left_ms(table, from_ms)
            yield table, {key: (*sums, _packed(sketch, packed)) for key, (sums, sketch) in groups.items() if key[0] >= left_ms}
        for table, rows in placed.items():
            left_ms = _left_ms(table, from_ms)
            yield table, {key: row for key, row in rows.items() if key[0] >= left_ms}


def _packed(sketch: Sketch, packed: dict[int, bytes]) -> bytes:
    found = packed.get(id(sketch))
    if found is None:
        found = packed[id(sketch)] = sketch.to_bytes()
    return found


def _left_ms(table: str, from_ms: Mapping[str, int]) -> int:
    return from_ms.get(NARROW[table].of if table in NARROW else table, 0)


def _take_back(connection: Connection, table: str, rows: _Rows) -> None:
    dimensions, sums = _columns(table)
    row = " AND ".join(f"{name} = ?" for name in dimensions)
    changed = ", ".join(f"{name} = ?" for name in sums)
    counted = len(OUTCOMES) if sums is PLACE_SUMS else 1
    for key, gone in rows.items():
        stored = connection.exec_driver_sql(f"SELECT {', '.join(sums)} FROM {table} WHERE {row}", key).first()  # noqa: S608
        if stored is None:  # retention was faster
            continue
        left = [_less(before, part) for before, part in zip(stored, gone, strict=True)]
        if not any(left[:counted]):
            connection.exec_driver_sql(f"DELETE FROM {table} WHERE {row}", key)  # noqa: S608 - names from above
        else:
            connection.exec_driver_sql(f"UPDATE {table} SET {changed} WHERE {row}", (*left, *key))  # noqa: S608


def _less(before: Any, part: Any) -> int | bytes:
    if not isinstance(before, bytes):
        return int(before - part)
    kept = Sketch.from_bytes(before)
    kept.take_away(Sketch.from_bytes(part))
    return kept.to_bytes()


def _summed(groups: _Groups, named: tuple[str, ...], dimensions: tuple[str, ...], width_ms: int) -> _Groups:
    """Return the sums of groups by fewer dimensions, or a wider step, of which theirs (named) is finer."""
    places = [named.index(name) for name in dimensions[1:]]
    found: _Groups = {}
    own: set[_Key] = set()  # of several: most stand for one finer group, and share its values
    for key, group in groups.items():
        wider = (key[0] - key[0] % width_ms, *[key[place] for place in places])
        held = found.get(wider)
        if held is None:
            found[wider] = group
            continue
        if wider not in own:
            own.add(wider)
            sketch = Sketch()
            sketch.merge(held[1])
            held = found[wider] = (held[0].copy(), sketch)
        held[0][:] = map(add, held[0], group[0])
        held[1].merge(group[1])
    return found


def _widened(rows: _Rows, named: tuple[str, ...], narrow: Narrow) -> _Rows:
    """Return rows by place, whose dimensions these are, in wider steps or by fewer of them."""
    places = [named.index(name) for name in narrow.dimensions[1:]]
    found: _Rows = {}
    for key, row in rows.items():
        wider = (key[0] - key[0] % narrow.width_ms, *[key[place] for place in places])
        before = found.get(wider)
        found[wider] = row if before is None else tuple(map(add, before, row))
    return found


_AT: Final = {name: place for place, name in enumerate(_SUMS)}
_OUTCOME: Final = _DIMENSIONS.index("outcome")


def _placed(groups: _Groups, width_ms: int) -> _Rows:
    """Return the groups' rows by place, their outcomes side by side. Outcomes that are none of OUTCOMES count nowhere."""
    at = [_DIMENSIONS.index(name) for name in _PLACE[1:]]
    found: dict[_Key, list[int]] = {}
    for key, (sums, _) in groups.items():
        outcome = key[_OUTCOME]
        if outcome not in OUTCOMES:
            continue
        place = found.setdefault((key[0] - key[0] % width_ms, *[key[one] for one in at]), [0] * len(PLACE_SUMS))
        place[OUTCOMES.index(outcome)] += sums[0]
        if outcome in ELIGIBLE:
            tokens, hit = sums[_AT["input_tokens"]] + sums[_AT["output_tokens"]], outcome in HITS
            place[-6] += tokens if hit else 0
            place[-5] += tokens
            place[-4] += sums[_AT["saved_nusd"]] if hit else 0
            place[-3] += 0 if hit else sums[_AT["cost_nusd"]]
            place[-2] += sums[_AT["saved_usd_n"]] if hit else 0
            place[-1] += sums[_AT["cost_n"]] if outcome == "miss" else 0
    return {key: tuple(row) for key, row in found.items()}


def scaled(value: float, factor: int) -> int:
    """Return the value in units of 1/factor, rounded half to even, held within what a sum can take. Raises ValueError for NaN."""
    if not math.isfinite(value):
        raise ValueError(f"a sum takes finite values, not {value}")
    return round(max(-_LIMIT, min(_LIMIT, value * factor)))
