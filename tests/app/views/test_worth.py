"""Rates weighted by requests, tokens and money; the lifetime's; what is saved net; and what has no answer."""

import dataclasses
from collections.abc import Sequence

import pytest

from app.analysis.hit_rate import ELIGIBLE, HITS
from app.analysis.savings import savings
from app.charts import rates as rate_charts
from app.views import hit_rate, overview, overview_rows, rates, worth
from app.views.question import Question
from app.views.worth import Worth
from storage.reads import hit_rate as reads
from storage.reads.window import Scope, Window
from storage.store import Store
from tests.app.views.test_pages import no_engine
from tests.support import telemetry
from tests.support.telemetry import Made

NOW = 1_775_000_000_000
HOUR = Window.of(NOW - 3_600_000, NOW)


def made(count: int, *, seed: int = 5, **changes: object) -> list[Made]:
    found = telemetry.make(start_ms=NOW - 3_600_000, end_ms=NOW - 60_000, per_minute=count / 59, seed=seed)
    return [dataclasses.replace(one, lookup=one.lookup._replace(**changes)) for one in found]


def load(
    stores: tuple[Store, Store],
    rows: Sequence[Made],
    *,
    window: Window = HOUR,
    usd_per_hour: float | None = None,
    namespace: str | None = None,
) -> hit_rate.Loaded:
    telemetry.write(stores[0], list(rows), now_ms=NOW)
    view = hit_rate.load(
        lambda: stores[0],
        lambda: stores[1],
        Question(window, Scope(namespace=namespace), "the last hour", NOW, usd_per_hour=usd_per_hour),
    )
    assert view.loaded is not None
    return view.loaded


def value(found: Worth, label: str) -> str:
    return next(dial.value for dial in worth.dials(found) if dial.label == label)


def test_weights_are_sums_divided_and_not_rates_averaged(stores: tuple[Store, Store]) -> None:
    rows = made(300)
    found = load(stores, rows, usd_per_hour=0.001)
    eligible = [one.lookup for one in rows if one.lookup.outcome in ELIGIBLE]
    hits = [row for row in eligible if row.outcome in HITS]

    def tokens(some: Sequence[telemetry.LookupRow]) -> int:
        return sum((row.input_tokens or 0) + (row.output_tokens or 0) for row in some)

    saved = spent = 0.0
    for model in {row.model for row in eligible}:
        sides = (
            [row.saved_usd for row in hits if row.model == model],
            [row.cost_usd for row in eligible if row.model == model and row.outcome == "miss"],
        )
        means = [sum(known) / len(known) for side in sides if (known := [usd for usd in side if usd is not None])]
        saved, spent = saved + means[0] * len(sides[0]), spent + means[1] * len(sides[1])
    assert found.worth.requests is not None
    assert found.worth.requests.ratio == pytest.approx(len(hits) / len(eligible))
    assert found.worth.tokens.ratio is not None
    assert found.worth.tokens.ratio.ratio == pytest.approx(tokens(hits) / tokens(eligible))
    assert found.worth.money.ratio is not None
    assert found.worth.money.ratio.ratio == pytest.approx(saved / (saved + spent), abs=1e-6)
    assert found.worth.lifetime == found.counts.hit_rate
    assert found.worth.usd.net == pytest.approx(found.worth.usd.gross - found.worth.usd.cost)  # type: ignore[operator]
    assert "pays above" in next(dial.detail for dial in worth.dials(found.worth) if dial.label == "Money saved, net")


def test_without_prices_and_tokens_there_is_no_weighted_rate_and_it_is_said(stores: tuple[Store, Store]) -> None:
    found = load(stores, made(60, saved_usd=None, cost_usd=None, input_tokens=None, output_tokens=None, saved_ms=None, lookup_ms=None))
    assert value(found.worth, "By tokens") == value(found.worth, "By money") == value(found.worth, "Money saved, net") == "no data"
    assert value(found.worth, "Time saved, net") == "no data"
    assert found.worth.money.refused.startswith("no lookup has a known price")


