"""OTLP trace requests for benches: traces of three to five spans of twelve attributes each, in requests of 512. Deterministic by seed.

Two scopes a request, as an application and a cache would send them: OpenInference spans (chain, embedding, model call, store), and one
lookup a trace in our own vocabulary, so that every part of the writer has work: spans, payloads, lookups, rollups, summaries.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Iterator
from typing import Any

import orjson
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from engine import semconv as sc

BATCH = 512
_NAMESPACES = ("support", "search", "docs", "billing", "agents", "eval", "chat", "batch")
_MODELS = ("gpt-4o-mini", "gpt-4o", "claude-sonnet", "llama-3-70b", "mistral-large")
_TENANTS = ("acme", "globex", "initech")
_OUTCOMES = (("exact_hit", "memory", 0.3), ("semantic_hit", "vector", 0.12), ("miss", "", 0.55), ("bypass", "", 0.02), ("error", "", 0.01))
_WORDS = [
    "how",
    "do",
    "i",
    "reset",
    "my",
    "password",
    "cache",
    "latency",
    "token",
    "model",
    "tenant",
    "invoice",
    "refund",
    "policy",
    "vector",
    "index",
    "stream",
    "answer",
    "context",
    "window",
    "prompt",
    "summary",
    "translate",
    "order",
    "shipping",
    "account",
]


def bodies(spans: int, *, seed: int, end_ns: int, hours: float = 1.0, batch: int = BATCH) -> Iterator[bytes]:
    """Yield serialised requests of `batch` spans, start times rising over the `hours` before end_ns."""
    rng = random.Random(seed)
    length_ns = int(hours * 3.6e12)
    made = 0
    waiting: list[tuple[bool, dict[str, Any]]] = []
    while made < spans:
        size = min(batch, spans - made)
        while len(waiting) < size:
            progress = (made + len(waiting)) / spans
            waiting += _trace(rng, end_ns - length_ns + int(length_ns * progress))
        part, waiting = waiting[:size], waiting[size:]
        made += size
        yield _request(part).SerializeToString()


def as_json(body: bytes) -> bytes:
    """Return the same request as OTLP/JSON writes it: ids in hex, enums as numbers."""
    request = ExportTraceServiceRequest.FromString(body)
    document = MessageToDict(request, use_integers_for_enums=True)
    for resource in document["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                for name in ("traceId", "spanId", "parentSpanId"):
                    if name in span:
                        span[name] = base64.b64decode(span[name]).hex()
    return orjson.dumps(document)


def _request(part: list[tuple[bool, dict[str, Any]]]) -> ExportTraceServiceRequest:
    request = ExportTraceServiceRequest()
    resource = request.resource_spans.add()
    for key, value in (("service.name", "shop"), ("service.version", "1.0"), ("telemetry.sdk.language", "python")):
        resource.resource.attributes.add(key=key).value.string_value = value
    scopes = {}
    for is_lookup, name in ((False, "bench"), (True, sc.SCOPE)):
        scopes[is_lookup] = resource.scope_spans.add()
        scopes[is_lookup].scope.name = name
    for is_lookup, given in part:
        span = scopes[is_lookup].spans.add(**{name: value for name, value in given.items() if name != "attributes"})
        span.status.code = 1
        for key, value in given["attributes"].items():
            any_value = span.attributes.add(key=key).value
            if isinstance(value, bool):
                any_value.bool_value = value
            elif isinstance(value, int):
                any_value.int_value = value
            elif isinstance(value, float):
                any_value.double_value = value
            else:
                any_value.string_value = value
    return request


def _trace(rng: random.Random, start_ns: int) -> list[tuple[bool, dict[str, Any]]]:
    trace, root = rng.randbytes(16), rng.randbytes(8)
    place = {"namespace": rng.choice(_NAMESPACES), "model": rng.choice(_MODELS), "user": f"u{rng.randrange(20_000):05d}"}
    prompt = " ".join(rng.choices(_WORDS, k=rng.randint(8, 40)))
    kinds = ("root", "lookup", "embed", "llm", "store")[: rng.randint(3, 5)]
    made = []
    for number, kind in enumerate(kinds):
        duration = int(rng.lognormvariate({"llm": 20.3, "root": 20.5}.get(kind, 15.5), 0.5))
        span = {
            "trace_id": trace,
            "span_id": rng.randbytes(8) if number else root,
            "parent_span_id": root if number else b"",
            "name": {"root": "chat.completion", "lookup": "cachescope.lookup", "embed": "embed.query"}.get(kind, f"{kind}.call"),
            "kind": 3 if kind == "llm" else 1,
            "start_time_unix_nano": start_ns,
            "end_time_unix_nano": start_ns + duration,
            "attributes": _lookup(rng, place, prompt) if kind == "lookup" else _inference(rng, place, prompt, kind),
        }
        made.append((kind == "lookup", span))
        start_ns += duration // 4
    return made


def _lookup(rng: random.Random, place: dict[str, str], prompt: str) -> dict[str, Any]:
    outcome, tier, _ = rng.choices(_OUTCOMES, [weight for _, _, weight in _OUTCOMES])[0]
    return {
        sc.OUTCOME: outcome,
        sc.TIER: tier,
        sc.NAMESPACE: place["namespace"],
        sc.TENANT: rng.choice(_TENANTS),
        sc.GENAI_OPERATION: "chat",
        sc.GENAI_REQUEST_MODEL: place["model"],
        sc.GENAI_INPUT_TOKENS: rng.randint(50, 4_000),
        sc.GENAI_OUTPUT_TOKENS: rng.randint(10, 900),
        sc.PROMPT: prompt,
        sc.PROMPT_HASH: rng.randbytes(16).hex(),
        sc.LOOKUP_MS: rng.uniform(0.2, 9),
        sc.COST_USD: rng.random() / 100,
    }


def _inference(rng: random.Random, place: dict[str, str], prompt: str, kind: str) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "openinference.span.kind": {"root": "CHAIN", "embed": "EMBEDDING", "llm": "LLM"}.get(kind, "TOOL"),
        "gen_ai.request.model": place["model"],
        "cache.namespace": place["namespace"],
        "session.id": f"s{rng.randrange(50_000):06d}",
        "user.id": place["user"],
        "deployment.region": "eu-west-1",
        "cache.hit": rng.random() < 0.4,
    }
    if kind in {"root", "llm"}:
        return attributes | {
            "llm.model_name": place["model"],
            "llm.token_count.prompt": rng.randint(50, 4_000),
            "llm.token_count.completion": rng.randint(10, 900),
            "input.value": prompt,
            "output.value": " ".join(rng.choices(_WORDS, k=30)),
        }
    return attributes | {
        "cache.tier": rng.choice(("l1", "redis", "semantic")),
        "cache.key": rng.randbytes(16).hex(),
        "cache.similarity": rng.random(),
        "cache.ttl_s": rng.choice((60, 300, 3_600)),
        "cache.size_bytes": rng.randint(200, 9_000),
    }
