"""Sampled telemetry on the Drift page: lookups are made to stand for as many, or the comparison is refused with the reason."""

import random
from collections.abc import Sequence

import pytest

from app.views import drift, drift_ahead, drift_rows
from storage import spans
from storage.reads.window import Scope
from storage.store import Store
from tests.app.views.test_drift import NOW, START_MS
from tests.storage.support import MINUTE_NS, START_NS, Made, batch


def fill(store: Store, asked: Sequence[tuple[str, int, float | None]], *, minute: int, sampler: str = "") -> None:
    """Write lookups of topics in mixed order, each topic with its own length and similarity. asked: (topic, lookups, kept_ratio)."""
    rows = [(topic, ratio, number) for topic, n, ratio in asked for number in range(n)]
    random.Random(minute).shuffle(rows)
    made = []
    for at, (topic, ratio, number) in enumerate(rows):
        near = topic == "near"
        extra = {"prompt_hash": f"{topic}{number % (2 if near else 50)}", "input_tokens": 10 if near else 900}
        extra |= {
            "similarity": 0.97 if near else 0.4,
            "sampler": sampler if ratio != 1 else "",
            "kept_ratio": None if ratio == 1 else ratio,
        }
        start_ns = START_NS + minute * MINUTE_NS + at * 1_000_000_000
        outcome = "semantic_hit" if near else "miss"
        made.append(Made(at + (minute + 100) * 10_000, start_ns=start_ns, outcome=outcome, extra=extra))
    spans.write(store, [batch(*made)], now_ms=START_MS)


def load(store: Store) -> drift.Drift:
    return drift.load(lambda: store, window=NOW, scope=Scope(), window_name="the last hour")


def verdicts(view: drift.Drift) -> dict[object, object]:
    return {row["what"]: row["verdict"] for row in drift_rows.panel_rows(view)}


JUDGED = ("mix of prompts", "entropy", "similarity of candidates", "length of prompts")


def test_what_nobody_sampled_is_as_it_was(store: Store) -> None:
    fill(store, [("near", 500, 1), ("far", 500, 1)], minute=-59)
    fill(store, [("near", 500, 1), ("far", 500, 1)], minute=1)
    whole = load(store)
    assert {verdicts(whole)[name] for name in JUDGED} == {"within chance"}
    assert (whole.sampled, verdicts(whole)["hit rate"]) == ("", "within chance")


def test_a_sampler_that_keeps_misses_cannot_make_drift(store: Store) -> None:
    fill(store, [("near", 500, 1), ("far", 500, 1)], minute=-59)
    fill(store, [("near", 150, 0.3), ("far", 500, 1)], minute=1, sampler="threshold")
    view = load(store)
    assert not set(JUDGED) & {name for name, verdict in verdicts(view).items() if verdict == "changed"}
    assert view.now is not None
    assert view.now.entropy is not None
    assert 250 <= view.now.entropy.n <= 350  # 150 of each are expected
    assert verdicts(view)["hit rate"] == "not told: lookups were not all kept alike"
    assert view.sampled.startswith("Telemetry is sampled: 150 of 650 lookups were kept with a known probability; as many of those kept")


def test_a_sampler_that_keeps_misses_cannot_hide_drift(store: Store) -> None:
    fill(store, [("near", 300, 1), ("far", 300, 1)], minute=-59)
    fill(store, [("near", 300, 0.1), ("far", 300, 1)], minute=1, sampler="ratio")
    view = load(store)
    assert view.bad
    assert {verdicts(view)[name] for name in JUDGED} == {"changed"}
    assert view.now is not None
    assert sum(one > 0.9 for one in view.now.similarities) / len(view.now.similarities) == pytest.approx(10 / 11, abs=0.05)


def test_one_probability_for_all_leaves_every_lookup(store: Store) -> None:
    fill(store, [("near", 200, 1), ("far", 200, 1)], minute=-59)
    fill(store, [("near", 200, 0.1), ("far", 200, 0.1)], minute=1, sampler="ratio")
    view = load(store)
    assert view.now is not None
    assert view.now.entropy is not None
    assert view.now.entropy.n == 400
    assert verdicts(view)["hit rate"] == "within chance"
    assert "; the same for all of a window" in view.sampled
    kept = drift_ahead.from_json(drift_ahead.as_json(view))
    assert kept is not None
    assert kept.sampled == view.sampled


def test_a_sampler_that_does_not_tell_is_refused_with_the_reason(store: Store) -> None:
    fill(store, [("near", 200, 1), ("far", 200, 1)], minute=-59)
    fill(store, [("near", 200, None), ("far", 200, 1)], minute=1, sampler="tail")
    view = load(store)
    assert view.bad
    assert view.sentence.startswith("No mix of prompts can be told for the last hour: 200 of 400 lookups came through a sampler that ")
    assert (drift_rows.dials(view), view.panels, view.findings, drift_rows.lists(view), view.sampled) == ([], (), (), [], "")
    assert view.now is not None
    assert (view.now.largest, view.now.similarities, view.new_share) == ((), (), drift.NewShare(0, 0))
    assert [(dial.value, "came through a sampler" in dial.detail) for dial in drift_rows.front(view, START_MS)] == [("no data", True)] * 2
    kept = drift_ahead.from_json(drift_ahead.as_json(view))
    assert kept is not None
    assert drift.named(kept, window_name="today", before_name="yesterday").sentence.startswith(
        "No mix of prompts can be told for today: 200"
    )


def test_an_earlier_time_that_cannot_be_told_is_not_compared(store: Store) -> None:
    fill(store, [("near", 200, None), ("far", 200, 1)], minute=-59, sampler="tail")
    fill(store, [("near", 200, 1), ("far", 200, 1)], minute=1)
    view = load(store)
    assert "; the period before is not compared: 200 of 400 lookups came through a sampler" in view.sentence
    assert drift_rows.dials(view)[0].value != "no data"
    assert (view.panels, drift_rows.lists(view)) == ((), [])
    assert "came through a sampler" in drift_rows.front(view, START_MS)[1].detail
