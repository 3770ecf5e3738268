"""What no page may turn into a number that is none: too many tenants, a clock in the future, hostile names, nothing at all."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.views import definitions, drift, drift_rows, hit_rate, overview, overview_rows, why, why_rows, worth
from storage.reads import hit_rate as reads
from storage.reads.window import Scope, Window
from storage.store import Store, open_ops
from tests.app.views.test_pages import no_engine
from tests.support import telemetry

NOW = 1_775_000_000_000
HOUR = Window.of(NOW - 3_600_000, NOW)


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    opened = telemetry.open_store(tmp_path), open_ops(telemetry.settings(tmp_path))
    yield opened
    for store in opened:
        store.close()


def texts(stores: tuple[Store, Store], window: Window = HOUR) -> list[str]:
    """Return everything that Overview, Hit rate and Drift would say, as text."""
    store, ops = (lambda: stores[0]), (lambda: stores[1])
    front = overview.load(store, ops, no_engine, window=window, scope=Scope(), window_name="this time", now_ms=NOW)
    rate = hit_rate.load(store, ops, window=window, scope=Scope(), window_name="this time", now_ms=NOW, usd_per_hour=1.0)
    moved = drift.load(store, window=window, scope=Scope(), window_name="this time")
    answer = why.load(store, ops, window=window, before=window.previous, before_name="the period before", scope=Scope())
    assert front.traffic is not None
    assert rate.loaded is not None
    dials = [
        overview_rows.rate_dial(front.traffic),
        *overview_rows.share_dials(front.traffic),
        *overview_rows.other_dials(front.traffic),
        *hit_rate.coverage_dials(rate.loaded),
    ]
    dials += [*worth.dials(rate.loaded.worth), *drift_rows.dials(moved), *drift_rows.front(moved, NOW)]
    assert not [dial.label for dial in dials if not definitions.dial(dial.label)]
    tables = [hit_rate.segment_rows(rate.loaded), hit_rate.bucket_rows(rate.loaded), hit_rate.funnel_rows(rate.loaded)]
    tables += [
        hit_rate.reason_rows(rate.loaded),
        drift_rows.panel_rows(moved),
        why_rows.part_rows(answer),
        why_rows.segment_rows(answer, {}),
    ]
    told = [front.sentence, rate.sentence, moved.sentence, why_rows.headline(answer), why_rows.compared(answer.sides)]
    told += [f"{dial.label}: {dial.value}; {dial.detail}; {dial.change}" for dial in dials]
    return told + [f"{name}={value}" for rows in tables for row in rows for name, value in row.items()]


def sound(told: list[str]) -> None:
    assert not [text for text in told if "nan" in text.lower().split() or text.lower().endswith("=nan") or "inf" in text.lower().split()]


def test_an_empty_window_has_no_number_and_no_zero(stores: tuple[Store, Store]) -> None:
    told = texts(stores)
    sound(told)
    assert "Hit rate: no data; no eligible lookups; " in told
    assert not any(text.startswith("Hit rate") and "0.0 %" in text for text in told)


@pytest.mark.parametrize("outcome", ["exact_hit", "stale_hit", "miss", "bypass", "error"])
@pytest.mark.parametrize("count", [1, 50])
def test_one_lookup_one_key_all_of_one_outcome(stores: tuple[Store, Store], outcome: str, count: int) -> None:
    made = list(telemetry.make(start_ms=NOW - 1_800_000, end_ms=NOW, per_minute=count / 30))[:count]
    same = [dataclasses.replace(one, lookup=one.lookup._replace(outcome=outcome, prompt_hash="p", key="k", entry_id="e")) for one in made]
    telemetry.write(stores[0], same, now_ms=NOW)
    told = texts(stores)
    sound(told)
    if outcome in {"bypass", "error"}:
        assert any("no eligible lookups" in text for text in told)


def test_a_clock_in_the_future_is_in_no_window_but_its_own(stores: tuple[Store, Store]) -> None:
    ahead = NOW + 30 * 86_400_000
    telemetry.write(stores[0], list(telemetry.make(start_ms=ahead, end_ms=ahead + 60_000, per_minute=40)), now_ms=NOW)
    told = texts(stores)
    sound(told)
    assert "Hit rate: no data; no eligible lookups; " in told
    sound(texts(stores, Window.of(ahead, ahead + 60_000)))


def test_very_many_tenants_are_read_in_part_and_counted_in_full(stores: tuple[Store, Store]) -> None:
    made = list(telemetry.make(start_ms=NOW - 3_600_000, end_ms=NOW, per_minute=30))
    many = [dataclasses.replace(one, lookup=one.lookup._replace(tenant=f"t{number}")) for number, one in enumerate(made)]
    telemetry.write(stores[0], many, now_ms=NOW)
    view = hit_rate.load(lambda: stores[0], lambda: stores[1], window=HOUR, scope=Scope(), window_name="this time", now_ms=NOW)
    assert view.loaded is not None
    assert view.loaded.counts.total == len(made)
    assert len(hit_rate.segment_rows(view.loaded)) == 500
    with stores[0].read() as conn:
        assert len(reads.clusters(conn, HOUR, Scope())) <= 75
    sound(texts(stores))


@pytest.mark.parametrize("name", ["<script>", telemetry.HOSTILE, "", "n" * 500])
def test_names_are_text(stores: tuple[Store, Store], name: str) -> None:
    made = list(telemetry.make(start_ms=NOW - 7_200_000, end_ms=NOW, per_minute=3))
    odd = [
        dataclasses.replace(one, lookup=one.lookup._replace(namespace=name, tenant=name, client=name, prompt=name, fingerprint=name))
        for one in made
    ]
    telemetry.write(stores[0], odd, now_ms=NOW)
    told = texts(stores)
    sound(told)
    assert not any("\u202e" in text for text in told)
