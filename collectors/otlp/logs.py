"""OTLP logs: a record that tells of a cache decision becomes a lookup, with a span of its own; others are counted.

Gateways write such records as access logs: the decision is one of the record's attributes, or a field of a body that is a map or JSON.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from collectors.dialects.base import count, first, number, text
from collectors.dialects.prompts import without_prompts
from collectors.otlp.bounds import Bounds
from collectors.otlp.decode import Decoded, source_key
from collectors.otlp.messages import LOGS, scopes
from collectors.otlp.metrics import NOT_STORED
from collectors.otlp.wire import INT64_MAX, Attributes, js_object, pb_attributes
from collectors.settings import CollectorSettings
from storage.decisions import key_of
from storage.payloads import pack
from storage.rows import LookupRow, SourceBatch, SourceKey, SpanRow

DIALECT = "log"
# Where the decision stands, the first present wins; then what it may say, in small letters. A word that is not here is no decision.
DECISIONS = (
    "cache_status",
    "cache.status",
    "cache-status",
    "x-cache-status",
    "ai_cache_status",
    "gen_ai.cache.status",
    "cache_hit",
    "cache.hit",
)
OUTCOMES: Mapping[str, tuple[str, str]] = {
    "hit": ("exact_hit", ""),
    "true": ("exact_hit", ""),
    "exact": ("exact_hit", ""),
    "exact_hit": ("exact_hit", ""),
    "semantic": ("semantic_hit", ""),
    "semantic_hit": ("semantic_hit", ""),
    "partial_hit": ("partial_hit", ""),
    "stale": ("stale_hit", ""),
    "stale_hit": ("stale_hit", ""),
    "coalesced": ("coalesced", ""),
    "miss": ("miss", ""),
    "false": ("miss", ""),
    "expired": ("miss", "expired"),
    "refresh": ("miss", "refresh"),
    "skip": ("bypass", "skip"),
    "bypass": ("bypass", "bypass"),
    "error": ("error", "error"),
}
# A lookup's field <- the attributes that hold it.
_NAMESPACE = ("cache.name", "cache_name", "cachescope.namespace", "namespace", "route_name", "route")
_TENANT = ("tenant", "consumer", "cachescope.tenant", "user.id")
_MODEL = ("gen_ai.request.model", "gen_ai.response.model", "model", "ai_model", "request_model", "response_model")
_PROVIDER = ("gen_ai.provider.name", "gen_ai.system", "ai_provider", "api_provider", "provider")
_SIMILARITY = ("cache.similarity", "cache_similarity", "similarity")
_DURATION_MS = ("cache.lookup_ms", "cache_latency_ms", "llm_service_duration", "duration_ms")
_INPUT = ("gen_ai.usage.input_tokens", "input_token", "input_tokens", "prompt_tokens")
_OUTPUT = ("gen_ai.usage.output_tokens", "output_token", "output_tokens", "completion_tokens")
_NESTED = ("ai_log",)  # Higress puts its fields as JSON into one attribute
_EXPECTED = ("namespace", "tenant", "model", "similarity")
_READ = frozenset({*DECISIONS, *_NAMESPACE, *_TENANT, *_MODEL, *_PROVIDER, *_SIMILARITY, *_DURATION_MS, *_INPUT, *_OUTPUT})
_MAX_BODY = 64 * 1024  # a longer line is no access log


@dataclass(slots=True)
class _Sender:
    spans: list[SpanRow] = field(default_factory=list)
    lookups: list[LookupRow] = field(default_factory=list)
    missing: Counter[str] = field(default_factory=Counter)
    rejects: Counter[str] = field(default_factory=Counter)
    dropped: int = 0


def decode_logs(body: bytes, content_type: str, settings: CollectorSettings) -> Decoded:
    """Return the cache decisions as lookups, other records as dropped. Raises Undecodable."""
    bounds = Bounds(settings.max_attribute_chars, settings.max_attributes)
    senders: dict[SourceKey, _Sender] = {}
    stored = 0
    for scope in scopes(body, content_type, LOGS, bounds):
        source = source_key(scope.resource, scope.name, scope.version, dialect=DIALECT, kind="otlp_logs")
        resource = scope.resource if settings.record_prompts else without_prompts(scope.resource)
        plain = source._replace(dialect="")
        if scope.unreadable:
            senders.setdefault(plain, _Sender()).rejects["malformed_record"] += len(scope.unreadable)
        for record in scope.items:
            fields = _fields(record, bounds)
            outcome = _outcome(fields)
            sender = senders.setdefault(source if outcome else plain, _Sender())
            if not outcome:
                sender.dropped += 1
            elif not 0 < _at_ns(record) <= INT64_MAX:
                sender.rejects["time_out_of_range"] += 1
            else:
                _store(record, fields, outcome, source, sender, resource=resource, keep_prompts=settings.record_prompts)
                stored += 1
    return _decoded(senders, stored)


def _decoded(senders: dict[SourceKey, _Sender], stored: int) -> Decoded:
    rejects: Counter[str] = Counter()
    batches = []
    for source, sender in senders.items():
        batches.append(SourceBatch(source, sender.spans, sender.lookups, dict(sender.rejects), dict(sender.missing), sender.dropped))
        rejects.update(sender.rejects)
        rejects[NOT_STORED] += sender.dropped
    return Decoded(batches, stored, {reason: count for reason, count in rejects.items() if count})


def _fields(record: Any, bounds: Bounds) -> Attributes:
    """Return the record's attributes and the fields of its body; the attributes win."""
    attributes = pb_attributes(record.attributes, bounds)
    kind = record.body.WhichOneof("value")
    inner: Attributes = {}
    if kind == "kvlist_value":
        inner = pb_attributes(record.body.kvlist_value.values, bounds)
    elif kind == "string_value":
        inner = _object(record.body.string_value, bounds)
    for name in _NESTED:
        for holder in (inner, attributes):
            if name in holder:
                nested = holder[name]
                inner = inner | (nested if isinstance(nested, dict) else _object(nested, bounds))
    return inner | attributes


