"""The view models of Overview, Hit rate, Traces and Sources on a seeded database, on an empty one, and with sources failing."""

import contextlib
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from app.adapters.base import EngineAdapter
from app.analysis.hit_rate import Counts
from app.charts import latency as latency_chart
from app.charts import rates as rate_charts
from app.charts import waterfall
from app.errors import EngineUnavailable
from app.views import hit_rate, overview, overview_rows, rates, sources, traces, words
from app.views.decision import PolicyNow, explain
from app.views.question import Question
from storage import counters, spans
from storage.errors import StoreMissing
from storage.reads.sources import Point
from storage.reads.traces import Search
from storage.reads.window import Extent, Scope, Window
from storage.rows import Scrape, SourceBatch, SourceKey
from storage.store import Store, open_ops, open_telemetry
from tests.support import telemetry

NOW = 1_775_000_000_000
HOUR = Window.of(NOW - 3_600_000, NOW)


def no_store() -> NoReturn:
    raise StoreMissing("there is no telemetry database yet; start the collector")


def no_engine() -> EngineAdapter:
    raise EngineUnavailable("no gateway answers at http://127.0.0.1:1")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    opened = telemetry.open_store(Path(tmp_path_factory.mktemp("views")))
    telemetry.seed(opened, now_ms=NOW, hours=2, per_minute=20)
    yield opened
    opened.close()


@pytest.fixture
def ops(tmp_path: Path) -> Iterator[Store]:
    opened = open_ops(telemetry.settings(tmp_path))
    yield opened
    opened.close()


def _overview(store: Store, ops: Store) -> overview.Overview:
    return overview.load(lambda: store, lambda: ops, no_engine, Question(HOUR, Scope(), "the last hour", NOW))


def test_overview_names_its_failed_source_and_shows_the_rest(store: Store, ops: Store) -> None:
    view = _overview(store, ops)
    assert [failure.source for failure in view.failures] == [overview.GATEWAY]
    assert view.traffic is not None
    assert view.traffic.counts.total > 0
    assert "Hit rate" in view.sentence
    assert "Gateway: does not answer" in view.sentence
    assert view.bad


def test_overview_says_how_many_models_the_upstream_fails_by() -> None:
    told = {"configured": True, "host": "api.example"}
    assert overview._upstream(told) == overview.Health("Upstream", "ok", "api.example")
    assert overview._upstream({**told, "failing": [{}]}) == overview.Health("Upstream", "warn", "api.example: calls to 1 model fail")
    assert overview._upstream({**told, "failing": [{}, {}]}) == overview.Health("Upstream", "warn", "api.example: calls to 2 models fail")
    assert overview._upstream({}) == overview.Health("Upstream", "warn", "not configured")


def test_overview_dials_share_one_denominator(store: Store, ops: Store) -> None:
    traffic = _overview(store, ops).traffic
    assert traffic is not None
    eligible = f"of {traffic.counts.eligible:,}"
    assert all(eligible in dial.detail for dial in overview_rows.share_dials(traffic))
    assert overview_rows.other_dials(traffic)[0].label == "Requests"


def test_overview_without_a_database_says_what_is_hidden(ops: Store) -> None:
    view = overview.load(no_store, lambda: ops, no_engine, Question(HOUR, Scope(), "the last hour", NOW))
    assert view.traffic is None
    assert view.sentence == "No telemetry has been stored yet. Gateway: does not answer."
    assert view.bad
    assert view.failures[0].missing
    assert {failure.source for failure in view.failures} == {overview.TELEMETRY, overview.GATEWAY}


def test_a_database_deleted_while_it_was_open_is_a_failure_and_no_fresh_installation(tmp_path: Path, ops: Store) -> None:
    telemetry.open_store(tmp_path / "gone").close()
    reader = open_telemetry(telemetry.settings(tmp_path / "gone"), write=False)
    (tmp_path / "gone" / "telemetry.db").unlink()
    view = _overview(reader, ops)
    reader.close()
    unknown = "The telemetry database does not answer: what the cache did is not known here"
    assert view.sentence == f"{unknown}. Gateway: does not answer."
    assert not view.failures[0].missing
    assert "restart the process that writes it" in view.failures[0].message


@pytest.mark.parametrize(("later_ms", "told"), [(0, None), (30 * 60_000, "Nothing has come for 30 min")])
def test_nothing_is_not_wrong_while_nothing_comes(store: Store, ops: Store, later_ms: int, told: str | None) -> None:
    now = NOW + later_ms
    shown = Window.of(now - 3_600_000, now)
    view = overview.load(lambda: store, lambda: ops, no_engine, Question(shown, Scope(), "the last hour", now))
    assert (told or "") in view.sentence
    assert ("Nothing has come" in view.sentence) == (told is not None)
    assert "Nothing is wrong" not in view.sentence  # no gateway answers


