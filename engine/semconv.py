"""Attribute and metric names that the engine emits. The one module of the engine that collectors may import.

`cachescope.*`, and not `cache.*`, which other caches use with other meanings (BetterDB's `cache.similarity` is a distance).
Every lookup carries every attribute that applies, hit or not: what is not recorded now can never be added to old data.
"""

from __future__ import annotations

SCOPE = "cachescope.engine"
SPAN_LOOKUP = "cachescope.lookup"

OUTCOME = "cachescope.outcome"  # engine.types.Outcome
REASON = "cachescope.reason"  # why a bypass, miss or error, one of a bounded set
PURPOSE = "cachescope.purpose"  # traffic | warmup | probe
TIER = "cachescope.tier"  # memory | store | vector: where the hit came from
NAMESPACE = "cachescope.namespace"
TENANT = "cachescope.tenant"
MODEL_VERSION = "cachescope.model_version"
AUTHORISATION_SCOPE = "cachescope.authorisation_scope"  # the tenant key's; absent: none
ADAPTER = "cachescope.adapter"
RETRIEVAL_VERSION = "cachescope.retrieval_version"
CLIENT = "cachescope.client"  # the caller's user-agent, first product token
STREAMED = "cachescope.streamed"  # bool: the client asked for a stream
DEMO = "cachescope.demo"  # resource attribute, bool

KEY = "cachescope.key"  # 64 hex, HMAC of the canonical request
PARTITION = "cachescope.partition"  # 32 hex
FINGERPRINT = "cachescope.fingerprint"  # 16 hex: the system prompt and parameters' group, for analysis only
NORMALISER = "cachescope.normaliser"  # the namespace's, with its version; absent: none
NORMALISED = "cachescope.normalised"  # bool: the key is of the normal form; false: the request stands as it was sent
KEYED_HEADERS = "cachescope.keyed_headers"  # names of the request's headers that are part of the key; absent: none
PROMPT_HASH = "cachescope.prompt.hash"  # 32 hex, HMAC of the last user turn with the tenant's secret
PROMPT_SIMHASH = "cachescope.prompt.simhash"  # 16 hex, 64-bit SimHash of the prompt's vector
PROMPT_CHARS = "cachescope.prompt.chars"  # int
PROMPT = "cachescope.prompt"  # the last user turn, length-capped; only when prompts are recorded
REQUEST_BODY = "cachescope.request.body"  # the request as JSON, for warm-up; only when prompts are recorded and it is small

ENTRY_ID = "cachescope.entry.id"  # the entry that served, or that was stored
ENTRY_AGE_S = "cachescope.entry.age_s"  # seconds since its store
ENTRY_BYTES = "cachescope.entry.bytes"
ENTRY_TTL_S = "cachescope.entry.ttl_s"  # seconds left
STORED = "cachescope.stored"  # bool: this lookup's answer was stored
STORE_REASON = "cachescope.store.reason"  # why an answer was not stored

CANDIDATES = "cachescope.candidates"  # int: neighbours considered
CANDIDATE_ID = "cachescope.candidate.id"
CANDIDATE_SIMILARITY = "cachescope.candidate.similarity"  # cosine, -1..1, higher is closer
CANDIDATE_PASSED = "cachescope.candidate.passed"  # bool: no verifier vetoed it
CANDIDATE_VERDICTS = "cachescope.candidate.verdicts"  # JSON [[rule, veto, detail], …]
CANDIDATE_OTHERS = "cachescope.candidate.others"  # JSON [[entry id, similarity, rule that vetoed it or ""], …], nearest first
CANDIDATE_PROMPT = "cachescope.candidate.prompt"  # only when prompts are recorded
THRESHOLD = "cachescope.threshold"  # cosine in force
VERIFY_MODE = "cachescope.verify.mode"
SCORE = "cachescope.score.probability"  # 0…1: that one answer serves both, by the score in force
SCORE_VERSION = "cachescope.score.version"  # int: which of the namespace's scores decided
JUDGE = "cachescope.judge.word"  # engine.judge.Word
JUDGE_REMEMBERED = "cachescope.judge.remembered"  # bool: said before, and not asked again
EMBEDDER = "cachescope.embedder"
SEMANTIC_SKIPPED = "cachescope.semantic.skipped"  # why no semantic lookup was made

