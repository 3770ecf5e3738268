"""Thresholds: how low can we go, safely?"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.adapters.base import EngineAdapter, EngineState, NamespaceInfo, Via
from app.admin.policy import as_json
from app.admin.verification import ANALYSIS as SCORE
from app.analysis.thresholds import Scored, WhatIf, what_if
from app.views import normalisers, words
from app.views.audit import record_link
from app.views.parts import Failure, attempt
from engine.types import Judging, Policy, Switch
from storage import analyses, policies
from storage import labels as stored_labels
from storage.analyses import Analysis
from storage.labels import Label
from storage.policies import PolicyVersion
from storage.reads import sampling
from storage.reads import thresholds as reads
from storage.reads.thresholds import CandidateRow, SimilarityCount
from storage.reads.window import Scope, Window
from storage.store import Store

TELEMETRY, ENGINE, ACTS = SOURCES = ("Telemetry database", "Cache engine", "Record of acts")
PAIRS = 50
_SAME = 5e-7  # a threshold comes back from JSON and SQLite as it went; less than anybody would set
_LOWEST = 0.7
FEW = 200  # labelled or looked-at candidates below which nobody should trust a threshold


@dataclass(frozen=True, slots=True)
class Effective:
    """The threshold in force. default: no namespace policy sets it, so the embedder's applies.

    floor: the similarity below which the engine records no candidate, None when it does not say.
    """

    value: float | None
    default: bool
    policy: Policy
    floor: float | None = None
    embedder_default: float | None = None
    asked: bool = True  # whether a gateway answered for its embedder
    no_judge: str = ""  # what it means that the policy asks a judge and there is none

    @property
    def lowest(self) -> float:
        """The lowest threshold whose consequence can be told from what was recorded."""
        bounds = [bound for bound in (self.floor, self.value) if bound is not None]
        return min(bounds, default=_LOWEST)


@dataclass(frozen=True, slots=True)
class Thresholds:
    """from_ms: older lookups of this time are not among the candidates; None = all are."""

    sentence: str
    bad: bool
    names: tuple[str, ...]
    counts: tuple[SimilarityCount, ...]
    effective: Effective | None
    candidates: tuple[CandidateRow, ...]
    history: tuple[PolicyVersion, ...]
    labels: tuple[Label, ...]
    scores: tuple[Analysis, ...]
    prompts_recorded: bool
    failures: tuple[Failure, ...]
    from_ms: int | None = None
    sampled: int = 0  # lookups of the window that a sampler let through

    @property
    def judged_otherwise(self) -> int:
        """How many of the candidates were judged by another threshold than the one in force."""
        value = self.effective.value if self.effective else None
        if value is None:
            return 0
        return sum(row.threshold is not None and abs(row.threshold - value) > _SAME for row in self.candidates)

    def pairs(self) -> tuple[tuple[Label, ...], ...]:
        """Return the words on each labelled pair, the newest first."""
        return stored_labels.by_pair(self.labels)

    def scored(self) -> list[Scored]:
        """Return the candidates for the what-if. A held-out lookup would have hit: it is no hit gained."""
        return [Scored(row.id, row.similarity, row.passed, served=row.outcome == "semantic_hit" or row.held_out) for row in self.candidates]


def load(
    telemetry: Callable[[], Store],
    ops: Callable[[], Store],
    engine: Callable[[], EngineAdapter],
    *,
    window: Window,
    scope: Scope,
    window_name: str,
) -> Thresholds:
    """Return the candidates of one namespace (scope.namespace) with its threshold in force, or the namespaces to choose from."""

    def read() -> tuple[list[SimilarityCount], list[CandidateRow], int | None, int]:
        with telemetry().read() as conn:
            counts = reads.by_namespace(conn, window, scope)
            sampled = sum(one.lookups for one in sampling.kept(conn, window, scope))
            if scope.namespace is None:
                return counts, [], None, sampled
            looked = reads.looked(conn, window, scope)
            found = reads.candidates(conn, looked, scope)
            from_ms = found[-1].at_ms if len(found) == reads.MAX_ROWS else looked.start_ms
            return counts, found, from_ms if from_ms > window.start_ms else None, sampled

    recorded = attempt(TELEMETRY, read, hides="similarities and what another threshold would do")
    state = attempt(ENGINE, lambda: (engine().state(), tuple(engine().namespaces())), hides="the thresholds in force")
    past = attempt(ACTS, lambda: _kept(ops(), scope.namespace), hides="the policy's history, the labels and the scores")
    counts, candidates, from_ms, sampled = recorded.value or ([], [], None, 0)
    known = state.value[1] if state.value else ()
    effective = _effective(state.value[0], known, scope.namespace) if state.value and scope.namespace is not None else None
    if recorded.failure:
        told = "No telemetry has been stored yet" if recorded.failure.missing else "The telemetry database does not answer"
        sentence, bad = f"{told}: {_in_force(effective)}".rstrip(": "), not recorded.failure.missing
    else:
        sentence, bad = _sentence(scope.namespace, counts, candidates, effective, window_name)
    failures = tuple(part.failure for part in (recorded, state, past) if part.failure)
    return Thresholds(
        sentence=sentence,
        bad=bad or any(not failure.missing for failure in failures),
        names=tuple(sorted({row.name for row in known} | {row.namespace for row in counts if row.namespace})),
        counts=tuple(counts),
        effective=effective,
        candidates=tuple(candidates),
        from_ms=from_ms,
        history=past.value[0] if past.value else (),
        labels=past.value[1] if past.value else (),
        scores=past.value[2] if past.value else (),
        prompts_recorded=any(row.prompt is not None for row in candidates) or not candidates,
        failures=failures,
        sampled=sampled,
    )


def _kept(store: Store, namespace: str | None) -> tuple[tuple[PolicyVersion, ...], tuple[Label, ...], tuple[Analysis, ...]]:
    if namespace is None:
        return (), (), ()
    with store.read() as conn:
        scores = tuple(analyses.of(conn, kind=SCORE, namespace=namespace))
        return tuple(policies.history(conn, namespace)), tuple(stored_labels.list(conn, namespace=namespace)), scores


def _effective(state: EngineState, known: Iterable[NamespaceInfo], namespace: str) -> Effective:
    policy = next((row.policy for row in known if row.name == namespace), Policy())
    default, floor = (_number(state.embedder.get(name)) for name in ("default_threshold", "candidate_floor"))
    no_judge = state.without_judge(policy.judge)
    if policy.threshold is not None:
        return Effective(policy.threshold, False, policy, floor, default, no_judge=no_judge)
    return Effective(default, True, policy, floor, default, asked=state.via == Via.GATEWAY, no_judge=no_judge)


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _sentence(
    namespace: str | None,
    counts: Sequence[SimilarityCount],
    rows: Sequence[CandidateRow],
    effective: Effective | None,
    window_name: str,
) -> tuple[str, bool]:
    if namespace is None:
        scored = sum(row.with_candidate for row in counts)
        return (
            f"Choose a namespace: {words.count(len(counts))} had lookups in {window_name}, {words.count(scored)} with a candidate"
            if counts
            else f"No lookups in {window_name}: there are no similarities to show",
            False,
        )
    force = _in_force(effective)
    if not rows:
        return f"{words.name(namespace)} had no lookup with a semantic candidate in {window_name}; {force}".rstrip("; "), False
    hits = sum(row.outcome == "semantic_hit" for row in rows)
    vetoed = sum(not row.passed and row.threshold is not None and row.similarity >= row.threshold for row in rows)
    told = f"{words.name(namespace)}: {force} " if force else f"{words.name(namespace)}: "
    told += f"{words.many(hits, 'semantic hit', 'semantic hits')} of {words.many(len(rows), 'lookup', 'lookups')} with a candidate"
    told += f" in {window_name}; verification kept {words.count(vetoed)} similar ones from being served"
    if len(rows) < FEW:
        return f"{told}. Too few to judge a threshold by (n = {words.count(len(rows))}, {FEW} needed)", True
    return told, effective is None or effective.value is None


def unknown(effective: Effective | None) -> str:
    """Return why there is no threshold to move."""
    if effective is None or not effective.asked:
        return "the threshold in force is not known, because no gateway answers"
    return "no threshold is in force, because no embedder is at work and only exact hits are served"


def _in_force(effective: Effective | None) -> str:
    """Return the threshold in force as a sentence; '' when the engine does not answer."""
    if effective is None:
        return ""
    if effective.value is None:
        return f"{unknown(effective)}."
    switch = effective.policy.switch
    stopped = "" if switch == Switch.ON else f", but the switch is {switch.value}: no semantic hits are served"
    whose = " (the embedder’s default)" if effective.default else ""
    return f"in force is similarity ≥ {effective.value:.4f}{whose}{stopped}."


def consequence(result: WhatIf) -> str:
    """Return what the moved threshold would have done on the recorded lookups."""
    return (
        f"At {result.threshold:.4f}: {words.count(result.hits_then)} semantic hits instead of {words.count(result.hits_now)}, "
        f"{words.count(len(result.gained))} gained and {words.count(len(result.lost))} lost, of {words.count(result.n)} recorded "
        f"lookups with a candidate; {words.count(result.vetoed)} more are similar enough and stay vetoed by verification"
    )


def restored(view: Thresholds, version: int) -> list[str]:
    """Return what bringing this version back means: its fields, and what its threshold would have done."""
    policy = next((dict(row.policy) for row in view.history if row.version == version), as_json(Policy()))
    threshold = policy.get("threshold")
    shown = "the embedder's default" if threshold is None else f"{threshold:.4f}"
    verification, ttl_s = policy.get("verify_mode", ""), float(policy.get("ttl_s") or 0)
    told = f"Threshold {shown}, verification {verification}, time to live {words.age(ttl_s * 1000)}"
    told += f", score and judge: {_last_words(policy)}" if "judge" in policy else ""
    told += f", normaliser {policy['normaliser']}" if "normaliser" in policy else ""
    lines = [f"{told}. The switch stays as it is."]
    in_force = view.effective.policy.normaliser.value if view.effective else ""
    if in_force and policy.get("normaliser", in_force) != in_force:
        lines.append(normalisers.consequence(in_force))
    default = view.effective.embedder_default if view.effective else None
    value = default if threshold is None else threshold
    if value is not None and view.candidates:
        lines.append(consequence(move(view, value)))
    return lines


def _last_words(policy: Mapping[str, Any]) -> str:
    """Return which score and which judge a recorded policy has."""
    score, judge = policy.get("score"), policy.get("judge") or Judging.OFF.value
    decides = f"version {score.get('version')}" if isinstance(score, Mapping) else "none"
    return f"{decides}, {judge}"


def notes(view: Thresholds) -> list[str]:
    """Return what must be known to read the consequence rightly."""
    found = []
    if view.sampled:
        n = words.many(view.sampled, "lookup", "lookups")
        found.append(f"Telemetry is sampled: {n} came through a sampler. Counts are of what came, and what it prefers is not weighed.")
    if view.from_ms is not None:
        found.append(f"The newest are read: lookups from before {words.instant(view.from_ms)[:16]} UTC are not among these.")
    if view.judged_otherwise:
        found.append(f"{words.count(view.judged_otherwise)} of these lookups were judged by another threshold than the one in force now.")
    held_out = sum(row.held_out for row in view.candidates)
    if held_out:
        found.append(f"{words.count(held_out)} held-out lookups are counted as the hits they would have been.")
    if view.effective and view.effective.no_judge:
        found.append(f"{view.effective.no_judge[0].upper()}{view.effective.no_judge[1:]}.")
    if view.effective and view.effective.policy.judge is not Judging.OFF:
        found.append("The judge is asked only about what would serve: what it says of hits that would be gained is not known.")
    if view.effective and view.effective.floor is not None:
        found.append(f"Candidates below {view.effective.floor:.4f} are not recorded: nothing can be said below that.")
    return found


def move(view: Thresholds, threshold: float) -> WhatIf:
    return what_if(view.scored(), threshold)


def pair_rows(view: Thresholds, ids: Sequence[int]) -> list[dict[str, Any]]:
    """Return these lookups' pairs, the nearest to the threshold first, at most 50."""
    by_id = {row.id: row for row in view.candidates}
    return [
        {
            "similarity": row.similarity,
            "distance": 1 - row.similarity,
            "asked": words.one_line(row.prompt, 160) if row.prompt else words.UNNAMED,
            "candidate": words.one_line(row.candidate_prompt, 160) if row.candidate_prompt else words.UNNAMED,
            "verification": verdicts(row.verdicts) or ("passed" if row.passed else "vetoed"),
            "tenant": words.name(row.tenant),
            "at (UTC)": words.instant(row.at_ms),
            "trace": f"traces?trace={row.trace_id.hex()}",
        }
        for row in (by_id[one] for one in ids[:PAIRS])
    ]


