"""Labels, scores and the policy's verification: what is kept, what is refused, what decides afterwards."""

from __future__ import annotations

import contextlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.admin import actions as admin_acts
from app.admin.actions import AdminContext, Role
from app.admin.labels import features_of
from app.admin.verification import pairs_of
from app.errors import Refused
from app.views import outcomes, scores
from app.wiring import Wiring, now_ms
from engine.attributes import attributes_of
from engine.records import score_json
from engine.types import Judging, Outcome, Score, VerifyMode
from engine.verify import score
from storage import actions, labels, spans
from storage.labels import Label
from storage.store import open_telemetry
from tests.app import support
from tests.engine.rig import rig, settings
from tests.storage.support import Made, batch

STORED, ASKED = "How do I reset my password?", "How can I reset my password?"
PAIR = {"similarity": 0.96, "threshold": 0.94, "prompt": ASKED, "candidate_prompt": STORED, "candidate_id": "e1", "prompt_hash": "p1"}
HIT = Made(1, outcome="semantic_hit", extra=PAIR)


def record(wired: Wiring, *made: Made) -> None:
    with contextlib.closing(open_telemetry(wired.config.storage_settings(), write=True)) as store:
        spans.write(store, [batch(*made)], now_ms=now_ms())


def kept(ctx: AdminContext) -> list[Label]:
    with ctx.ops.read() as conn:
        assert actions.verify_chain(conn).ok
        return list(labels.list(conn))


def teach(ctx: AdminContext, count: int = 240) -> None:
    """Label pairs that differ where their prompts share little, whatever their similarity."""
    rng = np.random.default_rng(5)
    for number in range(count):
        serves = number % 2 == 0
        shared = float(rng.uniform(0.6, 1.0) if serves else rng.uniform(0.1, 0.55))
        values = [float(rng.uniform(0.94, 1.0)), shared, 1.0, 0.5, 0.1, 0.4, 1.0]
        features = json.dumps({"v": score.VERSION, "x": values, "spoke": ["substitution"]})
        labels.put(ctx.ops, Label("faq", f"p{number}", "e", values[0], serves, "ann", number, features))


def test_a_word_on_a_hit_is_kept_with_its_features_and_an_audit_line(wired: Wiring, ctx: AdminContext) -> None:
    record(wired, HIT)
    trace = HIT.ids[0].hex()
    said = admin_acts.label(ctx, trace, support.operation(), serves=False)
    assert (said.state, said.namespace) == ("done", "faq")
    assert "does not serve (similarity 0.9600)" in outcomes.sentence(said, now_ms=0)
    (one,) = kept(ctx)
    assert (one.prompt_hash, one.candidate_id, one.similarity, one.serves, one.actor) == ("p1", "e1", 0.96, False, "ann")
    assert json.loads(one.features)["x"][0] == 0.96
    admin_acts.label(ctx, trace.upper(), support.operation(), serves=True, span_id=HIT.ids[1].hex())
    assert [one.serves for one in kept(ctx)] == [True]  # a change of mind
    with ctx.ops.read() as conn:
        acts = actions.history(conn, kind="label")
    assert [act.body["serves"] for act in acts] == [True, False]
    assert "password" not in json.dumps([event.body for act in acts for event in act.events])


def test_what_cannot_be_labelled_is_refused(wired: Wiring, ctx: AdminContext) -> None:
    record(wired, HIT, replace(HIT, number=2), Made(3, trace=1, outcome="exact_hit"), Made(4, trace=2, extra={**PAIR, "prompt": None}))
    for trace, said in (
        (HIT.ids[0].hex(), "say which, by its span"),
        ("00" * 16, "no such lookup"),
        (Made(3, trace=1).ids[0].hex(), "no pair to label"),
        ("not hex", "32 hex digits"),
    ):
        with pytest.raises(Refused, match=said):
            admin_acts.label(ctx, trace, support.operation(), serves=True)
    with pytest.raises(Refused, match="needs operator"):
        admin_acts.label(support.admin(wired, Role.VIEWER), HIT.ids[0].hex(), support.operation(), serves=True)
    assert kept(ctx) == []
    blind = admin_acts.label(ctx, Made(4, trace=2).ids[0].hex(), support.operation(), serves=True)
    assert "no score can be fitted by it" in outcomes.sentence(blind, now_ms=0)
    assert [one.features for one in kept(ctx)] == [""]


async def test_labels_hold_the_features_that_the_gateway_weighs(tmp_path: Path) -> None:
    given = Score(4, score.VERSION, (1.0, -2.0, 0.5, 0.7, 0.3, -1.0, 0.2), 0.4, 0.0)
    async with rig(tmp_path) as it:
        await it.teach(STORED)
        await it.cache.control.set_policy("faq", {"score": score_json(given)})
        hit = await it.ask(ASKED)
        assert hit.outcome is Outcome.SEMANTIC_HIT
        assert hit.candidate
        row = {"prompt": hit.prompt, "candidate_prompt": hit.candidate.prompt, "similarity": hit.candidate.similarity}
        assert hit.candidate.score == pytest.approx(score.probability(given, json.loads(features_of(row))["x"]), abs=1e-5)
        told = attributes_of(hit, settings(tmp_path), provider="x")
        assert (told["cachescope.score.version"], told["cachescope.score.probability"]) == (4, hit.candidate.score)
        await it.cache.control.set_policy("faq", {"score": score_json(replace(given, cut=0.999))})
        miss = await it.ask(ASKED)
        assert (miss.outcome, miss.reason) == (Outcome.MISS, "vetoed")
        assert miss.candidate
        assert [(verdict.rule, verdict.veto) for verdict in miss.candidate.verdicts if verdict.veto] == [("score", True)]


