"""The head of a page says what its panels say: no tick above a fall, a source that fails, or one to look at."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, NoReturn

import pytest

from app.views import hit_rate, overview, why, why_rows
from app.views.question import Question
from app.views.why import Why
from storage.errors import StorageError
from storage.reads.sources import sources
from storage.reads.window import Scope, Window
from storage.rows import LookupRow
from storage.store import Store, open_ops
from tests.bench import incident
from tests.bench.views_bench import no_engine
from tests.support import telemetry

NOW = 1_775_001_600_000
MINUTE_MS = 60_000
SIX_HOURS = Window.of(NOW - 6 * 60 * MINUTE_MS, NOW)
HOUR = Window.of(NOW - 60 * MINUTE_MS, NOW)


class Shown(NamedTuple):
    """The pages of one selection. Each head is its sentence and whether it is bad news."""

    answer: Why
    overview: tuple[str, bool]
    hit_rate: tuple[str, bool]


def shown(store: Store, ops: Callable[[], Store], window: Window = SIX_HOURS, *, now_ms: int = NOW, since_ms: int | None = None) -> Shown:
    asked = Question(window, Scope(), "this time", now_ms)
    answer = why.load(
        lambda: store, ops, window=window, before=asked.compared, before_name=asked.before_name, scope=Scope(), since_ms=since_ms
    )
    front = overview.load(lambda: store, ops, no_engine, asked, answer)
    rate = hit_rate.load(lambda: store, ops, asked, answer)
    return Shown(answer, (front.sentence, front.bad), (rate.sentence, rate.bad))


@contextmanager
def opened(folder: Path) -> Iterator[tuple[Store, Store]]:
    store, ops = telemetry.open_store(folder), open_ops(telemetry.settings(folder))
    yield store, ops
    store.close()
    ops.close()


def broken() -> NoReturn:
    raise StorageError("the file is not a database")


def test_a_fall_within_the_time_shown_is_told_at_the_head_of_each_page(tmp_path: Path) -> None:
    with opened(tmp_path) as (store, ops):
        incident.write(store, ops, "purge", now_ms=NOW, at_ms=NOW - 40 * MINUTE_MS)
        found = shown(store, lambda: ops)
        picked = shown(store, lambda: ops, since_ms=NOW - 30 * MINUTE_MS)
        hour = shown(store, lambda: ops, HOUR)
    points = f"{abs(found.answer.change.ratio) * 100:.1f}" if found.answer.change else ""
    assert f"Cache: down {points} points since 23:20 UTC" in why_rows.headline(found.answer)
    for sentence, bad in (found.overview, found.hit_rate):
        assert f"It fell {points} points at about 23:20 UTC." in sentence
        assert bad
        assert "Nothing is wrong" not in sentence
    for sentence, bad in (picked.overview, picked.hit_rate):
        assert "Since 23:30 UTC it is down" in sentence
        assert bad
    for sentence, bad in (hour.overview, hour.hit_rate):  # the period before had what fell: once is enough
        assert "points on the period before" in sentence
        assert "It fell" not in sentence
        assert bad


def test_a_change_that_bursts_explain_is_no_answer_to_one_that_they_do_not(tmp_path: Path) -> None:
    """An hour of 95 %, then one in which every five minutes have a rate of their own."""
    rng, step = random.Random(2), 5 * MINUTE_MS
    own = {at_ms: rng.betavariate(1.2, 0.8) for at_ms in range(HOUR.start_ms, NOW, step)}

    def hit(row: LookupRow) -> LookupRow:
        rate = own.get(row.at_ms // step * step, 0.95)
        return row._replace(outcome="exact_hit" if rng.random() < rate else "miss", tier="memory")

    with opened(tmp_path) as (store, ops):
        made = telemetry.make(start_ms=HOUR.previous.start_ms, end_ms=NOW, per_minute=25, seed=3)
        telemetry.write(store, [replace(one, lookup=hit(one.lookup)) for one in made], now_ms=NOW)
        with store.read() as conn:
            assert why.cut_in(conn, HOUR, Scope()) is not None
        found = shown(store, lambda: ops, HOUR)
    assert "down" in found.overview[0]
    assert found.answer.verdict.whose != "none"
    assert "down" in why_rows.headline(found.answer)


@pytest.mark.parametrize("source", [overview.ACTS])
def test_no_page_is_fine_while_a_source_of_it_fails(tmp_path: Path, source: str) -> None:
    with opened(tmp_path) as (store, ops):
        incident.write(store, ops, "purge", now_ms=NOW, at_ms=NOW - 600 * MINUTE_MS)
        found = shown(store, broken, HOUR)
    for sentence, bad in (found.overview, found.hit_rate):
        assert f"{source}: does not answer" in sentence
        assert bad


def test_no_page_is_fine_while_nothing_comes(tmp_path: Path) -> None:
    with opened(tmp_path) as (store, ops):
        incident.write(store, ops, "purge", now_ms=NOW, at_ms=NOW - 600 * MINUTE_MS)
        later_ms = NOW + 20 * MINUTE_MS
        found = shown(store, lambda: ops, Window.of(later_ms - 60 * MINUTE_MS, later_ms), now_ms=later_ms)
    for sentence, bad in (found.overview, found.hit_rate):
        assert "Nothing has come for 20 min" in sentence
        assert bad


def test_what_is_to_be_looked_at_is_said_where_nothing_has_failed(tmp_path: Path) -> None:
    with opened(tmp_path) as (store, ops):
        incident.write(store, ops, "purge", now_ms=NOW, at_ms=NOW - 600 * MINUTE_MS)
        asked = Question(HOUR, Scope(), "this time", NOW)
        view = overview.load(lambda: store, lambda: ops, no_engine, asked)
    odd = overview.Health("Upstream", "warn", "not configured")
    told, bad = overview._sentence(view.traffic, (), [odd], asked, None, drifted=True)
    assert told.endswith("Nothing has failed; worth a look: Drift and Upstream.")
    assert not bad
    assert overview._sentence(view.traffic, (), [], asked, None, drifted=False)[0].endswith("Nothing is wrong.")


def test_an_instance_that_another_took_the_place_of_is_not_to_be_looked_at(tmp_path: Path) -> None:
    with opened(tmp_path) as (store, ops):
        incident.write(store, ops, "purge", now_ms=NOW, at_ms=NOW - 600 * MINUTE_MS)
        with store.read() as conn:
            new = sources(conn)[0]
    old = replace(new, id=99, instance="old", last_seen_ms=NOW - 86_400_000)
    now_ms = new.last_seen_ms + 1_000
    assert [one.state for one in overview._source_health([new, old], now_ms)] == ["ok", "ok"]
    assert [one.state for one in overview._source_health([old], now_ms)] == ["warn"]