def verdicts(recorded: str) -> str:
    """Return the vetoes of a recorded verdict list in words; '' when there is none. Senders may record anything."""
    try:
        read = json.loads(recorded) if recorded else []
    except ValueError:
        return "not readable"
    rows = [row for row in read if isinstance(row, list) and len(row) > 1] if isinstance(read, list) else []
    return ", ".join(words.one_line(": ".join(str(part) for part in (row[0], *row[2:3])), 80) for row in rows if row[1])


def vetoed_ids(view: Thresholds) -> list[int]:
    """Return the lookups that were similar enough and vetoed, the most similar first."""
    found = [row for row in view.candidates if not row.passed and row.threshold is not None and row.similarity >= row.threshold]
    return [row.id for row in sorted(found, key=lambda row: -row.similarity)]


def count_rows(view: Thresholds) -> list[dict[str, Any]]:
    return [
        {
            "namespace": words.name(row.namespace),
            "lookups": row.lookups,
            "with a candidate": row.with_candidate,
            "semantic hits": row.semantic_hits,
            "vetoed above the threshold": row.vetoed,
        }
        for row in view.counts
    ]


def history_rows(view: Thresholds) -> list[dict[str, Any]]:
    return [
        {
            "version": row.version,
            "threshold": "embedder's default" if row.policy.get("threshold") is None else f"{row.policy['threshold']:.4f}",
            "switch": row.policy.get("switch", ""),
            "verification": row.policy.get("verify_mode", ""),
            "score, judge": _last_words(row.policy),
            "normaliser": row.policy.get("normaliser", ""),
            "set (UTC)": words.instant(row.at_ms),
            "by": words.one_line(row.actor, 40),
            "record": record_link(row.act_id),
        }
        for row in view.history
    ]
