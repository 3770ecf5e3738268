"""Counters of other systems, scraped or sent: exact increases by series and minute, counted when a reading arrives.

A series is a source, a name and a set of labels; a change of labels is a new series, never a reset of the old one. Where start times
are exact, each is a series of its own too: several processes may send as one source. Increases are counted series by series and summed
afterwards, by whoever reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from storage import sources
from storage.increases import BY_INCREASES, SAME_START_MS, Step, first, step
from storage.metrics import insert_samples
from storage.rows import CounterReading, Scrape, SourceKey
from storage.store import Store

NOT_A_COUNT: Final = "not_a_count"  # the reason under which a counter's NaN, infinite, negative and absurd values are refused
_MOST_COUNTED: Final = 1e30  # more than anything counts to: sums of it stay finite
_MOST_COVERED_MS: Final = 100 * 365 * 86_400_000  # of one step: a start in 1970 and an end in the year 290,000 must not overflow a sum
LEFT_OUT: Final = "series above the bound were left out"
FOLDED: Final = "series above the bound were summed into the overflow series"
# A sender's clock that was ahead and is put right must not silence its counters until that time has come.
_AHEAD_MS: Final = 3_600_000
_ACTIVE_MS: Final = 24 * 3_600_000  # series not seen for so long make room for new ones under the bound
# Processes that are told apart by their starts alone, of one source in a day. The one that was silent for longest gives its place up.
_MOST_LIVES: Final = 64
_SILENT_MS: Final = 10 * 60_000

_SERIES: Final = "SELECT name, labels, id, first_ms, at_ms, value, start_ms FROM counter_series WHERE source_id = ? AND at_ms >= ?"
_FIND: Final = "SELECT id, first_ms, at_ms, value, start_ms FROM counter_series WHERE source_id = ? AND name = ? AND labels = ?"
_ADD: Final = """
INSERT INTO counter_series (source_id, name, labels, first_ms, at_ms, value, start_ms) VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING id
"""
_MOVE: Final = "UPDATE counter_series SET first_ms = ?, at_ms = ?, value = ?, start_ms = ? WHERE id = ?"
# Each width divides the next, and both are written with the readings: an hour is always the sum of its minutes.
WIDTHS_MS: Final = {"counter_minutes": 60_000, "counter_hours": 3_600_000}
_UPSERTS: Final = {
    table: f"""
