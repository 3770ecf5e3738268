"""Counters of other systems: exact increases by series and minute. Never negative, whatever comes."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage import counters, metrics
from storage.increases import first, step
from storage.reads.counters import _KNOWN, increases, known
from storage.reads.window import Window
from storage.rows import CounterReading, SampleRow, Scrape, SourceKey
from storage.settings import StorageSettings
from storage.store import Store, open_telemetry

TARGET = SourceKey("scrape", "http://127.0.0.1:9/metrics")
MINUTE = 60_000
FOLDED = '{"cachescope_overflow":"true"}'


def reading(at_ms: int, value: float, *, name: str = "hits_total", labels: str = "{}", start_ms: int | None = None) -> CounterReading:
    return CounterReading(name, labels, at_ms, value, start_ms, FOLDED)


def scrape(store: Store, at_ms: int, *readings: CounterReading, error: str = "", from_ms: int | None = None, most: int = 100) -> str:
    given = Scrape(at_ms, counters=readings, error=error, from_ms=from_ms)
    return counters.write_scrape(store, TARGET, given, now_ms=at_ms, max_series=most)


def totals(store: Store) -> dict[str, tuple[float, int, int]]:
    """labels -> increase, resets, anomalies."""
    with store.read() as connection:
        rows = connection.exec_driver_sql(
            """SELECT s.labels, sum(m.increase), sum(m.resets), sum(m.anomalies) FROM counter_minutes m
               JOIN counter_series s ON s.id = m.series_id GROUP BY s.labels ORDER BY s.labels"""
        )
        return {row[0]: (row[1], row[2], row[3]) for row in rows}


def run(store: Store, values: Iterable[float], *, labels: str = "{}", starts: Iterable[int | None] | None = None) -> None:
    given = list(values)
    for place, (value, start) in enumerate(zip(given, starts or [None] * len(given), strict=True), start=1):
        scrape(store, place * 15_000, reading(place * 15_000, value, labels=labels, start_ms=start))


@pytest.mark.parametrize(
    ("before", "start", "after", "later_start", "expected"),
    [
        (5, None, 9, None, (4, False, False)),
        (5, None, 5, None, (0, False, False)),
        (9, None, 4, None, (4, True, False)),  # nothing else is known: a restart
        (9, 1_000, 4, 9_000, (4, True, False)),  # a restart, and it is known
        (9, 1_000, 12, 9_000, (12, True, False)),  # a restart that the value alone would hide
        (9, 1_000, 4, 1_000, (0, False, True)),  # the process lives: an anomaly, never a negative rate
        (9, 1_000, 4, 2_400, (0, False, True)),  # the same start, told as "now less the uptime"
        (9, None, 4, 2_400, (4, True, False)),
        (9, 5_000, 12, 1_000, (0, False, True)),  # an earlier start: another process answered
    ],
)
def test_from_one_reading_to_the_next(
    before: float, start: int | None, after: float, later_start: int | None, expected: tuple[float, bool, bool]
) -> None:
    assert tuple(step(before, start, after, later_start)) == expected


def test_a_clock_that_was_a_year_ahead_and_is_put_right_silences_nobody(telemetry: Store) -> None:
    year = 365 * 24 * 60 * MINUTE

    def send(now_ms: int, at_ms: int, value: float) -> None:
        counters.write_scrape(telemetry, TARGET, Scrape(at_ms, counters=[reading(at_ms, value)]), now_ms=now_ms, max_series=9)

    for now_ms, at_ms, value in [(1, 1, 5), (2, year, 7), (3, 3, 8), (4, 4, 9), (4, 2, 50)]:
        send(now_ms * MINUTE, at_ms * MINUTE if at_ms < year else at_ms, value)
    assert totals(telemetry) == {"{}": (4.0, 0, 0)}
    with telemetry.read() as connection:
        assert connection.exec_driver_sql("SELECT at_ms, value FROM counter_series").all() == [(4 * MINUTE, 9.0)]


@pytest.mark.parametrize(
    ("start_ms", "created", "from_ms", "complete", "counted"),
    [
        (None, False, None, False, 0),
        (None, False, 500, True, 7),
        (None, False, 500, False, 0),
        (900, True, 500, False, 7),
        (900, False, 500, False, 7),
        (400, True, 500, True, 0),  # it was there before, and was only not shown
        (400, False, 500, True, 7),  # the process is old, the series is new
        (400, False, 500, False, 0),
        (900, True, None, False, 0),
    ],
)
def test_when_a_first_value_counts(start_ms: int | None, created: bool, from_ms: int | None, complete: bool, counted: float) -> None:
    assert first(7, start_ms, created=created, from_ms=from_ms, complete=complete) == counted


def test_two_processes_behind_one_address_are_an_anomaly_and_not_two_restarts_a_minute(telemetry: Store) -> None:
    hour = 3_600_000
    for place in range(8):
        at_ms = 10 * hour + place * 15_000
        start_ms, value = ((1 * hour, 1_000_000), (1 * hour + 9_000, 2_000_000))[place % 2]
        scrape(telemetry, at_ms, reading(at_ms, value + place, start_ms=start_ms))
    assert totals(telemetry) == {"{}": (0, 0, 7)}


def test_increases_land_in_the_minute_of_the_later_reading(telemetry: Store) -> None:
    scrape(telemetry, 50_000, reading(50_000, 100))
    scrape(telemetry, 58_000, reading(58_000, 103))
    scrape(telemetry, 65_000, reading(65_000, 110))
    scrape(telemetry, 70_000, reading(70_000, 110))
    with telemetry.read() as connection:
        rows = connection.exec_driver_sql("SELECT at_ms, increase, steps, covered_ms FROM counter_minutes ORDER BY at_ms").all()
    assert rows == [(0, 3.0, 1, 8_000), (MINUTE, 7.0, 2, 12_000)]


def test_a_restart_is_told_by_the_start_and_what_was_counted_since_is_kept(telemetry: Store) -> None:
    run(telemetry, [10, 15, 20, 22], starts=[1_000, 1_000, 31_000, 31_000])
    assert totals(telemetry) == {"{}": (5 + 20 + 2, 1, 0)}


def test_a_decrease_without_a_restart_is_an_anomaly(telemetry: Store) -> None:
    run(telemetry, [10, 15, 3, 5], starts=[1_000] * 4)
    assert totals(telemetry) == {"{}": (5 + 0 + 2, 0, 1)}


def test_a_change_of_labels_is_a_new_series(telemetry: Store) -> None:
    """Case B14, scraped: the second set of labels appears on a complete page of the same target, so it was born there and counts."""
    old, new = '{"pod":"web-5q47s"}', '{"pod":"web-2z84a"}'
    for place, value in enumerate([3, 8, 15, 21, 21], start=1):
        scrape(telemetry, place * 15_000, reading(place * 15_000, value, labels=old))
    for place, value in enumerate([8, 9, 13, 19, 19], start=6):
        scrape(telemetry, place * 15_000, reading(place * 15_000, value, labels=new))
    assert totals(telemetry) == {new: (8 + 11, 0, 0), old: (18, 0, 0)}


@pytest.mark.parametrize("error", ["line 7: no value", "connection refused"])
def test_a_first_value_does_not_count_when_the_look_before_was_not_whole(telemetry: Store, error: str) -> None:
    scrape(telemetry, 15_000, reading(15_000, 1))
    if error.startswith("line"):
        scrape(telemetry, 30_000, reading(30_000, 2), error=error)
    else:
        metrics.record_scrape_error(telemetry, TARGET, error, now_ms=30_000)
    scrape(
        telemetry,
        45_000,
        reading(45_000, 3),
        reading(45_000, 500, labels='{"a":"1"}'),
        reading(45_000, 9, labels='{"b":"1"}', start_ms=44_000),
    )
    assert totals(telemetry) == {"{}": (2, 0, 0), '{"b":"1"}': (9, 0, 0)}


def test_the_same_readings_again_change_nothing(telemetry: Store) -> None:
    readings = [reading(at, value) for at, value in [(15_000, 1), (30_000, 4), (45_000, 9)]]
    scrape(telemetry, 45_000, *readings, from_ms=0)
    before = totals(telemetry)
    scrape(telemetry, 46_000, *readings, from_ms=0)
    scrape(telemetry, 47_000, *reversed(readings[:2]), from_ms=0)
    assert totals(telemetry) == before == {"{}": (8, 0, 0)}


def test_what_is_no_count_is_refused_and_counted(telemetry: Store) -> None:
    bad = [reading(1_000, value, labels=f'{{"n":"{place}"}}') for place, value in enumerate([math.nan, math.inf, -1])]
    scrape(telemetry, 1_000, reading(1_000, 5), *bad)
    with telemetry.read() as connection:
        assert connection.exec_driver_sql("SELECT reason, count FROM rejects").all() == [(counters.NOT_A_COUNT, 3)]
        assert connection.exec_driver_sql("SELECT count(*) FROM counter_series").scalar() == 1


def test_series_above_the_bound_are_summed_into_a_visible_one(telemetry: Store) -> None:
    def page(at_ms: int, each: float, names: range) -> list[CounterReading]:
        return [reading(at_ms, each, labels=f'{{"n":"{name}"}}') for name in names]

    assert scrape(telemetry, 15_000, *page(15_000, 10, range(5)), most=3) == f"2 {counters.FOLDED}"
    scrape(telemetry, 30_000, *page(30_000, 12, range(5)), most=3)
    scrape(telemetry, 45_000, *page(45_000, 12, range(4)), most=3)  # a member left: its loss is no increase and no reset
    found = totals(telemetry)
    assert found[FOLDED] == (4, 0, 1)
    assert sum(increase for increase, _, _ in found.values()) == 4 * 2 - 2 + 4
    with telemetry.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM counter_series").scalar() == 4


def test_series_that_left_make_room_and_may_come_back(telemetry: Store) -> None:
    day = 24 * 3_600_000
    scrape(telemetry, 1_000, reading(1_000, 10, labels='{"n":"old"}'), most=1)
    assert scrape(telemetry, 2 * day, reading(2 * day, 1, labels='{"n":"new"}'), most=1) == ""
    assert scrape(telemetry, 2 * day + 1, reading(2 * day + 1, 14, labels='{"n":"old"}'), most=1) == ""
    assert totals(telemetry)['{"n":"old"}'] == (4, 0, 0)


def test_without_an_overflow_series_they_are_left_out_and_said_to_be(telemetry: Store) -> None:
    readings = [CounterReading("a", f'{{"n":"{n}"}}', 1_000, 1, None, "") for n in range(4)]
    assert scrape(telemetry, 1_000, *readings, most=3) == f"1 {counters.LEFT_OUT}"
    with telemetry.read() as connection:
        assert connection.exec_driver_sql("SELECT last_error FROM sources").scalar() == f"1 {counters.LEFT_OUT}"


def test_series_that_ended_long_before_a_window_are_neither_known_nor_read_for_it(telemetry: Store) -> None:
    """Pods come and go on one page: the series of a year's pods are stored, and only those of late are looked at."""
    day = 24 * 3_600_000
    for number in range(20):
        at_ms = number * day
        scrape(telemetry, at_ms, reading(at_ms, 1, labels=f'{{"pod":"{number}"}}'))
    window = Window(19 * day - 1, 19 * day + MINUTE)
    with telemetry.read() as connection:
        found = {labels["pod"] for _, labels in known(connection, window)[1]}
        values = {"end": window.end_ms, "pushed": 0, "looked_at": 0}
        plan = " ".join(row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {_KNOWN}", values))
        series = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {counters._SERIES}", (1, 0)).all()
    assert found == {str(number) for number in range(12, 20)}
    assert "ix_counter_series_at (source_id=? AND at_ms>?)" in plan
    assert "ix_counter_series_at (source_id=? AND at_ms>?)" in series[0][3]


def test_samples_snapshots_and_drops_come_with_it(telemetry: Store) -> None:
    for at_ms, body in ((1_000, "{}"), (2_000, '{"n":1}')):
        given = Scrape(at_ms, samples=[SampleRow("g", "{}", "gauge", at_ms, 1.5)], dropped=4, snapshots={"page": body})
        counters.write_scrape(telemetry, TARGET, given, now_ms=at_ms, max_series=1)
    with telemetry.read() as connection:
        assert connection.exec_driver_sql("SELECT topic, at_ms, body FROM source_snapshots").all() == [("page", 2_000, '{"n":1}')]
        assert connection.exec_driver_sql("SELECT accepted, dropped, last_seen_ms FROM sources").all() == [(2, 8, 2_000)]


SCRAPES = st.lists(
    st.tuples(st.integers(1, 900), st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=3, max_size=3), st.booleans()),
    min_size=1,
    max_size=25,
)


