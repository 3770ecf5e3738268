"""What the page says of lookups that were held out."""

import contextlib
import json
from dataclasses import replace

import pytest

from app.analysis.holdout import agreement
from app.views import holdout
from app.wiring import Wiring
from storage import spans
from storage.errors import StoreMissing
from storage.payloads import pack
from storage.reads.window import Scope, Window
from storage.store import Store, open_telemetry
from tests.storage.support import START_NS, Made, batch

START_MS = START_NS // 1_000_000
WINDOW = Window.of(START_MS, START_MS + 3_600_000)
HELD = {"held_out": True, "reason": "holdout", "candidate_id": "e1", "prompt": "asked", "candidate_prompt": "<b>stored</b>"}


def _fill(wired: Wiring, *given: tuple[float, float | None]) -> None:
    """Record held-out lookups of (similarity, agreement)."""
    made = [
        Made(
            number,
            extra={
                **HELD,
                "similarity": similarity,
                "candidates": None if similarity == 1.0 else 5,
                "cost_usd": 0.01,
                "upstream_ms": 300.0,
            },
        )
        for number, (similarity, _) in enumerate(given)
    ]
    whole = batch(*made, Made(99, extra={"reason": "no_candidate"}))
    told = [{} if ratio is None else {"cachescope.holdout.agreement_ratio": ratio} for _, ratio in given] + [{}]
    payloads = [pack(json.dumps({"attributes": attributes}).encode()) for attributes in told]
    rows = [row._replace(payload=payload) for row, payload in zip(whole.spans, payloads, strict=True)]
    with contextlib.closing(open_telemetry(wired.config.storage_settings(), write=True)) as store:
        spans.write(store, [replace(whole, spans=rows)], now_ms=START_MS)


def _load(wired: Wiring, namespace: str = "faq") -> holdout.Holdout:
    return holdout.load(wired.telemetry, window=WINDOW, scope=Scope(namespace=namespace))


def test_semantic_and_exact_hits_are_told_apart_with_n_and_interval(wired: Wiring) -> None:
    _fill(wired, (0.95, 0.2), (0.97, 0.9), (0.96, None), *[(1.0, 0.96)] * 41)
    view = _load(wired)
    semantic, exact = holdout.rows(view)
    assert (semantic["held out"], semantic["compared"], semantic["not compared"]) == ("semantic hits", 2, 1)
    assert (semantic["words in common, mean"], semantic["less than half in common"]) == ("55.0 % (too few for an interval)", "50.0 %")
    assert (exact["compared"], exact["words in common, mean"], exact["less than half in common"]) == (
        41,
        "96.0 % (95 %: 96.0–96.0 %)",
        "0.0 %",
    )
    assert holdout.sentence(view).startswith("44 would-be hits went upstream instead; that cost $0.4400 (n = 44) and 300 ms each")
    assert [row["words in common"] for row in holdout.worst_rows(view)] == ["20.0 %", "90.0 %"]


def test_nothing_held_out_is_said_and_a_database_that_fails_is_named(wired: Wiring) -> None:
    _fill(wired, (0.95, 0.2))
    assert holdout.sentence(_load(wired, "docs")).startswith("Nothing was held out")
    assert holdout.rows(_load(wired, "docs")) == []

    def broken() -> Store:
        raise StoreMissing("there is no telemetry database yet")

    assert [failure.source for failure in holdout.load(broken, window=WINDOW, scope=Scope()).failures] == [holdout.TELEMETRY]


def test_agreement_of_nothing_is_no_data() -> None:
    nothing = agreement([None, None])
    assert (nothing.compared, nothing.not_compared, nothing.mean, nothing.median, nothing.far) == (0, 2, None, None, None)
    assert agreement([0.0, 1.0]).median == pytest.approx(0.5)