def priced(model: str, *, hits: int, misses: int, misses_priced: int, usd: float = 1.0, seed: int = 5) -> list[Made]:
    """Return lookups of a model: all hits have a price, of the misses only some."""
    found = made(hits + misses + 40, seed=seed)[: hits + misses]
    return [
        dataclasses.replace(
            one,
            lookup=one.lookup._replace(
                model=model,
                outcome="exact_hit" if at < hits else "miss",
                saved_usd=usd if at < hits else None,
                cost_usd=usd if hits <= at < hits + misses_priced else None,
            ),
        )
        for at, one in enumerate(found)
    ]


def test_misses_without_a_price_do_not_raise_the_rate_by_money(stores: tuple[Store, Store]) -> None:
    found = load(stores, priced("m", hits=100, misses=100, misses_priced=40))
    assert found.worth.money.ratio is not None
    assert found.worth.money.ratio.ratio == pytest.approx(0.5)  # weighing only what has a price would say 100 / 140
    assert "200 of 200 in models with prices, 140 of them with a price" in worth.dials(found.worth)[1].detail


def test_a_model_without_a_price_for_its_misses_is_not_weighed(stores: tuple[Store, Store]) -> None:
    one = priced("cheap", hits=60, misses=60, misses_priced=60)
    other = priced("unlisted", hits=40, misses=20, misses_priced=0, usd=50.0, seed=6)
    found = load(stores, [*one, *other])
    assert found.worth.money.ratio is not None
    assert found.worth.money.ratio.ratio == pytest.approx(0.5)
    assert (found.worth.money.known, found.worth.money.of) == (120, 180)


def test_prices_of_one_side_alone_are_refused_with_both_counts(stores: tuple[Store, Store]) -> None:
    found = load(stores, priced("m", hits=50, misses=70, misses_priced=3))
    assert found.worth.money.ratio is None
    assert "50 of 50 hits and 3 of 70 misses have one" in found.worth.money.refused


def test_a_negative_number_is_no_number_and_takes_nothing_from_the_others(stores: tuple[Store, Store]) -> None:
    rows = made(200, outcome="exact_hit", saved_usd=1.0, input_tokens=100, output_tokens=0)
    odd = [dataclasses.replace(one, lookup=one.lookup._replace(saved_usd=-3.0, input_tokens=-70)) for one in rows[:20]]
    found = load(stores, [*odd, *rows[20:]])
    assert (found.worth.usd.known, found.worth.usd.of) == (len(rows) - 20, len(rows))
    assert found.worth.usd.gross == pytest.approx(len(rows))  # a dollar each, those without a price taken like the others
    assert f"{len(rows) - 20} of {len(rows)} hits with a price" in next(
        dial.detail for dial in worth.dials(found.worth) if dial.label == "Money saved, gross"
    )


def test_negative_costs_alone_are_no_price(stores: tuple[Store, Store]) -> None:
    found = load(stores, made(60, saved_usd=-5.0, cost_usd=-5.0))
    assert found.worth.money.refused == "no lookup has a known price (a negative number is none)"
    assert value(found.worth, "By money") == "no data"


def test_a_call_that_several_waited_for_is_paid_for_once(stores: tuple[Store, Store]) -> None:
    """Half of the lookups without a hit waited for another's call, and their sender tells its price with each."""
    outcomes = ("exact_hit", "exact_hit", "miss", "coalesced")
    rows = [
        dataclasses.replace(one, lookup=one.lookup._replace(outcome=outcomes[at % 4], saved_usd=1.0, cost_usd=1.0))
        for at, one in enumerate(made(200)[:196])
    ]
    found = load(stores, rows)
    assert found.worth.money.ratio is not None
    assert found.worth.money.ratio.ratio == pytest.approx(2 / 3)
    front = overview.load(lambda: stores[0], lambda: stores[1], no_engine, Question(HOUR, Scope(), "the last hour", NOW)).traffic
    assert front is not None
    assert front.spent_usd.value == pytest.approx(len(rows) / 4)


