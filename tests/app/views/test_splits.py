"""The same lookups give the same numbers, however many processes sent them, in what batches and order, late or twice."""

from __future__ import annotations

import contextlib
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.views import hit_rate, overview, why
from app.views.question import Question
from storage import spans
from storage.reads import changes, drift, thresholds
from storage.reads.window import Scope, Window
from storage.rows import SourceKey
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
            "reason": rng.choice(("", "no_candidate")),
            "prompt_hash": rng.choice(("", "p", "q")),
            "client": rng.choice(("web", "batch")),
            "similarity": rng.choice((None, 0.7, 0.95)),
            "threshold": 0.9,
            "input_tokens": rng.choice((None, 10, 400)),
            "output_tokens": rng.choice((None, 5)),
            "saved_usd": rng.choice((None, 0.1, 0.3)),
            "cost_usd": rng.choice((None, 0.1)),
            "lookup_ms": rng.choice((None, 0.4)),
        }
        start_ns = START_NS + rng.randrange(-23 * 60, 60) * MINUTE_NS
        made = Made(number, start_ns=start_ns, duration_ms=rng.uniform(0, 900), outcome=rng.choice(OUTCOMES), extra=told)
        found.append((made, rng.choice(SENT_BY)))
    return found


def numbers(telemetry: Store, ops: Store) -> dict[str, Any]:
    """Return what the pages count, of an hour and of a day."""
    found: dict[str, Any] = {}
    for window in (HOUR, DAY):
        asked: dict[str, Any] = {"window": window, "scope": Scope()}
        found[f"hit rate {window}"] = hit_rate.load(lambda: telemetry, lambda: ops, Question(window_name="now", now_ms=NOW_MS, **asked))
        seen = overview.load(lambda: telemetry, lambda: ops, no_engine, Question(window_name="now", now_ms=NOW_MS, **asked)).traffic
        assert seen is not None
        found[f"overview {window}"] = [getattr(seen, name) for name in seen.__dataclass_fields__ if name != "sources"]
        told = why.load(lambda: telemetry, lambda: ops, before=window.previous, before_name="before", **asked)
        found[f"why {window}"] = (told.sides, told.rate_now, told.segments, told.dimensions, told.became)
        with telemetry.read() as conn:
            found[f"segments {window}"] = changes.segments(conn, window, Scope())
            found[f"thresholds {window}"] = thresholds.by_namespace(conn, window, Scope())
            found[f"mix {window}"] = sorted((row._replace(id=0) for row in drift.mix(conn, window, Scope()).rows), key=repr)
    return found


@contextlib.contextmanager
def database(folder: Path) -> Any:
    folder.mkdir()
    shutil.copy(empty_database(), folder)
    with contextlib.closing(open_telemetry(of_folder(folder), write=True)) as first:
        yield first


def send(store: Store, pieces: list[tuple[Made, SourceKey]]) -> None:
    batches = [batch(*[made for made, owner in pieces if owner == source], source=source) for source in SENT_BY]
    spans.write(store, [one for one in batches if one.spans], now_ms=NOW_MS)


@given(histories(), st.randoms(use_true_random=False))
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_split_of_the_same_lookups_gives_the_same_numbers(history: list[tuple[Made, SourceKey]], rng: random.Random) -> None:
    with tempfile.TemporaryDirectory() as scratch, contextlib.closing(open_ops(of_folder(Path(scratch)))) as ops:
        with database(Path(scratch) / "whole") as store:
            send(store, history)
            expected = numbers(store, ops)
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
            assert numbers(first, ops) == expected
