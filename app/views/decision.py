"""A cache decision in words: what happened, why, and what would happen now."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.admin.labels import may_label
from app.views import words
from app.views.understood import RULES

_REASONS = {
    "no_store": "the client asked not to store the answer",
    "request": "the client asked for a fresh answer",
    "embeddings": "embeddings are passed through",
    "query_string": "the request has a query string, which is not in the key",
    "too_many_namespaces": "the cache has as many namespaces as it may have, and does not know this one",
    "exact_only": "nothing stored was the very same request, and the namespace is switched to exact hits only",
    "no_embedder": "nothing stored was the very same request, and there is no embedder to look for similar ones",
    "embedder_fault": "nothing stored was the very same request, and the embedder did not answer",
    "tier_fault": "a tier of the cache did not answer",
    "cache_fault": "the cache failed, and the request went on without it",
    "unknown_field": "the request has a field that the cache does not know, so it cannot tell which answers are equal",
    "too_deep": "the request is nested deeper than 64 levels",
    "multi_choice": "the client asked for more than one answer",
    "non_text": "the request holds something other than text",
    "no_user_turn": "the last turn is not a user's, so it was looked up exactly only",
    "too_long": "the last turn is longer than semantic lookups take, so it was looked up exactly only",
    "no_candidate": "no stored prompt of the same partition came near",
    "below_threshold": "the nearest stored prompt was not similar enough",
    "vetoed": "verification found a difference that changes the answer",
    "control_stale": "the gateway's view of policies and purges was too old to trust",
    "switch_off": "the namespace is switched off",
    "holdout": "it was held out on purpose, to learn what the upstream would say",
    "upstream_unavailable": "the upstream could not be reached",
    "upstream_error": "the upstream's stream ended in an error",
    "upstream_cut": "the upstream's stream ended before its end",
    "upstream_garbage": "the upstream's answer could not be understood",
    "no_upstream": "no upstream is configured",
    "upstream_timeout": "the upstream did not answer in time",
    "error_served": "the cache answered with an error",
    "client_left": "the client closed the connection",
}


@dataclass(frozen=True, slots=True)
class Rule:
    """One verifier's word on the candidate."""

    rule: str
    veto: bool
    detail: str


@dataclass(frozen=True, slots=True)
class PolicyNow:
    """What is in force now. threshold: effective, the embedder's default where the policy has none; None = not known."""

    version: int
    switch: str
    threshold: float | None
    live: frozenset[str]


@dataclass(frozen=True, slots=True)
class Decision:
    """headline: one sentence. sentences: the reasons, in the order of the lookup. pair: the lookup's span when it can be labelled."""

    outcome: str
    headline: str
    sentences: tuple[str, ...]
    rules: tuple[Rule, ...]
    prompt: str | None
    candidate_prompt: str | None
    facts: tuple[tuple[str, str], ...]
    pair: str = ""


def reason_in_words(reason: str) -> str:
    """Return what a reason means, or the reason itself with its underscores as spaces."""
    return _REASONS.get(reason, words.one_line(reason.replace("_", " ")))


def explain(row: Mapping[str, Any], attributes: Mapping[str, Any], now: PolicyNow | None) -> Decision:
    """Return the decision of one stored lookup. attributes: its span's, for what has no column. now: None = not known."""
    rules = _rules(row["verdicts"])
    told = [
        *_exact(row),
        *_candidate(row, rules),
        *_weighed(rules, attributes),
        *_now(row, rules, now),
        *_holdout(row, attributes),
        *_stored(row, attributes),
    ]
    return Decision(
        outcome=row["outcome"],
        headline=_headline(row),
        sentences=tuple(told),
        rules=tuple(rule for rule in rules if rule.rule not in _LAST),
        prompt=row["prompt"],
        candidate_prompt=row["candidate_prompt"],
        facts=_facts(row, attributes),
        pair=row["span_id"].hex() if may_label(row) else "",
    )


def _rules(verdicts: str) -> tuple[Rule, ...]:
    """Return the verdicts recorded; what is no list of [rule, veto, detail] is left out."""
    try:
        read = json.loads(verdicts) if verdicts else []
    except ValueError:
        return ()
    rows = read if isinstance(read, list) else []
    return tuple(
        Rule(str(row[0]), bool(row[1]), str(row[2]) if len(row) > 2 else "") for row in rows if isinstance(row, list) and len(row) > 1
    )


