"""OTLP trace requests to rows: bytes -> Decoded. Pure: no clock, no store, no counters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import orjson

from collectors import dialects, sampling
from collectors.dialects.base import NOTHING, Dialect, Reading, Timing, error_served, text
from collectors.dialects.native import NATIVE
from collectors.dialects.prompts import without_odd_state, without_prompts, without_prose, without_sentence
from collectors.otlp.bounds import Bounds
from collectors.otlp.calls import repeated
from collectors.otlp.wire import INT64_MAX, Attributes, WireScope, WireSpan, from_json, from_protobuf
from collectors.settings import CollectorSettings
from engine import semconv
from storage.calls import CALL_KINDS, Description, family, key_of_answer, key_of_failure, rank
from storage.payloads import pack
from storage.rows import CALL, REPEAT, LookupRow, MetricBatch, SourceBatch, SourceKey, SpanRow

PROTOBUF = "application/x-protobuf"
JSON = "application/json"

MAX_PAYLOAD_BYTES = 8 * 1024 * 1024  # one span's attributes and events as JSON: more would stall every page that shows it
_STATUS_ERROR = 2


@dataclass(frozen=True, slots=True)
class Decoded:
    """What a request holds. spans: those to be stored. rejects: reason -> spans, points or records refused."""

    batches: Sequence[SourceBatch | MetricBatch]
    spans: int
    rejects: dict[str, int]

    @property
    def rejected(self) -> int:
        return sum(self.rejects.values())

    def with_reject(self, reason: str, count: int) -> Decoded:
        """Return the same with one more reason."""
        return Decoded(self.batches, self.spans, {**self.rejects, reason: count})

    @property
    def message(self) -> str:
        """An English sentence for the sender; '' when nothing was refused."""
        if not self.rejects:
            return ""
        reasons = ", ".join(f"{reason} ({count})" for reason, count in sorted(self.rejects.items()))
        return f"{self.rejected} item(s) were refused: {reasons}"


@dataclass(slots=True)
class _Sender:
    spans: list[SpanRow] = field(default_factory=list)
    lookups: list[LookupRow] = field(default_factory=list)
    rejects: Counter[str] = field(default_factory=Counter)
    missing: Counter[str] = field(default_factory=Counter)
    no_lookups: Counter[str] = field(default_factory=Counter)  # spans that are stored, and in no rate: reason -> spans


class _Draft(NamedTuple):
    """A span that is stored, before it is known which spans stand for calls."""

    source: SourceKey
    span: WireSpan
    name: str
    dialect: Dialect | None
    reading: Reading
    attributes: Attributes
    payload: bytes
    key: int | None
    sampling: sampling.Sampling


def decode_traces(body: bytes, content_type: str, settings: CollectorSettings) -> Decoded:
    """Return the rows of a request, the same from protobuf and from JSON. Raises Undecodable."""
    bounds = Bounds(settings.max_attribute_chars, settings.max_attributes)
    scopes = (from_json if content_type == JSON else from_protobuf)(body, bounds)
    return decode_scopes(scopes, settings)


def decode_scopes(scopes: Iterable[WireScope], settings: CollectorSettings) -> Decoded:
    """Return the rows of a request's scopes."""
    senders: dict[SourceKey, _Sender] = defaultdict(_Sender)
    drafts: list[_Draft] = []
    for scope in scopes:
        known = dialects.of_scope(scope.scope)
        resource = scope.resource if settings.record_prompts else without_prompts(scope.resource)
        sources: dict[str, SourceKey] = {}
        for span in scope.spans:
            dialect = known or dialects.of_attributes(span.attributes)
            name = dialect.name if dialect else ""
            source = sources.get(name)
            if source is None:
                source = sources[name] = source_key(scope.resource, scope.scope, scope.version, dialect=name)
            reason = _fault(span) if len(drafts) < settings.max_request_spans else "too_many_spans"
            if not reason:
                draft = _draft(span, dialect, scope, resource, source, keep_prompts=settings.record_prompts)
                if len(draft.payload) > MAX_PAYLOAD_BYTES:
                    reason = "span_too_large"
            if reason:
                senders[source].rejects[reason] += 1
            else:
                drafts.append(draft)
    described = [_description(place, draft) for place, draft in enumerate(drafts) if draft.reading.role]
    repeats = repeated(
        described, {(draft.span.trace_id, draft.span.span_id): draft.span.parent_id for draft in drafts} if described else {}
    )
    for place, draft in enumerate(drafts):
        _store(draft, senders[draft.source], role=REPEAT if place in repeats else draft.reading.role)
    rejects: Counter[str] = Counter()
    for sender in senders.values():
        rejects.update(sender.rejects)
    batches = [
        SourceBatch(source, sender.spans, sender.lookups, dict(sender.rejects + sender.no_lookups), dict(sender.missing))
        for source, sender in senders.items()
    ]
    return Decoded(batches, len(drafts), dict(rejects))