def test_tokens_of_the_answer_alone_are_in_no_sum_that_does_not_count_them(stores: tuple[Store, Store]) -> None:
    rows = [
        dataclasses.replace(one, lookup=one.lookup._replace(outcome="exact_hit", input_tokens=10 if at % 2 else None, output_tokens=90))
        for at, one in enumerate(made(200)[:180])
    ]
    load(stores, rows)
    front = overview.load(lambda: stores[0], lambda: stores[1], no_engine, Question(HOUR, Scope(), "the last hour", NOW)).traffic
    assert front is not None
    assert front.saved_tokens == overview.Sum(9_000, 90, 180)


@pytest.mark.parametrize("without", ["hits", "others"])
def test_a_side_that_told_no_tokens_is_no_side_of_none(stores: tuple[Store, Store], without: str) -> None:
    rows = [
        dataclasses.replace(one, lookup=one.lookup._replace(input_tokens=None, output_tokens=None))
        if (one.lookup.outcome in HITS) == (without == "hits")
        else one
        for one in made(200)
    ]
    found = load(stores, rows)
    assert value(found.worth, "By tokens") == "no data"
    assert "too few tokens to compare: " in found.worth.tokens.refused


def test_lookups_that_told_tokens_stand_for_those_of_their_side(stores: tuple[Store, Store]) -> None:
    rows = [
        dataclasses.replace(
            one,
            lookup=one.lookup._replace(
                outcome="exact_hit" if at % 2 else "miss", input_tokens=10 if at % 2 or at % 4 == 0 else None, output_tokens=0
            ),
        )
        for at, one in enumerate(made(200)[:196])
    ]
    found = load(stores, rows)
    assert found.worth.tokens.ratio is not None
    assert found.worth.tokens.ratio.ratio == pytest.approx(0.5)  # a half of the misses told nothing: 2 of 3 otherwise


def test_a_price_of_few_hits_is_not_taken_for_all(stores: tuple[Store, Store]) -> None:
    rows = made(200, outcome="exact_hit", saved_usd=None)
    found = load(stores, [dataclasses.replace(rows[0], lookup=rows[0].lookup._replace(saved_usd=5.0)), *rows[1:]], usd_per_hour=0.01)
    dial = next(dial for dial in worth.dials(found.worth) if dial.label == "Money saved, net")
    assert (dial.value, dial.detail) == ("no data", f"too few prices: 1 of {len(rows)} hits with a price")


def test_the_money_saved_has_an_interval_over_batches(stores: tuple[Store, Store]) -> None:
    rows = [dataclasses.replace(one, lookup=one.lookup._replace(saved_usd=1.0 + at % 7)) for at, one in enumerate(made(400))]
    found = load(stores, rows)
    assert "95 % gross: $" in next(dial.detail for dial in worth.dials(found.worth) if dial.label == "Money saved, gross")


def test_what_the_cache_costs_is_of_the_hours_that_were(stores: tuple[Store, Store]) -> None:
    rows = made(60)
    found = load(stores, rows, window=Window.of(NOW - 3_600_000, NOW + 23 * 3_600_000), usd_per_hour=1.0)
    first_ms = min(one.lookup.at_ms for one in rows)
    assert found.worth.usd.cost == pytest.approx((NOW - first_ms) / 3_600_000)


@pytest.mark.parametrize(("outcome", "rate"), [("exact_hit", "100.0 %"), ("miss", "0.0 %")])
def test_all_hits_and_all_misses_are_numbers(stores: tuple[Store, Store], outcome: str, rate: str) -> None:
    found = load(stores, made(60, outcome=outcome, tenant="one", prompt_hash="one"))
    assert hit_rate.coverage_dials(found)[0].value == rate
    assert found.counts.hit_rate is not None
    assert all("nan" not in f"{dial.value} {dial.detail}".lower() for dial in worth.dials(found.worth))


def test_where_all_hit_no_time_was_lost_and_what_they_saved_is_told(stores: tuple[Store, Store]) -> None:
    found = load(stores, made(60, outcome="exact_hit", saved_ms=50.0))
    time = next(dial for dial in worth.dials(found.worth) if dial.label == "Time saved, net")
    assert found.worth.ms.net == found.worth.ms.gross == pytest.approx(50.0 * found.counts.hits)
    assert "less 0 ms" in time.detail
    assert "no break-even: every lookup hit" in time.detail


