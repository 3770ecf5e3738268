"""What a dialect is: a table from canonical field to the attributes that hold it, and the rule for cached tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from storage.rows import LookupRow

Attributes = Mapping[str, Any]

INCLUSIVE = "inclusive"  # the input count holds the cached tokens already
ADDITIVE = "additive"  # the input count is what was not cached: read and written tokens come on top

CALL_OPERATIONS = frozenset({"chat", "text_completion", "generate_content", "embeddings"})
_MAX_TEXT = 512
_MAX_COUNT = 2**53  # more tokens than any call; larger is garbage that would spoil sums


class Usage(NamedTuple):
    """Normalised tokens: input_tokens holds the cached ones. None = not reported."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None
    token_rule: str = ""


class Reading(NamedTuple):
    """A span in canonical words. response_id ties together several descriptions of one call."""

    operation: str = ""
    provider: str = ""
    model: str = ""
    usage: Usage = Usage()
    cost_usd: float | None = None
    is_call: bool = False
    response_id: str = ""


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
    rules: (scope prefix, provider, rule), first match wins, '' matches any; `rule` where none does.
    expected: fields of a lookup that this dialect should fill; those that are empty are counted per sender.
    """

    name: str
    scopes: tuple[str, ...]
    marks: tuple[str, ...]
    operation: tuple[str, ...]
    provider: tuple[str, ...]
    model: tuple[str, ...]
    input_tokens: tuple[str, ...]
    output_tokens: tuple[str, ...]
    cache_read: tuple[str, ...]
    cache_write: tuple[str, ...]
    cost_usd: tuple[str, ...] = ()
    response_id: tuple[str, ...] = ()
    operations: Mapping[str, str] = field(default_factory=dict)
    rules: tuple[tuple[str, str, str], ...] = ()
    rule: str = INCLUSIVE
    expected: tuple[str, ...] = ()

    def read(self, attributes: Attributes, *, scope: str) -> Reading:
        """Return the span in canonical words."""
        word = text(first(attributes, self.operation))
        operation = self.operations.get(word, word)
        provider = text(first(attributes, self.provider))
        usage = self.usage(attributes, scope=scope, provider=provider)
        return Reading(
            operation,
            provider,
            text(first(attributes, self.model)),
            usage,
            number(first(attributes, self.cost_usd)),
            operation in CALL_OPERATIONS,
            text(first(attributes, self.response_id)),
        )

    def usage(self, attributes: Attributes, *, scope: str, provider: str) -> Usage:
        """Return the normalised tokens and the rule applied, '' where nothing was cached or told.

        The rule comes from who wrote the span, never from the attribute's name. One thing is proof by itself:
        when read + written exceed the input, the input cannot hold them.
        """
        given = count(first(attributes, self.input_tokens))
        output = count(first(attributes, self.output_tokens))
        read = count(first(attributes, self.cache_read))
        written = count(first(attributes, self.cache_write))
        extra = (read or 0) + (written or 0)
        if given is None or (read is None and written is None):
            return Usage(given, output, read, "")
        rule = ADDITIVE if extra > given else self._rule(scope, provider)
        return Usage(given + extra if rule == ADDITIVE else given, output, read, rule)

    def _rule(self, scope: str, provider: str) -> str:
        for scope_prefix, of_provider, rule in self.rules:
            if scope.startswith(scope_prefix) and of_provider in {"", provider}:
                return rule
        return self.rule

    def lookup(self, attributes: Attributes, reading: Reading, timing: Timing) -> LookupRow | None:
        """Return the cache decision that the span tells of, or None.

        A call whose provider reported on its prompt cache is a lookup of that cache (`provider_prompt`), never of a
        response cache. A call that does not report is no miss: nothing is known.
        """
        usage = reading.usage
        if not reading.is_call or usage.cached_input_tokens is None or timing.failed:
            return None
        return LookupRow(
            timing.trace_id,
            timing.span_id,
            self.name,
            "provider_prompt",
            timing.at_ms,
            timing.duration_ms,
            "partial_hit" if usage.cached_input_tokens > 0 else "miss",
            model=reading.model,
            provider=reading.provider,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_input_tokens=usage.cached_input_tokens,
            cost_usd=reading.cost_usd,
        )

    def missing(self, row: LookupRow) -> list[str]:
        """Return the expected fields that the row lacks."""
        return [name for name in self.expected if getattr(row, name) in (None, "")]


def first(attributes: Attributes, keys: tuple[str, ...]) -> Any:
    """Return the first value present. Absent is None, which is not 0."""
    for key in keys:
        value = attributes.get(key)
        if value is not None:
            return value
    return None


def text(value: Any) -> str:
    """Return a hot column's text: at most 512 characters, no NUL (PostgreSQL refuses it)."""
    if value is None:
        return ""
    words: str = value if isinstance(value, str) else str(value)
    if len(words) > _MAX_TEXT:
        words = words[:_MAX_TEXT]
    return words.replace("\0", "\ufffd") if "\0" in words else words


def long_text(value: Any) -> str | None:
    """Return a text column of any length, None when absent."""
    return None if value is None else str(value).replace("\0", "\ufffd")


def count(value: Any) -> int | None:
    """Return a number of tokens or bytes; some senders write it as a string. None when it is no count."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 17:
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MAX_COUNT:
        return None
    return value


def number(value: Any) -> float | None:
    """Return a finite number; None when absent or something else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def flag(value: Any) -> bool | None:
    """Return a boolean; None when absent or something else."""
    return value if isinstance(value, bool) else None
