"""What no page may turn into a number that is none: too many tenants, a clock in the future, hostile names, nothing at all."""

import dataclasses
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.charts import latency, rates
from app.charts.drift import ranks, similarities
from app.views import (
    counters,
    definitions,
    drift,
    drift_rows,
    hit_rate,
    overview,
    overview_rows,
    regret,
    sources,
    traces,
    understood,
    why,
    why_rows,
    worth,
)
from app.views.question import Question
from collectors.prometheus.families import load as load_families
from storage.reads import hit_rate as reads
from storage.reads.traces import Search
from storage.reads.window import Scope, Window, extent
from storage.store import Store, open_ops
from tests.app.views.test_pages import no_engine
from tests.support import telemetry

NOW = 1_775_000_000_000
HOUR = Window.of(NOW - 3_600_000, NOW)


def texts(stores: tuple[Store, Store], window: Window = HOUR) -> list[str]:
    """Return everything that Overview, Hit rate and Drift would say, as text."""
    store, ops = (lambda: stores[0]), (lambda: stores[1])
    front = overview.load(store, ops, no_engine, Question(window, Scope(), "this time", NOW))
    rate = hit_rate.load(store, ops, Question(window, Scope(), "this time", NOW, usd_per_hour=1.0))
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
    listing = traces.find(store, window=window, scope=Scope(), search=Search(), now_ms=NOW)
    senders = sources.load(store, window=window, now_ms=NOW)
    counted = counters.load(store, lambda: load_families(None), window=window, now_ms=NOW)
    nothing = regret.load(ops, horizon="24h", namespace=None, now_ms=NOW)
    tables += [traces.rows(listing), sources.source_rows(senders), understood.understood_rows(senders.sources)]
    tables += [understood.missing_rows(senders.sources), understood.call_rows(senders.told, {}), drift_rows.finding_rows(moved.findings)]
    tables += [counters.rate_rows(counted), counters.count_rows(counted), overview_rows.mover_rows(front.traffic, {})]
    dials.append(regret.front(nothing, nothing))
    for figure in (
        rates.outcomes(front.traffic.buckets, window),
        rates.hit_rate(rate.loaded.buckets, window, break_even=rate.loaded.worth.ms.break_even_ratio),
        rates.funnel(rate.loaded.funnel, {}),
        latency.figure(front.traffic.latency, window),
        *(
            ()
            if moved.now is None or moved.before is None
            else (ranks(moved.now, moved.before, {}), similarities(moved.now, moved.before, {}))
        ),
    ):
        assert "NaN" not in figure.figure.to_json(), figure.title
    told = [traces.sentence(listing, "this time"), senders.sentence, counters.sentence(counted), nothing.sentence]
    told += [front.sentence, rate.sentence, moved.sentence, why_rows.headline(answer), why_rows.compared(answer.sides)]
    told += [f"{dial.label}: {dial.value}; {dial.detail}; {dial.change}" for dial in dials]
    return told + [f"{name}={value}" for rows in tables for row in rows for name, value in row.items()]


def sound(told: list[str]) -> None:
    assert not [text for text in told if "nan" in text.lower().split() or text.lower().endswith("=nan") or "inf" in text.lower().split()]


def test_an_empty_window_has_no_number_and_no_zero(stores: tuple[Store, Store]) -> None:
    told = texts(stores)
    sound(told)
    assert "Hit rate: no data; no eligible lookups; " in told
    assert not any(text.startswith("Hit rate") and "0.0 %" in text for text in told)


@pytest.mark.parametrize(("outcome", "count"), [("stale_hit", 1), ("stale_hit", 50), ("error", 1), ("error", 50)])
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
    telemetry.write(stores[0], list(telemetry.make(start_ms=NOW - 900_000, end_ms=NOW - 600_000, per_minute=4, seed=9)), now_ms=NOW)
    with stores[0].read() as conn:
        found = extent(conn, NOW)
    assert found.last_ms is not None
    assert NOW - 900_000 <= found.last_ms < NOW, "the newest lookup is of this morning: a wrong clock does not make it look fresh"
    assert found.ahead_ms is not None
    assert ahead <= found.ahead_ms


