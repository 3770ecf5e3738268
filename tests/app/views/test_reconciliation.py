"""What gateways counted beside what is stored: a difference is said only where lookups went missing."""

from __future__ import annotations

from app.views import sources
from app.views.sources import LOOKUPS, SPANS, Reconciliation
from storage import counters
from storage.metrics import labels_text
from storage.reads.window import Window
from storage.rows import SampleRow, Scrape, SourceKey
from storage.store import Store
from tests.support import telemetry

NOW = 1_775_000_000_000
HOUR_MS = 3_600_000
HOUR = Window.of(NOW - HOUR_MS, NOW)
PAGE = SourceKey("scrape", "http://127.0.0.1:8080/metrics")
OTHER = SourceKey("scrape", "http://127.0.0.1:8081/metrics")


def scrape(store: Store, at_ms: int, lookups: dict[str, float], *, source: SourceKey = PAGE) -> None:
    """lookups: by tenant; each made one span, which was exported."""
    rows = [SampleRow(LOOKUPS, labels_text({"tenant": tenant}), "counter", at_ms, value) for tenant, value in lookups.items()]
    made = sum(lookups.values())
    rows += [SampleRow(SPANS, labels_text({"result": result}), "counter", at_ms, made) for result in ("created", "exported")]
    counters.write_scrape(store, source, Scrape(at_ms, rows), now_ms=at_ms, max_series=1)


def balance(store: Store) -> Reconciliation:
    view = sources.load(lambda: store, window=HOUR, now_ms=NOW)
    assert view.reconciliation is not None
    return view.reconciliation


def test_a_series_that_vanished_long_ago_is_no_reason_to_count_from_then(store: Store) -> None:
    telemetry.seed(store, now_ms=NOW - 6 * HOUR_MS, hours=0.5)
    scrape(store, NOW - 10 * HOUR_MS, {"gone": 900, "here": 5})
    for minute in (61, 60, 30, 1):
        scrape(store, NOW - minute * 60_000, {"here": 7})
    found = balance(store)
    assert (found.from_ms, found.counted, found.stored, found.whole) == (NOW - 61 * 60_000, 0, 0, True)


def test_a_target_that_is_gone_is_no_reason_either(store: Store) -> None:
    telemetry.seed(store, now_ms=NOW - 6 * HOUR_MS, hours=0.5)
    scrape(store, NOW - 10 * HOUR_MS, {"a": 900}, source=OTHER)
    scrape(store, NOW - 61 * 60_000, {"a": 900}, source=OTHER)
    for minute in (60, 30):
        scrape(store, NOW - minute * 60_000, {"a": 7})
    found = balance(store)
    assert (found.from_ms, found.counted, found.stored, found.whole) == (NOW - 60 * 60_000, 0, 0, True)


def test_what_a_known_target_counted_before_its_first_scrape_here_was_not_counted_here(store: Store) -> None:
    """The other page is looked at some seconds later, and had counted long before."""
    for minute in (180, 61, 30, 1):
        scrape(store, NOW - minute * 60_000, {"a": 7})
        scrape(store, NOW - minute * 60_000 + 3_000, {"a": 50_000}, source=OTHER)
    assert balance(store).counted == 0


def test_a_gateway_that_is_new_counts_from_nothing(store: Store) -> None:
    for minute in (61, 30, 1):
        scrape(store, NOW - minute * 60_000, {"a": 7})
    scrape(store, NOW - 20 * 60_000, {"a": 40}, source=OTHER)
    scrape(store, NOW - 10 * 60_000, {"a": 42, "b": 3}, source=OTHER)
    assert (balance(store).counted, balance(store).created) == (45, 45)


def test_a_page_without_a_counter_of_lookups_yet_is_where_counting_begins(store: Store) -> None:
    """A gateway's first scrape comes before its first lookup: what was stored until the second is in both."""
    none_yet = [SampleRow(SPANS, labels_text({"result": result}), "counter", NOW - 600_000, 0.0) for result in ("created", "exported")]
    counters.write_scrape(store, PAGE, Scrape(NOW - 600_000, none_yet), now_ms=NOW - 600_000, max_series=1)
    fresh = sources.load(lambda: store, window=HOUR, now_ms=NOW)
    assert fresh.sentence.endswith("The gateways have counted no lookup yet, so there is nothing to compare.")
    assert fresh.uncounted
    made = list(telemetry.make(start_ms=NOW - 590_000, end_ms=NOW - 560_000, per_minute=80))
    telemetry.write(store, made, now_ms=NOW)
    scrape(store, NOW - 550_000, {"a": len(made)})
    scrape(store, NOW - 500_000, {"a": len(made)})
    assert not sources.load(lambda: store, window=HOUR, now_ms=NOW).uncounted
    found = balance(store)
    assert (found.from_ms, found.counted, found.stored, found.whole) == (NOW - 600_000, len(made), len(made), True)
