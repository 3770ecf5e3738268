"""What a dialect is: a table from canonical field to the attributes that hold it, and the rule for cached tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from collectors.dialects import tokens
from collectors.dialects.tokens import NO_RULES, Rules
from collectors.dialects.values import Attributes, count, first, flag, long_text, money, number, text
from storage.rows import CACHED, CALL, LookupRow

__all__ = [
    "CACHED",
    "CALL",
    "Attributes",
    "Dialect",
    "Reading",
    "Timing",
    "Usage",
    "count",
    "error_served",
    "first",
    "flag",
    "long_text",
    "money",
    "number",
    "text",
]

CALL_OPERATIONS = frozenset({"chat", "text_completion", "generate_content", "embeddings"})

# Three kinds of cache, never mixed (storage.models.LookupRecord.cache_kind).
RESPONSE = "response"
HITS_ONLY = "response_hits"  # a response cache whose sender tells of its hits and of no miss: there is no rate
PROVIDER_PROMPT = "provider_prompt"
KV_PREFIX = "kv_prefix"

# Model servers that one runs oneself: the cached tokens that they report are those of their own KV cache.
_MODEL_SERVERS = frozenset({"vllm", "hosted_vllm", "sglang", "lmcache", "ollama", "llama_cpp", "llamacpp", "tgi", "lm_studio", "triton"})


class Usage(NamedTuple):
    """Normalised tokens: input_tokens holds the cached ones. None = not reported. given, written: as the sender wrote them."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    token_rule: str = ""
    given: int | None = None
    written: int | None = None


NO_USAGE = Usage()


class Reading(NamedTuple):
    """A span in canonical words. role: what it says of a model call (storage.rows): CALL, CACHED or '' for nothing.

    response_id ties together several descriptions of one call.
    """

    operation: str = ""
    provider: str = ""
    model: str = ""
    usage: Usage = NO_USAGE
    cost_usd: float | None = None
    role: str = ""
    response_id: str = ""


NOTHING = Reading()


class Timing(NamedTuple):
    """A span's ids and times, as a lookup row needs them."""

    trace_id: bytes
    span_id: bytes
    start_ns: int
    end_ns: int
    failed: bool

    @property
    def at_ms(self) -> int:
        return self.start_ns // 1_000_000

    @property
    def duration_ms(self) -> float:
        """At least 0: a clock set back gives a negative span, which stays as sent in the span's own row."""
        return max(0, self.end_ns - self.start_ns) / 1e6