INSERT INTO {table} (series_id, at_ms, increase, steps, covered_ms, resets, anomalies) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (series_id, at_ms) DO UPDATE SET increase = increase + excluded.increase, steps = steps + excluded.steps,
covered_ms = covered_ms + excluded.covered_ms, resets = resets + excluded.resets, anomalies = anomalies + excluded.anomalies
"""  # noqa: S608 - names from above
    for table in WIDTHS_MS
}
_SNAPSHOT: Final = """
INSERT INTO source_snapshots (source_id, topic, at_ms, body) VALUES (?, ?, ?, ?)
ON CONFLICT (source_id, topic) DO UPDATE SET at_ms = excluded.at_ms, body = excluded.body
"""


@dataclass(slots=True)
class _Series:
    """What is known of one series while readings are taken. value: BY_INCREASES where no total is known."""

    id: int
    first_ms: int
    at_ms: int
    value: float
    start_ms: int | None


def write_scrape(store: Store, source: SourceKey, scrape: Scrape, *, now_ms: int, max_series: int) -> str:
    """Store what one look at a source gave, in one transaction. Return what is wrong with it, '' when nothing is.

    Readings that are not later than the last one of their series are ignored, so the same ones may come again; but for one that lies
    more than an hour ahead of now_ms, which a clock that was wrong gave.
    """
    with store.write() as connection:
        before = connection.exec_driver_sql(
            _LAST_SEEN, (source.kind, source.service, source.instance, source.scope, source.dialect)
        ).first()
        source_id = sources.find_or_make(connection, source, now_ms=now_ms)
        last_ms, last_error = (before[0] or None, before[1]) if before else (None, "")
        complete = last_ms is not None and not last_error and scrape.from_ms is None
        rejects = dict(scrape.rejects)
        from_ms = last_ms if scrape.from_ms is None else scrape.from_ms
        counted = Counting(connection, source_id, from_ms=from_ms, complete=complete, max_series=max_series, now_ms=now_ms)
        counted.take(scrape.counters)
        if counted.refused:
            rejects[NOT_A_COUNT] = rejects.get(NOT_A_COUNT, 0) + counted.refused
        stored, refused = insert_samples(connection, source_id, scrape.samples)
        rejects.update(refused)
        newest = max([row.at_ms for row in scrape.samples] + [one.at_ms for one in scrape.counters if _is_count(one)], default=None)
        sources.count(connection, source_id, accepted=counted.steps + stored, dropped=scrape.dropped, last_span_ms=newest)
        if rejects:
            sources.add_rejects(connection, source_id, rejects, now_ms=now_ms)
        for topic, body in scrape.snapshots.items():
            connection.exec_driver_sql(_SNAPSHOT, (source_id, topic, scrape.at_ms, body))
        faults = "; ".join(part for part in (scrape.error, counted.faults) if part)
        if faults:
            sources.note_error(connection, source_id, faults, now_ms=now_ms)
        else:
            sources.clear_error(connection, source_id)
    return faults


def newest_ms(store: Store, source: SourceKey) -> int | None:
    """Return the time of the newest reading stored of a source, None when there is none."""
    with store.read() as connection:
        return sources.newest_ms(connection, source)


def snapshot(store: Store, source: SourceKey, topic: str) -> str | None:
    """Return the JSON stored last of a source under a topic, None when there is none."""
    with store.read() as connection:
        row = connection.exec_driver_sql(
            _TOPIC, (source.kind, source.service, source.instance, source.scope, source.dialect, topic)
        ).first()
        return row[0] if row else None


_TOPIC: Final = """
SELECT body FROM source_snapshots t JOIN sources s ON s.id = t.source_id
WHERE s.kind = ? AND s.service = ? AND s.instance = ? AND s.scope = ? AND s.dialect = ? AND t.topic = ?
"""
_LAST_SEEN: Final = """
SELECT last_seen_ms, last_error FROM sources WHERE kind = ? AND service = ? AND instance = ? AND scope = ? AND dialect = ?
"""


class Counting:
    """Counts what the readings of one source grew by, inside a transaction: the one way in which increases are made.

    from_ms: the time from which on nothing of the source was missed, None = it is new; complete: what it showed then was all that it
    had (see `increases.first`). exact: a start time is told to the millisecond, and another one is another process.
    steps: readings taken; refused: those that are no count.
    """

    def __init__(
        self,
        connection: Connection,
        source_id: int,
        *,
        from_ms: int | None,
        complete: bool,
        max_series: int,
        now_ms: int,
        exact: bool = False,
    ) -> None:
        self._connection = connection
        self._source_id = source_id
        self._from_ms = from_ms
        self._complete = complete
        self._exact = exact
        self._max_series = max_series
        self._now_ms = now_ms
        self._known: dict[tuple[str, str], list[_Series]] = {}  # several of one name and labels only where starts are exact
        for row in connection.exec_driver_sql(_SERIES, (source_id, now_ms - _ACTIVE_MS)):
            self._known.setdefault((row[0], row[1]), []).append(_Series(*row[2:]))
        self._starts = {one.start_ms for lives in self._known.values() for one in lives}
        self._active = sum(not _is_folded(labels) for _, labels in self._known)
        self._moved: dict[int, _Series] = {}
        self._sums: dict[tuple[str, int, int], list[float]] = {}
        self._folded = self._left_out = 0
        self.steps = self.refused = 0

    @property
    def faults(self) -> str:
        told = [f"{self._folded} {FOLDED}"] if self._folded else []
        return "; ".join([*told, f"{self._left_out} {LEFT_OUT}"] if self._left_out else told)

    def take(self, readings: Sequence[CounterReading]) -> None:
        overflow: dict[tuple[str, str, int, bool], float] = {}
        good = [one for one in readings if _is_count(one)]
        self.refused += len(readings) - len(good)
        for one in sorted(good, key=lambda reading: reading.at_ms):
            lives = self._find(one.name, one.labels)
            if lives or self._active < self._max_series:
                self._active += not lives
                self._reading(lives, one, folded=False)
            elif one.folded:
                place = (one.name, one.folded, one.at_ms, one.delta)
                overflow[place] = overflow.get(place, 0.0) + one.value
                self._folded += 1
            else:
                self._left_out += 1
        for (name, labels, at_ms, delta), value in sorted(overflow.items(), key=lambda item: item[0][2]):
            one = CounterReading(name, labels, at_ms, value, None, "", delta=delta)
            self._reading(self._find(name, labels), one, folded=True)
        self._flush()

    def _find(self, name: str, labels: str) -> list[_Series]:
        return self._known[name, labels] if (name, labels) in self._known else self._all(name, labels)

    def _all(self, name: str, labels: str) -> list[_Series]:
        """Return also those that were not seen for long."""
        lives = self._known.setdefault((name, labels), [])
        here = {one.id for one in lives}
        rows = self._connection.exec_driver_sql(_FIND, (self._source_id, name, labels))
        lives += [_Series(*row) for row in rows if row[0] not in here]
        return lives

    def _goes_on(self, lives: Sequence[_Series], one: CounterReading) -> _Series | None:
        """Return the series that a reading goes on with. One whose start is not known may be of any process."""
        if self._exact and not one.delta:
            for start_ms in (one.start_ms, None):
                if found := [series for series in lives if series.start_ms == start_ms]:
                    return found[0]
            if one.start_ms is not None:
                return None
        return max(lives, key=lambda series: series.at_ms, default=None)

    def _reading(self, lives: Sequence[_Series], one: CounterReading, *, folded: bool) -> None:
        series = self._goes_on(lives, one)
        if series is None and lives:
            lives = self._all(one.name, one.labels)
            series = self._goes_on(lives, one)
        if one.delta:
            self._increase(series or self._new(one, BY_INCREASES, None), one)
        elif series is None and lives:
            self._another(lives, one)
        elif series is None:
            series = self._new(one, one.value, one.start_ms)
            # Where several processes may send, what another one showed says nothing of this one.
            complete = self._complete and (not self._exact or one.start_ms is None or one.start_ms in self._starts)
            counted = 0.0 if folded else first(one.value, one.start_ms, created=one.created, from_ms=self._from_ms, complete=complete)
            self.steps += 1
            if counted:
                self._add(series.id, one.at_ms, Step(counted), covered_ms=0)
        elif one.at_ms > series.at_ms or self._is_put_right(series, one):
            if series.value == BY_INCREASES:  # its total may hold what was counted from its increases
                taken = Step(first(one.value, one.start_ms, created=False, from_ms=series.at_ms, complete=False))
            else:
                taken = step(series.value, series.start_ms, one.value, one.start_ms, before_at_ms=series.at_ms, folded=folded)
            self._add(series.id, one.at_ms, taken, covered_ms=max(0, one.at_ms - series.at_ms))
            self.steps += 1
            series.at_ms, series.value, series.start_ms = one.at_ms, one.value, one.start_ms
            self._moved[series.id] = series

    def _is_put_right(self, series: _Series, one: CounterReading) -> bool:
        return one.at_ms <= self._now_ms + _AHEAD_MS < series.at_ms

    def _another(self, lives: Sequence[_Series], one: CounterReading) -> None:
        """Take the first reading of a process beside others, or after them, that count the same.

        All of it counts when the process began after the first of them was seen. It does not when that is a day ago: the process may
        have been here before, and have given its place up.
        """
        start_ms = one.start_ms or 0
        last_ms = max(series.at_ms for series in lives)
        longest = min(lives, key=lambda series: series.at_ms)
        if one.at_ms - longest.at_ms > (_SILENT_MS if len(lives) >= _MOST_LIVES else _ACTIVE_MS):
            longest.at_ms, longest.value, longest.start_ms = one.at_ms, one.value, one.start_ms
            self._moved[longest.id] = series = longest
        elif len(lives) >= _MOST_LIVES:
            self._left_out += 1
            return
        else:
            series = self._new(one, one.value, one.start_ms)
        self.steps += 1
        since_ms = min([series.first_ms for series in lives] + ([] if self._from_ms is None else [self._from_ms]))
        if since_ms < start_ms and one.at_ms - start_ms <= _ACTIVE_MS:
            ended = start_ms >= last_ms  # before this one began: it is a restart
            covered_ms = max(0, one.at_ms - last_ms) if ended else 0
            held = self._told_before(series, lives, one) if one.at_ms - start_ms > _SILENT_MS else 0.0
            self._add(series.id, one.at_ms, Step(one.value - held, reset=ended), covered_ms=covered_ms)

    @staticmethod
    def _told_before(series: _Series, lives: Sequence[_Series], one: CounterReading) -> float:
        """Return what of a value was counted under another telling of the same start.

        A sender that tells "now less the uptime" tells it anew when it alone was started again. Workers that begin together are heard
        soon after their start.
        """
        near = [life for life in lives if life is not series and abs((life.start_ms or 0) - (one.start_ms or 0)) <= SAME_START_MS]
        return max((life.value for life in near if life.value <= one.value), default=0.0)

    def _new(self, one: CounterReading, value: float, start_ms: int | None) -> _Series:
        values = (self._source_id, one.name, one.labels, one.at_ms, one.at_ms, value, start_ms)
        series_id = int(self._connection.exec_driver_sql(_ADD, values).scalar_one())
        made = _Series(series_id, one.at_ms, one.at_ms, value, start_ms)
        self._known.setdefault((one.name, one.labels), []).append(made)
        return made

    def _increase(self, series: _Series, one: CounterReading) -> None:
        """Count an increase in its own minute, however late it comes. Whoever gives it here has seen to it that it came once."""
        covered_ms = 0 if one.start_ms is None else max(0, one.at_ms - one.start_ms)
        self._add(series.id, one.at_ms, Step(one.value), covered_ms=covered_ms)
        self.steps += 1
        if one.at_ms > series.at_ms:
            series.at_ms, series.value, series.start_ms = one.at_ms, BY_INCREASES, None
        series.first_ms = min(series.first_ms, one.at_ms)
        self._moved[series.id] = series

    def _add(self, series_id: int, at_ms: int, taken: Step, *, covered_ms: int) -> None:
        for table, width_ms in WIDTHS_MS.items():
            sums = self._sums.setdefault((table, series_id, at_ms // width_ms * width_ms), [0.0, 0, 0, 0, 0])
            for place, value in enumerate((taken.increase, 1, min(covered_ms, _MOST_COVERED_MS), taken.reset, taken.anomaly)):
                sums[place] += value

    def _flush(self) -> None:
        moves = [(one.first_ms, one.at_ms, one.value, one.start_ms, one.id) for one in self._moved.values()]
        _many(self._connection, _MOVE, moves)
        for table, upsert in _UPSERTS.items():
            _many(self._connection, upsert, [(*place[1:], *sums) for place, sums in self._sums.items() if place[0] == table])


def _many(connection: Connection, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
    if given := list(rows):
        connection.exec_driver_sql(statement, given)


def _is_count(one: CounterReading) -> bool:
    return 0 <= one.value <= _MOST_COUNTED  # and so no NaN, which is neither


def _is_folded(labels: str) -> bool:
    return '"cachescope_overflow":"true"' in labels