def test_a_cache_without_a_hit_shows_what_it_loses(stores: tuple[Store, Store]) -> None:
    found = load(stores, made(60, outcome="miss", tenant="one", prompt_hash="one"), usd_per_hour=60.0)
    money = next(dial for dial in worth.dials(found.worth) if dial.label == "Money saved, net")
    assert found.worth.usd.net == pytest.approx(-(found.worth.usd.cost or 0))
    assert money.value.startswith("−$")
    assert "there was no hit; no break-even" in money.detail
    assert money.good is False


def test_few_steps_have_no_interval_and_say_so(stores: tuple[Store, Store]) -> None:
    rows = [dataclasses.replace(one, lookup=one.lookup._replace(at_ms=NOW - 600_000, tenant="one")) for one in made(40)]
    found = load(stores, rows)
    assert "only 1 step of time with lookups: too few for an interval (5 needed)" in hit_rate.coverage_dials(found)[0].detail
    assert found.counts.hit_rate is not None
    assert rates.limits(found.over(), found.counts.hit_rate).endswith(" as if independent, for only 1 step of time")


def test_every_share_on_a_dial_has_n_and_an_interval(stores: tuple[Store, Store]) -> None:
    found = load(stores, made(300))
    dials = {dial.label: dial.detail for dial in [*hit_rate.coverage_dials(found), *worth.dials(found.worth)]}
    for label in ("Hit rate", "Exact", "Semantic", "Coalesced", "Could hit", "By tokens", "By money", "Lifetime"):
        assert " of " in dials[label], label
        assert "95 %" in dials[label], label


def test_what_the_cache_costs_is_not_split_over_a_part_of_the_traffic(stores: tuple[Store, Store]) -> None:
    found = load(stores, made(60), usd_per_hour=1.0, namespace="faq")
    assert found.worth.usd.net is None
    assert "not known for this selection" in worth.dials(found.worth)[3].detail


def test_held_out_lookups_are_told_beside_the_rate(stores: tuple[Store, Store]) -> None:
    rows = made(200)
    held = [dataclasses.replace(one, lookup=one.lookup._replace(outcome="miss", reason="holdout")) for one in rows[:20]]
    found = load(stores, [*held, *rows[20:]])
    assert found.worth.without_holdout is not None
    assert found.worth.without_holdout.k == found.counts.hits + 20


def test_a_tier_s_own_rate_is_of_those_that_came_to_it() -> None:
    def cell(outcome: str, tier: str, n: int, reason: str = "") -> reads.Cell:
        return reads.Cell("response", "faq", "acme", "m", tier, outcome, reason, n, *([0] * 15))

    steps = rates.funnel(
        [
            cell("exact_hit", "memory", 50),
            cell("exact_hit", "store", 10),
            cell("semantic_hit", "vector", 10),
            cell("miss", "", 20, "no_candidate"),
            cell("miss", "", 7, "exact_only"),
            cell("miss", "", 3, "tier_fault"),
        ]
    )
    asked = [(step.name, step.asked.k, step.asked.n) for step in steps if step.asked]
    assert asked == [("memory tier", 50, 100), ("store tier", 10, 50), ("vector tier", 10, 30)]
    assert [step.share.k for step in steps] == [50, 10, 10, 0, 30]
    # What a sender calls its tiers is as much, and as odd, as it likes.
    hostile = "<a href='//x'>\u202e" * 9
    steps = rates.funnel([cell("exact_hit", hostile, 900), *(cell("exact_hit", f"tier-{number}", 1) for number in range(500))])
    assert [step.share.k for step in steps[3:12]] == [900, *[1] * 7, 493]
    assert steps[11].name == "any other tier"
    assert "\u202e" not in steps[3].name
    assert len(steps[3].name) < 80
    chart = rate_charts.funnel(steps, {})
    assert "<a" not in chart.figure.to_json()
    assert len(chart.alt) < 1_000


