"""An upstream's answer, judged: may it be stored, what did it use, what did it cost; and what its headers say of the cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from engine.errors import UpstreamUnavailable
from engine.gateway.errors import RawHeaders, error_body, from_engine
from engine.gateway.nesting import too_deep
from engine.lookup import Lookup
from engine.settings import Price
from engine.types import Entry, Outcome, Usage


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of one upstream call; shared with the followers of its flight.

    body: the complete non-streamed answer. store_reason: why it may not be stored, '' = it may. error_type: '' = no error.
    parsed: the body as JSON when it is a completion, for replaying it as a stream.
    """

    status: int
    body: bytes
    headers: RawHeaders = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    finish_reasons: tuple[str, ...] = ()
    model: str = ""
    store_reason: str = ""
    error_type: str = ""
    upstream_ms: float = 0.0
    parsed: dict[str, Any] | None = None


def judge(*, status: int, body: bytes, headers: RawHeaders, upstream_ms: float, model: str, prices: Mapping[str, Price]) -> Answer:
    """Return the answer with all that its body says. Only a complete completion with status 200 may be stored."""
    if status != 200:
        error_type = "" if status < 400 else f"upstream_{status}"
        return Answer(status, body, headers, store_reason=f"status_{status}", error_type=error_type, upstream_ms=upstream_ms)
    try:
        parsed = orjson.loads(body)
    except orjson.JSONDecodeError:
        parsed = None
    choices = parsed.get("choices") if isinstance(parsed, dict) else None
    if not isinstance(choices, list) or not choices or not all(map(_is_choice, choices)) or too_deep(body, parsed):
        return Answer(status, body, headers, store_reason="garbage", upstream_ms=upstream_ms)
    reasons = tuple(str(choice.get("finish_reason") or "") for choice in choices)
    answered_by = parsed.get("model")
    answered_by = answered_by if isinstance(answered_by, str) else ""
    return Answer(
        status,
        body,
        headers,
        usage=usage_of(parsed.get("usage"), price=prices.get(model) or prices.get(answered_by)),
        finish_reasons=tuple(reason for reason in reasons if reason),
        model=answered_by,
        store_reason=_why_not(reasons),
        upstream_ms=upstream_ms,
        parsed=parsed,
    )


def _is_choice(choice: object) -> bool:
    return isinstance(choice, dict) and isinstance(choice.get("message"), dict)


def _why_not(reasons: tuple[str, ...]) -> str:
    if not all(reasons):
        return "unfinished"
    return "content_filter" if "content_filter" in reasons else ""


def answer_of(entry: Entry) -> Answer:
    """Return a stored entry as the answer of the call that made it."""
    parsed = orjson.loads(entry.body)
    reasons = tuple(str(choice.get("finish_reason") or "") for choice in parsed["choices"])
    headers = [(b"content-type", b"application/json")]
    return Answer(200, entry.body, headers, entry.usage, reasons, model=str(parsed.get("model") or ""), parsed=parsed)


def failed(error: UpstreamUnavailable, *, upstream_ms: float) -> Answer:
    """Return the error answer for an upstream that did not answer."""
    shown = from_engine(error)
    headers = [(b"content-type", b"application/json")]
    return Answer(shown.status, error_body(shown), headers, store_reason=shown.code, error_type=shown.code, upstream_ms=upstream_ms)


def usage_of(reported: object, *, price: Price | None) -> Usage:
    """Return tokens and money of a `usage` object. What is not reported is None; without a price there is no cost."""
    if not isinstance(reported, dict):
        return Usage()
    given, made = _count(reported.get("prompt_tokens")), _count(reported.get("completion_tokens"))
    details = reported.get("prompt_tokens_details")
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    cost = None
    if price is not None and given is not None and made is not None:
        at_cached = price.input_usd if price.cached_input_usd is None else price.cached_input_usd
        known = min(cached or 0, given)
        cost = ((given - known) * price.input_usd + known * at_cached + made * price.output_usd) / 1e6
    return Usage(given, made, cached, cost)


def _count(value: object) -> int | None:
    """Return a number of tokens, None for what is none: a span's whole numbers have 64 bits, one of them the sign."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def forwarded_because(lookup: Lookup) -> str:
    """Return why a lookup that is no hit goes upstream, as RFC 9211 names it; taken before the upstream is asked."""
    if lookup.outcome is Outcome.BYPASS:
        return f"fwd=bypass; detail={lookup.reason or 'bypass'}"
    return "fwd=request" if lookup.request.refresh else "fwd=miss"


def cache_headers(lookup: Lookup, forwarded: str, *, collapsed: bool = False, now_ms: int) -> RawHeaders:
    """Return Cache-Status (RFC 9211) and the headers that go with it."""
    entry = lookup.entry
    if entry is None:
        status = f"cachescope; {forwarded}{'; stored' if lookup.stored else ''}{'; collapsed' if collapsed else ''}"
        headers = [(b"cache-status", status.encode())]
        if lookup.stored and lookup.stored_entry_id:
            headers.append((b"cachescope-entry", lookup.stored_entry_id.encode()))
        return headers
    semantic = lookup.outcome is Outcome.SEMANTIC_HIT
    ttl_s = max(0, (entry.expires_ms - now_ms) // 1000)
    age_s = max(0, (now_ms - entry.created_ms) // 1000)
    headers = [
        (b"cache-status", f"cachescope; hit; ttl={ttl_s}; detail={'semantic' if semantic else 'exact'}".encode()),
        (b"cachescope-entry", entry.entry_id.encode()),
        (b"age", str(age_s).encode()),
    ]
    if semantic and lookup.candidate is not None:
        headers.append((b"cachescope-similarity", f"{lookup.candidate.similarity:.4f}".encode()))
    return headers