@settings(deadline=None, max_examples=8)
@given(SCRAPES, st.integers(0, 119), st.integers(1, 6 * 60))
def test_minutes_and_hours_equal_the_raw_readings(scrapes: list[tuple[int, list[int | None], bool]], from_minute: int, length: int) -> None:
    """Three series, of which any may be missing at a look; some looks restart the process. What is read equals the raw steps."""
    at_ms, start_ms = 7 * 3_600_000, 1_000
    values, seen, expected = [0.0] * 3, dict[int, tuple[float, int]](), dict[int, list[tuple[int, float]]]()
    last_ms: int | None = None
    with tempfile.TemporaryDirectory() as folder:
        store = open_telemetry(StorageSettings(f"sqlite:///{folder}/t.db", f"sqlite:///{folder}/o.db"), write=True)
        for gap_s, grown, restarted in scrapes:
            at_ms += gap_s * 1_000
            if restarted:
                values, start_ms = [0.0] * 3, at_ms - 500
            readings = []
            for number, more in enumerate(grown):
                if more is None:
                    continue
                values[number] += more
                readings.append(reading(at_ms, values[number], labels=f'{{"n":"{number}"}}', start_ms=start_ms))
                before = seen.get(number)
                grew = (
                    step(*before, values[number], start_ms).increase
                    if before
                    else first(values[number], start_ms, created=False, from_ms=last_ms, complete=True)
                )
                expected.setdefault(number, []).append((at_ms, grew))
                seen[number] = (values[number], start_ms)
            scrape(store, at_ms, *readings)
            last_ms = at_ms
        start = 7 * 3_600_000 + from_minute * MINUTE
        # The second one has buckets of three hours, and reads whole hours as such.
        for window in (Window(start, start + length * MINUTE), Window(start, start + 7 * 24 * 60 * MINUTE)):
            with store.read() as connection:
                found: dict[str, float] = {}
                for one in increases(connection, window):
                    found[one.labels["n"]] = found.get(one.labels["n"], 0.0) + one.increase
            for number, steps in expected.items():
                raw = sum(grew for when, grew in steps if window.start_ms <= when < window.end_ms)
                assert found.get(str(number), 0.0) == pytest.approx(raw)
        store.close()