def _object(line: Any, bounds: Bounds) -> Attributes:
    if not isinstance(line, str) or len(line) > _MAX_BODY or not line.startswith("{"):
        return {}
    try:
        found = orjson.loads(line)
    except orjson.JSONDecodeError:
        return {}
    return js_object(found, bounds) if isinstance(found, dict) else {}


def _told(fields: Attributes) -> Attributes:
    """Return what the lookup is made of, and nothing else: a gateway may write a prompt under any name."""
    return {name: value for name, value in fields.items() if name in _READ and isinstance(value, str | int | float)}


def _outcome(fields: Attributes) -> tuple[str, str] | None:
    """Return outcome and reason, None when the record tells of no decision."""
    word = first(fields, DECISIONS)
    return OUTCOMES.get(str(word).strip().lower()) if isinstance(word, str | bool) else None


def _at_ns(record: Any) -> int:
    return int(record.time_unix_nano or record.observed_time_unix_nano)


def _store(
    record: Any,
    fields: Attributes,
    outcome: tuple[str, str],
    source: SourceKey,
    sender: _Sender,
    *,
    resource: Attributes,
    keep_prompts: bool,
) -> None:
    trace_id, span_id, parent = _ids(record, source)
    at_ns = _at_ns(record)
    kept = fields if keep_prompts else _told(fields)
    duration_ms = number(first(fields, _DURATION_MS)) or 0.0
    duration_ns = int(duration_ms * 1e6) if 0 <= duration_ms < 1e9 else 0
    similarity = number(first(fields, _SIMILARITY))
    name, reason = outcome
    if name == "exact_hit" and similarity is not None and similarity < 1.0:
        name = "semantic_hit"
    model, provider = text(first(fields, _MODEL)), text(first(fields, _PROVIDER))
    payload = {"attributes": kept, "events": [], "links": [], "resource": resource, "scope": {"name": source.scope, "version": ""}}
    row = LookupRow(
        trace_id,
        span_id,
        DIALECT,
        "response",
        (at_ns - duration_ns) // 1_000_000,
        duration_ns / 1e6,
        name,
        reason,
        namespace=text(first(fields, _NAMESPACE)),
        tenant=text(first(fields, _TENANT)),
        model=model,
        provider=provider,
        similarity=similarity if similarity is not None and -1.0 <= similarity <= 1.0 else None,
        input_tokens=count(first(fields, _INPUT)),
        output_tokens=count(first(fields, _OUTPUT)),
    )
    sender.lookups.append(row)
    sender.missing.update(field for field in _EXPECTED if getattr(row, field) in {None, ""})
    sender.spans.append(
        SpanRow(
            trace_id,
            span_id,
            parent,
            "cache decision (log)",
            1,
            at_ns - duration_ns,
            at_ns,
            2 if name == "error" else 0,
            "",
            source.service,
            "",
            provider,
            model,
            row.input_tokens,
            row.output_tokens,
            None,
            "",
            None,
            False,
            # A decision that the span it names tells of too counts once, and this is how the two find each other.
            call_key=None if parent is None else key_of(trace_id, parent),
            payload=pack(orjson.dumps(payload, option=orjson.OPT_NON_STR_KEYS)),
        )
    )


def _ids(record: Any, source: SourceKey) -> tuple[bytes, bytes, bytes | None]:
    """Return trace id, span id and parent, the same for a record that is sent again.

    A record with a trace becomes a child of its span, under an id of its own: its span itself may come by another way. One without
    becomes a trace of one span.
    """
    digest = hashlib.blake2b(
        repr(source).encode() + record.SerializeToString(deterministic=True), digest_size=24, person=b"cachescope-log"
    ).digest()
    trace_id, span_id = digest[:16], digest[16:]
    if len(record.trace_id) != 16 or not any(record.trace_id):
        return trace_id, span_id, None
    known = len(record.span_id) == 8 and any(record.span_id)
    return record.trace_id, span_id, record.span_id if known else None