def test_an_empty_window_has_no_hit_rate_and_is_not_zero(tmp_path: Path, ops: Store) -> None:
    empty = telemetry.open_store(tmp_path / "empty")
    view = _overview(empty, ops)
    empty.close()
    assert view.traffic is not None
    assert view.traffic.counts.hit_rate is None
    assert "0 %" not in view.sentence
    assert all(dial.value == "no data" for dial in [overview_rows.rate_dial(view.traffic), *overview_rows.share_dials(view.traffic)])


def test_hit_rate_tables_add_up(store: Store, ops: Store) -> None:
    view = hit_rate.load(lambda: store, lambda: ops, Question(HOUR, Scope(), "the last hour", NOW))
    assert view.loaded is not None
    rows = hit_rate.segment_rows(view.loaded)
    assert sum(int(str(row["n"])) for row in rows) == view.loaded.counts.eligible
    assert sum(step.share.k for step in view.loaded.funnel) == view.loaded.counts.eligible
    assert sum(reason.lookups for reason in view.loaded.reasons if reason.outcome == "miss") == view.loaded.counts.of("miss")
    assert hit_rate.segments_title(dataclasses.replace(view.loaded, chosen_by=2)).endswith("busiest, told by one lookup in 2)")


def test_the_compared_period_is_drawn_and_listed_beside_the_hit_rate(store: Store, ops: Store) -> None:
    before = HOUR.shifted(47 * 60_000)  # no whole number of the chart's steps
    view = hit_rate.load(lambda: store, lambda: ops, Question(HOUR, Scope(), "now", NOW, before=before))
    assert view.loaded is not None
    rows = hit_rate.bucket_rows(view.loaded)
    told = [row for row in rows if row["hit rate % then"] is not None]
    assert len(told) > len(rows) // 2
    assert sum(int(str(row["n then"])) for row in told) == pytest.approx(view.loaded.before.eligible, rel=0.1)
    assert all(row["compared with (UTC)"] < row["time (UTC)"] for row in told)  # type: ignore[operator]
    drawn = rate_charts.hit_rate(view.loaded.buckets, HOUR, earlier=view.loaded.beside, compared=view.loaded.compared).figure
    line = next(trace for trace in drawn.data if trace.name.endswith(", compared"))
    assert [None if value is None else round(value, 1) for value in line.y] == [row["hit rate % then"] for row in rows]
    assert line.name.startswith(words.span(before.start_ms, before.end_ms))


def test_charts_are_fixed_to_the_window_and_ratios_to_a_hundred_per_cent(store: Store, ops: Store) -> None:
    traffic = _overview(store, ops).traffic
    assert traffic is not None
    rate = rate_charts.hit_rate(traffic.buckets, HOUR).figure
    assert list(rate.layout.yaxis.range) == [0, 100]
    assert rate_charts.outcomes(traffic.buckets, HOUR).figure.layout.barmode == "stack"
    assert latency_chart.figure(traffic.latency, HOUR).figure.data


def test_buckets_without_lookups_are_gaps() -> None:
    found = rates.buckets([], HOUR, cache_kind="response", now_ms=NOW)
    assert found
    assert all(bucket.counts.hit_rate is None for bucket in found)
    line = rate_charts.hit_rate(found, HOUR).figure.data[-1]
    assert all(value is None for value in line.y)


@pytest.mark.parametrize("outcome", ["exact_hit", "semantic_hit", "miss", "bypass", "error"])
def test_a_trace_of_every_outcome_is_explained_in_words(store: Store, outcome: str) -> None:
    listing = traces.find(lambda: store, window=HOUR, scope=Scope(), search=Search(outcome=outcome), now_ms=NOW)
    assert listing.rows
    trace = traces.load(lambda: store, no_engine, trace_id=listing.rows[0].trace_id.hex())
    assert trace is not None
    assert len(trace.decisions) == 1
    assert trace.decisions[0].headline
    assert {bar.kind for bar in trace.bars} == {"span", "lookup", "step"}
    assert waterfall.figure(trace).figure.data
    assert [failure.source for failure in trace.failures] == [traces.GATEWAY]


def test_an_unknown_or_malformed_trace_id_is_no_trace(store: Store) -> None:
    assert traces.load(lambda: store, no_engine, trace_id="00" * 16) is None
    assert traces.load(lambda: store, no_engine, trace_id="not hex") is None


def test_orphans_and_clock_skew_are_shown_as_sent_and_flagged(tmp_path: Path) -> None:
    store = telemetry.open_store(tmp_path)
    made = next(telemetry.make(start_ms=NOW - 60_000, end_ms=NOW, per_minute=5))
    lookup = made.gateway[0]._replace(end_ns=made.gateway[0].start_ns - 5_000_000)
    spans.write(store, [SourceBatch(telemetry.GATEWAY, [lookup], [made.lookup])], now_ms=NOW)
    trace = traces.load(lambda: store, no_engine, trace_id=made.lookup.trace_id.hex())
    store.close()
    assert trace is not None
    missing, first = trace.bars[:2]
    assert (missing.kind, missing.depth, first.depth) == ("missing", 0, 1)
    assert first.duration_ms == -5
    assert len(first.flags) == 2
    assert len(trace.notes) == 2


