"""The same lookups give the same numbers, however many processes sent them, in what batches and order, late or twice.

Also where not all of them are read: bounds are lowered, so that a sample stands for a window of a few lookups.
"""

from __future__ import annotations

import contextlib
import dataclasses
import random
import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.jobs.regret import prepare
from app.views import drift, drift_rows, hit_rate, holdout, overview, why
from app.views import thresholds as of_thresholds
from app.views.question import Question
from storage import spans
from storage.reads import changes, regret, thresholds
from storage.reads import drift as mixes
from storage.reads.window import Scope, Window
from storage.rows import SourceKey
from storage.slots import SLOTS
from storage.store import Store, open_ops, open_telemetry
from tests.bench.views_bench import no_engine
from tests.storage.support import GATEWAY, MINUTE_NS, START_NS, Made, batch
from tests.storage.support import settings as of_folder
from tests.storage.test_spans import empty_database

NOW_MS = START_NS // 1_000_000 + 60 * 60_000
HOUR = Window.of(NOW_MS - 3_600_000, NOW_MS)
DAY = Window.of(NOW_MS - 86_400_000, NOW_MS)
SENT_BY = (GATEWAY, SourceKey("otlp_traces", "cachescope-gateway", "gw-2", "cachescope.engine@0.1.0", "native"))
OUTCOMES = ("exact_hit", "semantic_hit", "partial_hit", "stale_hit", "coalesced", "miss", "bypass", "error")


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[Made, SourceKey]]:
    rng = random.Random(draw(st.integers(0, 1 << 32)))
    found = []
    for number in range(draw(st.integers(1, 60))):
        told: dict[str, Any] = {
            "namespace": rng.choice(("faq", "docs", "")),
            "tenant": rng.choice(("acme", "globex")),
            "model": rng.choice(("a", "b")),
            "tier": rng.choice(("memory", "vector", "")),
            "reason": rng.choice(("", "no_candidate", "holdout")),
            "prompt_hash": rng.choice(("", "p", "q")),
            "client": rng.choice(("web", "batch")),
            "similarity": rng.choice((None, 0.7, 0.95)),
            "threshold": 0.9,
            "input_tokens": rng.choice((None, 10, 400)),
            "output_tokens": rng.choice((None, 5)),
            "saved_usd": rng.choice((None, 0.1, 0.3)),
            "cost_usd": rng.choice((None, 0.1)),
            "lookup_ms": rng.choice((None, 0.4)),
            "key": rng.choice(("", "k", "l")),
            "held_out": rng.choice((None, False, True)),
            "passed": rng.choice((None, False, True)),
            "candidate_id": rng.choice(("", "e")),
            "entry_id": rng.choice(("", "e", "f")),
            "entry_age_s": rng.choice((None, 3.7, 8_000.1)),
            "upstream_ms": rng.choice((None, 700.3, 0.1)),
            "policy_version": rng.choice((None, 1, 2)),
            "model_version": rng.choice(("", "v1", "v2")),
        }
        start_ns = START_NS + rng.randrange(-23 * 60, 60) * MINUTE_NS
        made = Made(number, start_ns=start_ns, duration_ms=rng.uniform(0, 900), outcome=rng.choice(OUTCOMES), extra=told)
        found.append((made, rng.choice(SENT_BY)))
    return found


FAQ = Scope(namespace="faq")


def numbers(telemetry: Store, ops: Store, most: int | None = None) -> dict[str, Any]:
    """Return what the pages count, of an hour and of a day. most: lookups that are read of a window, None = as ever."""
    with pytest.MonkeyPatch.context() as lowered:
        if most:
            lowered.setattr(changes, "MOST_LOOKUPS", most)
            for name in ("MOST_ROWS", "MOST_LOOKED", "MOST_FETCHED", "MOST_BRIEF", "MOST_LOOKED_BRIEFLY", "ENOUGH", "LEAST", "PASSED"):
                lowered.setattr(mixes, name, most)
            # Of a namespace its own index is read.
            lowered.setattr(changes, "_MOST_PASSED", most)
            lowered.setattr(changes, "_ENOUGH", most)
        return _numbers(telemetry, ops, limit=most or thresholds.MAX_ROWS)


