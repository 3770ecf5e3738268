"""The regret of earlier times: what is kept of each analysis, and what the newest is compared with."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from app.analysis import regret as analysis
from app.analysis.regret import Amount, Ends
from app.analysis.what_if import analyse
from app.charts import regret as charts
from app.charts import theme
from app.jobs import ahead
from app.jobs import regret as job
from app.views import regret, regret_past
from app.wiring import Wiring
from storage import analyses
from storage.analyses import Analysis
from storage.reads.acts import Mark
from storage.reads.window import Window
from tests.app.analysis.test_what_if import HOUR_MS, events

NOW = 1_775_000_000_000
DAY_MS = 24 * HOUR_MS


@pytest.fixture(scope="module")
def found() -> analysis.Findings:
    made = analyse(events(), ttl_ms=HOUR_MS)
    assert made is not None
    return made


def put(wired: Wiring, namespace: str, ends: Ends, *, end_ms: int) -> None:
    figures = dataclasses.asdict(ends)
    kind, slot = regret_past.KINDS["24h"], regret_past._slot(end_ms, "24h")
    analyses.put(wired.ops(), Analysis(kind, namespace, slot, end_ms + 5, end_ms - DAY_MS, end_ms, 900, {}, figures))


def ends(hits: float, *, of: float = 1_000.0) -> Ends:
    return Ends(Amount(hits / 2), Amount(hits), 500, of)


def course(wired: Wiring, namespace: str | None = None) -> tuple[regret_past.Point, ...]:
    return regret_past.course(wired.ops, horizon="24h", namespace=namespace, now_ms=NOW)


def test_an_analysis_leaves_its_ends_behind_one_an_hour(wired: Wiring, found: analysis.Findings) -> None:
    made = Analysis("regret", "faq", "24h", NOW + 9, NOW - DAY_MS, NOW, 900, {"ttl_s": 60.0}, analysis.as_json(found))
    for later in (0, 60_000, 3 * HOUR_MS):
        for one in regret_past.with_past(dataclasses.replace(made, at_ms=NOW + 9 + later, end_ms=NOW + later)):
            analyses.put(wired.ops(), one)
    points = regret_past.course(wired.ops, horizon="24h", namespace="faq", now_ms=NOW + DAY_MS)
    assert [point.end_ms for point in points] == [NOW + 60_000, NOW + 3 * HOUR_MS]
    assert points[0].ends == analysis.ends(found)
    with wired.ops().read() as conn:
        assert [one.at_ms for one in analyses.newest(conn, kind="regret", horizon="24h")] == [NOW + 9 + 3 * HOUR_MS]
    assert regret_past.with_past(dataclasses.replace(made, result=None)) == [dataclasses.replace(made, result=None)]


def test_a_kept_row_is_small(found: analysis.Findings) -> None:
    kept = regret_past.with_past(Analysis("regret", "faq", "7d", NOW, NOW - DAY_MS, NOW, 900, {}, analysis.as_json(found)))[1]
    assert kept.kind == "regret_7d"
    assert len(json.dumps(kept.result)) < 400


def test_namespaces_sum_and_one_that_was_put_off_counts_as_it_was(wired: Wiring) -> None:
    put(wired, "faq", ends(100), end_ms=NOW - 4 * HOUR_MS)
    put(wired, "docs", ends(50), end_ms=NOW - 4 * HOUR_MS)
    put(wired, "faq", ends(120), end_ms=NOW - 3 * HOUR_MS)
    put(wired, "faq", ends(10), end_ms=NOW)
    assert [(point.ends.high.hits, point.ends.lookups, point.namespaces) for point in course(wired)] == [
        (150, 2_000, 2),
        (170, 2_000, 2),
        (10, 1_000, 1),
    ]
    assert [point.ends.high.hits for point in course(wired, "docs")] == [50]


def test_the_period_before_is_the_one_that_ended_a_day_earlier_or_none(wired: Wiring) -> None:
    for hours in (0, 20, 25, 50):
        put(wired, "faq", ends(hours), end_ms=NOW - hours * HOUR_MS)
    points = course(wired)
    assert regret_past.before(points, horizon="24h", end_ms=NOW) == points[1]
    assert regret_past.before(points, horizon="24h", end_ms=NOW + 10 * HOUR_MS) is None
    assert regret_past.before((), horizon="24h", end_ms=NOW) is None


def test_the_dial_says_what_it_is_compared_with(wired: Wiring, found: analysis.Findings) -> None:
    made = Analysis("regret", "faq", "24h", NOW, NOW - DAY_MS, NOW, 900, {"usable": 90}, analysis.as_json(found))
    analyses.put(wired.ops(), made)
    day = regret.load(wired.ops, horizon="24h", namespace=None, now_ms=NOW + 60_000)
    put(wired, "faq", analysis.ends(found), end_ms=NOW)
    alone = regret.front(day, course(wired))
    assert (alone.change, alone.good, alone.spark) == ("no analysis of the 24 h before yet; the first is of 03-31 23:33", None, "")
    most = analysis.ends(found).ratios[1]
    put(wired, "faq", Ends(Amount(0.0), Amount(0.0), 500, 1_000.0), end_ms=NOW - DAY_MS)
    worse = regret.front(day, course(wired))
    assert worse.change == f"+{most * 100:.1f} points at most on the 24 h to 03-30 23:33 (0.0 % of lookups)"
    assert worse.spark.endswith("█")


def test_the_course_marks_what_was_done(wired: Wiring) -> None:
    put(wired, "faq", ends(100), end_ms=NOW - 4 * HOUR_MS)
    put(wired, "faq", ends(120), end_ms=NOW)
    mark = Mark("", NOW - HOUR_MS, "purge", "done", "faq", "ann", "")
    drawn = charts.course(course(wired), Window.of(NOW - 5 * HOUR_MS, NOW), [mark]).figure
    assert [(one.name, list(one.x)) for one in drawn.data if one.name == "purge"] == [("purge", theme.times([mark.at_ms]))]
    assert len(drawn.layout.shapes) == 1


def test_figures_of_another_version_and_a_store_that_fails_are_no_points(wired: Wiring) -> None:
    analyses.put(wired.ops(), Analysis("regret_24h", "faq", regret_past._slot(NOW, "24h"), NOW, 0, NOW, 9, {}, {"other": 1}))
    assert course(wired) == ()

    def fails() -> None:
        raise OSError

    assert regret_past.course(wired.ops, horizon="7d", namespace=None, now_ms=NOW) == ()


def test_kept_figures_are_removed_after_their_time(wired: Wiring, tmp_path: Path) -> None:
    put(wired, "faq", ends(1), end_ms=NOW - 9 * DAY_MS)
    put(wired, "faq", ends(2), end_ms=NOW - 7 * DAY_MS)
    job.schedule(wired.ops(), now_ms=NOW)
    with wired.ops().read() as conn:
        kept = analyses.between(conn, kind="regret_24h", first="", last="9")
    assert [one.end_ms for one in kept] == [NOW - 7 * DAY_MS]
    assert ahead.KEEP_MS == 7 * DAY_MS