def test_the_decision_compares_the_threshold_then_and_now(store: Store) -> None:
    listing = traces.find(lambda: store, window=HOUR, scope=Scope(), search=Search(outcome="semantic_hit"), now_ms=NOW)
    trace = traces.load(lambda: store, no_engine, trace_id=listing.rows[0].trace_id.hex())
    assert trace is not None
    with store.read() as conn:
        from storage.reads.traces import trace_lookups

        row = trace_lookups(conn, listing.rows[0].trace_id)[0]
    later = PolicyNow(version=9, switch="on", threshold=0.999, live=frozenset({"other"}))
    told = " ".join(explain(row, {}, later).sentences)
    assert "would not serve today" in told
    assert "version 3 then and is version 9 now" in told
    assert "purged since" in told


def test_tenants_text_never_acts_in_a_figure() -> None:
    from app.charts import theme

    shown = theme.label(telemetry.HOSTILE, 100)
    assert "<b>" not in shown
    assert "\u202e" not in shown


def test_a_counters_growth_survives_resets_and_births() -> None:
    points = [Point(1, "{}", at, value) for at, value in ((0, 100.0), (10, 130.0), (20, 5.0), (30, 9.0))]
    assert sources.increase(points, known_from_ms=0) == (39.0, 1)
    assert sources.increase(points[2:], known_from_ms=0) == (9.0, 0)


def test_sources_say_when_nothing_was_scraped(store: Store) -> None:
    view = sources.load(lambda: store, window=HOUR, now_ms=NOW)
    assert view.reconciliation is None
    assert view.bad
    assert len(sources.source_rows(view)) == 2


def test_of_very_many_senders_the_newest_are_shown_and_all_are_counted(tmp_path: Path) -> None:
    many = sources.MOST_SENDERS + 20
    with contextlib.closing(telemetry.open_store(tmp_path)) as opened:
        counters.write_scrape(opened, SourceKey("scrape", "gateway", "a"), Scrape(NOW - HOUR.length_ms), now_ms=1, max_series=1)
        for number in range(many):
            key = SourceKey("otlp_traces", "pod", f"instance {number}")
            spans.write(opened, [SourceBatch(key, rejects={"expired": 1})], now_ms=NOW - many + number)
        view = sources.load(lambda: opened, window=HOUR, now_ms=NOW)
    shown = [str(row["instance"]) for row in sources.source_rows(view)]
    assert shown == [*(f"instance {number}" for number in range(many - 1, 19, -1)), "a"], "a target that is scraped is always shown"
    assert f"{many + 1:,} sources, of which the {sources.MOST_SENDERS:,} senders heard last are shown" in view.sentence


def _traffic(now: tuple[int, int], before: tuple[int, int]) -> overview.Traffic:
    """Return an hour of the same minutes against another one. now, before: hits and misses a minute."""

    def minutes(hits: int, misses: int) -> tuple[rates.Bucket, ...]:
        return tuple(
            rates.Bucket(at, Counts({"exact_hit": hits + at % 7 - 3, "miss": misses - at % 7 + 3}), False) for at in range(0, 59 * 61, 61)
        )

    counts, earlier = (Counts({"exact_hit": 60 * hits, "miss": 60 * misses}) for hits, misses in (now, before))
    none = rates.LatencySide(0, None, None)
    latency = rates.LatencyView(none, none, (), 60_000, 1)
    nothing = overview.Sum(None, 0, 0)
    return overview.Traffic(counts, earlier, minutes(*now), latency, nothing, nothing, (), Extent(None, None), (), earlier=minutes(*before))


def test_a_certain_change_that_is_too_small_to_act_on_is_no_bad_news() -> None:
    trifle = _traffic((11_940, 8_060), (12_020, 7_980))  # 59.7 % of 1.2M, and 60.1 %
    told, bad = overview._change(trifle, (), "the hour before")
    assert told == ", down 0.4 points on the hour before (60.1 %), too little to act on."
    assert not bad
    dial = overview_rows.rate_dial(trifle)
    assert dial.change == "−0.4 points, too little to act on"
    assert dial.good is None


@pytest.mark.parametrize(("now", "told", "bad"), [(11_000, "down 5.1 points", True), (13_000, "up 4.9 points", False)])
def test_a_certain_change_that_is_large_is_news(now: int, told: str, bad: bool) -> None:
    found = _traffic((now, 20_000 - now), (12_020, 7_980))
    sentence, is_bad = overview._change(found, (), "the hour before")
    assert told in sentence
    assert is_bad is bad
    assert overview_rows.rate_dial(found).good is not bad


