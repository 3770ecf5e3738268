"""The score's features and its word."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.errors import InvalidSetting
from engine.records import policy_of, policy_record
from engine.tiers.base import ControlDoc
from engine.types import Policy, Score, Verdict, VerifyMode
from engine.verify import parse, score, verify

ASKED, STORED = parse("How do I reset my password?"), parse("How can I change the password of my router?")


def weights(**given: float) -> Score:
    """Return a score that weighs these features, with a cut of one half."""
    return Score(1, score.VERSION, tuple(given.get(name, 0.0) for name in score.FEATURES), given.get("bias", 0.0), 0.5)


def test_features_count_what_two_prompts_share() -> None:
    doubts = [Verdict("substitution", veto=False, detail="x"), Verdict("addition", veto=False)]
    found = score.features(parse("reset a password"), parse("reset a new password"), 0.97, doubts)
    assert found
    named = dict(zip(score.FEATURES, found, strict=True))
    assert named["similarity"] == 0.97
    assert named["covered"] == 1.0
    assert named["shared"] == pytest.approx(2 / 3)
    assert named["extra"] == pytest.approx(0.6931, abs=1e-4)
    assert named["doubts"] == 2


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=60), st.text(max_size=60))
def test_features_are_finite_symmetric_and_in_their_ranges(one: str, other: str) -> None:
    left, right = parse(one), parse(other)
    verdicts = verify(left, right, mode=VerifyMode.SAFE)
    found = score.features(left, right, 0.5, verdicts)
    assert found is not None
    assert found == pytest.approx(score.features(right, left, 0.5, verdicts))
    named = dict(zip(score.FEATURES, found, strict=True))
    assert all(0 <= named[name] <= 1 for name in ("shared", "covered", "order"))
    assert 0 <= score.probability(weights(extra=1e6, bias=-3.0), found) <= 1


@pytest.mark.parametrize("broken", ["", "[]", "{", "null"])
def test_what_cannot_be_read_or_belongs_to_other_features_is_a_veto(broken: str) -> None:
    verdict, chance = score.weigh(weights(), ASKED, broken, 0.9, ())
    assert (verdict.veto, chance) == (True, None)
    for other in (Score(1, score.VERSION + 1, weights().weights, 0.0, 0.0), Score(1, score.VERSION, (1.0,), 0.0, 0.0)):
        assert score.weigh(other, ASKED, STORED, 0.9, ())[0].veto


def test_the_cut_itself_serves() -> None:
    assert score.weigh(weights(), ASKED, STORED, 0.9, ()) == (Verdict("score", veto=False, detail="0.500 >= 0.500"), 0.5)
    assert score.weigh(weights(bias=-1e-6), ASKED, STORED, 0.9, ())[0].veto


def test_a_score_in_a_policy_is_checked_kept_and_read_back() -> None:
    good = {"version": 3, "features": score.VERSION, "weights": [0.5] * len(score.FEATURES), "bias": -1.0, "cut": 0.8}
    record = policy_record(None, {"score": good})
    read = policy_of(ControlDoc("policy:faq", record, 1), Policy()).score
    assert read == Score(3, score.VERSION, (0.5,) * len(score.FEATURES), -1.0, 0.8)
    doc = ControlDoc("policy:faq", record, 1)
    assert policy_of(ControlDoc("policy:faq", policy_record(doc, {"threshold": 0.9}), 2), Policy()).score == read
    assert policy_of(ControlDoc("policy:faq", policy_record(doc, {"score": None}), 2), Policy()).score is None


@pytest.mark.parametrize(
    "changes",
    [
        {"weights": [0.5]},
        {"weights": "abcdefg"},
        {"weights": [float("nan")] * 7},
        {"features": score.VERSION + 1},
        {"cut": 1.1},
        {"cut": True},
        {"version": 0},
        {"bias": None},
    ],
)
def test_a_score_that_cannot_be_applied_is_refused(changes: dict[str, object]) -> None:
    good = {"version": 3, "features": score.VERSION, "weights": [0.5] * len(score.FEATURES), "bias": -1.0, "cut": 0.8}
    with pytest.raises(InvalidSetting, match="score"):
        policy_record(None, {"score": {**good, **changes}})
