"""The question "the hit rate fell at 14:00, why?" on recorded incidents, through the store and the view."""

import math
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.analysis.attribution import Segment, explain, tabulate
from app.analysis.hit_rate import ELIGIBLE, HITS
from app.analysis.intervals import Difference, difference
from app.views import causes, hit_rate, marks, overview, overview_rows, why, why_rows
from app.views.question import Question
from app.views.why import Why
from engine import semconv
from storage import counters, metrics
from storage.errors import StoreMissing
from storage.reads import changes
from storage.reads.acts import Mark
from storage.reads.window import Scope, Window
from storage.rows import SampleRow, Scrape, SourceKey
from storage.store import Store, open_ops
from tests.bench import incident
from tests.bench.views_bench import no_engine
from tests.support import telemetry

NOW = 1_775_001_600_000
AT = NOW - 20 * 60_000
HOUR = Window.of(NOW - 3_600_000, NOW)
Load = Callable[..., Why]


def no_store() -> Store:
    raise StoreMissing("there is no telemetry database yet; start the collector")


@pytest.fixture(scope="module", params=incident.KINDS)
def loaded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Load]]:
    folder = Path(tmp_path_factory.mktemp(request.param))
    store, ops = telemetry.open_store(folder), open_ops(telemetry.settings(folder))
    incident.write(store, ops, request.param, now_ms=NOW, at_ms=AT, hours=1.0, per_minute=20)

    def load(window: Window = HOUR, **more: object) -> Why:
        given = {"window": window, "before": window.previous, "before_name": "the period before", "scope": Scope(), **more}
        return why.load(lambda: store, lambda: ops, **given)  # type: ignore[arg-type]

    yield request.param, load
    store.close()
    ops.close()


ANSWERS = {"purge": "cache", "model": "model", "traffic": "traffic", "outage": "none"}
FIRST = {"purge": "namespace faq", "model": "model version 2026-10", "traffic": "client batch-import/1"}


def test_an_incident_is_laid_to_its_cause_and_its_minute(loaded: tuple[str, Load]) -> None:
    kind, load = loaded
    view = load(window=Window.of(NOW - 1_800_000, NOW)) if kind == "outage" else load()
    assert view.verdict.whose == ANSWERS[kind]
    told = why_rows.headline(view)
    if kind == "outage":
        assert "no lookup came" in told
        return
    assert causes.segment_name(view.segments[0]) == FIRST[kind]
    assert view.sides.found
    assert abs(view.sides.now.start_ms - AT) <= 3 * 60_000
    assert told.startswith(why_rows.WHOSE[ANSWERS[kind]])
    assert "points since" in told
    assert FIRST[kind].removeprefix("namespace ").split()[-1] in told
    if kind == "purge":
        assert "purge of faq, by ann" in told
    assert view.examples
    assert all(row["trace"] for row in why_rows.example_rows(view))
    for example in view.examples:
        assert example.outcome in {"miss", "coalesced"}
        assert view.sides.now.start_ms <= example.at_ms < view.sides.now.end_ms


