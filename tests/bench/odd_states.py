"""Telemetry as no sender should send it, by what is odd about it: a function each that adds spans, or the pages of a scrape."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.collectors.support import put

MARKUP = "<script>alert(1)</script>[x](javascript:1)<a href='//evil'>b</a> $a$ :red[y] \u202eevil =cmd|' /C calc'!A0"


@dataclass
class Sender:
    """Writes spans of one lookup each. at: seconds before now."""

    now_ns: int
    request: ExportTraceServiceRequest = field(default_factory=ExportTraceServiceRequest)
    number: int = 0
    scopes: dict[tuple[str, str], Any] = field(default_factory=dict)

    def scope(self, service: str, scope: str) -> Any:
        found = self.scopes.get((service, scope))
        if found is None:
            resource = self.request.resource_spans.add()
            resource.resource.attributes.add(key="service.name").value.string_value = service
            found = self.scopes[service, scope] = resource.scope_spans.add()
            found.scope.name = scope
        return found

    def span(
        self,
        attributes: Mapping[str, Any],
        *,
        at_s: float,
        duration_ms: float = 5.0,
        ids: tuple[bytes, bytes] | None = None,
        service: str = "cachescope-gateway",
        scope: str = "cachescope.engine",
        name: str = "cachescope.lookup",
    ) -> None:
        self.number += 1
        trace, span = ids or (random.Random(self.number).randbytes(16), random.Random(-self.number).randbytes(8))
        start = self.now_ns - int(at_s * 1e9)
        made = self.scope(service, scope).spans.add(
            trace_id=trace,
            span_id=span,
            name=name,
            kind=2,
            start_time_unix_nano=max(0, start),
            end_time_unix_nano=max(0, start + int(duration_ms * 1e6)),
        )
        for key, value in attributes.items():
            if value is not None:
                put(made.attributes.add(key=key).value, value)


def told(number: int, **changes: Any) -> dict[str, Any]:
    """The attributes of a lookup as the gateway sends them."""
    rng = random.Random(number)
    place = int(12 * rng.random() ** 2)
    outcome = rng.choices(["exact_hit", "semantic_hit", "miss", "bypass", "error"], [40, 10, 40, 5, 5])[0]
    outcome = changes.get("outcome", outcome)
    hit, near = outcome in {"exact_hit", "semantic_hit"}, outcome in {"semantic_hit", "miss"}
    values: dict[str, Any] = {
        "cachescope.outcome": outcome,
        "cachescope.reason": {"miss": "no_candidate", "bypass": "no_store", "error": "upstream_status"}.get(outcome),
        "cachescope.tier": {"exact_hit": "memory", "semantic_hit": "vector"}.get(outcome),
        "cachescope.namespace": "faq",
        "cachescope.tenant": f"tenant-{number % 3}",
        "gen_ai.request.model": "demo-small",
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "cachescope.key": f"{place:064x}",
        "cachescope.prompt.hash": f"{place:032x}",
        "cachescope.prompt.simhash": f"{rng.getrandbits(64):016x}",
        "cachescope.prompt": f"How do I reset number {place}?",
        "cachescope.request.body": json.dumps({"model": "demo-small", "messages": [{"role": "user", "content": f"number {place}"}]}),
        "cachescope.entry.id": f"{place:032x}" if hit or outcome == "miss" else None,
        "cachescope.entry.age_s": 60.0 if hit else None,
        "cachescope.entry.bytes": 900 if hit else None,
        "cachescope.candidate.id": f"{place:032x}" if near else None,
        "cachescope.candidate.similarity": round(rng.uniform(0.8, 0.99), 4) if near else None,
        "cachescope.candidate.prompt": "How do I reset?" if near else None,
        "cachescope.candidates": 3 if near else None,
        "cachescope.threshold": 0.9 if near else None,
        "cachescope.policy.version": 3,
        "cachescope.generation": "0193a0b1c2d3e-00aa11bb22cc33dd",
        "cachescope.switch": "on",
        "cachescope.lookup_ms": 1.0,
        "cachescope.upstream_ms": None if hit else 400.0,
        "cachescope.saved_ms": 400.0 if hit else None,
        "cachescope.saved_usd": 0.001 if hit else None,
        "cachescope.cost_usd": 0.001 if outcome == "miss" else None,
        "gen_ai.usage.input_tokens": 50,
        "gen_ai.usage.output_tokens": 80,
        "cachescope.steps": json.dumps([["canonicalise", 0, 60], ["exact", 60, 120]]),
    }
    named = {
        "namespace": "cachescope.namespace",
        "tenant": "cachescope.tenant",
        "model": "gen_ai.request.model",
        "cost": "cachescope.cost_usd",
        "saved": "cachescope.saved_usd",
        "saved_ms": "cachescope.saved_ms",
        "lookup_ms": "cachescope.lookup_ms",
        "input_tokens": "gen_ai.usage.input_tokens",
        "output_tokens": "gen_ai.usage.output_tokens",
        "prompt": "cachescope.prompt",
        "key": "cachescope.key",
        "reason": "cachescope.reason",
        "tier": "cachescope.tier",
        "outcome": "cachescope.outcome",
    }
    for name, value in changes.items():
        values[named.get(name, name)] = value
    return values


def many(
    sender: Sender, count: int = 400, *, over_s: float = 7_000.0, ahead_s: float = 0.0, duration_ms: float = 5.0, **changes: Any
) -> None:
    for number in range(count):
        made = {name: value(number) if callable(value) else value for name, value in changes.items()}
        at_s = over_s - (over_s - 20) * number / max(1, count) - ahead_s if count > 1 else 60.0
        sender.span(told(number, **made), at_s=at_s, duration_ms=duration_ms)


def repeated_ids(sender: Sender) -> None:
    """The same ids, again and again, with other content."""
    for number in range(400):
        ids = (b"\1" * 15 + bytes([1 + number % 5]), b"\2" * 8)
        sender.span(told(number, namespace=f"ns-{number % 4}"), at_s=3_000 - number, ids=ids)


def backwards(sender: Sender) -> None:
    many(sender, duration_ms=-60_000.0, lookup_ms=-5.0, saved_ms=-5.0)


def composite(sender: Sender) -> None:
    """Every attribute a list or a map; or bytes."""
    for number in range(300):
        good = told(number)
        odd = {
            k: [v, [v], {"a": v}] if number % 3 == 0 else {"a": v, "b": [1, {"c": None}]} if number % 3 == 1 else b"\xff\xfe"
            for k, v in good.items()
        }
        odd["cachescope.outcome"] = good["cachescope.outcome"]
        sender.span(odd, at_s=3_000 - number * 5)
        sender.span(good, at_s=3_000 - number * 5)


def rubbish_json(sender: Sender) -> None:
    for number in range(300):
        bad = ["[[", "{}", '[[1,2],["a"]]', '[["x",-1e999,NaN]]', "null", '[["a", true, null]]', "[" * 5000][number % 7]
        odd = {
            "cachescope.steps": bad,
            "cachescope.candidate.verdicts": bad,
            "cachescope.candidate.others": bad,
            "cachescope.request.body": bad,
        }
        sender.span(told(number) | odd, at_s=3_000 - number * 5)


def other_dialects(sender: Sender) -> None:
    """Calls of other vocabularies: without tokens, with negative cost, with impossible cached tokens."""
    scopes = [
        "opentelemetry.instrumentation.openai.v1",
        "openinference.instrumentation.openai",
        "litellm",
        "openlit",
        "langfuse-sdk",
        "ai",
        "betterdb-semantic-cache",
        "someone",
    ]
    for number in range(400):
        usage: dict[str, Any] = [
            {},
            {"gen_ai.usage.input_tokens": -5, "gen_ai.usage.output_tokens": "many"},
            {"gen_ai.usage.input_tokens": 10, "gen_ai.usage.cache_read.input_tokens": 10**9},
            {"gen_ai.usage.input_tokens": 0, "gen_ai.usage.cache_read.input_tokens": 0},
            {"gen_ai.usage.input_tokens": 2**62, "gen_ai.usage.output_tokens": 2**62},
            {"llm.token_count.prompt": float("nan"), "llm.usage.total_cost": float("inf")},
        ][number % 6]
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.request.model": f"m-{number % 4}",
            "gen_ai.provider.name": "anthropic",
            "cache.hit": number % 2 == 0,
            "cache.similarity": -1e300,
            **usage,
        }
        sender.span(attributes, at_s=6_000 - number * 10, service=f"shop {number % 9}", scope=scopes[number % 8], name="chat")


def names(sender: Sender) -> None:
    odd = [
        "\u202eevil",
        "👩‍👩‍👧‍👦🏴󠁧󠁢󠁥󠁮󠁧󠁿",
        "\0nul",
        "a\nb\tc\r",
        " ",
        "\u200b",
        "x" * 500,
        "%00",
        "../../etc/passwd",
        "=1+1",
        "None",
        "nan",
        "NULL",
        "\ufeff",
        "ℌ𝔦",
        "\u0301" * 50,
        "(not recorded)",
        "true",
        "0",
        "-1",
        "{{7*7}}",
        "${7*7}",
        "*",
        "|",
        "\\",
        "`x`",
        "http://evil.example",
        "javascript:alert(1)",
    ]
    for number in range(len(odd) * 15):
        word = odd[number % len(odd)]
        many_of = {
            "namespace": word,
            "tenant": odd[(number // 3) % len(odd)],
            "model": odd[(number // 7) % len(odd)],
            "prompt": word,
            "reason": word,
            "tier": word if number % 5 == 0 else "memory",
        }
        sender.span(told(number, **many_of), at_s=6_000 - number * 10)


HUGE = {"cost": 1e308, "saved": 1e308, "saved_ms": 1e308, "lookup_ms": 1e308, "cachescope.upstream_ms": 1e308}
STATES: dict[str, Callable[[Sender], None]] = {
    "nothing": lambda sender: None,
    "two namespaces": lambda sender: many(sender, namespace=lambda n: ("faq", "docs")[n % 2]),
    "one event": lambda sender: many(sender, 1),
    "two events": lambda sender: many(sender, 2),
    "one key": lambda sender: many(
        sender,
        **{"key": "k" * 64, "cachescope.prompt.hash": "p" * 32, "prompt": "same", "tenant": "t", "cachescope.prompt.simhash": "0" * 16},
    ),
    "all hits": lambda sender: many(sender, outcome="exact_hit"),
    "all misses": lambda sender: many(sender, outcome="miss"),
    "all errors": lambda sender: many(sender, outcome="error"),
    "all bypasses": lambda sender: many(sender, outcome="bypass"),
    "all coalesced": lambda sender: many(sender, outcome="coalesced"),
    "unknown outcome": lambda sender: many(sender, outcome="a hit, I think"),
    "a clock ahead": lambda sender: many(sender, ahead_s=30 * 86_400),
    "a clock partly ahead": lambda sender: many(sender, ahead_s=3_500),
    "the year 2262": lambda sender: many(sender, ahead_s=(2**63 - 1) / 1e9 - sender.now_ns / 1e9 - 7_100),
    "the year 1970": lambda sender: many(sender, ahead_s=-(sender.now_ns / 1e9 - 8_000)),
    "markup": lambda sender: many(
        sender,
        namespace=MARKUP,
        tenant=MARKUP,
        model=MARKUP,
        prompt=MARKUP,
        key=MARKUP,
        reason=MARKUP,
        tier=MARKUP,
        **{
            "cachescope.candidate.prompt": MARKUP,
            "cachescope.model_version": MARKUP,
            "cachescope.client": MARKUP,
            "cachescope.entry.id": MARKUP,
            "cachescope.generation": MARKUP,
        },
    ),
    "odd names": names,
    "no tokens": lambda sender: many(sender, input_tokens=None, output_tokens=None),
    "no price": lambda sender: many(sender, cost=None, saved=None),
    "negative": lambda sender: many(sender, cost=-5.0, saved=-5.0, saved_ms=-9.0, lookup_ms=-1.0, input_tokens=-3, output_tokens=-3),
    "huge": lambda sender: many(sender, 3_000, input_tokens=2**53 - 1, output_tokens=2**53 - 1, **HUGE),
    "out of range": lambda sender: many(
        sender,
        input_tokens=2**63 - 1,
        output_tokens=-(2**63),
        **{"cachescope.entry.bytes": 2**63 - 1, "cachescope.policy.version": 2**63 - 1, "cachescope.entry.age_s": -1e308},
    ),
    "not a number": lambda sender: many(
        sender,
        cost=float("nan"),
        saved=float("inf"),
        **{"cachescope.candidate.similarity": float("nan"), "cachescope.threshold": -math.inf},
    ),
    "impossible similarity": lambda sender: many(
        sender,
        **{
            "cachescope.candidate.similarity": 7.5,
            "cachescope.threshold": -3.0,
            "cachescope.holdout.propensity": 0.0,
            "cachescope.holdout.held_out": True,
        },
    ),
    "tiny": lambda sender: many(sender, cost=5e-324, saved=5e-324, saved_ms=5e-324, lookup_ms=5e-324, duration_ms=0.0),
    "zero": lambda sender: many(sender, cost=0.0, saved=0.0, saved_ms=0.0, lookup_ms=0.0, input_tokens=0, output_tokens=0, duration_ms=0.0),
    "centuries long": lambda sender: many(sender, duration_ms=7e12, outcome="miss"),
    "the same ids": repeated_ids,
    "ends before it starts": backwards,
    "lists and maps": composite,
    "rubbish as JSON": rubbish_json,
    "other dialects": other_dialects,
    "unnamed": lambda sender: many(
        sender,
        namespace=None,
        tenant=None,
        model=None,
        key=None,
        prompt=None,
        **{"cachescope.prompt.hash": None, "cachescope.prompt.simhash": None, "cachescope.lookup_ms": None},
    ),
    "a bare outcome": lambda sender: (
        [sender.span({"cachescope.outcome": "miss" if n % 2 else "exact_hit"}, at_s=6_000 - n * 14) for n in range(400)] and None
    ),
    "odd simhashes": lambda sender: many(
        sender, **{"cachescope.prompt.simhash": lambda n: ["zz", "", "f" * 40, "-1", "0x10", "\u0661" * 16][n % 6]}
    ),
    "many namespaces": lambda sender: many(sender, 5_000, namespace=lambda n: f"ns-{n}", tenant=lambda n: f"t-{n}"),
    "many models": lambda sender: many(sender, 5_000, model=lambda n: f"model-{n}"),
    "many reasons": lambda sender: many(sender, 5_000, outcome="miss", reason=lambda n: f"reason-{n}", tier=lambda n: f"tier-{n}"),
}
COUNTERS = {
    "counters alone": [("vllm:prefix_cache_queries_total {n}\nvllm:prefix_cache_hits_total {h}\n", [(0, 0), (100, 50), (200, 100)])],
    "counters that stand still": [("vllm:prefix_cache_queries_total {n}\nvllm:prefix_cache_hits_total {h}\n", [(0, 0), (0, 0), (0, 0)])],
    "counters beyond their whole": [
        ("vllm:prefix_cache_queries_total {n}\nvllm:prefix_cache_hits_total {h}\n", [(0, 0), (10, 50), (20, 1e300)])
    ],
    "counters that are none": [
        ("vllm:prefix_cache_queries_total {n}\nvllm:prefix_cache_hits_total {h}\n", [("NaN", "NaN"), ("+Inf", "-Inf"), ("NaN", 5)])
    ],
    "counters that fall": [("vllm:prefix_cache_queries_total {n}\nvllm:prefix_cache_hits_total {h}\n", [(1e18, 5e17), (5, 1), (10, -4)])],
    "a page of rubbish": [("<html>{n} {h}</html>\0\xff", [(1, 1), (2, 2), (3, 3)])],
}
