"""A lookup as a span's attributes (`engine.semconv`). What does not apply is left out: absent is not 0."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlsplit

import orjson

from engine import semconv
from engine.keys import printable
from engine.lookup import ADAPTER, RETRIEVAL_VERSION, SCOPE, Lookup
from engine.settings import EngineSettings, GatewaySettings
from engine.types import Outcome, Usage

_NAMED = {
    ADAPTER: semconv.ADAPTER,
    RETRIEVAL_VERSION: semconv.RETRIEVAL_VERSION,
    SCOPE: semconv.AUTHORISATION_SCOPE,
}
_MOST_HEADERS, _HEADER_CHARS = 16, 100

Value = str | bool | int | float | tuple[str, ...]

# OpenTelemetry's names of providers, by the end of the upstream's host.
_PROVIDERS = {
    "openai.com": "openai",
    "openai.azure.com": "azure.ai.openai",
    "anthropic.com": "anthropic",
    "deepseek.com": "deepseek",
    "googleapis.com": "gcp.gemini",
    "groq.com": "groq",
    "mistral.ai": "mistral_ai",
    "perplexity.ai": "perplexity",
    "x.ai": "x_ai",
}


def provider_of(settings: GatewaySettings) -> str:
    """Return the provider behind the upstream's URL; one that is not known here only says what it speaks."""
    host = urlsplit(settings.upstream_url).hostname or ""
    for suffix, provider in _PROVIDERS.items():
        if host == suffix or host.endswith(f".{suffix}"):
            return provider
    return "openai_compatible"


def attributes_of(lookup: Lookup, settings: EngineSettings, *, provider: str) -> dict[str, Value]:
    """Return everything that is known of the lookup. Prompt text only when it may be recorded."""
    state = state_attributes(state_of(lookup, provider=provider))
    return request_attributes(lookup, settings) | state | course_attributes(lookup, settings)


def is_recorded(lookup: Lookup, settings: EngineSettings) -> bool:
    """Return whether the span may hold prompts. A client that wants nothing kept means its text on a span as well."""
    return settings.record_prompts and not lookup.request.no_store


def request_attributes(lookup: Lookup, settings: EngineSettings) -> dict[str, Value]:
    """Return what the request alone says: the same for each lookup of this body, tenant, namespace, model version and key."""
    request = lookup.request
    raw: dict[str, Value | None] = {
        semconv.NAMESPACE: printable(request.namespace),
        semconv.TENANT: printable(request.tenant),
        semconv.MODEL_VERSION: printable(request.model_version),
        semconv.KEY: lookup.key,
        semconv.PARTITION: lookup.partition,
        semconv.FINGERPRINT: lookup.fingerprint.hex,
        semconv.NORMALISER: lookup.normaliser,
        semconv.NORMALISED: lookup.normalised if lookup.normaliser else None,
        semconv.KEYED_HEADERS: keyed_headers(lookup),
        semconv.PROMPT_HASH: lookup.prompt_hash,
        semconv.PROMPT_CHARS: len(lookup.prompt),
        semconv.GENAI_REQUEST_MODEL: lookup.model,
    }
    for header, value in request.keyed:
        if header in _NAMED:
            raw[_NAMED[header]] = printable(value.decode("utf-8", "replace"))
    if is_recorded(lookup, settings):
        _add_prompt(raw, lookup, settings)
    return _told(raw)


class State(NamedTuple):
    """What became of a lookup, less what is another with each: many lookups share one. Its fields are named as the lookup's."""

    outcome: str
    reason: str
    purpose: str
    tier: str
    client: str
    streamed: bool
    candidates: int | None
    threshold: float | None
    embedder: str
    semantic_skipped: str
    verify_mode: str
    policy_version: int
    switch: str
    generation: str
    holdout_propensity: float
    held_out: bool
    stored: bool
    store_reason: str
    provider: str
    response_model: str
    finish_reasons: tuple[str, ...]
    error_type: str
    status: int


def state_of(lookup: Lookup, *, provider: str) -> State:
    """Return the part of it that many lookups share."""
    request, policy = lookup.request, lookup.space.policy
    return State(
        lookup.outcome.value,
        lookup.reason,
        request.purpose.value,
        lookup.tier,
        request.client,
        lookup.streamed,
        lookup.candidates,
        # Equal states must be written alike, and 1 and 1.0 are equal.
        None if lookup.threshold is None else float(lookup.threshold),
        lookup.embedder,
        lookup.semantic_skipped,
        policy.verify_mode.value,
        policy.version,
        policy.switch.value,
        lookup.space.generations.write,
        float(lookup.holdout_propensity),
        lookup.held_out,
        lookup.stored,
        lookup.store_reason,
        provider,
        lookup.response_model,
        lookup.finish_reasons,
        lookup.error_type,
        lookup.status,
    )


def state_attributes(state: State) -> dict[str, Value]:
    """Return a state as attributes."""
    raw: dict[str, Value | None] = {
        semconv.OUTCOME: state.outcome,
        semconv.REASON: state.reason,
        semconv.PURPOSE: state.purpose,
        semconv.TIER: state.tier,
        semconv.CLIENT: printable(state.client),
        semconv.STREAMED: state.streamed,
        semconv.CANDIDATES: state.candidates,
        semconv.THRESHOLD: state.threshold,
        semconv.VERIFY_MODE: state.verify_mode,
        semconv.EMBEDDER: state.embedder,
        semconv.SEMANTIC_SKIPPED: state.semantic_skipped,
        semconv.POLICY_VERSION: state.policy_version,
        semconv.SWITCH: state.switch,
        semconv.GENERATION: state.generation,
        semconv.HOLDOUT_PROPENSITY: state.holdout_propensity,
        semconv.HELD_OUT: state.held_out,
        semconv.STORED: state.stored,
        semconv.STORE_REASON: state.store_reason,
        semconv.GENAI_OPERATION: "embeddings" if state.reason == "embeddings" else "chat",
        semconv.GENAI_PROVIDER: state.provider,
        semconv.GENAI_RESPONSE_MODEL: printable(state.response_model),
        semconv.GENAI_FINISH_REASONS: tuple(map(printable, state.finish_reasons)),
        semconv.ERROR_TYPE: state.error_type,
        semconv.HTTP_STATUS: state.status,
    }
    return _told(raw)