def test_pairs_that_cannot_teach_are_left_out_and_counted() -> None:
    def said(number: int, *, serves: bool = True, actor: str = "ann", spoke: str = "addition", version: int = score.VERSION) -> Label:
        features = json.dumps({"v": version, "x": [0.9] * len(score.FEATURES), "spoke": [spoke]})
        return Label("faq", f"p{number}", "e", 0.9, serves, actor, 1, features)

    given = [
        *(said(1), said(1, actor="bob"), said(1, serves=False, actor="eve")),  # two of three say that it serves
        *(said(2), said(2, serves=False, actor="bob")),
        said(3, spoke="number"),
        said(4, version=score.VERSION + 1),
        replace(said(5), features=""),
    ]
    pairs, left_out = pairs_of(given, VerifyMode.HARD)
    assert [(pair.group, pair.serves) for pair in pairs] == [("p1", True)]
    assert left_out == {"disputed": 1, "without prompts": 1, "of another version": 1, "vetoed by rules": 1}
    assert pairs_of(given, VerifyMode.STRICT)[1]["vetoed by rules"] == 2


def test_a_score_is_fitted_tried_applied_and_taken_away(wired: Wiring, ctx: AdminContext) -> None:
    teach(ctx, 199)
    few = admin_acts.fit_score(ctx, "faq", support.operation())
    assert (few.state, "199 labelled pairs can be used" in few.reason) == ("failed", True)
    teach(ctx)
    fitted = admin_acts.fit_score(ctx, "faq", support.operation())
    assert (fitted.state, fitted.figures["version"], fitted.figures["right"]) == ("done", 1, 120)
    assert admin_acts.fit_score(ctx, "faq", support.operation()).figures["version"] == 2
    assert admin_acts.policy_in_force(ctx, "faq").score is None  # a fit decides nothing

    far = {**PAIR, "prompt": "How can I reset my password after my account was locked by the bank?", "prompt_hash": "p2"}
    now = now_ms() * 1_000_000
    record(wired, replace(HIT, start_ns=now), Made(2, trace=2, start_ns=now, outcome="semantic_hit", extra={**PAIR, "prompt": None}),
           Made(3, trace=3, start_ns=now, outcome="semantic_hit", extra=far), Made(4, trace=4, start_ns=now, extra=PAIR))  # fmt: skip
    tried = admin_acts.try_score(ctx, "faq", 2)
    assert (tried.hits, tried.vetoed, tried.unknown, tried.policy_version) == (3, 1, 1, 0)
    assert "of the 3 newest semantic hits" in scores.tried(tried)[0]

    applied = admin_acts.apply_score(ctx, "faq", 2, support.operation(), 0)
    assert "score none → version 2 (version 1)" in outcomes.sentence(applied, now_ms=0)
    policy = admin_acts.policy_in_force(ctx, "faq")
    assert policy.score == tried.score
    with pytest.raises(Refused, match=r"no score 9 \(known: 2, 1\)"):
        admin_acts.apply_score(ctx, "faq", 9, support.operation(), 1)
    late = admin_acts.apply_score(ctx, "faq", 1, support.operation(), 0)
    assert (late.state, "look again" in late.reason) == ("failed", True)
    admin_acts.apply_score(ctx, "faq", None, support.operation(), 1)
    assert admin_acts.policy_in_force(ctx, "faq").score is None
    admin_acts.restore_policy(ctx, "faq", 1, support.operation(), 2)
    assert admin_acts.policy_in_force(ctx, "faq").score == tried.score
    shown = scores.rows(admin_acts.versions(ctx, "faq"), in_force=2)
    assert [(row["version"], row["state"], row["labelled pairs"]) for row in shown] == [
        ("2", "decides", "240 (120 right, 120 wrong)"),
        ("1", "kept", "240 (120 right, 120 wrong)"),
    ]
    assert shown[0]["similarity alone"] == "no threshold does"


def test_mode_judge_and_holdout_are_set_together_and_checked(ctx: AdminContext) -> None:
    changes = {"verify_mode": "strict", "judge": "else-serve", "holdout_ratio": 0.1}
    assert admin_acts.set_verification(ctx, "faq", changes, support.operation(), 0).ok
    policy = admin_acts.policy_in_force(ctx, "faq")
    assert (policy.verify_mode, policy.judge, policy.holdout_ratio) == (VerifyMode.STRICT, Judging.ELSE_SERVE, 0.1)
    for bad in ({"verify_mode": "loose"}, {"judge": "on"}, {"holdout_ratio": 2}):
        with pytest.raises(Refused, match="Nothing was changed"):
            admin_acts.set_verification(ctx, "faq", bad, support.operation(), 1)
    assert not admin_acts.set_verification(ctx, "faq", {"judge": "off"}, support.operation(), 0).ok
