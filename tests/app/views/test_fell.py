"""A fall before both compared windows: when the front page tells of it, and when it must not."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.views import overview
from app.views.question import Question
from storage.reads.window import Scope, Window
from storage.store import open_ops
from tests.bench import incident
from tests.bench.views_bench import no_engine
from tests.support import telemetry

NOW = 1_775_001_600_000
HOUR_MS = 3_600_000


def _front(folder: Path, rate: Callable[[float], float], *, hours: float, per_minute: float = 12, kept: Callable[[float], bool]) -> str:
    """Return the front page's sentence of the last hour. rate, kept: by hours ago."""
    rng, rows = random.Random(5), []
    for one in telemetry.make(start_ms=NOW - int(hours * HOUR_MS), end_ms=NOW, per_minute=per_minute, seed=3):
        ago = (NOW - one.lookup.at_ms) / HOUR_MS
        if not kept(ago) or one.lookup.outcome in {"bypass", "error"}:
            continue
        outcome = "exact_hit" if rng.random() < rate(ago) else "miss"
        rows.append(replace(one, lookup=one.lookup._replace(outcome=outcome, tier="memory" if outcome == "exact_hit" else "")))
    store, ops = telemetry.open_store(folder), open_ops(telemetry.settings(folder))
    telemetry.write(store, rows, now_ms=NOW)
    asked = Question(Window.of(NOW - HOUR_MS, NOW), Scope(), "the last hour", NOW)
    sentence = overview.load(lambda: store, lambda: ops, no_engine, asked).sentence
    store.close()
    ops.close()
    return sentence


def _always(_: float) -> bool:
    return True


def test_a_fall_that_stayed_is_told(tmp_path: Path) -> None:
    sentence = _front(tmp_path, lambda ago: 0.8 if ago > 3 else 0.4, hours=6, kept=_always)
    assert "steady" in sentence
    assert "It fell 4" in sentence or "It fell 3" in sentence
    assert "has stayed there" in sentence
    assert "Nothing is wrong" not in sentence


@pytest.mark.parametrize(
    ("rate", "hours", "kept"),
    [
        pytest.param(
            lambda ago: 0.8 if ago > 4 else 0.3 if ago > 1 else 0.5, 6, lambda ago: ago > 1 or ago % 0.1 < 0.01, id="it has risen since"
        ),
        pytest.param(lambda ago: 0.8 if ago > 4 else 0.3 if ago > 0.9 else 0.8, 6, lambda ago: ago > 0.9 or ago < 0.15, id="it is back"),
        pytest.param(lambda ago: 0.8 if ago > 4 else 0.3, 6, lambda ago: ago > 1.05 or 0.2 < ago < 0.22, id="of a few lookups"),
        pytest.param(lambda ago: 0.8 if ago > 4 else 0.3, 6, lambda ago: ago > 1.2, id="of none"),
        pytest.param(lambda ago: 0.8 if ago % 24 > 4 else 0.4, 30, _always, id="as every day at this time"),
    ],
)
def test_a_fall_is_not_told(tmp_path: Path, rate: Callable[[float], float], hours: float, kept: Callable[[float], bool]) -> None:
    assert "stayed" not in _front(tmp_path, rate, hours=hours, kept=kept)


@pytest.mark.parametrize(("ago_min", "told"), [(180, True), (25, False)])
def test_a_purge_before_both_windows_is_told_on_the_front_page(tmp_path: Path, ago_min: int, told: bool) -> None:
    store, ops = telemetry.open_store(tmp_path), open_ops(telemetry.settings(tmp_path))
    incident.write(store, ops, "purge", now_ms=NOW, at_ms=NOW - ago_min * 60_000, hours=5, per_minute=12)
    front = overview.load(lambda: store, lambda: ops, no_engine, Question(Window.of(NOW - HOUR_MS, NOW), Scope(), "the last hour", NOW))
    store.close()
    ops.close()
    assert front.traffic is not None
    assert ("has stayed there" in front.sentence) is told
    if told:
        assert front.traffic.fall is not None
        assert abs(front.traffic.fall.at_ms - (NOW - ago_min * 60_000)) <= 20 * 60_000
        assert front.traffic.fall.ratio > 0.1
        assert "steady" in front.sentence
