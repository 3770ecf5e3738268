"""Data points that senders sent: each stored once, and counters among them counted as scraped ones are."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage import counters, metrics, points
from storage.counters import NOT_A_COUNT
from storage.increases import step
from storage.metrics import labels_text
from storage.reads.counters import increases
from storage.reads.window import Window
from storage.rows import CounterReading, ExemplarRow, MetricBatch, PointRows, SampleRow, SourceKey, WriteResult
from storage.store import Store
from tests.storage.test_counters import totals

APP = SourceKey("otlp_metrics", "app", "instance-1", "meter@1")
MINUTE = 60_000
NOW = 7 * 3_600_000


def gauge(at_ms: int) -> PointRows:
    return PointRows((SampleRow("load", "{}", "gauge", at_ms, 1.0),))


def total(at_ms: int, value: float, *, start_ms: int | None = None, labels: str = "{}", delta: bool = False) -> PointRows:
    sample = SampleRow("hits_total", labels, "counter_delta" if delta else "counter", at_ms, value, start_ms)
    folded = '{"cachescope_overflow":"true"}' if delta else ""
    return PointRows((sample,), (), (CounterReading("hits_total", labels, at_ms, value, start_ms, folded, delta=delta),))


def increase(at_ms: int, value: float, *, start_ms: int | None = None, labels: str = "{}") -> PointRows:
    return total(at_ms, value, start_ms=start_ms, labels=labels, delta=True)


def write(store: Store, *given: PointRows, source: SourceKey = APP, since_ms: int = NOW, now_ms: int = 2 * NOW) -> WriteResult:
    (result,) = points.write(store, [MetricBatch(source, given)], now_ms=now_ms, since_ms=since_ms)
    return result


def minutes(store: Store) -> list[tuple[int, float, int]]:
    with store.read() as connection:
        rows = connection.exec_driver_sql("SELECT at_ms, sum(increase), sum(covered_ms) FROM counter_minutes GROUP BY at_ms ORDER BY at_ms")
        return [(row[0] // MINUTE, row[1], row[2]) for row in rows]


def test_a_point_of_long_ago_does_not_make_all_that_is_stored_be_read(telemetry: Store) -> None:
    assert write(telemetry, *(gauge(at_ms) for at_ms in range(1_000))) == WriteResult(1_000, 0, 0)
    sent = [gauge(0), gauge(999), gauge(5_000)]
    with telemetry.read() as connection:
        assert points._stored(connection, 1, sent) == {("load", "{}", 0, None), ("load", "{}", 999, None)}
    assert write(telemetry, *sent) == WriteResult(1, 2, 0)


def test_totals_grow_by_their_differences_and_a_later_start_is_a_restart(telemetry: Store) -> None:
    for minute, (value, start_ms) in enumerate([(5, 0), (9, 0), (12, 2 * MINUTE), (13, 2 * MINUTE)]):
        for _ in range(2):  # sent again
            write(telemetry, total(minute * MINUTE + 1_000, value, start_ms=start_ms))
    assert totals(telemetry) == {"{}": (4 + 12 + 1, 1, 0)}


def test_increases_are_added_up_each_in_its_own_minute_and_never_twice(telemetry: Store) -> None:
    write(telemetry, increase(MINUTE, 10, start_ms=0))
    write(telemetry, increase(3 * MINUTE, 5, start_ms=2 * MINUTE), increase(3 * MINUTE, 5, start_ms=2 * MINUTE))
    assert write(telemetry, increase(2 * MINUTE, 7, start_ms=MINUTE)) == WriteResult(1, 0, 0)  # a late one
    assert write(telemetry, increase(MINUTE, 10, start_ms=0)) == WriteResult(0, 1, 0)
    assert minutes(telemetry) == [(1, 10, MINUTE), (2, 7, MINUTE), (3, 5, MINUTE)]


def test_a_late_increase_before_all_others_is_of_a_series_that_was_there(telemetry: Store) -> None:
    write(telemetry, increase(9 * MINUTE, 1))
    write(telemetry, increase(2 * MINUTE, 1))
    with telemetry.read() as connection:
        assert connection.exec_driver_sql("SELECT first_ms, at_ms FROM counter_series").all() == [(2 * MINUTE, 9 * MINUTE)]


@pytest.mark.parametrize(("start_ms", "counted"), [(NOW - 1, 0), (NOW + 1, 7), (None, 0)])
def test_the_first_total_of_a_new_sender_counts_when_its_process_began_after_the_listening(
    telemetry: Store, start_ms: int | None, counted: float
) -> None:
    write(telemetry, total(NOW + MINUTE, 7, start_ms=start_ms))
    assert sum(grown for _, grown, _ in minutes(telemetry)) == counted


def test_a_series_that_an_earlier_collection_did_not_show_began_at_nothing(telemetry: Store) -> None:
    hit, miss = labels_text({"result": "hit"}), labels_text({"result": "miss"})
    write(telemetry, total(MINUTE, 500, start_ms=0, labels=hit))
    write(telemetry, total(MINUTE + 3, 900, start_ms=0, labels=miss))  # the rest of the same collection, in a request of its own
    write(telemetry, total(2 * MINUTE, 501, start_ms=0, labels=hit), total(2 * MINUTE, 905, start_ms=0, labels=miss))
    write(telemetry, total(3 * MINUTE, 4, start_ms=0, labels='{"result":"stale"}'))
    assert totals(telemetry) == {hit: (1, 0, 0), miss: (5, 0, 0), '{"result":"stale"}': (4, 0, 0)}


@pytest.mark.parametrize("apart_ms", [1, 400, 1_500, 90_000])
def test_workers_that_do_not_name_themselves_are_counted_each_by_its_own_start(telemetry: Store, apart_ms: int) -> None:
    """Two that began before they were first heard grow by 100 each, a third begins later: from one to the other is no growth."""
    for minute in range(11):
        at_ms = 10 * MINUTE + minute * MINUTE
        write(telemetry, total(at_ms, 1_000 + 10 * minute, start_ms=MINUTE))
        write(telemetry, total(at_ms + 20, 1_600 + 10 * minute, start_ms=MINUTE + apart_ms))
        if minute >= 3:
            write(telemetry, total(at_ms + 40, 7 * minute, start_ms=12 * MINUTE + 30_000))
    assert totals(telemetry) == {"{}": (100 + 100 + 70, 0, 0)}


def test_a_start_that_is_told_anew_a_little_apart_is_no_other_process(telemetry: Store) -> None:
    """As "now less the uptime", in whole seconds, by an agent that was itself started again."""
    for minute, value, start_ms in ((2, 1_000, 412), (20, 1_000_000, 412), (21, 1_000_050, 950)):
        write(telemetry, total(NOW + minute * MINUTE, value, start_ms=NOW + MINUTE + start_ms))
    assert totals(telemetry)["{}"][0] == 1_000_050


def test_workers_that_look_at_one_millisecond_are_both_stored_and_counted(telemetry: Store) -> None:
    for minute in (1, 2):
        for start_ms in (5, 6):
            for _ in range(2):  # sent again
                write(telemetry, total(minute * MINUTE, 10 * minute, start_ms=start_ms))
    assert totals(telemetry) == {"{}": (20, 0, 0)}


def test_a_series_that_another_worker_had_never_shown_is_not_taken_for_new(telemetry: Store) -> None:
    hit, miss = labels_text({"result": "hit"}), labels_text({"result": "miss"})
    write(telemetry, total(MINUTE, 500, start_ms=1, labels=hit))
    write(telemetry, total(2 * MINUTE, 700, start_ms=2, labels=hit), total(2 * MINUTE, 900, start_ms=2, labels=miss))
    write(telemetry, total(3 * MINUTE, 701, start_ms=2, labels=hit), total(3 * MINUTE, 902, start_ms=2, labels=miss))
    write(telemetry, total(4 * MINUTE, 4, start_ms=2, labels='{"result":"stale"}'))
    assert totals(telemetry) == {hit: (1, 0, 0), miss: (2, 0, 0), '{"result":"stale"}': (4, 0, 0)}


def test_a_start_that_becomes_known_goes_on_with_what_was_there(telemetry: Store) -> None:
    for minute, start_ms in ((1, None), (2, MINUTE), (3, MINUTE)):
        write(telemetry, total(minute * MINUTE, 100 + minute, start_ms=start_ms))
    assert totals(telemetry) == {"{}": (2, 0, 0)}


def test_workers_that_come_and_go_are_counted_and_their_number_is_bounded(telemetry: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(counters, "_MOST_LIVES", 4)
    write(telemetry, total(MINUTE, 0, start_ms=0))
    for life in range(1, 20):  # each a quarter of an hour after the one before
        write(telemetry, total(life * 15 * MINUTE + 1_000, life, start_ms=life * 15 * MINUTE), now_ms=20 * 15 * MINUTE)
    with telemetry.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM counter_series").scalar_one() == 4
        assert connection.exec_driver_sql("SELECT last_error FROM sources").scalar_one() == ""
    assert totals(telemetry) == {"{}": (sum(range(20)), 19, 0)}
    sent = [total(NOW, 1_000, start_ms=NOW - 1 - number) for number in range(6)]  # six at once: more than may be told apart
    write(telemetry, *sent)
    with telemetry.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM counter_series").scalar_one() == 4
        assert connection.exec_driver_sql("SELECT last_error FROM sources").scalar_one() == "2 series above the bound were left out"


def test_a_worker_that_gave_its_place_up_is_not_counted_twice(telemetry: Store) -> None:
    day = 24 * 60 * MINUTE
    write(telemetry, total(MINUTE, 0, start_ms=0))
    write(telemetry, total(3 * MINUTE, 50, start_ms=2 * MINUTE))
    for at_ms, value, start_ms in ((2 * day, 5, 2 * day - 1), (2 * day + 1, 7, 2 * day - 2), (2 * day + 2, 60, 2 * MINUTE)):
        write(telemetry, total(at_ms, value, start_ms=start_ms), now_ms=2 * day)
    assert totals(telemetry)["{}"][0] == 50 + 5 + 7
    write(telemetry, total(2 * day + 3, 61, start_ms=2 * MINUTE), now_ms=2 * day)
    assert totals(telemetry)["{}"][0] == 50 + 5 + 7 + 1


def test_a_sender_that_turns_from_increases_to_totals_and_back_counts_nothing_twice(telemetry: Store) -> None:
    write(telemetry, increase(MINUTE, 10, start_ms=0))
    write(telemetry, total(2 * MINUTE, 12, start_ms=0))  # the ten are in it
    write(telemetry, total(3 * MINUTE, 15, start_ms=0))
    write(telemetry, increase(4 * MINUTE, 6, start_ms=3 * MINUTE))
    assert totals(telemetry) == {"{}": (10 + 0 + 3 + 6, 0, 0)}


def test_points_from_before_what_was_removed_are_refused_for_they_may_have_been_counted(telemetry: Store) -> None:
    with telemetry.write() as connection:
        connection.exec_driver_sql(f"INSERT INTO removed (kind, before_ms, rows, last_ms, by_size) VALUES ('raw', {5 * MINUTE}, 1, 1, 0)")
    assert write(telemetry, increase(4 * MINUTE, 1), increase(6 * MINUTE, 2)) == WriteResult(1, 0, 0)
    assert minutes(telemetry) == [(6, 2, 0)]
    with telemetry.read() as connection:
        assert connection.exec_driver_sql("SELECT reason, count FROM rejects").all() == [("expired", 1)]


def test_points_from_the_future_are_refused_and_hide_nothing_that_comes_later(telemetry: Store) -> None:
    """One point of 2099 would be the newest for 70 years: later totals were none, no new series would begin, its level would be shown."""
    hit, miss = labels_text({"result": "hit"}), labels_text({"result": "miss"})
    write(telemetry, total(NOW, 5, labels=hit), now_ms=NOW)
    far = NOW + 70 * 365 * 86_400_000
    sent = [total(far, 9, labels=hit), gauge(NOW + points.AHEAD_MS + 1), gauge(NOW + points.AHEAD_MS)]
    assert write(telemetry, *sent, now_ms=NOW) == WriteResult(1, 0, 0)
    later = NOW + points.AHEAD_MS + MINUTE
    write(telemetry, total(later, 8, labels=hit), total(later, 4, labels=miss), now_ms=later)
    assert totals(telemetry) == {hit: (3, 0, 0), miss: (4, 0, 0)}
    with telemetry.read() as connection:
        assert connection.exec_driver_sql("SELECT reason, count FROM rejects").all() == [("time_in_future", 2)]
        assert connection.exec_driver_sql("SELECT last_span_ms FROM sources").scalar_one() == later
        assert [one.at_ms for one in metrics.latest(connection, 1, "load")] == [(NOW + points.AHEAD_MS,)]


def test_an_exemplar_from_the_future_is_left_out_and_its_point_is_not(telemetry: Store) -> None:
    exemplars = tuple(ExemplarRow("hits_total", "{}", at_ms, 1.0, None, None, "{}") for at_ms in (NOW, NOW + points.AHEAD_MS + 1))
    assert write(telemetry, total(NOW, 5)._replace(exemplars=exemplars), now_ms=NOW) == WriteResult(1, 0, 0)
    with telemetry.read() as connection:
        assert connection.exec_driver_sql("SELECT at_ms FROM metric_exemplars").scalars().all() == [NOW]


def test_what_is_no_count_is_refused_and_said(telemetry: Store) -> None:
    write(telemetry, increase(MINUTE, -1), increase(2 * MINUTE, math.inf), increase(3 * MINUTE, 2))
    assert minutes(telemetry) == [(3, 2, 0)]
    with telemetry.read() as connection:
        assert connection.exec_driver_sql("SELECT reason, count FROM rejects").all() == [(NOT_A_COUNT, 2)]


def test_absurd_values_and_times_overflow_nothing(telemetry: Store) -> None:
    far = 2**63 // 1_000_000 - 1
    write(telemetry, *(increase(far, 1e30, start_ms=0, labels=f'{{"n":"{number}"}}') for number in range(1_500)), now_ms=far)
    write(telemetry, *(total(at_ms, 1e30, labels=f'{{"t":"{number}"}}') for at_ms in (1, far) for number in range(100)), now_ms=far)
    assert write(telemetry, increase(far - 1, 1.1e30), increase(far - 2, math.inf), now_ms=far) == WriteResult(2, 0, 0)
    with telemetry.read() as connection:
        found = connection.exec_driver_sql("SELECT sum(increase), sum(covered_ms) FROM counter_hours").one()
        assert connection.exec_driver_sql("SELECT reason, count FROM rejects").all() == [(NOT_A_COUNT, 2)]
    assert found == (pytest.approx(1.5e33), pytest.approx(1_600 * 100 * 365 * 86_400_000))


def test_series_above_the_bound_are_summed_where_they_are_increases_and_left_out_where_they_are_totals(
    telemetry: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(points, "MOST_COUNTERS", 2)
    users = [labels_text({"user": str(number)}) for number in range(4)]
    write(telemetry, *(increase(MINUTE, 10, labels=user) for user in users))
    other = APP._replace(service="other")
    for minute in (1, 2):
        write(telemetry, *(total(minute * MINUTE, 10 * minute, labels=user) for user in users), source=other)
    grown = {labels: number for labels, (number, *_) in totals(telemetry).items()}
    assert grown == {users[0]: 20, users[1]: 20, '{"cachescope_overflow":"true"}': 20}
    with telemetry.read() as connection:
        errors = connection.exec_driver_sql("SELECT last_error FROM sources ORDER BY id").scalars().all()
    assert ["summed into the overflow series" in errors[0], "left out" in errors[1]] == [True, True]


LIVES = st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=5), min_size=1, max_size=4)


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LIVES, st.randoms(use_true_random=False))
def test_totals_and_increases_of_one_count_give_the_same_however_often_and_in_whatever_order_they_come(
    telemetry: Store, lives: list[list[int]], rng: random.Random
) -> None:
    """Processes that count and restart, told by totals and by increases; both through the one way of counting."""
    told: list[tuple[PointRows, PointRows]] = []
    readings: list[tuple[float, int]] = []
    at_ms = NOW
    for life in lives:
        start_ms, value = at_ms + 1_000, 0
        for grew in life:
            value, before_ms, at_ms = value + grew, at_ms, at_ms + MINUTE
            told.append((total(at_ms, value, start_ms=start_ms), increase(at_ms, grew, start_ms=max(start_ms, before_ms))))
            readings.append((value, start_ms))
    with telemetry.read() as connection:  # each example has senders of its own in one database
        known = connection.exec_driver_sql("SELECT count(*) FROM sources").scalar_one()
    sums, deltas = (APP._replace(service=f"app{known + number}") for number in (1, 2))
    for one, _ in told:
        write(telemetry, one, source=sums)
    parts = [part for _, part in told] * 2  # each twice
    rng.shuffle(parts)
    for at in range(0, len(parts), 3):
        write(telemetry, *parts[at : at + 3], source=deltas)
    found: dict[int, float] = {known + 1: 0, known + 2: 0}
    with telemetry.read() as connection:
        for grown in increases(connection, Window(NOW, at_ms + 2 * MINUTE)):
            if grown.source_id in found:
                found[grown.source_id] += grown.increase
    first = lives[0][0]  # its process began after the listening: it counts
    raw = first + sum(step(a, sa, b, sb).increase for (a, sa), (b, sb) in pairwise(readings))
    assert [raw, raw] == [*found.values()]
    assert raw == sum(map(sum, lives))
