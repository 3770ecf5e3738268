"""Retention: the oldest go first, rollups live on, and what was removed is never counted again."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from storage import counters, rollups, spans
from storage.reads import hit_rate
from storage.reads.window import Horizons, Scope, Window, horizons
from storage.retention import Step, Sweeper, size
from storage.rows import SampleRow, Scrape, SourceKey, WriteResult
from storage.store import Store, open_telemetry
from tests.storage.support import START_NS, Made, batch, settings
from tests.storage.test_spans import one, rows

NOW = START_NS // 1_000_000  # a full hour
HOUR, DAY = 3_600_000, 86_400_000
RAW_TABLES = ("spans", "span_payloads", "lookups", "trace_summaries", "rollups_10s")


def made(number: int, age_ms: int) -> Made:
    return Made(number, trace=number, start_ns=START_NS - age_ms * 1_000_000)


def sweep(store: Store, now_ms: int = NOW, size: int = 10, **keep: Any) -> list[Step]:
    """All steps until nothing is left to do."""
    kept = {"keep_raw_days": 0, "keep_minutes_days": 0, "keep_hours_days": 0, "keep_bytes": 0, **keep}
    sweeper = Sweeper(store, replace(settings(store.path.parent), **kept), rows=size, spare_pages=0)
    steps = []
    while True:
        steps.append(sweeper.step(now_ms=now_ms))
        if not steps[-1].more:
            return steps


def counts(store: Store, *tables: str) -> list[int]:
    return [one(store, f"SELECT count(*) FROM {table}") for table in tables]


def test_old_raw_rows_go_in_small_steps_and_the_rollups_live_on(telemetry: Store) -> None:
    spans.write(telemetry, [batch(*(made(number, 3 * DAY + number * 1_000) for number in range(50)))], now_ms=1)
    spans.write(telemetry, [batch(*(made(number, HOUR) for number in range(100, 103)))], now_ms=1)
    steps = sweep(telemetry, keep_raw_days=2)
    assert {step.kind for step in steps} == {"raw", "rollups_10s", ""}
    assert max(step.rows for step in steps) <= 3 * 11  # three tables, and the rows of one instant together
    assert counts(telemetry, *RAW_TABLES[:-1]) == [3, 3, 3, 3]
    assert one(telemetry, "SELECT sum(lookups) FROM rollups_10s") == 3
    assert one(telemetry, "SELECT sum(lookups) FROM rollups_1m") == 53
    with telemetry.read() as connection:
        assert horizons(connection) == Horizons(NOW - 2 * DAY, NOW - 2 * DAY)
    assert one(telemetry, "SELECT rows FROM removed WHERE kind = 'raw'") == 150


def test_a_span_from_before_the_horizon_is_refused_for_it_may_have_been_counted(telemetry: Store) -> None:
    old = batch(made(1, 3 * DAY), made(2, 3 * DAY))
    spans.write(telemetry, [old], now_ms=1)
    sweep(telemetry, keep_raw_days=2)
    late = batch(made(1, 3 * DAY), made(2, 3 * DAY), made(3, HOUR))
    assert spans.write(telemetry, [late], now_ms=2) == [WriteResult(1, 0, 1)]
    assert rows(telemetry, "SELECT reason, count FROM rejects") == [("expired", 2)]
    assert one(telemetry, "SELECT sum(lookups) FROM rollups_1h") == 3


def test_a_clock_that_was_a_year_ahead_and_is_put_right_does_not_refuse_what_comes(telemetry: Store) -> None:
    spans.write(telemetry, [batch(made(1, HOUR))], now_ms=1)
    sweep(telemetry, now_ms=NOW + 365 * DAY, keep_raw_days=2, keep_minutes_days=90)
    assert counts(telemetry, "spans") == [0]
    sweep(telemetry, now_ms=NOW + 30_000, keep_raw_days=2, keep_minutes_days=90)
    with telemetry.read() as connection:
        assert horizons(connection) == Horizons(NOW + 60_000, NOW + 60_000, NOW + HOUR)
    late, fresh = batch(made(1, HOUR)), batch(made(2, -120_000))
    assert [result.accepted for result in spans.write(telemetry, [late, fresh], now_ms=NOW + 121_000)] == [0, 1]


def test_minutes_go_before_hours_and_whole_hours_then_answer(telemetry: Store) -> None:
    spans.write(telemetry, [batch(*(made(number, 10 * DAY + number * 60_000) for number in range(90)))], now_ms=1)
    shown = Window(NOW - 11 * DAY, NOW - 9 * DAY)
    with telemetry.read() as connection:
        before = hit_rate.cells(connection, shown, Scope())
    sweep(telemetry, keep_raw_days=1, keep_minutes_days=5)
    assert counts(telemetry, *RAW_TABLES, "rollups_1m") == [0] * 6
    with telemetry.read() as connection:
        assert hit_rate.cells(connection, shown, Scope()) == before
        assert sum(row.lookups for row in hit_rate.series(connection, shown, Scope())) == 90
    sweep(telemetry, keep_raw_days=1, keep_minutes_days=5, keep_hours_days=8)
    assert counts(telemetry, "rollups_1h") == [0]


def test_old_samples_go_too(telemetry: Store) -> None:
    source = SourceKey("scrape", "http://gateway/metrics")
    old = [SampleRow("up", "{}", "gauge", NOW - 3 * DAY + number, 1.0) for number in range(35)]
    scrape = Scrape(NOW, [*old, SampleRow("up", "{}", "gauge", NOW, 1.0)])
    counters.write_scrape(telemetry, source, scrape, now_ms=1, max_series=1)
    sweep(telemetry, keep_raw_days=2)
    assert rows(telemetry, "SELECT at_ms FROM metric_samples") == [(NOW,)]


def test_samples_that_are_dated_in_the_future_do_not_keep_the_old_ones(telemetry: Store) -> None:
    sample = "INSERT INTO metric_samples (source_id, name, labels, kind, at_ms, value) VALUES (1, 'up', '{}', 'gauge', ?, 1.0)"
    exemplar = "INSERT INTO metric_exemplars (source_id, name, labels, at_ms, value, attributes) VALUES (1, 'x', '{}', ?, 1.0, '{}')"
    times = [NOW + DAY + number for number in range(25)] + [NOW - 3 * DAY + number for number in range(35)]
    with telemetry.write() as connection:
        for query in (sample, exemplar):
            connection.exec_driver_sql(query, [(at_ms,) for at_ms in times])
    sweep(telemetry, keep_raw_days=2)
    assert counts(telemetry, "metric_samples", "metric_exemplars") == [25, 25]


def test_a_counter_that_nothing_is_left_of_is_forgotten_with_its_hours(telemetry: Store) -> None:
    series = "INSERT INTO counter_series (id, source_id, name, labels, first_ms, at_ms, value) VALUES (?, 1, 'hits', ?, 0, ?, 1.0)"
    hour = "INSERT INTO counter_hours (series_id, at_ms, increase, steps, covered_ms, resets, anomalies) VALUES (?, ?, 1.0, 1, 1, 0, 0)"
    with telemetry.write() as connection:
        connection.exec_driver_sql(series, [(1, "gone", NOW - 9 * DAY), (2, "quiet", NOW - 9 * DAY), (3, "seen", NOW)])
        connection.exec_driver_sql(hour, [(1, NOW - 9 * DAY), (2, NOW - DAY), (3, NOW - 9 * DAY)])
    sweep(telemetry, keep_hours_days=3)
    assert rows(telemetry, "SELECT labels FROM counter_series ORDER BY id") == [("quiet",), ("seen",)]


def of_sources(store: Store, ages: list[int]) -> None:
    """A snapshot and a reason of rejects for each of as many sources, the newest so long ago."""
    with store.write() as connection:
        for source_id, age in enumerate(ages):
            connection.exec_driver_sql("INSERT INTO source_snapshots VALUES (?, 'page', ?, '{}')", (source_id, NOW - age))
            connection.exec_driver_sql("INSERT INTO rejects VALUES (?, 'expired', 5, ?)", (source_id, NOW - age))


def test_snapshots_go_with_the_raw_rows_and_rejects_with_the_hours(telemetry: Store) -> None:
    of_sources(telemetry, [9 * DAY + number for number in range(25)] + [4 * DAY, DAY])
    steps = sweep(telemetry, keep_raw_days=2, keep_hours_days=5)
    assert max(step.rows for step in steps) <= 11
    assert rows(telemetry, "SELECT source_id FROM source_snapshots") == [(26,)]
    assert rows(telemetry, "SELECT source_id FROM rejects ORDER BY source_id") == [(25,), (26,)]


def test_above_a_number_the_oldest_snapshots_and_rejects_go_however_young(telemetry: Store) -> None:
    of_sources(telemetry, [30 - number for number in range(30)])
    kept = replace(settings(telemetry.path.parent), keep_raw_days=0, keep_minutes_days=0, keep_hours_days=0, keep_bytes=0)
    sweeper = Sweeper(telemetry, kept, rows=10, spare_pages=0, most_of_sources=7)
    steps = [sweeper.step(now_ms=NOW) for _ in range(7)]
    assert [(step.kind, step.rows) for step in steps[:6]] == [
        *[("source_snapshots", number) for number in (10, 10, 3)],
        *[("rejects", number) for number in (10, 10, 3)],
    ]
    assert not steps[-1].more
    for table in ("source_snapshots", "rejects"):
        assert rows(telemetry, f"SELECT min(source_id), count(*) FROM {table}") == [(23, 7)]
    assert counts(telemetry, "removed") == [0]  # no time before which all is gone


def test_what_is_taken_back_is_not_taken_from_minutes_that_were_removed(telemetry: Store) -> None:
    totals = rollups.Totals()
    totals.add(1, [made(1, 5 * DAY).lookup()])
    with telemetry.write() as connection:
        totals.write(connection)
    sweep(telemetry, keep_minutes_days=2)
    other = rollups.Totals()
    other.add(1, [made(2, 5 * DAY).lookup()])
    with telemetry.write() as connection:
        other.write(connection)  # a late one, in the minute of which the first is gone
        totals.take_back(connection)
    assert [one(telemetry, f"SELECT sum(lookups) FROM {table}") for table in ("rollups_1m", "totals_1m", "rollups_1h")] == [1, 1, 1]


def filled(store: Store) -> int:
    """Two days of spans, one a minute, whose payloads cannot be compressed away; return the bytes in use."""
    for first in range(0, 2_880, 480):
        events = [made(number, number * 60_000) for number in range(first, first + 480)]
        given = batch(*events)
        spans.write(store, [replace(given, spans=[row._replace(payload=os.urandom(1_000)) for row in given.spans])], now_ms=1)
    with store.read() as connection:
        return size(connection).bytes


def test_above_the_limit_the_oldest_go_until_there_is_room_and_the_file_shrinks(telemetry: Store) -> None:
    used = filled(telemetry)
    steps = sweep(telemetry, keep_bytes=used // 2, size=100)
    with telemetry.read() as connection:
        left = size(connection)
        raw_ms = horizons(connection).raw_ms
    assert left.bytes <= used // 2
    assert left.file_bytes < used * 0.6
    assert all(step.kind in {"raw", ""} for step in steps)
    assert one(telemetry, "SELECT min(start_ns) / 1000000 FROM spans") >= raw_ms > NOW - 2 * DAY
    assert one(telemetry, "SELECT sum(lookups) FROM rollups_1m") == 2_880
    assert one(telemetry, "SELECT by_size FROM removed WHERE kind = 'raw'") == 1
    assert sweep(telemetry, keep_bytes=used // 2, size=100) == [Step()]


def test_the_last_hour_and_the_hours_stay_whatever_the_limit(telemetry: Store) -> None:
    filled(telemetry)
    kept = replace(settings(telemetry.path.parent), keep_raw_days=0, keep_minutes_days=0, keep_hours_days=0, keep_bytes=1)
    sweeper = Sweeper(telemetry, kept, rows=1_000)
    while sweeper.step(now_ms=NOW).more:
        pass
    assert sweeper.over_bytes
    assert one(telemetry, "SELECT count(*) FROM lookups") == 61  # the horizon is a full minute
    assert one(telemetry, "SELECT sum(lookups) FROM rollups_1h") == 2_880
    assert one(telemetry, "SELECT min(at_ms) FROM rollups_1m") == NOW - HOUR
    assert spans.write(telemetry, [batch(made(9_999, 0))], now_ms=2) == [WriteResult(1, 0, 1)]


def test_nothing_is_removed_where_all_is_kept(telemetry: Store) -> None:
    spans.write(telemetry, [batch(made(1, 5_000 * DAY))], now_ms=1)
    assert sweep(telemetry) == [Step()]
    assert counts(telemetry, "removed", *RAW_TABLES) == [0, 1, 1, 1, 1, 1]


@pytest.mark.parametrize("seed", range(3))
def test_readers_and_the_writer_go_on_between_the_steps(tmp_path: Path, seed: int) -> None:
    store = open_telemetry(settings(tmp_path), write=True)
    reader = open_telemetry(settings(tmp_path), write=False)
    spans.write(store, [batch(*(made(number, 3 * DAY + seed) for number in range(200)))], now_ms=1)
    sweeper = Sweeper(store, replace(settings(tmp_path), keep_raw_days=1), rows=20)
    number = 1_000
    with reader.read() as held:
        seen = held.exec_driver_sql("SELECT count(*) FROM spans").scalar_one()
        while sweeper.step(now_ms=NOW).more:
            number += 1
            assert spans.write(store, [batch(made(number, 0))], now_ms=2) == [WriteResult(1, 0, 1)]
        assert held.exec_driver_sql("SELECT count(*) FROM spans").scalar_one() == seen == 200
    assert one(reader, "SELECT count(*) FROM spans") == number - 1_000
    reader.close()
    store.close()