def _of_another_cache(row: Mapping[str, Any]) -> str:
    """Return the headline of a lookup that no response cache of ours decided; '' for one that did."""
    whose = {"provider_prompt": "the provider's own prompt cache", "kv_prefix": "the model server's own KV cache"}.get(row["cache_kind"])
    took = words.duration_ms(row["duration_ms"])
    if whose is not None and row["cached_input_tokens"] is not None:
        of = "" if row["input_tokens"] is None else f" of {words.count(row['input_tokens'])}"
        return f"{words.count(row['cached_input_tokens'])}{of} input tokens came from {whose}. The call took {took}."
    if row["cache_kind"] == "response_hits":
        return f"Answered from a response cache of {words.name(row['dialect'])} in {took}. It never tells of a miss, so it has no hit rate."
    return ""


def _headline(row: Mapping[str, Any]) -> str:
    other = _of_another_cache(row)
    if other:
        return other
    outcome, took = row["outcome"], words.duration_ms(row["duration_ms"])
    age = "" if row["entry_age_s"] is None else f", stored {words.age(row['entry_age_s'] * 1000)} before"
    tier = f" from the {words.name(row['tier'])} tier" if row["tier"] else ""
    match outcome:
        case "exact_hit":
            return f"Exact hit{tier} in {took}: the same request had been answered{age}."
        case "semantic_hit":
            near = "" if row["similarity"] is None else f" (similarity {row['similarity']:.4f})"
            return f"Semantic hit{tier} in {took}: a prompt with the same meaning had been answered{near}{age}."
        case "partial_hit" | "stale_hit":
            return f"{words.OUTCOME_NAMES[outcome].capitalize()}{tier} in {took}{age}."
        case "coalesced":
            return f"Coalesced: waited {took} for another request's identical miss. No hit, and no upstream call of its own."
    why = f": {reason_in_words(row['reason'])}" if row["reason"] else ": no reason was recorded"
    names = {"miss": "Miss", "bypass": "Bypass: the cache was not asked, or not allowed to answer", "error": "Error"}
    return f"{names.get(outcome, words.one_line(outcome))}{why}. It took {took}."


def _exact(row: Mapping[str, Any]) -> list[str]:
    if row["outcome"] in {"exact_hit", "bypass"}:
        return []
    return ["No entry had the same key (namespace, tenant, model, parameters and messages)."] if row["key"] or row["partition"] else []


def _candidate(row: Mapping[str, Any], rules: tuple[Rule, ...]) -> list[str]:
    if row["similarity"] is None:
        if row["candidates"] == 0:
            return ["The semantic lookup found no entry in its partition."]
        return []
    told = []
    if row["threshold"] is not None:
        passed = row["similarity"] >= row["threshold"]
        sign = "reaches" if passed else "is below"
        told.append(
            f"The nearest entry {row['candidate_id'] or row['entry_id'] or '(id not recorded)'} has similarity {row['similarity']:.4f}, "
            f"which {sign} the threshold then in force, {row['threshold']:.4f}."
        )
    own = [rule for rule in rules if rule.rule not in _LAST]
    vetoes = [rule for rule in own if rule.veto]
    if vetoes:
        names = words.listed(f"{words.one_line(rule.rule)}{f' ({words.one_line(rule.detail)})' if rule.detail else ''}" for rule in vetoes)
        told.append(f"Vetoed by {names}: prompts that differ there want different answers.")
    elif own:
        every = "The one rule asked" if len(own) == 1 else f"All {len(own)} rules"
        told.append(f"{every} let it pass." if row["passed"] else "No rule vetoed it.")
    return told


_LAST = ("score", "judge")
_JUDGE = {
    "same": "says that one answer serves both prompts",
    "different": "says that the prompts want different answers",
    "unclear": "said something else than one of its two words, which is a veto",
    "slow": "did not answer in time",
    "failed": "could not be asked",
    "refused": "was not asked, for it had failed a moment before",
    "busy": "was not asked, for it was asked about too many pairs at once",
    "unreadable": "was not asked, for a prompt is not known in full",
    "missing": "was not asked, for none is configured",
}


def _weighed(rules: tuple[Rule, ...], attributes: Mapping[str, Any]) -> list[str]:
    """Return what the score and the judge said of a candidate that no rule vetoed."""
    told = []
    vetoed = {rule.rule: rule.veto for rule in rules if rule.rule in _LAST}
    if "score" in vetoed:
        chance, version = attributes.get("cachescope.score.probability"), attributes.get("cachescope.score.version")
        said = f"Score {version} gave it {chance:.3f} and" if isinstance(chance, int | float) else "The score"
        told.append(f"{said} {'vetoed it' if vetoed['score'] else 'let it pass'}.")
    if "judge" in vetoed:
        word = str(attributes.get("cachescope.judge.word", ""))
        again = " (as it had said before)" if attributes.get("cachescope.judge.remembered") is True else ""
        ends = "it did not serve" if vetoed["judge"] else "it served"
        told.append(f"The judge {_JUDGE.get(word, words.one_line(word) or 'was asked')}{again}: {ends}.")
    return told