def source_key(resource: Attributes, scope: str, version: str, *, dialect: str = "", kind: str = "otlp_traces") -> SourceKey:
    """Return who sent it."""
    return SourceKey(
        kind,
        text(resource.get("service.name")),
        text(resource.get("service.instance.id")),
        text(f"{scope}@{version}" if version else scope),
        dialect,
        resource.get(semconv.DEMO) is True,
    )


def _fault(span: WireSpan) -> str:
    """Return why a span cannot be stored, '' when it can. The reasons are a bounded set."""
    if span.fault:
        return span.fault
    if len(span.trace_id) != 16 or not any(span.trace_id):
        return "invalid_trace_id"
    if len(span.span_id) != 8 or not any(span.span_id):
        return "invalid_span_id"
    if not (0 <= span.start_ns <= INT64_MAX and 0 <= span.end_ns <= INT64_MAX):
        return "time_out_of_range"
    if abs(span.kind) > 2**31 or abs(span.status) > 2**31:
        return "malformed_span"
    return ""


def _draft(
    span: WireSpan, dialect: Dialect | None, scope: WireScope, resource: Attributes, source: SourceKey, *, keep_prompts: bool
) -> _Draft:
    attributes, events, links, name, state = span.attributes, span.events, span.links, text(span.name), span.trace_state
    if not keep_prompts:
        name, state = without_sentence(name), without_odd_state(state)
        attributes = without_prompts(attributes)
        events = [_told(event) for event in events]
        links = [link | {"attributes": without_prompts(link["attributes"])} for link in links]
    payload = {
        "attributes": attributes,
        "events": events,
        "links": links,
        "resource": resource,
        "scope": {"name": scope.scope, "version": scope.version},
        "trace_state": state,
    }
    # The dialect sees the prompts, for a few tell in them what came from a cache; none of their text is in what it returns.
    reading = dialect.read(span.attributes, scope=scope.scope) if dialect else NOTHING
    key = _key(span, reading, source.service) if reading.role else None
    kept = sampling.read(span.trace_state, span.attributes, scope.attributes) if dialect else sampling.NONE
    return _Draft(source, span, name, dialect, reading, attributes, orjson.dumps(payload, option=orjson.OPT_NON_STR_KEYS), key, kept)


def _told(event: dict[str, Any]) -> dict[str, Any]:
    """Return an event without prompts."""
    return event | {"name": without_prose(event["name"]), "attributes": without_prompts(event["attributes"], event=True)}


def _key(span: WireSpan, reading: Reading, service: str) -> int | None:
    if reading.response_id:
        return key_of_answer(reading.response_id)
    return key_of_failure(service, reading.operation, reading.model, span.start_ns) if span.status == _STATUS_ERROR else None


def _description(place: int, draft: _Draft) -> Description:
    span, reading = draft.span, draft.reading
    known = rank(reading.role, reading.usage.input_tokens, reading.usage.cached_input_tokens)
    ids = (place, span.trace_id, span.span_id, span.start_ns, span.end_ns)
    return Description(*ids, draft.source.scope, family(reading.operation), known, draft.key)


def _store(draft: _Draft, sender: _Sender, *, role: str) -> None:
    span, reading, usage = draft.span, draft.reading, draft.reading.usage
    sender.spans.append(
        SpanRow(
            span.trace_id,
            span.span_id,
            span.parent_id if len(span.parent_id) == 8 and any(span.parent_id) else None,
            draft.name,
            span.kind,
            span.start_ns,
            span.end_ns,
            span.status,
            text(span.status_message),
            draft.source.service,
            reading.operation,
            reading.provider,
            reading.model,
            usage.input_tokens,
            usage.output_tokens,
            usage.cached_input_tokens,
            usage.token_rule,
            reading.cost_usd,
            role == CALL,
            role,
            draft.key,
            usage.given,
            usage.written,
            pack(draft.payload),
        )
    )
    if draft.dialect is None:
        return
    timing = Timing(span.trace_id, span.span_id, span.start_ns, span.end_ns, span.status == _STATUS_ERROR)
    row = draft.dialect.lookup(draft.attributes, reading, timing)
    if row is not None and (role != REPEAT or row.cache_kind not in CALL_KINDS):
        row = error_served(row, draft.attributes, failed=timing.failed)
        if draft.sampling.sampler:
            row = row._replace(sampler=draft.sampling.sampler, kept_ratio=draft.sampling.kept_ratio)
        sender.lookups.append(row)
        sender.missing.update(draft.dialect.missing(row))
    elif row is None and draft.dialect is NATIVE and semconv.OUTCOME in draft.attributes:
        reason = "unknown_outcome"  # of another version, or mistyped
        sender.no_lookups[reason] += 1
