"""The worker's analysis on a seeded database: what is read, left out, sampled and stored."""

from __future__ import annotations

import contextlib
import dataclasses
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.admin.actions import AdminContext
from app.analysis import regret as findings
from app.jobs import ahead, regret, sampling
from app.jobs.run import JobRun
from app.views import regret as shown
from app.views import regret_rows
from app.wiring import Wiring
from storage import analyses, jobs, labels, policies, spans
from storage.analyses import Analysis
from storage.reads.regret import StreamRow
from storage.store import open_telemetry
from tests.app import support
from tests.storage.support import Made, batch
from tests.support import telemetry

NOW = 1_775_000_000_000
ROW = StreamRow(1_000, "aa", "g1", "exact_hit", False, "e1", 900, 2.0, 1.0, None, 500.0, 0.0, 0.02, "p1")


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wiring]:
    with contextlib.closing(support.wiring(tmp_path)) as wiring:
        yield wiring


@pytest.fixture(autouse=True)
def _no_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "BUDGET_S", 3_600.0)  # however slow the machine


def context(wired: Wiring) -> AdminContext:
    return support.admin(wired, clock=lambda: NOW)


def analysed(ctx: AdminContext) -> dict[str, object]:
    return support.worked(ctx, regret)


def stored(ctx: AdminContext, horizon: str = "24h") -> dict[str, Analysis]:
    with ctx.ops.read() as conn:
        return {one.namespace: one for one in analyses.newest(conn, kind="regret", horizon=horizon)}


def seed(wired: Wiring, per_minute: float = 15) -> None:
    with contextlib.closing(open_telemetry(wired.config.storage_settings(), write=True)) as store:
        telemetry.seed(store, now_ms=NOW, hours=2, per_minute=per_minute)


def test_each_namespace_and_horizon_is_analysed_once(wired: Wiring) -> None:
    seed(wired)
    ctx = context(wired)
    policies.append(ctx.ops, namespace="faq", version=1, policy={"ttl_s": 600.0}, actor="ann", act_id="a", at_ms=NOW)
    assert analysed(ctx) == {"done": 6, "total": 6, "put_off": 0}
    found = stored(ctx)
    assert found.keys() == stored(ctx, "7d").keys() == {"faq", "code", "docs"}
    assert (found["faq"].parameters["ttl_s"], found["faq"].parameters["ttl_from"]) == (600.0, "record of policies")
    assert found["code"].parameters["ttl_from"] == "default"
    result = found["code"].result
    assert result is not None
    one = findings.from_json(result)
    assert one.lookups == found["code"].parameters["usable"] <= found["code"].lookups
    assert one.recorded.hits + one.served_semantic.hits < one.lookups
    assert one.semantic.links > 0
    # What was computed within the last minutes is not computed again.
    later = dataclasses.replace(ctx, clock=lambda: NOW + 60_000)
    regret.schedule(ctx.ops, now_ms=NOW)
    with ctx.ops.read() as conn:
        assert not jobs.under_way(conn, "regret")
    job = jobs.enqueue(ctx.ops, kind="regret", act_id="again", namespace="", parameters={}, now_ms=NOW)
    claimed = jobs.claim(ctx.ops, lease_ms=60_000, now_ms=NOW)
    assert claimed is not None
    assert claimed.id == job.id
    assert regret.run(JobRun(claimed, later, threading.Event()))["total"] == 0