POLICY_VERSION = "cachescope.policy.version"
SWITCH = "cachescope.switch"
GENERATION = "cachescope.generation"
HOLDOUT_PROPENSITY = "cachescope.holdout.propensity"  # probability of being served; 1 = never held out
HELD_OUT = "cachescope.holdout.held_out"  # bool: a would-be hit, sent upstream
HOLDOUT_AGREEMENT = "cachescope.holdout.agreement_ratio"  # 0…1: words in common of the answer held out and the upstream's

STEPS = "cachescope.steps"  # JSON [[name, start_us, duration_us], …]
LOOKUP_MS = "cachescope.lookup_ms"  # time spent in the cache itself, upstream not included
UPSTREAM_MS = "cachescope.upstream_ms"
SAVED_MS = "cachescope.saved_ms"  # the entry's upstream time less the lookup's
SAVED_USD = "cachescope.saved_usd"  # what the entry's upstream call cost
COST_USD = "cachescope.cost_usd"  # what this lookup's own upstream call cost; absent where the price is unknown

# OpenTelemetry GenAI conventions
GENAI_OPERATION = "gen_ai.operation.name"
GENAI_PROVIDER = "gen_ai.provider.name"
GENAI_REQUEST_MODEL = "gen_ai.request.model"
GENAI_RESPONSE_MODEL = "gen_ai.response.model"
GENAI_INPUT_TOKENS = "gen_ai.usage.input_tokens"
GENAI_OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
GENAI_CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
GENAI_FINISH_REASONS = "gen_ai.response.finish_reasons"
ERROR_TYPE = "error.type"
HTTP_STATUS = "http.response.status_code"

# Prometheus metrics of the gateway (the exposition adds _total to counters)
METRIC_LOOKUPS = "cachescope_lookups"  # counter {namespace, outcome, purpose}; every lookup, before any telemetry is sent
METRIC_KEYED_HEADERS = "cachescope_keyed_headers"  # counter {header}: lookups whose key holds this header
METRIC_BYPASSES = "cachescope_bypasses"  # counter {reason}
METRIC_FAULTS = "cachescope_cache_faults"  # counter {tier, operation}: cache faults answered as a miss
METRIC_SPANS = "cachescope_spans"  # counter {result=created|exported|failed|dropped}
METRIC_LOOKUP_SECONDS = "cachescope_lookup_seconds"  # histogram {outcome}
METRIC_UPSTREAM_SECONDS = "cachescope_upstream_seconds"  # histogram
METRIC_STORES = "cachescope_stores"  # counter {result}
METRIC_REMOVALS = "cachescope_removals"  # counter {tier, cause}
METRIC_BREAKER_STATE = "cachescope_breaker_state"  # gauge {dependency, operation}: 0 closed, 1 half open, 2 open
METRIC_BREAKER_CHANGES = "cachescope_breaker_changes"  # counter {dependency, operation, state}
METRIC_BREAKER_REFUSED = "cachescope_breaker_refused"  # counter {dependency, operation}: calls not made
METRIC_FAILING_MODELS = "cachescope_upstream_failing_models"  # gauge: models whose breaker is not closed
METRIC_UPSTREAM_WAITS = "cachescope_upstream_waits"  # counter {result=went|overdue}: calls held back
METRIC_JUDGED = "cachescope_judge_opinions"  # counter {word, source=asked|remembered}
METRIC_ENTRIES = "cachescope_memory_entries"  # gauge
METRIC_BYTES = "cachescope_memory_bytes"  # gauge
METRIC_CONTROL_AGE = "cachescope_control_age_seconds"  # gauge: age of this gateway's view of policies and generations
METRIC_PROCESS_UP = "cachescope_process_up"  # gauge: 1 = the process answered; 0, with the label `process`, = it did not