def test_a_picked_time_and_a_chosen_period_are_compared_as_asked(loaded: tuple[str, Load]) -> None:
    _, load = loaded
    picked = load(since_ms=AT)
    assert (picked.sides.now.start_ms, picked.sides.before.end_ms) == (AT // 60_000 * 60_000,) * 2
    assert picked.sides.now.length_ms == picked.sides.before.length_ms
    chosen = load(find=False)
    assert chosen.sides.before == HOUR.previous


def test_tables_hold_finite_numbers_and_hits_and_misses_sum_to_the_change(loaded: tuple[str, Load]) -> None:
    _, load = loaded
    view = load(since_ms=AT)
    change = view.change
    assert change is not None
    for side in (HITS, ("miss", "coalesced")):
        assert sum(one.effect_ratio for one in view.became if one.outcome in side) == pytest.approx(change.ratio)
    for rows in (why_rows.segment_rows(view, {}), why_rows.part_rows(view), why_rows.became_rows(view), why_rows.dimension_rows(view)):
        assert all(math.isfinite(value) for row in rows for value in row.values() if isinstance(value, float))


def test_too_little_and_nothing_are_said(loaded: tuple[str, Load]) -> None:
    _, load = loaded
    empty = load(window=Window.of(NOW + 86_400_000, NOW + 90_000_000))
    assert "no eligible lookups" in why_rows.headline(empty)
    few = load(since_ms=HOUR.end_ms - 60_000)
    assert few.segments == ()
    assert "at least 30 are needed" in why_rows.headline(few)


def test_without_a_database_the_failure_is_named(tmp_path: Path) -> None:
    ops = open_ops(telemetry.settings(tmp_path))
    view = why.load(no_store, lambda: ops, window=HOUR, before=HOUR.previous, before_name="the period before", scope=Scope())
    ops.close()
    assert [failure.source for failure in view.failures] == [why.TELEMETRY]
    assert view.verdict.whose == "none"


def test_hostile_names_and_one_lookup_are_no_trouble(tmp_path: Path) -> None:
    store = telemetry.open_store(tmp_path)
    made = next(telemetry.make(start_ms=NOW - 60_000, end_ms=NOW, per_minute=5))
    made = incident.replace(made, lookup=made.lookup._replace(namespace=telemetry.HOSTILE, outcome="miss", tenant=""))
    telemetry.write(store, [made], now_ms=NOW)
    ops = open_ops(telemetry.settings(tmp_path))
    view = why.load(lambda: store, lambda: ops, window=HOUR, before=HOUR.previous, before_name="the period before", scope=Scope())
    assert view.rate_now is not None
    assert (view.rate_now.k, view.rate_now.n) == (0, 1)
    store.close()
    ops.close()


def test_a_wide_window_is_decomposed_from_a_part_and_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = telemetry.open_store(tmp_path)
    telemetry.seed(store, now_ms=NOW, hours=1, per_minute=20)
    monkeypatch.setattr(changes, "MOST_LOOKUPS", 300)
    with store.read() as conn:
        every = changes.sample(conn, HOUR, Scope(), most=300).number
        read = sum(n for _, n in changes.segments(conn, HOUR, Scope()).counts.values())
    store.close()
    assert every == 4
    assert 200 < read <= 300


def test_sides_that_are_read_in_unlike_parts_keep_their_own_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,600 lookups before, of which one in so many is read, and 200 now, all of which are: half of each side is of `a`."""
    store, ops = telemetry.open_store(tmp_path), open_ops(telemetry.settings(tmp_path))
    half = NOW - 1_800_000
    for start, end, count, hit in ((NOW - 3_600_000, half, 1_600, lambda i: i % 4 > 0), (half, NOW, 200, lambda i: i % 2 and i % 3 > 0)):
        made = telemetry.make(start_ms=start, end_ms=end, per_minute=count / 30, seed=start % 97)
        told = [
            incident.replace(
                one,
                lookup=one.lookup._replace(
                    namespace="ab"[number * 5 // 7 % 2], outcome="exact_hit" if hit(number) else "miss", tier="memory"
                ),
            )
            for number, one in enumerate(made)
        ]
        telemetry.write(store, told, now_ms=NOW)
    monkeypatch.setattr(changes, "MOST_LOOKUPS", 250)
    now = Window.of(half, NOW)
    view = why.load(lambda: store, lambda: ops, window=now, before=now.previous, before_name="before", scope=Scope(), find=False)
    store.close()
    ops.close()
    assert view.part_now.stride == 1
    assert view.part_before.stride > 4
    assert (view.part_now.n, view.part_before.n < 300) == (view.counts_now.eligible, True)
    rows = why_rows.segment_rows(view, {})
    assert rows
    for row, one in zip(rows, view.segments, strict=True):
        assert row["share before"] == pytest.approx(one.n_before / view.part_before.n * 100)
        assert row["share now"] == pytest.approx(one.n_now / view.part_now.n * 100)
        if len(one.literals) == 1 and one.literals[0][0] == "namespace":
            assert row["share before"] == pytest.approx(50, abs=8)
            assert row["share now"] == pytest.approx(50, abs=8)
    told = why_rows.rates_told(view)
    assert f"decomposed before from one lookup in {view.part_before.stride} (n = {view.part_before.n})" in told
    assert "now from one lookup" not in told


@pytest.mark.parametrize("gone_min", [60, 90])
def test_what_retention_removed_is_not_called_alike(tmp_path: Path, gone_min: int) -> None:
    """The sums of both hours are there; of the first the lookups are removed, all of them or of half an hour."""
    store, ops = telemetry.open_store(tmp_path), open_ops(telemetry.settings(tmp_path))
    made = list(telemetry.make(start_ms=NOW - 7_200_000, end_ms=NOW, per_minute=10))
    outcomes = ["exact_hit" if one.lookup.at_ms < HOUR.start_ms or number % 3 == 0 else "miss" for number, one in enumerate(made)]
    telemetry.write(
        store,
        [incident.replace(one, lookup=one.lookup._replace(outcome=outcome)) for one, outcome in zip(made, outcomes, strict=True)],
        now_ms=NOW,
    )
    with store.write() as conn:
        raw_ms = NOW - gone_min * 60_000
        conn.exec_driver_sql("DELETE FROM lookups WHERE at_ms < ?", (raw_ms,))
        conn.exec_driver_sql("INSERT INTO removed (kind, before_ms, rows, last_ms, by_size) VALUES ('raw', ?, 1, 0, 0)", (raw_ms,))
    view = why.load(lambda: store, lambda: ops, window=HOUR, before=HOUR.previous, before_name="the hour before", scope=Scope(), find=False)
    store.close()
    ops.close()
    assert view.change is not None
    assert view.change.ratio < -0.5
    assert sum(one.before for one in view.became) == view.counts_before.eligible > view.part_before.n
    assert (view.part_before.n == 0) is (gone_min == 60)
    assert f"decomposed before from those not removed yet (n = {view.part_before.n})" in why_rows.rates_told(view)
    some = "all segments alike, among the lookups of the hour before that are not removed yet"
    left = some if gone_min == 90 else "which segments is not known, for lookups of the hour before are removed"
    assert (left in view.verdict.told) is not bool(view.segments)


@pytest.mark.parametrize("seed", [0, 1])
def test_bursts_are_no_change_on_the_overview_and_none_in_the_answer_below_it(tmp_path: Path, seed: int) -> None:
    """Two hours of one traffic, each minute of which has a rate of its own: up or down by more than lookups one by one would be."""
    store, ops = telemetry.open_store(tmp_path), open_ops(telemetry.settings(tmp_path))
    rng = random.Random(seed)
    own = {minute: rng.betavariate(1.2, 0.8) for minute in range((NOW - 7_200_000) // 60_000, NOW // 60_000)}
    made = [
        incident.replace(
            one,
            lookup=one.lookup._replace(
                outcome="exact_hit" if rng.random() < own[one.lookup.at_ms // 60_000] else "miss",
                tier="memory",
                tenant=f"t{one.lookup.at_ms // 60_000 % 7}",
            ),
        )
        for one in telemetry.make(start_ms=NOW - 7_200_000, end_ms=NOW, per_minute=25, seed=seed)
    ]
    telemetry.write(store, made, now_ms=NOW)
    asked: dict[str, Any] = {"window": HOUR, "scope": Scope()}
    front = overview.load(lambda: store, lambda: ops, no_engine, Question(window_name="the last hour", now_ms=NOW, **asked))
    rate = hit_rate.load(lambda: store, lambda: ops, Question(window_name="the last hour", now_ms=NOW, **asked)).loaded
    told = why.load(lambda: store, lambda: ops, before=HOUR.previous, before_name="the period before", **asked)
    store.close()
    ops.close()
    assert front.traffic is not None
    assert rate is not None
    naive = difference(front.traffic.counts.hit_rate, front.traffic.before.hit_rate)
    assert naive is not None
    assert naive.clear
    assert told.change == front.traffic.change == rate.change
    assert told.verdict.whose == "none"
    assert "within noise" in why_rows.headline(told)
    assert "95 % over batches" in why_rows.rates_told(told)
    for dial in (*overview_rows.share_dials(front.traffic), *hit_rate.coverage_dials(rate)):
        if dial.label in {"Exact", "Exact hits", "Misses"}:
            assert "95 % over batches" in dial.detail
            assert dial.change.endswith("within noise")
            assert dial.good is None


def test_a_fall_halfway_is_no_burst_that_hides_itself(tmp_path: Path) -> None:
    store, ops = telemetry.open_store(tmp_path), open_ops(telemetry.settings(tmp_path))
    made = incident.made("purge", now_ms=NOW, at_ms=NOW - 1_500_000, hours=2, per_minute=30)
    telemetry.write(store, list(made), now_ms=NOW)
    front = overview.load(lambda: store, lambda: ops, no_engine, Question(HOUR, Scope(), "the last hour", NOW))
    store.close()
    ops.close()
    assert front.traffic is not None
    assert front.traffic.change is not None
    assert front.traffic.change.high_ratio < 0
    assert "steady" not in front.sentence


UP, DOWN = Difference(0.2, 0.1, 0.3), Difference(-0.2, -0.3, -0.1)
SIDES = (Window(AT - 1_200_000, AT), Window(AT, NOW))
MISSES = [causes.Became("miss", "no_candidate", 50, 70, 100, 100), causes.Became("exact_hit", "memory", 50, 30, 100, 100)]
BOTH = causes.Lookups(frozenset({"faq", "docs"}), AT - 86_400_000)


def _verdict(at_ms: int, namespace: str, *, step_ms: int | None = 60_000) -> causes.Verdict:
    events = [causes.Event(at_ms, "switch", namespace, f"switch of {namespace}, by root")]
    return causes.verdict(DOWN, (), MISSES, events, sides=SIDES, lookups=BOTH, step_ms=step_ms)


def test_what_came_after_the_change_or_where_nothing_is_looked_up_is_no_cause() -> None:
    assert _verdict(AT, "faq").whose == "cache"
    assert "switch of faq" in _verdict(AT - 600_000, "faq").told
    assert _verdict(AT + 9 * 60_000, "faq").whose == "open"
    assert _verdict(AT + 9 * 60_000, "faq", step_ms=None).whose == "cache"  # of two windows alone no moment is known
    assert _verdict(AT, "elsewhere").whose == "open"
    assert "all segments alike; no act" in _verdict(AT, "elsewhere").told


@pytest.mark.parametrize(("n_before", "n_now", "kept"), [(1_000, 999, 0), (1_000, 900, 1), (0, 999, 1)])
def test_what_holds_nearly_all_of_both_sides_explains_nothing(n_before: int, n_now: int, kept: int) -> None:
    one = Segment((("model_version", ""),), "rate", n_before // 2, n_before, n_now // 4, n_now, 0.0, -0.25, 50.0)
    assert len(causes.told_apart([one], 1_000, 1_000)) == kept


@pytest.mark.parametrize(
    ("change", "first_ms", "reason", "cold"),
    [
        (UP, AT - 900_000, "no_candidate", True),
        (UP, AT - 86_400_000, "no_candidate", False),
        (UP, None, "no_candidate", False),
        (UP, AT - 900_000, "vetoed", False),
        (DOWN, AT - 900_000, "no_candidate", False),
    ],
)
def test_a_cold_start_is_a_cache_that_fills(change: Difference, first_ms: int | None, reason: str, cold: bool) -> None:
    became = [causes.Became("miss", reason, 70, 50, 100, 100), causes.Became("exact_hit", "memory", 30, 50, 100, 100)]
    told = causes.verdict(change, (), became, [], sides=SIDES, lookups=causes.Lookups(frozenset({"faq"}), first_ms), step_ms=60_000)
    assert ("the cache was filling: lookups began at" in told.told) is cold
    assert told.whose == ("cache" if cold or reason == "vetoed" else "open")


def test_a_day_that_began_with_an_empty_cache_is_told_as_that(tmp_path: Path) -> None:
    store, ops = telemetry.open_store(tmp_path), open_ops(telemetry.settings(tmp_path))
    telemetry.write(store, list(telemetry.make(start_ms=NOW - 3_600_000, end_ms=NOW, per_minute=20)), now_ms=NOW)
    half = Window.of(NOW - 1_800_000, NOW)
    view = why.load(lambda: store, lambda: ops, window=half, before=half.previous, before_name="before", scope=Scope(), find=False)
    store.close()
    ops.close()
    assert why_rows.headline(view).startswith("Cache: up ")
    assert "The cache was filling: lookups began at" in why_rows.headline(view)


@pytest.mark.parametrize("processes", [(), ("0",), ("0", "1", "2")])
def test_a_restart_seen_in_scraped_counters_is_a_mark(tmp_path: Path, processes: tuple[str, ...]) -> None:
    """A page of several processes has a series of each: one of them may restart alone, and all together are one restart."""
    store, ops = telemetry.open_store(tmp_path), open_ops(telemetry.settings(tmp_path))
    telemetry.seed(store, now_ms=NOW, hours=0.1)
    target = SourceKey("scrape", "http://127.0.0.1:8080/metrics")
    series: list[dict[str, str]] = [{"process": process} for process in processes] or [{}]
    rounds = [(NOW - 90_000, [50.0, 60.0, 70.0]), (NOW - 60_000, [80.0, 90.0, 100.0]), (NOW - 30_000, [4.0, 5.0, 6.0])]
    if len(series) > 1:
        rounds.append((NOW - 15_000, [8.0, 1.0, 9.0]))
    for at, values in rounds:
        found_there = [
            SampleRow("cachescope_spans_total", metrics.labels_text(labels | {"result": result}), "counter", at, value)
            for labels, value in zip(series, values, strict=False)
            for result in ("created", "exported")
        ]
        counters.write_scrape(store, target, Scrape(at, found_there), now_ms=at, max_series=1)
    found, failure = marks.load(lambda: store, lambda: ops, HOUR, Scope())
    view = hit_rate.load(lambda: store, lambda: ops, Question(HOUR, Scope(), "the last hour", NOW))
    store.close()
    ops.close()
    assert failure is None
    expected = [("restart", NOW - 30_000), ("restart", NOW - 15_000)][: 2 if len(series) > 1 else 1]
    assert [(mark.kind, mark.at_ms) for mark in found] == expected
    assert view.marks == found


def test_an_eviction_surge_is_a_change_and_a_mark(tmp_path: Path) -> None:
    store, ops = telemetry.open_store(tmp_path), open_ops(telemetry.settings(tmp_path))
    telemetry.seed(store, now_ms=NOW, hours=1, per_minute=8)
    for target, each in (("busy", 40.0), ("calm", 1.0)):
        value = 100.0
        for at in range(NOW - 40 * 60_000, NOW, 2 * 60_000):
            value += each if at >= AT else 1.0
            causes_of = [("size", value), ("expired", value * 1_000)]
            found = [SampleRow("cachescope_removals_total", metrics.labels_text({"cause": c}), "counter", at, n) for c, n in causes_of]
            counters.write_scrape(store, SourceKey("scrape", target), Scrape(at, found), now_ms=at, max_series=1)
    asked = {"window": HOUR, "before": HOUR.previous, "before_name": "before", "scope": Scope(), "since_ms": AT}
    view = why.load(lambda: store, lambda: ops, **asked)  # type: ignore[arg-type]
    store.close()
    ops.close()
    (event,) = [event for event in view.events if event.kind == "eviction"]
    assert event.what == "evictions of busy: 400 entries left memory or the store for want of space in 20 min, 9 in as long before"
    (mark,) = [mark for mark in marks.with_changes((), view.events, HOUR) if mark.kind == "eviction"]
    assert (mark.at_ms, mark.detail) == (AT, event.what.removeprefix("evictions "))


def test_changes_seen_in_lookups_are_marks_and_many_are_put_together() -> None:
    old = changes.Versions("faq", "m", "", 1, "on", 0.9, "g", AT - 60_000, AT, 9)
    new = changes.Versions("faq", "m", "", 2, "on", 0.8, "g", AT, AT + 60_000, 9)
    events = causes.versions_changed([old], [new], "old-embedder", "new-embedder", Window.of(AT, NOW))
    found = marks.with_changes((), events, HOUR)
    assert {(mark.kind, mark.detail) for mark in found} >= {
        ("policy", "of faq: 1 → 2"),
        ("threshold", "of faq: 0.9 → 0.8"),
        ("embedder", "old-embedder → new-embedder"),
    }
    acted = [Mark(f"{n}", HOUR.start_ms + n * 1_000, "purge", "done", f"ns-{n % 5}", "ann") for n in range(200)]
    grouped = marks.with_changes(acted, events, HOUR)
    assert len(grouped) < 24
    assert any(mark.detail.startswith("150 times from ") and mark.detail.endswith("of ns-0, ns-1, ns-2 and 2 more") for mark in grouped)
    assert {mark.kind for mark in found} < {mark.kind for mark in grouped}


def test_storage_s_names_are_those_of_engine_and_analysis() -> None:
    assert changes.EMBEDDER_ATTRIBUTE == semconv.EMBEDDER
    assert (changes.HITS, changes.ELIGIBLE) == (HITS, ELIGIBLE)
    assert explain(tabulate(changes.DIMENSIONS, {}, {})) == []
    assert causes.DIMENSION_NAMES.keys() == set(changes.DIMENSIONS)
    assert overview.TELEMETRY == why.TELEMETRY
