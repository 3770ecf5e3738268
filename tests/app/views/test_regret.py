"""What *Regret & capacity* says of stored analyses, and its figures."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import NoReturn

import pytest

from app.analysis import regret as analysis
from app.analysis.what_if import analyse
from app.charts import regret as charts
from app.views import regret, regret_past, regret_rows, words
from app.wiring import Wiring
from storage import analyses, jobs
from storage.analyses import Analysis
from storage.errors import StoreMissing
from storage.reads.window import Scope
from tests.app.analysis.test_what_if import HOUR_MS, events
from tests.support.telemetry import HOSTILE

NOW = 1_775_000_000_000


@pytest.fixture(scope="module")
def found() -> analysis.Findings:
    made = analyse(events(), ttl_ms=HOUR_MS, left_out={"coalesced": 3})
    assert made is not None
    return made


def put(wired: Wiring, namespace: str, found: analysis.Findings | None, *, at_ms: int = NOW) -> None:
    result = None if found is None else analysis.as_json(found)
    analyses.put(
        wired.ops(),
        Analysis("regret", namespace, "24h", at_ms, at_ms - 86_400_000, at_ms, 1_200, {"usable": 90, "ttl_from": "engine"}, result),
    )


def load(wired: Wiring, namespace: str | None = None, now_ms: int = NOW + 60_000) -> regret.Regret:
    return regret.load(wired.ops, horizon="24h", namespace=namespace, now_ms=now_ms)


def no_ops() -> NoReturn:
    raise StoreMissing("there is no record of acts yet")


def test_nothing_computed_yet(wired: Wiring) -> None:
    view = load(wired)
    assert (view.sentence, view.rows, view.chosen) == ("No analysis of the last 24 hours has been computed yet", (), None)
    assert view.worker_age_ms is None


def test_worth_a_look_names_namespace_knob_money_and_space(wired: Wiring, found: analysis.Findings) -> None:
    put(wired, "faq", found)
    put(wired, "docs", None)
    view = load(wired)
    assert view.bad
    assert view.chosen is not None
    assert view.sentence.startswith("Worth a look in namespace faq: a lifetime of 23 h ")
    assert "of its lookups) in the last 24 hours, in " in view.sentence
    assert "$" in view.sentence
    assert [dial.label for dial in regret.dials(view.chosen, view)][:2] == ["Regret, money", "Regret, hits"]
    rows = regret_rows.namespace_rows(view)
    assert [row["namespace"] for row in rows] == ["faq", "docs"]
    assert (rows[0]["worth it"], rows[1]["best knob"]) == ("yes", "too little data (90 usable)")
    assert "left out: 3 coalesced" in regret_rows.notes(view.chosen)
    assert regret.names(wired.ops, "24h") == ("docs", "faq")


def test_not_worth_anyones_time(wired: Wiring) -> None:
    calm = analyse(events(ttl_ms=30 * HOUR_MS), ttl_ms=30 * HOUR_MS)
    put(wired, "faq", calm)
    view = load(wired)
    assert not view.bad
    assert view.sentence == "Tuning is not worth anyone's time: in the last 24 hours the best knob would have won nothing in namespace faq"


def test_anywhere_is_no_more_than_was_judged(wired: Wiring) -> None:
    calm = analyse(events(ttl_ms=30 * HOUR_MS), ttl_ms=30 * HOUR_MS)
    for name in ("faq", "docs"):
        put(wired, name, calm)
    assert load(wired).sentence.endswith("would have won nothing anywhere")
    put(wired, "new", None)
    assert load(wired).sentence.endswith("would have won nothing in any of the 2 namespaces judged")


def test_while_nothing_new_comes_no_number_is_good_news(wired: Wiring) -> None:
    def beat(at_ms: int) -> None:
        jobs.beat(wired.ops(), worker_id="w", started_ms=0, now_ms=at_ms)

    put(wired, "faq", analyse(events(ttl_ms=30 * HOUR_MS), ttl_ms=30 * HOUR_MS))
    assert load(wired).failing  # no worker was ever seen
    beat(NOW)
    assert not load(wired).failing
    assert load(wired, now_ms=NOW + 61_000).failing
    late = NOW + 4 * 600_000
    beat(late)
    assert load(wired, now_ms=late).failing  # old
    assert not load(wired).failing
    jobs.enqueue(wired.ops(), kind="regret", act_id="r", namespace="", parameters={}, now_ms=NOW)
    job = jobs.claim(wired.ops(), lease_ms=60_000, now_ms=NOW)
    assert job is not None
    jobs.fail(wired.ops(), job, error="out of memory", now_ms=NOW)
    assert load(wired).failing


def test_too_little_old_and_unreadable_are_said(wired: Wiring, found: analysis.Findings) -> None:
    put(wired, "docs", None)
    assert load(wired).sentence.startswith("Too little in the last 24 hours to judge tuning: 90 usable lookups, 200 needed")
    assert not load(wired).old
    assert load(wired, now_ms=NOW + 4 * 600_000).old
    analyses.put(wired.ops(), Analysis("regret", "faq", "24h", NOW, 0, NOW, 9, {}, {"other": 1}))
    view = load(wired, "faq")
    assert view.rows[0].unreadable
    assert "another version" in view.sentence
    jobs.enqueue(wired.ops(), kind="regret", act_id="r", namespace="", parameters={}, now_ms=NOW)
    assert load(wired).job is not None


def test_an_analysis_of_another_time_is_in_no_sum_no_choice_and_no_sentence(wired: Wiring, found: analysis.Findings) -> None:
    calm = analyse(events(ttl_ms=30 * HOUR_MS), ttl_ms=30 * HOUR_MS)
    put(wired, "quiet", found, at_ms=NOW - 6 * 86_400_000)
    view = load(wired)
    assert (view.rows, view.chosen, view.bad) == ((), None, False)
    assert view.sentence == "No analysis of the last 24 hours: the newest, of namespace quiet, ended 6 d ago"
    assert (regret.front(view).value, regret.front(view).detail) == ("no data", "no analysis of the last 24 hours")
    put(wired, "faq", calm)
    view, alone = load(wired), load(wired, "faq")
    assert [row.namespace for row in view.rows] == ["faq"]
    assert view.sentence == alone.sentence
    assert not view.bad
    assert regret.front(view).value == regret.front(alone).value
    assert "without 1 namespace not analysed of late" in regret.front(view).detail
    assert [(row["namespace"], row["age"]) for row in regret_rows.past_rows(view)] == [("quiet", "6 d")]
    assert regret.names(wired.ops, "24h") == ("faq", "quiet")


def test_a_sentence_names_the_time_of_an_analysis_that_was_put_off(wired: Wiring, found: analysis.Findings) -> None:
    put(wired, "faq", found)
    late = load(wired, now_ms=NOW + regret_past.NEAR_MS["24h"])
    assert "in the 24 hours to 03-31 23:33 UTC" in late.sentence
    assert late.chosen is not None
    assert "in the 24 hours to 03-31 23:33 UTC" in regret.dials(late.chosen, late)[0].detail
    assert load(wired, now_ms=NOW + regret_past.NEAR_MS["24h"] + 1).chosen is None
    assert "in the last 24 hours" in load(wired, now_ms=NOW + 3 * 600_000).sentence


def test_a_missing_store_is_a_state_of_its_own() -> None:
    view = regret.load(no_ops, horizon="24h", namespace=None, now_ms=NOW)
    assert [failure.source for failure in view.failures] == [regret.OPS]
    assert regret.names(no_ops, "24h") == ()


def test_without_prices_amounts_are_hits(wired: Wiring) -> None:
    unpriced = analyse(events(usd=None, size_bytes=None), ttl_ms=HOUR_MS)
    assert unpriced is not None
    put(wired, HOSTILE, unpriced)
    view = load(wired)
    assert view.chosen is not None
    assert "up to $" not in view.sentence
    assert regret.dials(view.chosen, view)[0].value == "no data"
    chart = charts.bracket(view.rows)
    assert chart.title == "Regret by namespace, in hits"
    assert "<b>" not in str(chart.figure.data[0].y)
    assert "no size is known, so space is counted in entries" in regret_rows.notes(view.chosen)
    assert regret_rows.space_rows(unpriced)[-1]["space"].endswith("entries")


def test_figures_mark_today_on_a_fixed_axis(found: analysis.Findings, tmp_path: Path) -> None:
    for chart, at in ((charts.spaces(found), found.capacity), (charts.lifetimes(found), found.ttl_ms)):
        today = chart.figure.data[-1]
        assert (today.name, list(today.x), list(today.y)) == ("today, recorded", [at], [found.miss_ratio * 100])
        assert list(chart.figure.layout.yaxis.range) == [0, 100]
    row = regret.Row(Analysis("regret", "faq", "24h", NOW, 0, NOW, 9, {}, None), found)
    low, high = found.regret
    assert list(charts.bracket([row]).figure.data[0].x)[:2] == [low.usd, high.usd]
    assert charts.bracket([dataclasses.replace(row, findings=None)]).figure.data[0].x in ((), None)


def test_tables_hold_the_figures_numbers(found: analysis.Findings) -> None:
    assert [row["missed"] for row in regret_rows.lifetime_rows(found)] == [point.miss_ratio * 100 for point in found.ttl_curve]
    assert {row["n"] for row in [*regret_rows.lifetime_rows(found), *regret_rows.space_rows(found)]} == {found.lookups}
    assert sum(" (today)" in row["lifetime"] for row in regret_rows.lifetime_rows(found)) == 1
    assert regret_rows.tournament_rows(found)[-1]["policy"] == "Belady, offline"
    assert len(regret_rows.knob_rows(found)) == len(found.knobs)
    assert all(row["where it is set"] for row in regret_rows.knob_rows(found))


def test_of_sampled_keys_each_interval_stands_beside_what_it_is_of(found: analysis.Findings) -> None:
    error = analysis.Amount(3.0, 1.0, 0.5)
    sampled = analysis.Sampled(0.25, 12, 0.4, 240_000, error, error, error)
    knobs = tuple(dataclasses.replace(knob, error=error) for knob in found.knobs)
    some = dataclasses.replace(found, sampled=sampled, knobs=knobs)
    row = regret.Row(Analysis("regret", "faq", "24h", NOW, 0, NOW, 9, {}, None), some)
    view = regret.Regret("24h", NOW, "", False, (row,), (), row, None, None, None, ())
    money = regret.dials(row, view)[0].detail
    assert money.index("95 % ") < money.index("; $")  # of the regret, and not of what was saved
    assert money.endswith(" was saved")
    assert {one["hits, 95 %"] for one in regret_rows.knob_rows(some)} == {"± 3"}
    assert "hits, 95 %" not in regret_rows.knob_rows(found)[0]
    told = "a sample of the keys: the busiest 12, which have 40.0 % of the lookups, and 25.0 % of the others by their hash"
    assert regret_rows.notes(row)[1].startswith(told)
    some = dataclasses.replace(some, sampled=dataclasses.replace(sampled, certain=0, certain_ratio=0.0))
    assert "a sample of the keys: 25.0 % of them by their hash;" in " ".join(regret_rows.notes(dataclasses.replace(row, findings=some)))


@pytest.mark.parametrize(("low", "high", "told"), [(0.0, 2.0, "up to 2"), (1.0, 2.0, "1 to 2"), (2.0, 2.0, "2"), (None, None, "no data")])
def test_ranges_in_words(low: float | None, high: float | None, told: str) -> None:
    assert regret.range_words(low, high, regret.hits_words) == told


def test_the_overview_s_dial_is_the_sum_over_namespaces_with_its_age(wired: Wiring, found: analysis.Findings) -> None:
    put(wired, "faq", found)
    put(wired, "docs", found)
    one, both = regret.front(load(wired, "faq")), regret.front(load(wired))
    low, high = found.regret
    assert low.usd is not None
    assert high.usd is not None
    assert one.value == regret.range_words(low.usd, high.usd, words.money)
    assert both.value == regret.range_words(2 * low.usd, 2 * high.usd, words.money)
    assert (one.age, one.change, one.spark) == ("computed 1 min ago", "no analysis of the 24 h before yet", "")
    assert f"n = {found.lookups:,} in 24 h" in one.detail
    assert "most in " in both.detail
    assert "busiest" not in both.detail
    many = dataclasses.replace(load(wired), rows=load(wired).rows * 25)
    assert "of the 50 busiest namespaces" in regret.front(many).detail


def test_the_overview_s_dial_says_that_there_is_nothing(wired: Wiring) -> None:
    assert (regret.front(load(wired)).value, regret.front(load(wired)).detail) == ("no data", "not computed yet")
    put(wired, "faq", None)
    assert "90 usable lookups, 200 needed" in regret.front(load(wired)).detail
    failed = regret.load(no_ops, horizon="24h", namespace=None, now_ms=NOW)
    assert regret.front(failed).detail == "it cannot be read"


def test_regret_of_a_part_of_the_traffic_says_that_it_is_of_the_whole() -> None:
    assert regret.whole_note(Scope()) == regret.whole_note(Scope(namespace="faq")) == ""
    assert regret.whole_note(Scope(namespace="faq", tenant="acme")) == "of the whole namespace, not of this tenant alone"
    assert regret.whole_note(Scope(model="m", source="s")) == "of all namespaces, not of this model and sender alone"


def test_a_value_of_a_curve_says_what_it_would_have_changed(found: analysis.Findings) -> None:
    shortest = found.ttl_curve[0]
    told = regret_rows.what_if(found, "lifetime", regret.held(shortest.at))
    assert told.startswith(f"With a lifetime of {words.age(shortest.at)}, {words.ratio(shortest.miss_ratio)} would be missed instead of ")
    assert f"ttl_s = {shortest.at / 1000:.0f}" in told
    assert "where it stands today" in regret_rows.what_if(found, "lifetime", regret.held(found.ttl_ms))
    assert "store_bytes" in regret_rows.what_if(found, "space", "1")
    for junk in ("", "nan", "inf", "-1", "0", "x", "1e999"):
        assert regret_rows.what_if(found, "space", junk) == ""
    best = regret_rows.best(found, "lifetime")
    assert best is not None
    assert best.miss_ratio <= min(point.miss_ratio for point in found.ttl_curve) + 0.01
