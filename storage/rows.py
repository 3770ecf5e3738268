"""What collectors hand to `storage.spans.write`: named tuples in column order, so that `executemany` takes them as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

# What a span says of a model call; '' = nothing.
CALL = "call"  # it stands for one
CACHED = "cached"  # what looks like one was answered from a cache
REPEAT = "repeat"  # it describes a call that another span stands for
RETOLD = "retold"  # a log record of a cache decision that the span it names tells of, and that one counts


class SourceKey(NamedTuple):
    """Who sent it. The writer finds or makes the row of `sources`."""

    kind: str
    service: str
    instance: str = ""
    scope: str = ""
    dialect: str = ""
    demo: bool = False


class SpanRow(NamedTuple):
    """A span's hot columns (storage.models.Span, less id and source_id) and its compressed payload."""

    trace_id: bytes
    span_id: bytes
    parent_id: bytes | None
    name: str
    kind: int
    start_ns: int
    end_ns: int
    status: int
    status_message: str
    service: str
    operation: str
    provider: str
    model: str
    input_tokens: int | None
    output_tokens: int | None
    cached_input_tokens: int | None
    token_rule: str
    cost_usd: float | None
    is_call: bool
    call_role: str = ""
    call_key: int | None = None
    raw_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    payload: bytes = b""


class LookupRow(NamedTuple):
    """A cache decision (storage.models.LookupRecord, less id and source_id), in column order."""

    trace_id: bytes
    span_id: bytes
    dialect: str
    cache_kind: str
    at_ms: int
    duration_ms: float
    outcome: str
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
    similarity: float | None = None
    threshold: float | None = None
    passed: bool | None = None
    verdicts: str = ""
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
    token_rule: str = ""
    raw_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    score_rule: str = ""
    sampler: str = ""
    kept_ratio: float | None = None


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """What one sender sent in one request. rejects: reason -> count. missing: field -> lookups that lacked it."""

    source: SourceKey
    spans: Sequence[SpanRow] = ()
    lookups: Sequence[LookupRow] = ()
    rejects: Mapping[str, int] = field(default_factory=dict)
    missing: Mapping[str, int] = field(default_factory=dict)
    dropped: int = 0
    error: str = ""


class SampleRow(NamedTuple):
    """One sample (storage.models.MetricSample, less id and source_id)."""

    name: str
    labels: str
    kind: str
    at_ms: int
    value: float
    start_ms: int | None = None


class ExemplarRow(NamedTuple):
    """One measurement that stands for others (storage.models.MetricExemplar, less id and source_id)."""

    name: str
    labels: str
    at_ms: int
    value: float
    trace_id: bytes | None
    span_id: bytes | None
    attributes: str


class CounterReading(NamedTuple):
    """One value of a cumulative counter, or one increase of it.

    labels, folded: canonical JSON; folded is the overflow series that takes it in above the bound, '' = it is left out then.
    start_ms: when the counting began, None = unknown; created: that is the series' own creation time, not its process's start.
    delta: the value is what was counted from start_ms to at_ms, and is no total.
    """

    name: str
    labels: str
    at_ms: int
    value: float
    start_ms: int | None
    folded: str
    created: bool = False
    delta: bool = False


class PointRows(NamedTuple):
    """One data point: a number is one sample, a histogram several. readings: those of them that are counters with a known meaning.

    They land together.
    """

    samples: tuple[SampleRow, ...]
    exemplars: tuple[ExemplarRow, ...] = ()
    readings: tuple[CounterReading, ...] = ()


@dataclass(frozen=True, slots=True)
class MetricBatch:
    """The data points that one sender sent in one request. rejects: reason -> points refused. dropped: points of no interest here."""

    source: SourceKey
    points: Sequence[PointRows] = ()
    rejects: Mapping[str, int] = field(default_factory=dict)
    dropped: int = 0


@dataclass(frozen=True, slots=True)
class Scrape:
    """What one look at a source gave.

    samples: stored as they are. counters: stored as increases. dropped: samples without a meaning here. rejects: reason -> count.
    error: what could not be read ('' = all was). from_ms: the time from which on nothing was missed; None = the last good look.
    snapshots: topic -> JSON, of which the newest is kept.
    """

    at_ms: int
    samples: Sequence[SampleRow] = ()
    counters: Sequence[CounterReading] = ()
    dropped: int = 0
    rejects: Mapping[str, int] = field(default_factory=dict)
    error: str = ""
    from_ms: int | None = None
    snapshots: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What a committed batch added. accepted + duplicates = spans or points given."""

    accepted: int
    duplicates: int
    lookups: int
