"""Sampled telemetry: rates weigh by the probability of being kept, or are refused with the reason."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest

from app.analysis.hit_rate import Counts, Sampled, count
from app.analysis.intervals import difference, weighed, wilson
from app.charts import rates as charts
from app.views import causes, hit_rate, overview, overview_rows, rates, why, why_rows, worth
from app.views.question import Question
from storage.reads.window import Extent, Scope, Window
from storage.store import Store
from tests.app.views.test_pages import no_engine
from tests.support import telemetry
from tests.support.telemetry import Made

NOW = 1_775_000_000_000
HOUR = Window.of(NOW - 3_600_000, NOW)


def rows(hits: int, misses: int, *, at_ms: int = NOW, **changes: object) -> list[Made]:
    made = list(telemetry.make(start_ms=at_ms - 3_000_000, end_ms=at_ms - 60_000, seed=at_ms, per_minute=(hits + misses + 40) / 49))[
        : hits + misses
    ]
    outcomes = ["exact_hit"] * hits + ["miss"] * misses
    return [
        dataclasses.replace(one, lookup=one.lookup._replace(outcome=outcome, **changes))
        for one, outcome in zip(made, outcomes, strict=True)
    ]


def test_equal_weights_are_wilson_s_interval() -> None:
    plain = wilson(30, 100)
    found = weighed([(4.0, 30, 100)])
    assert plain is not None
    assert found is not None
    assert (found.k, found.n) == (120, 400)
    assert (found.low_ratio, found.high_ratio) == pytest.approx((plain.low_ratio, plain.high_ratio))
    assert weighed([]) is None


@pytest.mark.parametrize(("hit_ratio", "miss_ratio"), [(0.1, 1.0), (0.5, 0.05), (0.2, 0.2)])
def test_the_interval_holds_the_truth_about_as_often_as_it_says(hit_ratio: float, miss_ratio: float) -> None:
    rng = np.random.default_rng(5)
    hits = rng.binomial(4_000, 0.7, size=600)
    kept = rng.binomial(hits, hit_ratio), rng.binomial(4_000 - hits, miss_ratio)
    held = 0
    for k, rest in zip(*kept, strict=True):
        found = weighed([(1 / hit_ratio, int(k), int(k)), (1 / miss_ratio, 0, int(rest))])
        assert found is not None
        held += found.low_ratio <= 0.7 <= found.high_ratio
    assert held / 600 >= 0.92


def test_a_share_weighs_what_was_sampled_and_counts_the_rest_once() -> None:
    found = count([("exact_hit", 30), ("miss", 50)], [Sampled(0.1, "exact_hit", 20), Sampled(0.5, "miss", 10)])
    share = found.hit_rate
    assert share is not None
    assert (share.k, share.n) == (10 + 200, 10 + 200 + 40 + 20)
    assert dataclasses.replace(found, sampled=(Sampled(None, "error", 1),)).hit_rate is None


def load(stores: tuple[Store, Store], made: Sequence[Made]) -> tuple[overview.Overview, hit_rate.HitRate, why.Why]:
    telemetry.write(stores[0], list(made), now_ms=NOW)
    store, ops = (lambda: stores[0]), (lambda: stores[1])
    front = overview.load(store, ops, no_engine, Question(HOUR, Scope(), "the last hour", NOW))
    rate = hit_rate.load(store, ops, Question(HOUR, Scope(), "the last hour", NOW, usd_per_hour=1.0))
    answer = why.load(store, ops, window=HOUR, before=HOUR.previous, before_name="the period before", scope=Scope())
    return front, rate, answer


def test_known_probabilities_weigh_the_rate_on_both_pages(stores: tuple[Store, Store]) -> None:
    made = rows(40, 60)
    hits = [dataclasses.replace(one, lookup=one.lookup._replace(sampler="threshold", kept_ratio=0.1)) for one in made[:40]]
    front, rate, _ = load(stores, [*hits, *made[40:]])
    assert rate.loaded is not None
    assert front.traffic is not None
    for dial in (hit_rate.coverage_dials(rate.loaded)[0], overview_rows.rate_dial(front.traffic)):
        assert dial.value == "87.0 %"
        assert dial.detail.startswith("about 400 of 460, weighed by 1/p; 95 % as if independent: ")
    for told in (rate.sentence, front.sentence):
        assert told.startswith("Hit rate 87.0 % (")
        assert "as if independent, n = 100 received) in the last hour" in told
    assert {dial.value for dial in worth.dials(rate.loaded.worth)} == {"no data"}
    assert "40 of 100 lookups were kept with a known probability. Rates of the whole" in rates.sampled_note(rate.loaded.counts)
    no_parts(front.traffic, rate.loaded)


def no_parts(traffic: overview.Traffic, loaded: hit_rate.Loaded) -> None:
    for shown in (hit_rate.bucket_rows(loaded), overview_rows.outcome_rows(traffic)):
        assert sum(int(str(row["n"])) for row in shown) == 100
        assert {(row["hit rate %"], row["interval"]) for row in shown} == {(None, "no data")}
    segments = hit_rate.segment_rows(loaded)
    assert sum(int(str(row["n"])) for row in segments) == 100
    assert {row[name] for row in segments for name in ("hit rate", "exact", "semantic")} == {None}
    assert {row["95 %"] for row in segments} == {"no data"}
    assert {row["share"] for row in hit_rate.reason_rows(loaded)} == {None}
    assert loaded.funnel == ()
    assert {dial.spark for dial in (overview_rows.rate_dial(traffic), *overview_rows.share_dials(traffic))} == {""}
    drawn = charts.hit_rate(loaded.buckets, HOUR).figure
    assert not [value for trace in drawn.data for value in trace.y if value is not None]


def test_one_probability_for_all_leaves_every_rate(stores: tuple[Store, Store]) -> None:
    front, rate, _ = load(stores, rows(40, 60, sampler="ratio", kept_ratio=0.1))
    assert rate.loaded is not None
    assert front.traffic is not None
    assert any(row["hit rate %"] is not None for row in hit_rate.bucket_rows(rate.loaded))
    assert all(row["hit rate"] is not None for row in hit_rate.segment_rows(rate.loaded))
    assert "the same for all" in rates.sampled_note(rate.loaded.counts)


def test_one_probability_for_all_has_the_n_and_the_batches_of_what_was_received() -> None:
    """Sixty steps, of which every third hits 40 of 50 and the others 10: bursts, so the batches' interval is wider than Wilson's."""
    hits = [40 if step // 5 % 3 == 0 else 10 for step in range(60)]
    buckets = [rates.Bucket(at, Counts({"exact_hit": k, "miss": 50 - k}), False) for at, k in enumerate(hits)]
    whole = {"exact_hit": sum(hits), "miss": 3_000 - sum(hits)}
    kept = Counts(whole, tuple(Sampled(0.01, outcome, n) for outcome, n in whole.items()))
    share, over = kept.hit_rate, rates.over(buckets, whole=kept)
    assert share == Counts(whole).hit_rate
    assert over == rates.over(buckets, whole=Counts(whole))
    assert over is not None
    assert share is not None
    assert rates.labelled(over, share).startswith("95 % over batches")
    assert rates.told_n(kept, share) == "n = 3,000"


def test_a_sampler_that_does_not_tell_is_refused_with_the_reason(stores: tuple[Store, Store]) -> None:
    front, rate, answer = load(stores, rows(40, 60, sampler="tail", kept_ratio=None))
    assert rate.loaded is not None
    assert front.traffic is not None
    assert front.bad
    assert front.sentence.startswith("No hit rate can be told for the last hour: 100 of 100 lookups came through a sampler")
    assert rate.sentence == f"No hit rate can be told for the last hour: {rates.refusal(rate.loaded.counts)}."
    dials = [*hit_rate.coverage_dials(rate.loaded), overview_rows.rate_dial(front.traffic), *overview_rows.share_dials(front.traffic)]
    assert {dial.value for dial in dials} == {"no data"}
    assert "sampler" in dials[0].detail
    assert why_rows.headline(answer).startswith("No change can be told: 100 of 100 lookups")
    assert front.traffic.movers == ()
    assert rates.sampled_note(rate.loaded.counts).startswith("Telemetry is sampled: 100 of 100")
    no_parts(front.traffic, rate.loaded)


def _mixed(made: Sequence[Made]) -> list[Made]:
    """Return the lookups with hits and misses spread over the same time: one after the other they would be two bursts."""
    times = [one.lookup.at_ms for one in made]
    order = np.random.default_rng(0).permutation(len(times))
    return [dataclasses.replace(one, lookup=one.lookup._replace(at_ms=times[at])) for one, at in zip(made, order, strict=True)]


def test_bursts_are_no_change_where_lookups_were_kept_unalike_either() -> None:
    """Twelve minutes at 90 % and twelve at 30 %, twice, against the same the other way round; one in ten of the later hits was kept."""

    def side(first: float, kept: float) -> tuple[Counts, tuple[rates.Bucket, ...]]:
        ratios = [first if minute // 12 % 2 == 0 else 1.2 - first for minute in range(60)]
        counts = [(round(500 * ratio * kept), round(500 * (1 - ratio))) for ratio in ratios]
        buckets = tuple(rates.Bucket(at, Counts({"exact_hit": k, "miss": m}), False) for at, (k, m) in enumerate(counts))
        hits, misses = (sum(column) for column in zip(*counts, strict=True))
        told = (Sampled(kept, "exact_hit", hits),) if kept < 1 else ()
        return Counts({"exact_hit": hits, "miss": misses}, told), buckets

    (now, shown), (before, earlier) = side(0.9, 0.1), side(0.3, 1.0)
    found = hit_rate.Loaded(now, shown, (), (), (), (), Extent(None, None), before=before, earlier=earlier)
    assert found.over() is None
    assert found.change is not None
    assert found.change.ratio == pytest.approx(0.12, abs=0.001)
    assert causes.doubt(found.change) == "within noise"
    alone = difference(now.hit_rate, before.hit_rate)
    assert alone is not None
    assert alone.clear  # as if every lookup were independent of its neighbours


def test_parts_that_are_not_weighed_explain_no_change(stores: tuple[Store, Store]) -> None:
    made = [
        dataclasses.replace(one, lookup=one.lookup._replace(namespace=("faq", "docs")[number % 2]))
        for number, one in enumerate(rows(40, 60))
    ]
    made = [*_mixed(made), *_mixed(rows(40, 60, at_ms=NOW - 3_600_000))]
    sampled = [
        dataclasses.replace(one, lookup=one.lookup._replace(sampler="threshold", kept_ratio=0.1))
        if one.lookup.outcome == "exact_hit" and one.lookup.at_ms >= HOUR.start_ms
        else one
        for one in made
    ]
    front, _, answer = load(stores, sampled)
    assert front.traffic is not None
    assert front.traffic.change is not None
    assert front.traffic.change.clear
    assert front.traffic.movers == ()
    assert "explains" not in front.sentence
    assert answer.change is not None
    assert answer.change.clear
    assert (answer.sides.found, answer.segments, answer.dimensions, answer.became, answer.examples) == (False, (), (), (), ())
    assert why_rows.headline(answer).endswith("Telemetry is sampled: " + rates.NO_PARTS + ".")


@pytest.mark.parametrize(
    ("kept_ratio", "gone", "value", "detail"),
    [
        (0.1, False, "80.0 %", "880 of 1,100 since "),
        (0.1, True, "no data", "telemetry is sampled: how much of what came before"),
        (None, False, "no data", "100 of 200 lookups came through a sampler"),
    ],
)
def test_the_lifetime_s_rate_weighs_what_was_sampled_outside_the_window(
    stores: tuple[Store, Store], kept_ratio: float | None, gone: bool, value: str, detail: str
) -> None:
    sampled = rows(84, 16, at_ms=NOW - 7_200_000, sampler="tail", kept_ratio=kept_ratio)
    telemetry.write(stores[0], sampled, now_ms=NOW)
    if gone:
        with stores[0].write() as conn:
            conn.exec_driver_sql(
                "INSERT INTO removed (kind, before_ms, rows, last_ms, by_size) VALUES ('raw', ?, 1, 0, 0)", (NOW - 3_700_000,)
            )
    _, rate, _ = load(stores, rows(40, 60))
    assert rate.loaded is not None
    lifetime = next(dial for dial in worth.dials(rate.loaded.worth) if dial.label == "Lifetime")
    assert lifetime.value == value
    assert detail in lifetime.detail


def test_where_raw_rows_are_gone_no_rate_is_made_of_what_a_sampler_left(stores: tuple[Store, Store]) -> None:
    load(stores, [*rows(40, 60), *rows(2, 0, at_ms=NOW - 60_000, sampler="threshold", kept_ratio=0.1)])
    with stores[0].write() as conn:
        conn.exec_driver_sql("INSERT INTO removed (kind, before_ms, rows, last_ms, by_size) VALUES ('raw', ?, 1, 0, 0)", (NOW - 1_800_000,))
    front, rate, _ = load(stores, [])
    assert rate.loaded is not None
    assert rate.loaded.counts.total
    assert rate.loaded.counts.hit_rate is None
    assert front.sentence.startswith("No hit rate can be told")


def test_other_filters_see_only_their_own_samples(stores: tuple[Store, Store]) -> None:
    load(stores, rows(10, 10, sampler="tail", kept_ratio=None, namespace="faq"))
    with stores[0].read() as conn:
        counts = count([("exact_hit", 10), ("miss", 10)])
        assert rates.weighed(conn, HOUR, Scope(namespace="docs"), counts) is counts
        assert rates.weighed(conn, HOUR, Scope(namespace="faq"), counts).untold == 20


@pytest.mark.parametrize(
    ("sampler", "hits_kept", "misses_kept", "share", "tokens"),
    [
        ("", None, None, "40.0 %", "40.0 % of 10,000 (n = 100 of 100)"),
        ("ratio", 0.1, 0.1, "40.0 %", "40.0 % of 10,000 (n = 100 of 100)"),
        ("ratio", 0.1, 1.0, "87.0 %, weighed by 1/p", "no data: not all calls were kept alike"),
        ("tail", None, 1.0, "no data: 40 of 100 lookups came through a sampler", "no data: not all calls were kept alike"),
    ],
)
@pytest.mark.parametrize("kind", ["provider_prompt", "kv_prefix"])
def test_shares_of_other_caches_are_weighed_or_refused(  # noqa: PLR0917 - a table's row
    stores: tuple[Store, Store], kind: str, sampler: str, hits_kept: float | None, misses_kept: float | None, share: str, tokens: str
) -> None:
    made = []
    for number, one in enumerate(rows(40, 60)):
        hit = number < 40
        kept, outcome = (hits_kept, "partial_hit") if hit else (misses_kept, "miss")
        told = {"sampler": "" if kept == 1.0 else sampler, "kept_ratio": None if kept == 1.0 else kept}
        values = {"cache_kind": kind, "outcome": outcome, "input_tokens": 100, "cached_input_tokens": 100 if hit else 0, **told}
        made.append(dataclasses.replace(one, lookup=one.lookup._replace(**values)))
    _, rate, _ = load(stores, made)
    assert rate.loaded is not None
    (row,) = hit_rate.other_rows(rate.loaded)
    assert row["lookups"] == 100
    assert str(row["with a cached part"]).startswith(share)
    assert row["input tokens from it"] == tokens


def test_a_sampler_of_one_kind_of_cache_says_nothing_of_another(stores: tuple[Store, Store]) -> None:
    other = [
        dataclasses.replace(one, lookup=one.lookup._replace(cache_kind="provider_prompt", sampler="tail"))
        for one in rows(10, 10, at_ms=NOW - 120_000)
    ]
    _, rate, _ = load(stores, [*rows(40, 60), *other])
    assert rate.loaded is not None
    assert rate.loaded.counts.hit_rate == wilson(40, 100)
    assert "came through a sampler" in str(hit_rate.other_rows(rate.loaded)[0]["with a cached part"])
