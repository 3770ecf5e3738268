"""Golden figures: what each chart of Overview, Hit rate and Traces draws. Refresh with REFRESH_GOLDEN=1 and read the difference."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from app.analysis.hit_rate import Counts
from app.analysis.intervals import wilson
from app.charts import latency, rates, waterfall
from app.charts.theme import Chart
from app.views.rates import Bucket, Funnel, LatencyBucket, LatencySide, LatencyView
from app.views.trace_tree import Bar
from app.views.traces import Trace
from storage.reads.acts import Mark
from storage.reads.window import Window
from tests.support.telemetry import HOSTILE

GOLDEN = Path(__file__).parents[2] / "golden" / "figures"
START = 1_775_000_040_000
WINDOW = Window.of(START, START + 180_000)
BUCKETS = (
    Bucket(START, Counts({"exact_hit": 4, "semantic_hit": 2, "miss": 3, "bypass": 1}), False),
    Bucket(START + 60_000, Counts(), False),
    Bucket(START + 120_000, Counts({"exact_hit": 1, "coalesced": 1, "miss": 2, "error": 1}), True),
)
MARKS = (Mark("a" * 32, START + 90_000, "purge", "done", HOSTILE, "ann"),)
BARS = (
    Bar("POST /ask", "shop", "span", 0, 0.0, 30.0, "", "", ()),
    Bar(HOSTILE, "gateway", "lookup", 1, 2.0, 25.0, "miss", "", ()),
    Bar("embed", "gateway", "step", 2, 2.1, 4.0, "", "", ()),
    Bar("chat", "gateway", "span", 2, 8.0, -1.0, "", "<b>failed</b>", ("ends before it starts",)),
)


def _charts() -> dict[str, Chart]:
    steps = [Funnel(name, outcome, share) for name, outcome, k in (("memory tier", "exact_hit", 5), ("upstream (miss)", "miss", 5))
             if (share := wilson(k, 10))]  # fmt: skip
    took = (LatencyBucket(START, "hit", 6, 1.0, 4.0), LatencyBucket(START, "no hit", 3, 400.0, 900.0))
    side = LatencySide(9, 1.0, 900.0)
    return {
        "outcomes": rates.outcomes(BUCKETS, WINDOW, MARKS),
        "hit_rate": rates.hit_rate(BUCKETS, WINDOW, MARKS),
        "funnel": rates.funnel(steps, {"range": "1h"}),
        "latency": latency.figure(LatencyView(side, side, took, WINDOW.bucket_ms, 1), WINDOW),
        "waterfall": waterfall.figure(Trace("ab" * 16, START, 30.0, BARS, (), (), (), drawn=BARS)),
    }


def test_points_to_which_late_data_may_still_come_are_hollow() -> None:
    took = (LatencyBucket(START, "hit", 6, 1.0, 4.0), LatencyBucket(START + 120_000, "hit", 3, 4.0, 9.0))
    side = LatencySide(9, 1.0, 9.0)
    view = LatencyView(side, side, took, 60_000, 1)
    for made, last in (
        (rates.hit_rate(BUCKETS, WINDOW), "circle-open"),
        (latency.figure(view, WINDOW, late_ms=START + 120_000), "circle-open"),
        (rates.hit_rate(BUCKETS[:2], WINDOW), "circle"),
    ):
        assert list(made.figure.data[-1].marker.symbol)[-2:] == ["circle", last]


@pytest.mark.parametrize("name", ["outcomes", "hit_rate", "funnel", "latency", "waterfall"])
def test_a_figure_is_drawn_as_before(name: str) -> None:
    chart = _charts()[name]
    figure = json.loads(chart.figure.to_json(engine="json"))
    figure["layout"].pop("template", None)  # the library's own, and long
    made = json.dumps({"title": chart.title, "alt": chart.alt, **figure}, indent=1, sort_keys=True, ensure_ascii=True) + "\n"
    file = GOLDEN / f"{name}.json"
    if os.environ.get("REFRESH_GOLDEN"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(made)
    assert made == file.read_text()
    assert "<b>" not in made
    assert "\\u202e" not in made