def test_caches_of_other_kinds_are_in_tokens_and_never_in_the_rate(stores: tuple[Store, Store]) -> None:
    other = [
        dataclasses.replace(
            one,
            lookup=one.lookup._replace(cache_kind="provider_prompt", outcome="partial_hit", input_tokens=100, cached_input_tokens=cached),
        )
        for one, cached in zip(made(4), (80, None, 0, 500), strict=False)
    ]
    found = load(stores, other)
    assert found.counts.total == 0
    assert found.others[0].cache_kind == "provider_prompt"
    assert hit_rate.other_rows(found)[0]["input tokens from it"] == f"40.0 % of 200 (n = 2 of {len(other)})"


def test_break_even_by_hand() -> None:
    found = savings(gross=10.0, hits_known=50, hits=100, cost=5.0, eligible=200)
    assert (found.gross, found.net, found.break_even_ratio) == (20.0, 15.0, 0.125)
    assert savings(gross=None, hits_known=0, hits=5, cost=1.0, eligible=9).net is None
    assert savings(gross=-1.0, hits_known=1, hits=1, cost=1.0, eligible=9).break_even_ratio is None
    lost = savings(gross=0.0, hits_known=0, hits=0, cost=50.0, eligible=200)
    assert (lost.gross, lost.net, lost.break_even_ratio) == (0.0, -50.0, None)
    assert savings(gross=0.0, hits_known=0, hits=0, cost=50.0, eligible=0).net is None
    few = savings(gross=5.0, hits_known=1, hits=100, cost=1.0, eligible=200)
    assert (few.net, few.break_even_ratio, few.known, few.of) == (None, None, 1, 100)


@pytest.mark.parametrize("hits", [1, 30, 100, 199])
def test_break_even_of_time_does_not_depend_on_the_hit_rate_of_today(hits: int) -> None:
    """A miss waits 20 ms for the cache, a hit saves 80: at one hit in five both are equal."""
    found = savings(gross=80.0 * hits, hits_known=hits, hits=hits, cost=20.0 * (200 - hits), eligible=200, misses_pay=True)
    assert found.break_even_ratio == pytest.approx(0.2)
    assert found.net == pytest.approx(80.0 * hits - 20.0 * (200 - hits))
    assert (found.net > 0) == (hits / 200 > 0.2)


def test_overview_shows_the_same_savings_as_hit_rate_with_their_interval(stores: tuple[Store, Store]) -> None:
    found = load(stores, made(400), usd_per_hour=0.001)
    front = overview.load(
        *(lambda: stores[0], lambda: stores[1], no_engine),
        Question(HOUR, Scope(), "the last hour", NOW, usd_per_hour=0.001),
    )
    assert front.traffic is not None
    assert (front.traffic.saved.usd, front.traffic.saved.ms) == (found.worth.usd, found.worth.ms)
    dials = {dial.label: dial for dial in overview_rows.other_dials(front.traffic)}
    assert dials["Money saved, net"].value == value(found.worth, "Money saved, net")
    assert all(part in dials["Money saved, net"].detail for part in ("95 % gross: $", "hits with a price", "spent $"))
    assert dials["Time saved, net"].value == value(found.worth, "Time saved, net") != "no data"


@pytest.mark.parametrize("scope", [Scope(), Scope(tenant="globex")])
def test_a_series_with_savings_has_all_that_the_hits_saved(stores: tuple[Store, Store], scope: Scope) -> None:
    telemetry.write(stores[0], made(300), now_ms=NOW)
    with stores[0].read() as conn:
        told, bare = reads.series(conn, HOUR, scope, savings=True), reads.series(conn, HOUR, scope)
        cells = [cell for cell in reads.cells(conn, HOUR, scope) if cell.outcome in HITS]
    assert sum(row.saved_nusd for row in told if row.outcome in HITS) == sum(cell.saved_nusd for cell in cells) > 0
    assert [dataclasses.replace(row, saved_nusd=0) for row in told] == bare