def test_a_rate_of_few_lookups_is_not_compared() -> None:
    """29 of 29 against none of 29 is as clear as can be, and no finding on any page."""
    hits, misses = Counts({"exact_hit": 29}), Counts({"miss": 29})
    few = dataclasses.replace(_traffic((1, 1), (1, 1)), counts=misses, before=hits, buckets=(), earlier=())
    told, bad = overview._change(few, (), "the hour before")
    assert "too little in the hour before to compare" in told
    assert not bad
    beside = hit_rate.Loaded(misses, (), (), (), (), (), Extent(None, None), before=hits)
    for dial in (overview_rows.rate_dial(few), hit_rate.coverage_dials(beside)[0]):
        assert (dial.change, dial.good) == ("−100.0 points, too few to compare", None)
    asked = Question(HOUR, Scope(), "the last hour", NOW, before_name="the hour before")
    assert hit_rate._sentence(beside, asked) == (
        "Hit rate 0.0 % (0.0–11.7 % as if independent, n = 29) in the last hour: no hits.",
        False,
    )


def test_overview_compares_with_the_period_that_was_chosen(store: Store, ops: Store) -> None:
    def load(before: Window, name: str) -> overview.Overview:
        return overview.load(
            lambda: store,
            lambda: ops,
            no_engine,
            Question(HOUR, Scope(), "the last hour", NOW, before=before, before_name=name),
        )

    assert load(HOUR.previous, "the period before").traffic == _overview(store, ops).traffic
    day = load(HOUR.shifted(86_400_000), "the day before")
    assert day.traffic is not None
    assert day.traffic.before.total == 0
    assert "too little in the day before to compare" in day.sentence


def test_a_miss_without_a_reason_is_one_that_nothing_stored_matches() -> None:
    loaded = hit_rate.Loaded(Counts({"miss": 3, "exact_hit": 1}), (), (), (), (hit_rate.Reason("miss", "", 3, 3),), (), Extent(None, None))
    told, _ = hit_rate._sentence(loaded, Question(HOUR, Scope(), "the last hour", NOW))
    assert "nothing stored that matches (3 of 3)" in told
    assert hit_rate.reason_rows(loaded)[0]["reason"] == "nothing stored that matches"


def test_a_scrape_has_no_dialect_to_understand(tmp_path: Path) -> None:
    from storage import metrics
    from storage.rows import SourceKey

    opened = telemetry.open_store(tmp_path)
    target = SourceKey("scrape", "http://127.0.0.1:1/metrics", "", "", "")
    metrics.record_scrape_error(opened, target, "connection refused", NOW)
    view = sources.load(lambda: opened, window=HOUR, now_ms=NOW)
    assert sources.source_rows(view)[0]["dialect"] == "Prometheus text"
    opened.close()


def test_a_spark_keeps_gaps_and_its_axis() -> None:
    assert words.spark([0.0, None, 0.5, 1.0], top=1.0) == "▁·▅█"
    assert len(words.spark([0.1] * 75, top=1.0)) == 15
    # A part's rate is that of its lookups, not the mean of its buckets' rates: one hit of one beside none of 99.
    assert words.spark([1.0, 0.0, None], top=1.0, most=1, weights=[1, 99, 0]) == "▁"


def test_the_decision_of_a_held_out_lookup_tells_how_far_the_answers_agree(store: Store) -> None:
    listing = traces.find(lambda: store, window=HOUR, scope=Scope(), search=Search(outcome="miss"), now_ms=NOW)
    with store.read() as conn:
        from storage.reads.traces import trace_lookups

        row = {**trace_lookups(conn, listing.rows[0].trace_id)[0], "held_out": True, "holdout_propensity": 0.9}
    told = explain(row, {"cachescope.holdout.agreement_ratio": 0.75}, None).sentences
    assert "The answer held out and the upstream's have 75.0 % of their words in common." in told
    assert not any("in common" in sentence for sentence in explain(row, {}, None).sentences)


def test_the_decision_tells_what_the_key_was_made_of(store: Store) -> None:
    from storage.reads.traces import trace_lookups

    listing = traces.find(lambda: store, window=HOUR, scope=Scope(), search=Search(outcome="miss"), now_ms=NOW)
    with store.read() as conn:
        row = trace_lookups(conn, listing.rows[0].trace_id)[0]
    for normalised, told in ((True, "the normal form"), (False, "what was sent"), ([], None), (None, None)):
        facts = dict(explain(row, {"cachescope.normaliser": "sql/1", "cachescope.normalised": normalised}, None).facts)
        assert (facts["normaliser"], facts.get("key of")) == ("sql/1", told)
