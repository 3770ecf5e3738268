from __future__ import annotations

import math

from storage import counters, metrics
from storage.rows import SampleRow, Scrape, SourceKey
from storage.store import Store

TARGET = SourceKey("scrape", "http://127.0.0.1:8080/metrics")
HIT = metrics.labels_text({"outcome": "hit", "namespace": "faq"})
MISS = metrics.labels_text({"outcome": "miss", "namespace": "faq"})


def scrape(store: Store, at_ms: int, *samples: SampleRow) -> None:
    counters.write_scrape(store, TARGET, Scrape(at_ms, samples), now_ms=at_ms, max_series=10)


def test_the_newest_of_each_series_though_the_targets_were_looked_at_one_after_the_other(telemetry: Store) -> None:
    for labels, at_ms, value in ((HIT, 1_000, 1.0), (HIT, 400_000, 2.0), (MISS, 405_000, 3.0), ("{}", 100_000, 4.0)):
        scrape(telemetry, at_ms, SampleRow("load", labels, "gauge", at_ms, value))
    with telemetry.read() as connection:
        found = metrics.latest(connection, 1, "load")
        assert metrics.latest(connection, 1, "nothing") == []
    assert [(one.labels.get("outcome"), one.at_ms, one.values) for one in found] == [
        ("hit", (400_000,), (2.0,)),
        ("miss", (405_000,), (3.0,)),
    ]


def test_labels_have_one_stored_form() -> None:
    assert metrics.labels_text({"b": "ü", "a": "1"}) == '{"a":"1","b":"ü"}'


def test_what_is_no_number_is_counted_and_infinity_is_kept(telemetry: Store) -> None:
    samples = [SampleRow("x", "{}", "gauge", 1, math.nan), SampleRow("x", "{}", "gauge", 1, math.inf)]
    scrape(telemetry, 1, *samples)
    with telemetry.read() as connection:
        assert connection.exec_driver_sql("SELECT value FROM metric_samples").scalars().all() == [math.inf]
        assert connection.exec_driver_sql("SELECT reason, count FROM rejects").all() == [(metrics.NOT_A_NUMBER, 1)]


def test_a_failed_scrape_is_noted_until_a_good_one(telemetry: Store) -> None:
    query = "SELECT accepted, last_seen_ms, last_error, last_error_ms FROM sources"
    metrics.record_scrape_error(telemetry, TARGET, "connection refused", 1_000)
    with telemetry.read() as connection:
        assert tuple(connection.exec_driver_sql(query).one()) == (0, 0, "connection refused", 1_000)
    scrape(telemetry, 2_000, SampleRow("lookups", HIT, "counter", 2_000, 1.0), SampleRow("lookups", MISS, "counter", 2_000, 0.0))
    with telemetry.read() as connection:
        assert tuple(connection.exec_driver_sql(query).one()) == (2, 2_000, "", 1_000)
    metrics.record_scrape_error(telemetry, TARGET, "timed out", 3_000)
    with telemetry.read() as connection:
        assert tuple(connection.exec_driver_sql(query).one()) == (2, 2_000, "timed out", 3_000)
