"""What was understood of each sender's telemetry, by which rule, which fields were missing, and what that hides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.analysis import polarity
from app.analysis.pricing import Rates, bill
from app.views import words
from storage.reads.calls import MOST_CALLS, MOST_HITS, Scores, Use
from storage.reads.sources import SourceStatus


@dataclass(frozen=True, slots=True)
class Told:
    """What the window's calls and scores tell. errors_served: source -> hits that served an error, and those that may have."""

    uses: tuple[Use, ...] = ()
    scores: tuple[Scores, ...] = ()
    errors_served: Mapping[int, tuple[int, int]] = field(default_factory=dict)


NOTHING_TOLD = Told()
RULES = {
    "inclusive": "input holds the cached tokens",
    "additive": "cached tokens come on top",
    "additive_proven": "cached tokens come on top: the numbers leave no other reading",
    "inclusive_assumed": "input is taken to hold the cached tokens, as the conventions demand; this sender is not known",
}
KINDS = {
    "response": "response cache",
    "response_hits": "response cache, hits only",
    "provider_prompt": "provider's prompt cache",
    "kv_prefix": "KV or prefix cache",
}
# What counts instead of a lookup of this sender.
TWICE = {"span": "by a span too, which counts", "log": "by a log record too, which counts"}
# What a page cannot show, or shows wrongly, without the field.
HIDES = {
    "namespace": "which cache it was: the lookups stand under (not recorded)",
    "tenant": "whose lookups they were: no rate, cost or purge by tenant",
    "model": "rates and costs by model",
    "provider": "which provider's prompt cache it was, and by whose rule tokens are counted",
    "similarity": "near misses: thresholds cannot be judged for these lookups",
    "threshold": "whether a score would have served: thresholds cannot be judged for these lookups",
    "generation": "whether a lookup came before or after a purge",
    "policy_version": "which policy was in force",
    "lookup_ms": "what the cache itself takes of a request's time",
    "key": "repeats of the same request: no exact warm-up",
    "input_tokens": "the call's size and cost",
    "output_tokens": "the call's cost",
    "cached_input_tokens": "whether the provider's prompt cache was hit: the call is in no rate of it",
    "cost_usd": "what it cost, as far as the model has no price in the settings",
}
_NAMED = {"cost_usd": "cost", "lookup_ms": "time in the cache"}
_STATIC = {
    "redis": ("whether a GET found anything", "any hit rate: these spans are commands, not lookups"),
}


def understood_rows(sources: Sequence[SourceStatus]) -> list[dict[str, object]]:
    """Return what the spans and log records of each sender were understood as, since it was first seen."""
    rows: list[dict[str, object]] = []
    for source in sources:
        if source.kind != "otlp_traces" and not (source.kind == "otlp_logs" and source.dialect):
            continue
        rules = source.facts("rule")
        rows.append(
            {
                "service": words.name(source.service, 60),
                "dialect": source.dialect or "none understood it",
                "spans": source.accepted,
                "lookups": words.listed(
                    f"{KINDS.get(kind, words.one_line(kind))} {words.count(n)}" for kind, n in source.facts("kind").items()
                ),
                "tell of calls": source.described,
                "count as calls": source.calls,
                "repeats or cached": source.described - source.calls,
                "rule for cached tokens": words.listed(
                    f"{RULES.get(rule, words.one_line(rule))} ({words.count(n)})"
                    for rule, n in sorted(rules.items(), key=lambda item: -item[1])
                ),
                "decisions told twice": words.listed(f"{words.count(n)} {TWICE.get(by, by)}" for by, n in source.facts("twice").items()),
                "scope": words.one_line(source.scope),
                "instance": words.one_line(source.instance),
            }
        )
    return rows


def missing_rows(sources: Sequence[SourceStatus]) -> list[dict[str, object]]:
    """Return the fields that lookups and calls lacked, and what that hides."""
    rows: list[dict[str, object]] = []
    for source in sources:
        lacks = [("lookups", name, without, source.lookups) for name, without in source.missing.items()]
        lacks += [("calls", name, without, source.call_facts.get("answered", 0)) for name, without in source.facts("lacks").items()]
        told = [
            (name, f"{words.count(without)} of {words.count(of)} {what}", HIDES.get(name, ""))
            for what, name, without, of in sorted(lacks, key=_most)
        ]
        if source.dialect in _STATIC:
            told.append((_STATIC[source.dialect][0], "all spans", _STATIC[source.dialect][1]))
        hits = source.facts("kind").get("response_hits", 0)
        if hits:
            told.append(
                ("misses of its response cache", f"{words.count(hits)} hits told", "that cache's hit rate: a rate needs the misses too")
            )
        rows += [
            {
                "service": words.name(source.service, 60),
                "dialect": source.dialect,
                "missing": words.one_line(_NAMED.get(name, name.replace("_", " "))),
                "in": where,
                "so this is hidden": hides,
            }
            for name, where, hides in told
        ]
    return rows


