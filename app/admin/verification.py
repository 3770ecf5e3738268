"""How a namespace's candidates are verified: mode, judge, holdout, and the score that its labels gave."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.admin.context import AdminContext
from app.admin.labels import features_of
from app.admin.policy import policy_act, policy_in_force
from app.admin.record import ActResult, earlier, perform
from app.admin.roles import authorise
from app.analysis import score as fitting
from app.analysis.score import Fitted, Pair
from app.errors import ActFailed, InvalidValue, Refused
from engine.records import score_json
from engine.types import Judging, Score, VerifyMode
from engine.verify import score
from engine.verify.rules import MODES
from storage import analyses, labels
from storage.analyses import Analysis
from storage.labels import Label
from storage.reads import thresholds as reads
from storage.reads.window import Scope, Window

KIND, FIT = "verification", "score_fit"
ANALYSIS: Final = "score"
_WORDS = {"verify_mode": VerifyMode, "judge": Judging}
_LOOK_BACK_MS: Final = 7 * 86_400_000
_MOST_TRIED: Final = 1_000  # a parse of both sides and the rules: about a millisecond each


def set_verification(ctx: AdminContext, namespace: str, changes: Mapping[str, Any], operation_id: str, expected_version: int) -> ActResult:
    """Set verify_mode, judge or holdout_ratio (None = the installation's). Fails when the policy is another by now."""
    authorise(ctx.actor, KIND, ctx.engine.capabilities)
    found = earlier(ctx, operation_id, kind=KIND, namespace=namespace)
    if found:
        return found
    for name, value in changes.items():
        if name in _WORDS and value not in set(_WORDS[name]):
            raise InvalidValue(f"{value!r} is no {name}; expected {', '.join(_WORDS[name])}. Nothing was changed")
        if name == "holdout_ratio" and value is not None and not 0 <= value <= 1:
            raise InvalidValue(f"a holdout is a share from 0 to 1, not {value!r}. Nothing was changed")
    return policy_act(ctx, namespace, changes, operation_id, expected_version, kind=KIND, note={})


def versions(ctx: AdminContext, namespace: str) -> list[Analysis]:
    """Return the namespace's scores, the newest first."""
    with ctx.ops.read() as conn:
        return analyses.of(conn, kind=ANALYSIS, namespace=namespace)


def fit_score(ctx: AdminContext, namespace: str, operation_id: str) -> ActResult:
    """Fit a score from the namespace's labels and keep it as its next version; nothing serves by it until it is applied."""
    authorise(ctx.actor, FIT, ctx.engine.capabilities)
    found = earlier(ctx, operation_id, kind=FIT, namespace=namespace)
    if found:
        return found
    mode = policy_in_force(ctx, namespace).verify_mode

    def work() -> Mapping[str, Any]:
        with ctx.ops.read() as conn:
            given = labels.list(conn, namespace=namespace)
        pairs, left_out = pairs_of(given, mode)
        told = ", ".join(f"{count} {why}" for why, count in left_out.items() if count)
        try:
            fitted = fitting.fit(pairs)
        except fitting.TooFewLabels as error:
            raise ActFailed(f"no score was fitted: {error}{f' (left out: {told})' if told else ''}") from error
        version = max((int(one.horizon) for one in versions(ctx, namespace)), default=0) + 1
        times = [one.at_ms for one in given]
        parameters = {"features": score.VERSION, "names": list(score.FEATURES), "verify_mode": mode.value, "left_out": left_out}
        analyses.put(
            ctx.ops,
            Analysis(
                kind=ANALYSIS,
                namespace=namespace,
                horizon=str(version),
                at_ms=ctx.clock(),
                start_ms=min(times),
                end_ms=max(times),
                lookups=fitted.n,
                parameters=parameters,
                result=fitting.as_json(fitted),
            ),
        )
        return {"version": version, "right": fitted.right, "wrong": fitted.wrong, "cut": fitted.cut, "left_out": left_out}

    return perform(ctx, act_id=operation_id, kind=FIT, namespace=namespace, parameters={"verify_mode": mode.value}, work=work)


def pairs_of(given: Sequence[Label], mode: VerifyMode) -> tuple[list[Pair], dict[str, int]]:
    """Return what a score can be fitted by, one row a pair, and how many pairs are left out, by why.

    Left out are pairs on which people are evenly divided, that were labelled without their prompts, that another version of the features
    describes, or that a rule of the mode vetoes: the score is never asked of those.
    """
    left_out = dict.fromkeys(("disputed", "without prompts", "of another version", "vetoed by rules"), 0)
    pairs = []
    for said in labels.by_pair(given):
        serves = labels.majority(said)
        features = next((json.loads(one.features) for one in said if one.features), None)
        if serves is None:
            left_out["disputed"] += 1
        elif features is None:
            left_out["without prompts"] += 1
        elif features["v"] != score.VERSION or len(features["x"]) != len(score.FEATURES):
            left_out["of another version"] += 1
        elif MODES[mode] & set(features["spoke"]):
            left_out["vetoed by rules"] += 1
        else:
            pairs.append(Pair(said[0].prompt_hash, tuple(features["x"]), serves))
    return pairs, left_out


@dataclass(frozen=True, slots=True)
class ScoreTry:
    """What a score would have done to the newest recorded semantic hits. unknown: their prompts are not recorded.

    fitted: its figures. policy_version: in force when it was tried.
    """

    namespace: str
    score: Score
    fitted: Fitted
    policy_version: int
    hits: int
    vetoed: int
    unknown: int


def try_score(ctx: AdminContext, namespace: str, version: int) -> ScoreTry:
    """Return what this version would have done to the semantic hits of the last seven days, at most 1,000. Raises Refused."""
    given, fitted = _version(ctx, namespace, version)
    now = ctx.clock()
    with ctx.telemetry().read() as conn:
        rows = reads.candidates(conn, Window.of(now - _LOOK_BACK_MS, now), Scope(namespace=namespace), limit=20 * _MOST_TRIED)
    hits = [row for row in rows if row.outcome == "semantic_hit" or row.held_out][:_MOST_TRIED]
    told = [features_of({"prompt": row.prompt, "candidate_prompt": row.candidate_prompt, "similarity": row.similarity}) for row in hits]
    chances = [score.probability(given, json.loads(one)["x"]) for one in told if one]
    policy_version = policy_in_force(ctx, namespace).version
    vetoed = sum(chance < given.cut for chance in chances)
    return ScoreTry(namespace, given, fitted, policy_version, len(hits), vetoed, len(hits) - len(chances))


def _version(ctx: AdminContext, namespace: str, version: int) -> tuple[Score, Fitted]:
    known = versions(ctx, namespace)
    found = next((one for one in known if one.horizon == str(version)), None)
    if found is None or found.result is None:
        told = ", ".join(one.horizon for one in known) or "none"
        raise Refused(f"{namespace!r} has no score {version} (known: {told}). Nothing was changed")
    fitted = fitting.from_json(found.result)
    if fitted.cut is None:
        raise Refused(
            f"score {version} of {namespace!r} separates nothing: no cut keeps half of the right pairs with at most 5 % wrong ones"
        )
    return Score(version, int(found.parameters["features"]), fitted.weights, fitted.bias, fitted.cut), fitted


def apply_score(ctx: AdminContext, namespace: str, version: int | None, operation_id: str, expected_version: int) -> ActResult:
    """Let this version of the namespace's score decide, None = no score. Fails when the policy is another by now."""
    authorise(ctx.actor, KIND, ctx.engine.capabilities)
    found = earlier(ctx, operation_id, kind=KIND, namespace=namespace)
    if found:
        return found
    given = None if version is None else score_json(_version(ctx, namespace, version)[0])
    return policy_act(ctx, namespace, {"score": given}, operation_id, expected_version, kind=KIND, note={})