def test_calls_without_tokens_and_without_a_price_are_no_zeros(stores: tuple[Store, Store]) -> None:
    bare = {"input_tokens": None, "output_tokens": None, "saved_usd": None, "cost_usd": None, "saved_ms": None, "lookup_ms": None}
    made = list(telemetry.make(start_ms=NOW - 1_800_000, end_ms=NOW, per_minute=3))
    telemetry.write(stores[0], [dataclasses.replace(one, lookup=one.lookup._replace(**bare)) for one in made], now_ms=NOW)
    told = texts(stores)
    sound(told)
    for label in ("By tokens", "By money", "Tokens saved", "Money saved, net", "Time saved, net"):
        assert any(text.startswith(f"{label}: no data") for text in told), label
    assert "length of prompts" not in " ".join(text for text in told if text.startswith("Drift"))


def test_a_negative_cost_is_no_saving_on_any_page(stores: tuple[Store, Store]) -> None:
    made = list(telemetry.make(start_ms=NOW - 1_800_000, end_ms=NOW, per_minute=3))
    negative = {"saved_usd": -5.0, "cost_usd": -5.0, "input_tokens": -3, "output_tokens": -3}
    telemetry.write(stores[0], [dataclasses.replace(one, lookup=one.lookup._replace(**negative)) for one in made], now_ms=NOW)
    told = texts(stores)
    sound(told)
    for label in ("By tokens", "By money", "Money saved, net"):
        assert any(text.startswith(f"{label}: no data") and "negative" in text for text in told), label


ODD = st.fixed_dictionaries(
    {
        "outcome": st.sampled_from(["exact_hit", "semantic_hit", "partial_hit", "coalesced", "miss", "bypass", "error", "other"]),
        "input_tokens": st.sampled_from([None, 0, -1, 10**12]),
        "output_tokens": st.sampled_from([None, 0, 10**12]),
        "saved_usd": st.sampled_from([None, 0.0, -1e-9, 1e9]),
        "cost_usd": st.sampled_from([None, 0.0, -1e-9, 1e9]),
        "similarity": st.sampled_from([None, -1.0, 0.0, 1.0000001]),
        "duration_ms": st.sampled_from([0.0, -1.0, 1e9]),
        "saved_ms": st.sampled_from([None, 0.0, -1e6]),
        "prompt_simhash": st.sampled_from(["", "zz", "0" * 16]),
        "tenant": st.sampled_from(["", "<script>"]),
    }
)


@settings(max_examples=6, deadline=None)
@given(odd=st.lists(ODD, min_size=1, max_size=6), times=st.sampled_from([1, 40]))
def test_odd_values_in_any_mix_become_no_odd_numbers(odd: list[dict[str, object]], times: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        opened = telemetry.open_store(Path(folder)), open_ops(telemetry.settings(Path(folder)))
        made = list(telemetry.make(start_ms=NOW - 3_600_000, end_ms=NOW, per_minute=len(odd) * times / 60 + 1))
        rows = [dataclasses.replace(one, lookup=one.lookup._replace(**odd[at % len(odd)])) for at, one in enumerate(made)]  # type: ignore[arg-type]
        telemetry.write(opened[0], rows, now_ms=NOW)
        sound(texts(opened))
        for store in opened:
            store.close()


def test_very_many_tenants_are_read_in_part_and_counted_in_full(stores: tuple[Store, Store]) -> None:
    made = list(telemetry.make(start_ms=NOW - 3_600_000, end_ms=NOW, per_minute=30))
    many = [dataclasses.replace(one, lookup=one.lookup._replace(tenant=f"t{number}")) for number, one in enumerate(made)]
    telemetry.write(stores[0], many, now_ms=NOW)
    view = hit_rate.load(lambda: stores[0], lambda: stores[1], Question(HOUR, Scope(), "this time", NOW))
    assert view.loaded is not None
    assert view.loaded.counts.total == len(made)
    assert len(hit_rate.segment_rows(view.loaded)) == 500
    with stores[0].read() as conn:
        assert len(reads.steps(conn, HOUR, Scope())) <= 75
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