@dataclass(frozen=True, slots=True)
class Dialect:
    """One vocabulary. The first attribute present wins in every list.

    scopes: prefixes of instrumentation scopes known to speak it. marks: prefixes of attribute names that show it
    where the scope is unknown. operations: the sender's word -> ours; absent words are kept as they are.
    rules: which senders' input count holds the cached tokens (`tokens.Rules`).
    expected: fields of a lookup that this dialect should fill; those that are empty are counted per sender.
    """

    name: str
    scopes: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    operation: tuple[str, ...] = ()
    provider: tuple[str, ...] = ()
    model: tuple[str, ...] = ()
    input_tokens: tuple[str, ...] = ()
    output_tokens: tuple[str, ...] = ()
    total_tokens: tuple[str, ...] = ()
    cache_read: tuple[str, ...] = ()
    cache_write: tuple[str, ...] = ()
    cost_usd: tuple[str, ...] = ()
    response_id: tuple[str, ...] = ()
    operations: Mapping[str, str] = field(default_factory=dict)
    rules: Rules = NO_RULES
    expected: tuple[str, ...] = ()

    def read(self, attributes: Attributes, *, scope: str) -> Reading:
        """Return the span in canonical words. attributes: all of them, prompts too; no text of a prompt is in what is returned."""
        word = text(first(attributes, self.operation))
        operation = self.operations.get(word, word)
        if word and operation not in CALL_OPERATIONS:
            # Agents, chains and tools: what they report is the sum of what their calls report by themselves.
            return Reading(operation, text(first(attributes, self.provider)), text(first(attributes, self.model)))
        provider = text(first(attributes, self.provider))
        usage = self.usage(attributes, scope=scope, provider=provider)
        if not word and usage.given is None and usage.output_tokens is None:
            return NOTHING
        return Reading(
            operation,
            provider,
            text(first(attributes, self.model)),
            usage,
            money(first(attributes, self.cost_usd)) if self.cost_usd else None,
            CALL,
            text(first(attributes, self.response_id)),
        )

    def usage(self, attributes: Attributes, *, scope: str, provider: str) -> Usage:
        """Return the normalised tokens and the rule applied, '' where nothing was cached or told."""
        return self.normalised(
            scope,
            provider,
            given=count(first(attributes, self.input_tokens)),
            output=count(first(attributes, self.output_tokens)),
            read=count(first(attributes, self.cache_read)),
            written=count(first(attributes, self.cache_write)),
            total=first(attributes, self.total_tokens) if self.total_tokens else None,
        )

    def normalised(
        self, scope: str, provider: str, *, given: int | None, output: int | None, read: int | None, written: int | None, total: Any = None
    ) -> Usage:
        """Return the sender's counts as ours: see `tokens.rule_for`."""
        if given is None or (read is None and written is None):
            return Usage(given, output, read, "", given, written)
        extra = (read or 0) + (written or 0)
        rule = tokens.rule_for(self.rules, scope, provider)
        if extra and rule[0] == "i" and tokens.proves_additive(given, output, extra, total):
            rule = tokens.ADDITIVE_PROVEN
        return Usage(given if rule[0] == "i" else given + extra, output, read, rule, given, written)

    def lookup(self, attributes: Attributes, reading: Reading, timing: Timing) -> LookupRow | None:
        """Return the cache decision that the span tells of, or None.

        A call whose provider reported on its prompt cache is a lookup of that cache, never of a response cache. A call that
        does not report is no miss: nothing is known. A failed call, and a stream that was cut before its end, report nothing.
        """
        usage = reading.usage
        if reading.role == CACHED:
            return self.hit(reading, timing)
        if reading.role != CALL or usage.cached_input_tokens is None or timing.failed:
            return None
        return LookupRow(
            timing.trace_id,
            timing.span_id,
            self.name,
            KV_PREFIX if reading.provider in _MODEL_SERVERS else PROVIDER_PROMPT,
            timing.at_ms,
            timing.duration_ms,
            "partial_hit" if usage.cached_input_tokens > 0 else "miss",
            model=reading.model,
            provider=reading.provider,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_input_tokens=usage.cached_input_tokens,
            cost_usd=reading.cost_usd,
            token_rule=usage.token_rule,
            raw_input_tokens=usage.given,
            cache_write_tokens=usage.written,
        )

    def hit(self, reading: Reading, timing: Timing) -> LookupRow | None:
        """Return the hit of a response cache that a sender tells of without ever telling of a miss. It cost nothing."""
        if timing.failed:
            return None
        return LookupRow(
            timing.trace_id,
            timing.span_id,
            self.name,
            HITS_ONLY,
            timing.at_ms,
            timing.duration_ms,
            "exact_hit",
            model=reading.model,
            provider=reading.provider,
            input_tokens=reading.usage.input_tokens,
            output_tokens=reading.usage.output_tokens,
            lookup_ms=timing.duration_ms,
            cost_usd=0.0,
        )

    def missing(self, row: LookupRow) -> list[str]:
        """Return the expected fields that the row lacks."""
        return [name for name in self.expected if getattr(row, name) in (None, "")]


_HITS = frozenset({"exact_hit", "semantic_hit", "stale_hit"})


def error_served(row: LookupRow, attributes: Attributes, *, failed: bool) -> LookupRow:
    """Return the row with the reason `error_served` when a response cache answered with an error: a hit that is none."""
    if row.cache_kind != RESPONSE or row.outcome not in _HITS:
        return row
    status = count(attributes.get("http.response.status_code"))
    if failed or attributes.get("error.type") is not None or (status is not None and status >= 400):
        return row._replace(reason="error_served")
    return row