def _numbers(telemetry: Store, ops: Store, *, limit: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for window in (HOUR, DAY):
        asked: dict[str, Any] = {"window": window, "scope": Scope()}
        found[f"hit rate {window}"] = hit_rate.load(lambda: telemetry, lambda: ops, Question(window_name="now", now_ms=NOW_MS, **asked))
        seen = overview.load(lambda: telemetry, lambda: ops, no_engine, Question(window_name="now", now_ms=NOW_MS, **asked)).traffic
        assert seen is not None
        found[f"overview {window}"] = [getattr(seen, name) for name in seen.__dataclass_fields__ if name != "sources"]
        told = why.load(lambda: telemetry, lambda: ops, before=window.previous, before_name="before", **asked)
        found[f"why {window}"] = (told.sides, told.rate_now, told.segments, told.dimensions, told.became, told.examples)
        found[f"holdout {window}"] = holdout.load(lambda: telemetry, window=window, scope=Scope())
        shown = of_thresholds.load(lambda: telemetry, lambda: ops, no_engine, window=window, scope=FAQ, window_name="now")
        moved = [of_thresholds.move(shown, at) for at in (0.6, 0.8, 0.96)]
        told = [(of_thresholds.consequence(one), of_thresholds.pair_rows(shown, (*one.gained, *one.lost))) for one in moved]
        found[f"what if {window}"] = (shown.sentence, told, of_thresholds.count_rows(shown), of_thresholds.notes(shown))
        for thorough in (False, True):
            found[f"drift {window} {thorough}"] = of_drift(telemetry, window, thorough=thorough)
        with telemetry.read() as conn:
            found[f"thresholds {window}"] = thresholds.by_namespace(conn, window, Scope())
            found[f"candidates {window}"] = [row._replace(id=0) for row in thresholds.candidates(conn, window, Scope(), limit=limit)]
            stream = list(regret.stream(conn, "faq", window))
            found[f"stream {window}"] = (stream, prepare(stream), regret.counted(conn, "faq", window))
            for below in (0, SLOTS // 2, SLOTS):  # what regret replays of many keys: certain ones, and others by their hash
                few: dict[str, Any] = {"certain": ("k",), "below": below, "step_ms": 240_000}
                found[f"bursts {window} {below}"] = list(regret.bursts(conn, "faq", window, **few))
            found[f"keys {window}"] = Counter(regret.some_keys(conn, "faq", window, every=2))
            found[f"busiest {window}"] = regret.busiest(conn, window, limit=2)
            for scope in (Scope(), FAQ):
                found[f"segments {window} {scope}"] = changes.segments(conn, window, scope)
                for thorough in (False, True):
                    mix = mixes.mix(conn, window, scope, thorough=thorough)
                    found[f"mix {window} {scope} {thorough}"] = (mix.stride, [row._replace(id=0) for row in mix.rows])
                    found[f"seen {window} {scope} {thorough}"] = mixes.seen(conn, window, scope, read=mix)
    return found


def of_drift(telemetry: Store, window: Window, *, thorough: bool) -> list[Any]:
    view = drift.load(lambda: telemetry, window=window, scope=Scope(), window_name="now", thorough=thorough)
    plain = dataclasses.replace(view, new=(), vanished=(), findings=())  # samples tell the row that they were read from
    kinds = [drift_rows.kind_rows(found) for found in (view.new, view.vanished)]
    return [plain, *kinds, drift_rows.finding_rows(view.findings)]


@contextlib.contextmanager
def database(folder: Path) -> Any:
    folder.mkdir()
    shutil.copy(empty_database(), folder)
    with contextlib.closing(open_telemetry(of_folder(folder), write=True)) as first:
        yield first


def send(store: Store, pieces: list[tuple[Made, SourceKey]]) -> None:
    batches = [batch(*[made for made, owner in pieces if owner == source], source=source) for source in SENT_BY]
    spans.write(store, [one for one in batches if one.spans], now_ms=NOW_MS)


@pytest.mark.parametrize("most", [None, 6])
@given(history=histories(), rng=st.randoms(use_true_random=False))
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_split_of_the_same_lookups_gives_the_same_numbers(
    most: int | None, history: list[tuple[Made, SourceKey]], rng: random.Random
) -> None:
    with tempfile.TemporaryDirectory() as scratch, contextlib.closing(open_ops(of_folder(Path(scratch)))) as ops:
        with database(Path(scratch) / "whole") as store:
            send(store, history)
            expected = numbers(store, ops, most)
        with (
            database(Path(scratch) / "split") as first,
            contextlib.closing(open_telemetry(of_folder(first.path.parent), write=True)) as second,
        ):
            sent = history + rng.choices(history, k=rng.randrange(8))  # some come again
            rng.shuffle(sent)
            while sent:
                size = rng.randint(1, len(sent))
                send(rng.choice((first, second)), sent[:size])  # each with a connection of its own, as a process has
                sent = sent[size:]
            assert numbers(first, ops, most) == expected


def test_a_sample_of_a_wide_window_is_the_same_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough of them for Drift to judge a sample and Why to explain one, both changed; the senders of half of them come first or last."""
    rng = random.Random(11)
    made = []
    for number in range(2_400):
        now = number % 2 == 0
        topic = rng.choice(("a", "b", "c") if now else ("a", "b", "d"))
        told = {
            "prompt_hash": f"{topic}{rng.randrange(5)}",
            "prompt": topic,
            "tenant": topic,
            "input_tokens": 10 + 90 * now,
            "similarity": 0.9,
        }
        outcome = "exact_hit" if topic != "c" and rng.random() < 0.7 else "miss"
        start_ns = START_NS + rng.randrange(60) * MINUTE_NS - (0 if now else 60 * MINUTE_NS)
        made.append((Made(number, start_ns=start_ns, outcome=outcome, extra=told), SENT_BY[number // 2 % 2]))
    monkeypatch.setattr(changes, "MOST_LOOKUPS", 600)
    monkeypatch.setattr(mixes, "MOST_ROWS", 150)
    monkeypatch.setattr(mixes, "MOST_LOOKED", 150)
    seen = []
    with contextlib.closing(open_ops(of_folder(tmp_path))) as ops:
        for number, order in enumerate((made, made[::-1], rng.sample(made, len(made)))):
            with database(tmp_path / f"order {number}") as store:
                for at in range(0, len(order), 700):
                    send(store, order[at : at + 800])  # a hundred of each come again
                moved = of_drift(store, HOUR, thorough=True)
                before: dict[str, Any] = {"before": HOUR.previous, "before_name": "before"}
                told = why.load(lambda store=store: store, lambda: ops, window=HOUR, scope=Scope(), **before)
                seen.append((moved, told.segments, told.part_now, told.part_before, told.events, told.examples))
    assert moved[0].now.stride == 8
    assert [panel.key for panel in moved[0].panels if panel.alarm]
    assert [(one.literals, one.kind) for one in told.segments][:1] == [((("tenant", "c"),), "new")]
    assert seen[1:] == seen[:1] * 2
