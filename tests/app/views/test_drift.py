"""What the drift page says of two windows."""

from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from app.views import drift
from storage import spans
from storage.errors import StoreMissing
from storage.reads.window import Scope, Window
from storage.store import Store, open_telemetry
from tests.storage.support import MINUTE_NS, START_NS, Made, batch, settings

START_MS = START_NS // 1_000_000
NOW = Window.of(START_MS, START_MS + 3_600_000)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_telemetry(settings(tmp_path), write=True)
    yield opened
    opened.close()


def _fill(store: Store, prompts: dict[str, int], *, minute: int, first: int = 0) -> None:
    asked = [prompt for prompt, times in prompts.items() for _ in range(times)]
    made = [
        Made(first + number, start_ns=START_NS + minute * MINUTE_NS, extra={"prompt_hash": prompt, "prompt": f"text {prompt}"})
        for number, prompt in enumerate(asked)
    ]
    spans.write(store, [batch(*made)], now_ms=START_MS)


def _load(store: Store) -> drift.Drift:
    return drift.load(lambda: store, window=NOW, scope=Scope(), window_name="the last hour")


def test_nothing_before_is_said_and_lists_no_new_prompts(store: Store) -> None:
    _fill(store, {"a": 3}, minute=1)
    view = _load(store)
    assert view.sentence == "1 different prompt in 3 lookups in the last hour; nothing before it to compare with"
    assert drift.lists(view) == []
    assert [dial.label for dial in drift.dials(view)] == ["Entropy", "Effective prompts"]


def test_too_few_are_not_judged(store: Store) -> None:
    _fill(store, {"a": 50, "b": 40}, minute=1)
    _fill(store, {"a": 50, "c": 80}, minute=-1, first=1_000)
    view = _load(store)
    assert "too few to compare (n = 130 before it, 100 needed in each)" in view.sentence
    assert not view.bad
    assert "too few to judge" in drift.dials(view)[2].detail


def test_same_mix_is_as_before(store: Store) -> None:
    _fill(store, {"a": 100, "b": 50}, minute=1)
    _fill(store, {"a": 100, "b": 50}, minute=-1, first=1_000)
    view = _load(store)
    assert "the mix is as before (JS divergence 0.000 bits" in view.sentence
    assert [rows for _, rows in drift.lists(view)] == [(), ()]


def test_another_mix_is_a_change_with_its_prompts(store: Store) -> None:
    _fill(store, {"a": 100, "b": 100}, minute=1)
    _fill(store, {"c": 150, "a": 50}, minute=-1, first=1_000)
    view = _load(store)
    assert view.bad
    assert "the mix changed" in view.sentence
    (new_title, new), (_, gone) = drift.lists(view)
    assert new_title == "New since before"
    assert [(sample.prompt, n) for sample, n in new] == [("text b", 100)]
    assert [(sample.prompt, n) for sample, n in gone] == [("text c", 150)]
    assert drift.dials(view)[3].value == "50.0 %"


def test_missing_telemetry_is_a_state_of_its_own() -> None:
    def missing() -> NoReturn:
        raise StoreMissing("there is no telemetry database yet")

    view = drift.load(missing, window=NOW, scope=Scope(), window_name="the last hour")
    assert (view.now, [failure.source for failure in view.failures]) == (None, [drift.TELEMETRY])
    assert drift.lists(view) == []
