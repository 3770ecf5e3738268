"""The tables of `telemetry.db`, written by the collector alone. Those of `ops.db` are in `ops_models`.

SQLModel declares; the writers use Core `executemany` with tuples in column order. Times are UTC integers: `_ns`, `_ms`.
A new column or table goes through Alembic (`storage/migrations`), from the first schema on.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, Index, LargeBinary, UniqueConstraint, text
from sqlmodel import Field, SQLModel

from storage import metadata as _base
from storage import rollup_models
from storage.counter_models import CounterHour, CounterMinute, CounterSeries, SourceSnapshot
from storage.metadata import big as _big

telemetry_metadata: Final = _base.telemetry_metadata
# Imported for their being there: whoever reads the metadata finds all tables in it.
ELSEWHERE: Final = (CounterHour, CounterMinute, CounterSeries, SourceSnapshot, rollup_models)


class Source(SQLModel, table=True):
    """One sender of telemetry, or one scrape target: what it sent, what was refused, when it was last seen."""

    __tablename__ = "sources"
    metadata = telemetry_metadata
    __table_args__ = (UniqueConstraint("kind", "service", "instance", "scope", "dialect"),)

    id: int | None = Field(default=None, primary_key=True)
    kind: str  # otlp_traces | otlp_metrics | otlp_logs | scrape | prometheus | redis
    service: str  # service.name, or the target's URL
    instance: str = ""  # service.instance.id
    scope: str = ""  # instrumentation scope, name@version
    dialect: str = ""  # which vocabulary understood it; '' = none
    demo: bool = False
    first_seen_ms: int = Field(sa_column=_big(nullable=False))
    last_seen_ms: int = Field(sa_column=_big(nullable=False))
    last_span_ms: int | None = Field(default=None, sa_column=_big())  # newest end time seen: lag = last_seen - last_span
    accepted: int = Field(default=0, sa_column=_big(nullable=False))  # new spans, points or samples
    duplicates: int = Field(default=0, sa_column=_big(nullable=False))
    lookups: int = Field(default=0, sa_column=_big(nullable=False))
    described: int = Field(default=0, sa_column=_big(nullable=False))  # spans that describe a model call
    calls: int = Field(default=0, sa_column=_big(nullable=False))  # of these, the ones that stand for a call
    dropped: int = Field(default=0, sa_column=_big(nullable=False))  # answered, not stored: metrics and logs that tell of no cache
    missing: str = "{}"  # JSON: canonical field -> number of lookups that lacked it
    call_facts: str = (
        "{}"  # JSON: "answered" -> descriptions that did not fail, "rule:…" -> token rules applied, "lacks:…" -> fields absent
    )
    last_error: str = ""
    last_error_ms: int | None = Field(default=None, sa_column=_big())


class Reject(SQLModel, table=True):
    """Spans refused, by sender and reason. Counted, never logged one by one."""

    __tablename__ = "rejects"
    metadata = telemetry_metadata

    source_id: int = Field(primary_key=True)
    reason: str = Field(primary_key=True)
    count: int = Field(default=0, sa_column=_big(nullable=False))
    last_ms: int = Field(sa_column=_big(nullable=False))


class Span(SQLModel, table=True):
    """The hot columns of a span. The rest of its attributes is in `span_payloads`, compressed."""

    __tablename__ = "spans"
    metadata = telemetry_metadata
    __table_args__ = (
        UniqueConstraint("trace_id", "span_id"),
        Index("ix_spans_start", "start_ns"),
        # Partial: they hold the spans of model calls alone, and cost the others nothing.
        Index("ix_spans_calls", "start_ns", sqlite_where=text("is_call"), postgresql_where=text("is_call")),
        Index("ix_spans_call_key", "call_key", sqlite_where=text("call_key IS NOT NULL"), postgresql_where=text("call_key IS NOT NULL")),
        Index("ix_spans_waits", "waits_for", sqlite_where=text("waits_for IS NOT NULL"), postgresql_where=text("waits_for IS NOT NULL")),
    )

    id: int | None = Field(default=None, primary_key=True)
    trace_id: bytes = Field(sa_column=Column(LargeBinary, nullable=False))  # 16 bytes
    span_id: bytes = Field(sa_column=Column(LargeBinary, nullable=False))  # 8 bytes
    parent_id: bytes | None = Field(default=None, sa_column=Column(LargeBinary))
    source_id: int
    name: str
    kind: int  # OTLP SpanKind
    start_ns: int = Field(sa_column=_big(nullable=False))
    end_ns: int = Field(sa_column=_big(nullable=False))  # as sent: may lie before start
    status: int  # OTLP StatusCode: 0 unset, 1 ok, 2 error
    status_message: str = ""
    service: str = ""
    operation: str = ""  # chat | embeddings | execute_tool | …, '' = unknown
    provider: str = ""
    model: str = ""
    input_tokens: int | None = None  # total, cached included (normalised)
    output_tokens: int | None = None
    cached_input_tokens: int | None = None  # provider-side prompt cache; absent is not 0
    token_rule: str = ""  # inclusive | additive | '' : the rule applied to the raw counts
    cost_usd: float | None = None
    is_call: bool = False  # the span that stands for one logical model call (nested instrumentations count once)
    call_role: str = ""  # call | cached | repeat | retold (storage.rows), '' = says nothing of a call
    call_key: int | None = Field(default=None, sa_column=_big())  # equal for spans that may describe one call, or one decision
    raw_input_tokens: int | None = None  # as the sender wrote it, before token_rule
    cache_write_tokens: int | None = None  # written to the provider's prompt cache, as sent
    # A description of a call whose ancestors are not all here: the key of the next of them.
    waits_for: int | None = Field(default=None, sa_column=_big())


class SpanPayload(SQLModel, table=True):
    """Compressed JSON (storage.payloads): {"attributes": {…}, "events": […], "links": […], "resource": {…}}."""

    __tablename__ = "span_payloads"
    metadata = telemetry_metadata

    span_id: int = Field(primary_key=True)  # spans.id
    payload: bytes = Field(sa_column=Column(LargeBinary, nullable=False))


LOOKUP_COUNTED: Final = (
    *("cache_kind", "purpose", "outcome", "namespace", "tenant", "model", "tier", "source_id"),
    *("model_version", "client", "fingerprint", "policy_version", "switch", "threshold", "generation"),
    *("prompt_hash", "prompt_simhash", "input_tokens", "similarity", "entry_id"),
)
# One lookup in so many, by the hash in its id (storage.slots.pick), has an index of its own: an even sample of a wide window is read from
# it alone. All five together hold a sixth of the lookups.
SAMPLE_STEPS: Final = (8, 32, 128, 512, 2_048)


def _sample(every: int) -> Index:
    where = text(f"id % {every} = 0")
    return Index(f"ix_lookups_{every}", "at_ms", *LOOKUP_COUNTED, sqlite_where=where, postgresql_where=where)


LOOKUP_SAMPLED: Final = (
    *("cache_kind", "purpose", "outcome", "kept_ratio"),
    *("namespace", "tenant", "model", "tier", "source_id", "sampler"),
)


# What few lookups are: a search for one of these looks at no other. A query has to say the condition in the same words.
COMMON_OUTCOMES: Final = ("exact_hit", "semantic_hit", "miss")
RARE_OUTCOME: Final = f"outcome NOT IN {COMMON_OUTCOMES!r}"
LOOKUP_RARE: Final = ("outcome", "at_ms", "purpose", "namespace", "tenant", "model", "tier", "reason")


class LookupRecord(SQLModel, table=True):
    """One cache decision, from any dialect. NULL = not recorded by this sender, never 0."""

    __tablename__ = "lookups"
    metadata = telemetry_metadata
    __table_args__ = (
        UniqueConstraint("trace_id", "span_id"),
        # Everything that pages count by, so that they need not read the rows themselves, of which prompts are the most.
        Index("ix_lookups_at", "at_ms", *LOOKUP_COUNTED),
        Index("ix_lookups_ns_at", "namespace", "at_ms"),
        *(_sample(every) for every in SAMPLE_STEPS),
        Index("ix_lookups_rare", *LOOKUP_RARE, sqlite_where=text(RARE_OUTCOME), postgresql_where=text(RARE_OUTCOME)),
        # Partial, and all that is asked of it: nothing where nobody samples.
        Index("ix_lookups_sampled", "at_ms", *LOOKUP_SAMPLED, sqlite_where=text("sampler <> ''"), postgresql_where=text("sampler <> ''")),
    )

    id: int | None = Field(default=None, primary_key=True)  # number of arrival * PICKS + storage.slots.pick of the ids
    trace_id: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    span_id: bytes = Field(sa_column=Column(LargeBinary, nullable=False))
    source_id: int
    dialect: str
    cache_kind: str  # response | response_hits (no misses told: no rate) | provider_prompt | kv_prefix: different things, never mixed
    at_ms: int = Field(sa_column=_big(nullable=False))  # start
    duration_ms: float  # whole request, upstream included
    outcome: str  # engine.types.Outcome
    reason: str = ""
    purpose: str = "traffic"
    tier: str = ""
    namespace: str = ""
    tenant: str = ""
    model: str = ""
    model_version: str = ""
    provider: str = ""
    client: str = ""
    switch: str = ""
    policy_version: int | None = None
    generation: str = ""
    partition: str = ""
    key: str = ""
    fingerprint: str = ""
    prompt_hash: str = ""
    prompt_simhash: str = ""
    prompt: str | None = None
    entry_id: str = ""
    entry_age_s: float | None = None
    entry_bytes: int | None = None
    candidates: int | None = None
    candidate_id: str = ""
    similarity: float | None = None  # cosine of the candidate, higher is closer
    threshold: float | None = None
    passed: bool | None = None  # no verifier vetoed the candidate
    verdicts: str = ""  # JSON [[rule, veto, detail], …]
    candidate_prompt: str | None = None
    holdout_propensity: float | None = None
    held_out: bool | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    lookup_ms: float | None = None
    upstream_ms: float | None = None
    saved_ms: float | None = None
    saved_usd: float | None = None
    cost_usd: float | None = None
    token_rule: str = ""  # how raw_input_tokens became input_tokens
    raw_input_tokens: int | None = None  # as the sender wrote it
    cache_write_tokens: int | None = None
    score_rule: str = ""  # cosine_distance: the sender's score was a distance; '' = it was a similarity
    sampler: str = ""  # threshold | ratio | tail | other: what kept it out of more; '' = no sign of sampling
    kept_ratio: float | None = None  # 0 < p <= 1: the probability with which it was kept; NULL = not told


class TraceSummary(SQLModel, table=True):
    """One row a trace, kept up at ingest."""

    __tablename__ = "trace_summaries"
    metadata = telemetry_metadata
    __table_args__ = (Index("ix_trace_start", "start_ns"),)

    trace_id: bytes = Field(sa_column=Column(LargeBinary, primary_key=True))
    start_ns: int = Field(sa_column=_big(nullable=False))
    end_ns: int = Field(sa_column=_big(nullable=False))
    spans: int = 0
    errors: int = 0
    lookups: int = 0
    root_name: str = ""  # '' while the root has not come
    service: str = ""


class Removed(SQLModel, table=True):
    """What retention has removed: everything of a kind before a time. One row a kind that has lost something."""

    __tablename__ = "removed"
    metadata = telemetry_metadata

    kind: str = Field(primary_key=True)  # storage.retention.KINDS: raw | rollups_10s | rollups_1m | rollups_1h
    before_ms: int = Field(sa_column=_big(nullable=False))  # nothing older than this is left
    rows: int = Field(default=0, sa_column=_big(nullable=False))
    last_ms: int = Field(sa_column=_big(nullable=False))  # when something was last removed
    by_size: bool = False  # the last time for want of room, not by age


class MetricSample(SQLModel, table=True):
    """One sample, scraped or sent by OTLP. `labels` is canonical JSON (sorted keys)."""

    __tablename__ = "metric_samples"
    metadata = telemetry_metadata
    __table_args__ = (Index("ix_samples", "source_id", "name", "at_ms"), Index("ix_samples_at", "at_ms"))

    id: int | None = Field(default=None, primary_key=True)
    source_id: int
    name: str
    labels: str
    kind: str  # counter | gauge | histogram | summary | unknown; with `_delta` at its end: not the total, but the increase since start_ms
    at_ms: int = Field(sa_column=_big(nullable=False))
    value: float
    start_ms: int | None = Field(default=None, sa_column=_big())  # when a counter began; a later one is a reset. NULL = not told


class MetricExemplar(SQLModel, table=True):
    """One measurement behind a data point, with the trace in which it was taken."""

    __tablename__ = "metric_exemplars"
    metadata = telemetry_metadata
    __table_args__ = (Index("ix_exemplars", "source_id", "name", "at_ms"), Index("ix_exemplars_at", "at_ms"))

    id: int | None = Field(default=None, primary_key=True)
    source_id: int
    name: str
    labels: str  # of the point, canonical JSON
    at_ms: int = Field(sa_column=_big(nullable=False))
    value: float
    trace_id: bytes | None = Field(default=None, sa_column=Column(LargeBinary))  # 16 bytes
    span_id: bytes | None = Field(default=None, sa_column=Column(LargeBinary))  # 8 bytes
    attributes: str  # those left out of the point's own, canonical JSON