def test_a_sample_of_keys_answers_for_all_within_its_interval(wired: Wiring, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 keys by Zipf 1.1, each with one miss and hits after it: 9,000 lookups, of which some 5,000 are read."""
    at = 0
    counts = {f"k{rank}": max(1, round(9_000 / 4.8 / rank**1.1)) for rank in range(1, 301)}
    order = sorted((i / n, key, i) for key, n in counts.items() for i in range(n))
    made = []
    for at, (_, key, i) in enumerate(order):
        told = {"key": key, "entry_id": key, "entry_bytes": 900, "saved_usd": 0.02, "cost_usd": 0.02, "entry_age_s": 5.0}
        start_ns = (NOW - 80_000_000 + at * 8_000) * 1_000_000
        made.append(Made(at, start_ns=start_ns, outcome="exact_hit" if i else "miss", extra=told))
    with contextlib.closing(open_telemetry(wired.config.storage_settings(), write=True)) as store:
        spans.write(store, [batch(*made)], now_ms=NOW)
    ctx = context(wired)
    monkeypatch.setattr(sampling, "MOST_LOOKUPS", 5_000)
    analysed(ctx)
    result = stored(ctx)["faq"].result
    assert result is not None
    found = findings.from_json(result)
    sample = found.sampled
    assert sample is not None
    assert (sample.rate, sample.certain) == (0.25, 4)
    assert found.of == pytest.approx(len(made), rel=1e-9)  # known, not estimated
    true_hits = len(made) - len(counts)
    # One draw; how often an interval holds the truth is what test_sampling counts.
    assert 0 < abs(found.recorded.hits - true_hits) < 2 * sample.recorded.hits < 0.03 * true_hits
    assert found.recorded.usd == pytest.approx(0.02 * found.recorded.hits)
    assert found.replayed == found.recorded
    assert found.regret[0].hits == 0
    assert sample.low.hits == 0  # nothing was lost in any of the keys
    assert found.semantic.why_not.startswith("the keys are a sample")
    view = shown.load(lambda: ctx.ops, horizon="24h", namespace=None, now_ms=NOW)
    assert view.chosen is not None
    missed = next(dial for dial in shown.dials(view.chosen, view) if dial.label == "Missed today")
    assert "; 95 % " in missed.detail
    assert missed.detail.endswith(", for keys are sampled")


@pytest.mark.parametrize(("kept_ratio", "refused"), [(0.1, True), (None, True), (1.0, False)])
def test_what_a_sampler_left_is_not_replayed_and_the_reason_is_shown(wired: Wiring, kept_ratio: float | None, refused: bool) -> None:
    ctx = context(wired)
    made = list(telemetry.make(start_ms=NOW - 7_200_000, end_ms=NOW, per_minute=15))
    told = {"sampler": "ratio", "kept_ratio": kept_ratio}
    made = [
        dataclasses.replace(one, lookup=one.lookup._replace(**told)) if one.lookup.namespace == "faq" and i % 3 == 0 else one
        for i, one in enumerate(made)
    ]
    with contextlib.closing(open_telemetry(wired.config.storage_settings(), write=True)) as store:
        telemetry.write(store, made, now_ms=NOW)
    analysed(ctx)
    found = stored(ctx)
    assert found["code"].result is not None  # another namespace's sampler says nothing of this one
    assert (found["faq"].result is None) == refused
    faq, whole = (shown.load(lambda: ctx.ops, horizon="24h", namespace=name, now_ms=NOW) for name in ("faq", None))
    dial = shown.front(faq)
    best = next(row["best knob"] for row in regret_rows.namespace_rows(whole) if row["namespace"] == "faq")
    said = [faq.sentence, dial.detail, best, shown.left_out(whole)]
    assert [("lookups of it came through a sampler" in one) for one in said] == [refused] * 4
    assert ("without 1 namespace whose telemetry is sampled" in shown.front(whole).detail) == refused
    assert (dial.value == "no data") == refused


def test_what_a_clock_that_was_ahead_dated_is_computed_anew(wired: Wiring) -> None:
    seed(wired)
    ctx = context(wired)
    analyses.put(ctx.ops, Analysis("regret", "faq", "24h", NOW + 86_400_000, NOW, NOW + 86_400_000, 9, {}, None))
    analyses.put(ctx.ops, Analysis("regret", "code", "24h", NOW, NOW - 60_000, NOW, 9, {}, None))
    analysed(ctx)
    found = stored(ctx)
    assert (found["faq"].at_ms, found["code"].lookups) == (NOW, 9), "what is dated in the future is of no use, what is of now is fresh"


def test_without_telemetry_or_with_too_little_there_is_no_result(wired: Wiring) -> None:
    ctx = context(wired)
    assert analysed(ctx) == {"done": 0, "total": 0, "put_off": 0}
    seed(wired, per_minute=0.5)
    with ctx.ops.write() as conn:
        conn.exec_driver_sql("DELETE FROM jobs")
    assert analysed(context(wired))["done"] == len(stored(ctx)) * 2
    assert {one.result for one in stored(ctx).values()} == {None}


def test_what_no_setting_could_change_is_left_out() -> None:
    rows = [
        ROW,
        dataclasses.replace(ROW, outcome="coalesced"),
        dataclasses.replace(ROW, outcome="miss", held_out=True, reason="holdout"),
        dataclasses.replace(ROW, outcome="miss", reason="request"),
        dataclasses.replace(ROW, outcome="miss", reason="tier_fault"),
        dataclasses.replace(ROW, outcome="miss", reason="control_stale"),
        dataclasses.replace(ROW, outcome="miss", key="bb", entry_id=""),
        dataclasses.replace(ROW, outcome="miss", entry_id=""),  # its key was stored at another time
    ]
    prepared = regret.prepare(rows)
    assert prepared.events == (rows[0], rows[7])
    assert {reason: len(found) for reason, found in prepared.left_out.items()} == {
        "coalesced": 1,
        "held out": 1,
        "asked for a fresh answer": 1,
        "during a fault of the cache": 2,
        "never stored": 1,
    }
    unnamed = [dataclasses.replace(row, entry_id="") for row in rows[6:]]
    assert regret.prepare(unnamed).left_out == {}  # a sender that names no entries tells nothing by it


def test_clients_that_ask_for_fresh_answers_are_no_reason_to_tune(wired: Wiring) -> None:
    """Ten keys are refreshed every ten minutes and never evicted; every other lookup hits, with a lifetime of half an hour."""
    made = []
    for minute in range(600):
        told = {"key": f"key {minute % 10}", "entry_id": f"e{minute % 10}", "upstream_ms": 500.0, "cost_usd": 0.02}
        refresh = minute // 10 % 2 == 0
        told |= {"reason": "request"} if refresh else {"entry_age_s": 600.0, "entry_bytes": 900, "saved_ms": 500.0, "saved_usd": 0.02}
        start_ns = (NOW - 36_000_000 + minute * 60_000) * 1_000_000
        made.append(Made(minute, start_ns=start_ns, outcome="miss" if refresh else "exact_hit", extra=told))
    with contextlib.closing(open_telemetry(wired.config.storage_settings(), write=True)) as store:
        spans.write(store, [batch(*made)], now_ms=NOW)
    ctx = context(wired)
    policies.append(ctx.ops, namespace="faq", version=1, policy={"ttl_s": 1_800.0}, actor="ann", act_id="a", at_ms=NOW)
    analysed(ctx)
    result = stored(ctx)["faq"].result
    assert result is not None
    found = findings.from_json(result)
    assert found.left_out == {"asked for a fresh answer": 300}
    assert (found.lookups, found.recorded.hits) == (300, 300)
    assert ([end.hits for end in found.regret], found.best_knob, found.worth_it) == ([0, 0], None, False)


def test_a_pair_is_linked_or_not_by_what_most_people_said_of_it_as_on_thresholds(wired: Wiring) -> None:
    ctx = context(wired)
    rows = [
        dataclasses.replace(ROW, outcome="miss"),
        dataclasses.replace(ROW, key="bb", outcome="semantic_hit", prompt_hash="p2"),
        dataclasses.replace(ROW, key="cc", outcome="miss", entry_id="e3", prompt_hash="p3"),
    ]
    words = {"p2": (False, True, True, False), "p3": (False, False, True)}  # one after the other; evenly divided is as if nothing was said
    said = [(name, serves, f"person {at}", at) for name, given in words.items() for at, serves in enumerate(given)]
    for prompt_hash, serves, actor, at_ms in said:
        labels.put(ctx.ops, labels.Label("faq", prompt_hash, "e1", 0.9, serves, actor, at_ms))
    assert regret._groups(ctx, "faq", rows, sampled=False) == ({"aa g1": "aa g1", "bb g1": "aa g1"}, "")


def test_labels_and_served_matches_link_prompts(wired: Wiring) -> None:
    ctx = context(wired)
    rows = [
        dataclasses.replace(ROW, outcome="miss"),
        dataclasses.replace(ROW, key="bb", outcome="semantic_hit", prompt_hash="p2"),
        dataclasses.replace(ROW, key="cc", outcome="miss", entry_id="e3", prompt_hash="p3"),
        dataclasses.replace(ROW, key="dd", outcome="semantic_hit", prompt_hash="p4"),
    ]
    for prompt_hash, serves in (("p3", True), ("p4", False)):
        labels.put(ctx.ops, labels.Label("faq", prompt_hash, "e1", 0.9, serves, "ann", NOW))
    groups, why_not = regret._groups(ctx, "faq", rows, sampled=False)
    assert (groups, why_not) == ({"aa g1": "aa g1", "bb g1": "aa g1", "cc g1": "aa g1"}, "")
    assert regret._groups(ctx, "docs", rows[:1], sampled=False) == (None, "no semantic hit and no label in this time")


def test_console_and_an_idle_worker_import_neither_compiler_nor_solver() -> None:
    modules = "app.jobs.runner, app.views.regret, app.charts.regret, app.ui.regret_panel"
    script = f"import sys, {modules}; print({{'numba', 'scipy'}} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "set()"
