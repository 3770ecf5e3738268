"""A fall before both windows that are compared: told on the front page where the rate has stayed low, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.views import overview, rates
from app.views.overview import Overview
from app.views.question import Question
from storage.reads.window import Scope, Window
from storage.store import Store, open_ops
from tests.bench import incident
from tests.bench.views_bench import no_engine
from tests.support import telemetry

NOW = 1_775_001_600_000
MINUTE = 60_000
HOUR = Window.of(NOW - 60 * MINUTE, NOW)
DAY_MIN, NONE = 24 * 60, (0.0, 0)


def front(folder: Path, store: Store, window: Window = HOUR) -> Overview:
    ops = open_ops(telemetry.settings(folder))
    view = overview.load(lambda: store, lambda: ops, no_engine, Question(window, Scope(), "the last hour", NOW))
    ops.close()
    return view


def write(store: Store, minutes: int, of_minute: Callable[[int], tuple[float, int]]) -> None:
    """Write lookups of so many minutes up to now. of_minute: how many minutes ago -> the hit rate, and how many lookups."""
    like = next(telemetry.make(start_ms=NOW - MINUTE, end_ms=NOW, per_minute=5))
    made, owed = [], 0.0
    for ago in range(minutes, 0, -1):
        ratio, count = of_minute(ago)
        for number in range(count):
            owed += ratio
            hit, owed = owed >= 1, owed % 1
            ids = {"trace_id": (len(made) + 1).to_bytes(16, "big"), "span_id": (len(made) + 1).to_bytes(8, "big")}
            told = {"outcome": "exact_hit", "tier": "memory"} if hit else {"outcome": "miss", "tier": ""}
            row = like.lookup._replace(**ids, **told, at_ms=NOW - ago * MINUTE + number * MINUTE // count)  # type: ignore[arg-type]
            made.append(replace(like, lookup=row, gateway=(like.gateway[0]._replace(**ids, parent_id=None),)))  # type: ignore[arg-type]
    telemetry.write(store, made, now_ms=NOW)


@pytest.mark.parametrize(("ago_min", "told"), [(180, True), (25, False)])
def test_a_fall_before_both_windows_is_told_on_the_front_page(tmp_path: Path, store: Store, ago_min: int, told: bool) -> None:
    incident.write(store, None, "purge", now_ms=NOW, at_ms=NOW - ago_min * MINUTE, hours=5, per_minute=12)
    view = front(tmp_path, store)
    assert view.traffic is not None
    assert ("has stayed there" in view.sentence) is told
    if told:
        assert view.traffic.fell is not None
        assert abs(view.traffic.fell.at_ms - (NOW - ago_min * MINUTE)) <= 20 * MINUTE
        assert view.traffic.fell.ratio > 0.1
        assert "steady" in view.sentence


def falls(then: Callable[[int], tuple[float, int]], *, yesterday: tuple[float, int] = NONE) -> Callable[[int], tuple[float, int]]:
    """Return a rate of 80 % until three hours ago and 30 % since; of the last hour, and of the same hour a day before, as given."""

    def of_minute(ago: int) -> tuple[float, int]:
        if ago <= 60:
            return then(ago)
        if DAY_MIN < ago <= DAY_MIN + 60:
            return yesterday
        return (0.8 if ago > 180 else 0.3), 8 if ago <= 8 * 60 else 0

    return of_minute


@pytest.mark.parametrize(
    ("then", "told"),
    [
        pytest.param(lambda _: (0.3, 8), True, id="as low"),
        pytest.param(lambda _: (0.38, 8), False, id="clearly up on the hour before"),
        pytest.param(lambda ago: (0.0, 2 if ago == 30 else 0), False, id="two lookups"),
        pytest.param(lambda _: NONE, False, id="no lookup"),
        pytest.param(lambda ago: (0.85, 1) if ago > 20 else NONE, False, id="as high as before it"),
        pytest.param(lambda ago: (0.3, int(ago % 2 == 0)), True, id="thirty lookups"),
    ],
)
def test_a_fall_is_told_only_where_the_range_shows_that_the_rate_has_stayed_low(
    tmp_path: Path, store: Store, then: Callable[[int], tuple[float, int]], told: bool
) -> None:
    write(store, 8 * 60, falls(then))
    view = front(tmp_path, store)
    assert view.traffic is not None
    assert ("has stayed there" in view.sentence) is told
    assert (view.traffic.fell is not None) is told
    if told:
        assert view.traffic.fell is not None
        assert view.traffic.fell.at_ms == NOW - 180 * MINUTE
        assert "It fell 50.0 points at about 21:00 UTC and has stayed there." in view.sentence


@pytest.mark.parametrize(
    ("yesterday", "told"),
    [
        pytest.param((0.3, 8), False, id="as low"),
        pytest.param((0.7, 8), True, id="as high"),
        pytest.param((0.0, 0), True, id="nothing"),
    ],
)
def test_a_rate_as_low_at_that_hour_of_the_day_before_has_not_fallen(
    tmp_path: Path, store: Store, yesterday: tuple[float, int], told: bool
) -> None:
    write(store, DAY_MIN + 60, falls(lambda _: (0.3, 8), yesterday=yesterday))
    assert ("has stayed there" in front(tmp_path, store).sentence) is told


def test_a_rate_that_swings_with_the_hour_each_day_has_not_fallen(tmp_path: Path, store: Store) -> None:
    """High for sixteen hours of each day, low for the eight before now."""
    write(store, 2 * DAY_MIN, lambda ago: (0.8 if ago % DAY_MIN >= 8 * 60 or not ago % DAY_MIN else 0.4, 3))
    view = front(tmp_path, store)
    assert "stayed" not in view.sentence
    assert "steady" in view.sentence


def test_a_day_before_with_few_lookups_tells_nothing(tmp_path: Path, store: Store) -> None:
    few = falls(lambda _: (0.3, 8))
    write(store, DAY_MIN + 60, lambda ago: (0.0, 1) if DAY_MIN < ago < DAY_MIN + rates.FEW else few(ago))
    assert "has stayed there" in front(tmp_path, store).sentence