def _now(row: Mapping[str, Any], rules: tuple[Rule, ...], now: PolicyNow | None) -> list[str]:
    if now is None:
        return []
    told = []
    if row["similarity"] is not None and now.threshold is not None:
        same = row["threshold"] is not None and abs(row["threshold"] - now.threshold) < 1e-9
        would = row["similarity"] >= now.threshold and not any(rule.veto for rule in rules) and now.switch == "on"
        told.append(
            f"The threshold now is {now.threshold:.4f}{' (the same)' if same else ''}, switch {now.switch}: "
            f"this candidate would {'serve' if would else 'not serve'} today."
        )
    if row["policy_version"] is not None and row["policy_version"] != now.version:
        told.append(f"The policy was version {row['policy_version']} then and is version {now.version} now.")
    if row["generation"] and now.live and row["generation"] not in now.live:
        told.append("The namespace was purged since: entries of that generation are no longer visible.")
    return told


def _holdout(row: Mapping[str, Any], attributes: Mapping[str, Any]) -> list[str]:
    if not row["held_out"]:
        return []
    told = [f"A would-be hit, sent upstream at random; the chance of being served was {row['holdout_propensity'] or 0:.2f}."]
    common = attributes.get("cachescope.holdout.agreement_ratio")
    if isinstance(common, int | float):
        told.append(f"The answer held out and the upstream's have {words.ratio(float(common))} of their words in common.")
    return told


def _stored(row: Mapping[str, Any], attributes: Mapping[str, Any]) -> list[str]:
    stored = attributes.get("cachescope.stored")
    if stored is True:
        return [f"The upstream's answer was stored as entry {row['entry_id'] or '(id not recorded)'}."]
    why = attributes.get("cachescope.store.reason")
    return [f"The upstream's answer was not stored: {reason_in_words(str(why))}."] if stored is False and why else []


_KEY_OF = {True: "the normal form", False: "what was sent"}


def _facts(row: Mapping[str, Any], attributes: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    given: list[tuple[str, Any]] = [
        ("namespace", words.name(row["namespace"])),
        ("tenant", words.name(row["tenant"])),
        ("model", words.name(" ".join(part for part in (row["model"], row["model_version"]) if part))),
        ("client", words.one_line(row["client"])),
        ("matched or stored entry", row["entry_id"]),
        ("candidate", row["candidate_id"]),
        (
            "similarity (distance)",
            None
            if row["similarity"] is None
            else f"{row['similarity']:.4f} ({1 - row['similarity']:.4f}{', as sent' if row['score_rule'] == 'cosine_distance' else ''})",
        ),
        ("threshold then", None if row["threshold"] is None else f"{row['threshold']:.4f}"),
        ("policy version", row["policy_version"]),
        ("switch", row["switch"]),
        ("normaliser", attributes.get("cachescope.normaliser")),
        ("key of", _KEY_OF[normalised] if isinstance(normalised := attributes.get("cachescope.normalised"), bool) else None),
        ("generation", row["generation"]),
        ("partition", row["partition"]),
        ("prompt hash", row["prompt_hash"]),
        ("embedder", attributes.get("cachescope.embedder")),
        ("semantic lookup skipped", attributes.get("cachescope.semantic.skipped")),
        ("tokens in / out", None if row["input_tokens"] is None else f"{row['input_tokens']:,} / {row['output_tokens'] or 0:,}"),
        ("input tokens as sent", None if row["raw_input_tokens"] is None else f"{row['raw_input_tokens']:,}"),
        ("rule for cached tokens", RULES.get(row["token_rule"], row["token_rule"])),
        ("from the provider's cache", None if row["cached_input_tokens"] is None else f"{row['cached_input_tokens']:,}"),
        ("written to the provider's cache", None if row["cache_write_tokens"] is None else f"{row['cache_write_tokens']:,}"),
        ("time in the cache", words.duration_ms(row["lookup_ms"]) if row["lookup_ms"] is not None else None),
        ("time upstream", words.duration_ms(row["upstream_ms"]) if row["upstream_ms"] is not None else None),
        ("time saved", words.duration_ms(row["saved_ms"]) if row["saved_ms"] is not None else None),
        ("money saved", words.money(row["saved_usd"]) if row["saved_usd"] is not None else None),
        ("money spent", words.money(row["cost_usd"]) if row["cost_usd"] is not None else None),
    ]
    return tuple((label, words.one_line(str(value), 120)) for label, value in given if value not in (None, ""))