def course_attributes(lookup: Lookup, settings: EngineSettings) -> dict[str, Value]:
    """Return what is another with each lookup: times, and what it met."""
    raw: dict[str, Value | None] = {
        semconv.STEPS: orjson.dumps([[step.name, step.start_us, step.duration_us] for step in lookup.steps]).decode(),
        semconv.LOOKUP_MS: lookup.lookup_ms,
        semconv.UPSTREAM_MS: lookup.upstream_ms,
        semconv.PROMPT_SIMHASH: lookup.simhash,
    }
    if lookup.agreement_ratio is not None:
        raw[semconv.HOLDOUT_AGREEMENT] = lookup.agreement_ratio
    if lookup.judged is not None:
        raw[semconv.JUDGE] = lookup.judged.word.value
        raw[semconv.JUDGE_REMEMBERED] = lookup.judged.remembered
    _add_entry(raw, lookup)
    _add_usage(raw, lookup)
    _add_candidate(raw, lookup, recorded=is_recorded(lookup, settings))
    return _told(raw)


def _told(raw: dict[str, Value | None]) -> dict[str, Value]:
    # What is true is told without a comparison: most of it is.
    return {name: value for name, value in raw.items() if value or (value is not None and value not in ("", ()))}


def keyed_headers(lookup: Lookup) -> tuple[str, ...]:
    """Return the names of the headers that are part of the key, the first few: never their values."""
    if not lookup.request.keyed:
        return ()
    names = dict.fromkeys(name for name, _ in lookup.request.keyed if name not in _NAMED)
    return tuple(printable(name[:_HEADER_CHARS].decode("latin-1")) for name in list(names)[:_MOST_HEADERS])


def _add_entry(raw: dict[str, Value | None], lookup: Lookup) -> None:
    entry = lookup.entry
    if entry is None:
        raw[semconv.ENTRY_ID] = lookup.stored_entry_id
        return
    raw[semconv.ENTRY_ID] = entry.entry_id
    # As a copy in memory counts it: the same, whichever tier it came from.
    raw[semconv.ENTRY_BYTES] = entry.size_bytes - len(entry.vector)
    raw[semconv.ENTRY_AGE_S] = max(0, lookup.at_ms - entry.created_ms) / 1000
    raw[semconv.ENTRY_TTL_S] = max(0, entry.expires_ms - lookup.at_ms) / 1000
    raw[semconv.SAVED_MS] = max(0.0, entry.upstream_ms - lookup.lookup_ms - (lookup.upstream_ms or 0.0))
    raw[semconv.SAVED_USD] = entry.usage.cost_usd


def _add_usage(raw: dict[str, Value | None], lookup: Lookup) -> None:
    """On a hit the tokens are those of the answer that served; this lookup's own cost is then nothing."""
    free = lookup.entry is not None or lookup.outcome is Outcome.COALESCED
    usage: Usage = lookup.entry.usage if lookup.entry is not None else lookup.usage
    raw[semconv.GENAI_INPUT_TOKENS] = usage.input_tokens
    raw[semconv.GENAI_OUTPUT_TOKENS] = usage.output_tokens
    raw[semconv.GENAI_CACHE_READ_TOKENS] = usage.cached_input_tokens
    raw[semconv.COST_USD] = 0.0 if free else usage.cost_usd


def _add_candidate(raw: dict[str, Value | None], lookup: Lookup, *, recorded: bool) -> None:
    candidate = lookup.candidate
    if candidate is None:
        return
    raw[semconv.CANDIDATE_ID] = candidate.entry_id
    raw[semconv.CANDIDATE_SIMILARITY] = candidate.similarity
    raw[semconv.CANDIDATE_PASSED] = candidate.passed
    raw[semconv.SCORE] = candidate.score
    if candidate.score is not None and lookup.space.policy.score is not None:
        raw[semconv.SCORE_VERSION] = lookup.space.policy.score.version
    # A rule's detail is made of words of both prompts.
    verdicts = [[verdict.rule, verdict.veto, printable(verdict.detail) if recorded else ""] for verdict in candidate.verdicts]
    raw[semconv.CANDIDATE_VERDICTS] = orjson.dumps(verdicts).decode()
    if lookup.others:
        others = [[other.entry_id, round(other.similarity, 4), other.vetoed_by] for other in lookup.others]
        raw[semconv.CANDIDATE_OTHERS] = orjson.dumps(others).decode()
    if recorded:
        raw[semconv.CANDIDATE_PROMPT] = printable(candidate.prompt)


def _add_prompt(raw: dict[str, Value | None], lookup: Lookup, settings: EngineSettings) -> None:
    raw[semconv.PROMPT] = printable(lookup.prompt)[: settings.record_prompt_chars]
    try:
        body = orjson.dumps(lookup.request.body)
    except orjson.JSONEncodeError:  # lone surrogates: the hashes still stand for it
        return
    # A warm-up would ask without these headers, whose values are not recorded: another question.
    if len(body) <= settings.record_body_bytes and not keyed_headers(lookup):
        raw[semconv.REQUEST_BODY] = body.decode()