def _most(lack: tuple[str, str, int, int]) -> tuple[str, int, str]:
    what, name, without, _ = lack
    return what, -without, name


def call_rows(told: Told, prices: Mapping[str, Rates]) -> list[dict[str, object]]:
    """Return the window's calls by service, model and rule. Fresh and cached tokens are priced apart, by the settings' prices."""
    rows: list[dict[str, object]] = []
    for use in told.uses:
        share = use.cached_tokens / use.known_input_tokens * 100 if use.known_input_tokens else None
        rates = prices.get(use.model)
        priced = None
        if rates is not None and use.input_n:
            priced = bill(rates, input_tokens=use.input_tokens, cached_tokens=use.cached_tokens, output_tokens=use.output_tokens)
        rows.append(
            {
                "service": words.name(use.service, 60),
                "provider": words.name(use.provider),
                "model": words.name(use.model),
                "calls": use.calls,
                "failed": use.failed,
                "input tokens": use.input_tokens if use.input_n else None,
                "from the provider's cache": use.cached_tokens if use.cached_n else None,
                "share of input": share,
                "told by": f"{words.count(use.cached_n)} of {words.count(use.calls)} calls",
                "output tokens": use.output_tokens if use.input_n else None,
                "cost as sent": words.money(use.cost_usd) if use.cost_n else words.NO_DATA,
                "cost by your prices": words.money(None if priced is None else priced.cost_usd),
                "saved by the provider's cache": words.money(None if priced is None else priced.saved_usd),
                "input as sent": use.raw_input_tokens if use.input_n else None,
                "rule": RULES.get(use.token_rule, "") if use.token_rule else "nothing cached was told",
            }
        )
    return rows


def calls_cut(told: Told) -> bool:
    """Return whether the window held more calls than were read."""
    return sum(use.calls for use in told.uses) >= MOST_CALLS


_DIRECTIONS = {polarity.HIGHER: "higher is closer", polarity.LOWER: "lower is closer", polarity.UNKNOWN: "cannot be told"}


def score_rows(told: Told, sources: Sequence[SourceStatus]) -> list[dict[str, object]]:
    """Return which way each sender's scores point, as its own hits show, beside how they were taken."""
    by_id = {source.id: source for source in sources}
    rows: list[dict[str, object]] = []
    for scores in told.scores:
        source = by_id.get(scores.source_id)
        distance = scores.score_rule == "cosine_distance"
        # As sent: a distance was stored as 1 - distance.
        sent = [(1 - score, None if bound is None else 1 - bound, hit) for score, bound, hit in scores.rows] if distance else scores.rows
        found = polarity.infer(sent)
        expected = polarity.LOWER if distance else polarity.HIGHER
        if found.direction == polarity.UNKNOWN:
            verdict = "too little to tell" if not found.of else "the data contradict each other"
        else:
            verdict = "as taken" if found.direction == expected else "AGAINST how they are taken: similarities of this sender are wrong"
        rows.append(
            {
                "service": words.name(source.service if source else "", 60),
                "dialect": source.dialect if source else "",
                "taken as": "cosine distance, stored as 1 − distance" if distance else "cosine similarity",
                "its own hits say": _DIRECTIONS[found.direction],
                "evidence": f"{words.count(found.agreeing)} of {words.count(found.of)}",
                "verdict": verdict,
            }
        )
    return rows


def error_rows(told: Told, sources: Sequence[SourceStatus]) -> list[dict[str, object]]:
    """Return the senders whose cache served errors as answers."""
    by_id = {source.id: source for source in sources}
    return [
        {
            "service": words.name(by_id[source_id].service if source_id in by_id else "", 60),
            "newest lookups searched": MOST_HITS,
            "errors served from the cache": certain,
            "hits on a key whose other answers were all errors": likely,
        }
        for source_id, (certain, likely) in sorted(told.errors_served.items())
    ]
