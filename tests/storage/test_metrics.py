from __future__ import annotations

import math

import pytest

from storage import metrics
from storage.rows import SampleRow, SourceKey
from storage.store import Store

TARGET = SourceKey("scrape", "http://127.0.0.1:8080/metrics")
HIT = metrics.labels_text({"outcome": "hit", "namespace": "faq"})
MISS = metrics.labels_text({"outcome": "miss", "namespace": "faq"})


def scrape(store: Store, at_ms: int, hits: float, misses: float = 0.0) -> int:
    samples = [SampleRow("lookups", HIT, "counter", at_ms, hits), SampleRow("lookups", MISS, "counter", at_ms, misses)]
    return metrics.write_samples(store, TARGET, samples, now_ms=at_ms)


def test_series_come_back_by_labels_and_time(telemetry: Store) -> None:
    assert scrape(telemetry, 1_000, 1) == 2
    scrape(telemetry, 2_000, 3, 1)
    scrape(telemetry, 3_000, 4)
    with telemetry.read() as connection:
        found = metrics.series(connection, 1, "lookups", start_ms=1_000, end_ms=3_000)
        assert [(one.labels["outcome"], one.at_ms, one.values) for one in found] == [
            ("hit", (1_000, 2_000), (1.0, 3.0)),
            ("miss", (1_000, 2_000), (0.0, 1.0)),
        ]
        only = metrics.series(connection, 1, "lookups", start_ms=0, end_ms=9_000, labels={"outcome": "hit"})
        assert [one.values for one in only] == [(1.0, 3.0, 4.0)]
        assert metrics.series(connection, 1, "lookups", start_ms=0, end_ms=9_000, labels={"outcome": "x"}) == []
        assert [one.values for one in metrics.latest(connection, 1, "lookups")] == [(4.0,), (0.0,)]
        assert metrics.latest(connection, 1, "nothing") == []
        assert metrics.names(connection, 1) == ["lookups"]


def test_labels_have_one_stored_form() -> None:
    assert metrics.labels_text({"b": "ü", "a": "1"}) == '{"a":"1","b":"ü"}'


def test_what_is_no_number_is_counted_and_infinity_is_kept(telemetry: Store) -> None:
    samples = [SampleRow("x", "{}", "gauge", 1, math.nan), SampleRow("x", "{}", "gauge", 1, math.inf)]
    assert metrics.write_samples(telemetry, TARGET, samples, now_ms=1) == 1
    with telemetry.read() as connection:
        assert connection.exec_driver_sql("SELECT value FROM metric_samples").scalars().all() == [math.inf]
        assert connection.exec_driver_sql("SELECT reason, count FROM rejects").all() == [(metrics.NOT_A_NUMBER, 1)]


def test_a_failed_scrape_is_noted_until_a_good_one(telemetry: Store) -> None:
    query = "SELECT accepted, last_seen_ms, last_error, last_error_ms FROM sources"
    metrics.record_scrape_error(telemetry, TARGET, "connection refused", 1_000)
    with telemetry.read() as connection:
        assert tuple(connection.exec_driver_sql(query).one()) == (0, 0, "connection refused", 1_000)
    scrape(telemetry, 2_000, 1)
    with telemetry.read() as connection:
        assert tuple(connection.exec_driver_sql(query).one()) == (2, 2_000, "", 1_000)
    metrics.record_scrape_error(telemetry, TARGET, "timed out", 3_000)
    with telemetry.read() as connection:
        assert tuple(connection.exec_driver_sql(query).one()) == (2, 2_000, "timed out", 3_000)


@pytest.mark.parametrize(
    ("values", "expected"), [((), None), ((5.0,), None), ((1.0, 4.0, 9.0), 8.0), ((5.0, 7.0, 2.0, 3.0), 5.0), ((2.0, 2.0), 0.0)]
)
def test_the_increase_of_a_counter_survives_resets(values: tuple[float, ...], expected: float | None) -> None:
    one = metrics.Series("x", {}, "counter", tuple(range(len(values))), values)
    assert metrics.increase(one) == expected