VALUES = st.lists(st.floats(min_value=0, max_value=1e9), min_size=1, max_size=30)
STARTS = st.lists(st.one_of(st.none(), st.integers(0, 10).map(lambda n: n * 10_000)), min_size=30, max_size=30)


@settings(deadline=None, max_examples=60)
@given(VALUES, STARTS)
def test_increases_are_never_negative_and_never_more_than_was_shown(values: list[float], starts: list[int | None]) -> None:
    steps = [step(a, sa, b, sb) for a, sa, b, sb in zip(values, starts, values[1:], starts[1:], strict=False)]
    assert all(one.increase >= 0 and not (one.reset and one.anomaly) for one in steps)
    assert all(one.increase <= after for one, after in zip(steps, values[1:], strict=True))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=6), min_size=1, max_size=5))
def test_through_any_restarts_the_increases_sum_to_what_was_counted(lives: list[list[int]]) -> None:
    """Each life counts up from 0 by its increments and has a start of its own; the first reading of all is the baseline."""
    readings: list[tuple[float, int]] = []
    for number, increments in enumerate(lives):
        value = 0
        for increment in increments:
            value += increment
            readings.append((value, number * 60_000))
    counted = sum(step(a, sa, b, sb).increase for (a, sa), (b, sb) in pairwise(readings))
    assert counted == sum(map(sum, lives)) - readings[0][0]
