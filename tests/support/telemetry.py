"""Fills a telemetry database with lookups like real ones, through the collector's writer. Deterministic."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from app.demo.prompts import PromptGroup, load
from storage import spans
from storage.payloads import pack
from storage.rows import LookupRow, SourceBatch, SourceKey, SpanRow
from storage.settings import StorageSettings
from storage.store import Store, open_telemetry

GATEWAY = SourceKey("otlp_traces", "cachescope-gateway", "gw-1", "cachescope.engine@0.1.0", "native", demo=True)
APP = SourceKey("otlp_traces", "shop-backend", "web-1", "opentelemetry.instrumentation.asgi@0.60", "genai")
TENANTS = (("acme", 0.55), ("globex", 0.3), ("initech", 0.15))
MODELS = {"faq": "demo-small", "code": "demo-large", "docs": "demo-small"}
HOSTILE = "<b>ns</b> [x](javascript:1) $a$ :red[y] \u202eevil"  # a namespace name that every place must show as text


def settings(folder: Path) -> StorageSettings:
    return StorageSettings(
        f"sqlite:///{folder / 'telemetry.db'}", f"sqlite:///{folder / 'ops.db'}", synchronous="NORMAL", busy_timeout_s=60
    )


def open_store(folder: Path) -> Store:
    return open_telemetry(settings(folder), write=True)


@dataclass(frozen=True)
class Made:
    """One request: the caller's span, the lookup's span and row, and the upstream's span when there was a call."""

    app: SpanRow
    gateway: tuple[SpanRow, ...]
    lookup: LookupRow


def _payload(attributes: dict[str, object]) -> bytes:
    resource = {"service.name": "cachescope-gateway"}
    return pack(json.dumps({"attributes": attributes, "events": [], "links": [], "resource": resource}).encode())


def _span(  # noqa: PLR0917 - in the order of the row
    trace: bytes, span: bytes, parent: bytes | None, name: str, start_ms: float, end_ms: float, **more: object
) -> SpanRow:
    values: dict[str, object] = {
        "kind": 2,
        "status": 0,
        "status_message": "",
        "service": "cachescope-gateway",
        "operation": "chat",
        "provider": "",
        "model": "",
        "input_tokens": None,
        "output_tokens": None,
        "cached_input_tokens": None,
        "token_rule": "",
        "cost_usd": None,
        "is_call": False,
        "payload": _payload({}),
    }
    values.update(more)
    return SpanRow(
        trace_id=trace,
        span_id=span,
        parent_id=parent,
        name=name,
        start_ns=int(start_ms * 1e6),
        end_ns=int(end_ms * 1e6),
        **values,
    )  # type: ignore[arg-type]


def _outcome(rng: random.Random, group: PromptGroup, seen: set[str], text: str) -> tuple[str, str, str]:
    """Return outcome, tier and reason as the engine would for this history."""
    dice = rng.random()
    if dice < 0.03:
        return "bypass", "", rng.choice(("no_store", "unknown_field", "too_long"))
    if dice < 0.04:
        return "error", "", "upstream_status"
    if text in seen:
        return "exact_hit", rng.choice(("memory", "memory", "memory", "store")), ""
    if text in group.paraphrases and any(other in seen for other in (group.prompt, *group.paraphrases)):
        return "semantic_hit", "vector", ""
    if dice < 0.07:
        return "coalesced", "", ""
    return "miss", "", "vetoed" if text in group.near_misses and group.prompt in seen else "no_candidate"


def make(
    *, start_ms: int, end_ms: int, per_minute: float, seed: int = 7, record_prompts: bool = True, drop_after_ms: int | None = None
) -> Iterator[Made]:
    """Yield requests, evenly random over the time. drop_after_ms: from then on `faq` forgets all it knew (a purge)."""
    rng = random.Random(seed)
    groups = load()
    rng.shuffle(groups)
    weights = [1 / rank for rank in range(1, len(groups) + 1)]
    seen: set[str] = set()
    dropped = False
    count = int((end_ms - start_ms) / 60_000 * per_minute)
    for at_ms in sorted(rng.randrange(start_ms, end_ms) for _ in range(count)):
        if drop_after_ms is not None and at_ms >= drop_after_ms and not dropped:
            dropped = True
            seen -= {text for group in groups if group.namespace == "faq" for text in group.texts}
        group = rng.choices(groups, weights)[0]
        text, dice = group.prompt, rng.random()
        if dice < 0.12 and group.near_misses:
            text = rng.choice(group.near_misses)
        elif dice < 0.37 and group.paraphrases:
            text = rng.choice(group.paraphrases)
        outcome, tier, reason = _outcome(rng, group, seen, text)
        if outcome in {"miss", "coalesced"}:
            seen.add(text)
        yield _made(rng, at_ms, group, text, outcome, tier, reason, record_prompts=record_prompts)


def _made(  # noqa: PLR0917 - one call, in the order of drawing
    rng: random.Random, at_ms: int, group: PromptGroup, text: str, outcome: str, tier: str, reason: str, *, record_prompts: bool
) -> Made:
    trace, root, span, call = rng.randbytes(16), rng.randbytes(8), rng.randbytes(8), rng.randbytes(8)
    hit = outcome in {"exact_hit", "semantic_hit"}
    embedded = outcome in {"semantic_hit", "miss"}
    lookup_ms = rng.uniform(0.2, 1.2) if outcome == "exact_hit" else rng.uniform(2, 9)
    upstream_ms = None if hit or outcome in {"coalesced"} else rng.lognormvariate(6.2, 0.5)
    duration = lookup_ms + (upstream_ms or 0) + (rng.uniform(50, 400) if outcome == "coalesced" else 0)
    tokens = (rng.randrange(20, 90), rng.randrange(30, 220))
    price = (tokens[0] * 0.15 + tokens[1] * 0.6) * 1e-6 * (15 if group.namespace == "code" else 1)
    priced = rng.random() < 0.95
    near = embedded and reason != "no_candidate"
    similarity = round(rng.uniform(0.9, 0.99) if outcome == "semantic_hit" else rng.uniform(0.8, 0.97), 4) if near else None
    verdicts = ""
    if near:
        veto = reason == "vetoed"
        verdicts = json.dumps([["numbers", veto, "30 / 60" if veto else ""], ["negation", False, ""], ["antonyms", False, ""]])
    entry = f"{rng.getrandbits(128):032x}" if hit or outcome == "miss" else ""
    tenant = rng.choices([name for name, _ in TENANTS], [share for _, share in TENANTS])[0]
    steps: list[list[object]] = [["canonicalise", 0, 60], ["exact", 60, 120]]
    if embedded:
        steps += [["embed", 180, int(lookup_ms * 600)], ["search", 180 + int(lookup_ms * 600), 150]]
    if upstream_ms:
        steps.append(["upstream", int(lookup_ms * 1000), int(upstream_ms * 1000)])
    attributes: dict[str, object] = {"cachescope.steps": json.dumps(steps), "cachescope.streamed": rng.random() < 0.4}
    if outcome == "miss":
        attributes |= {"cachescope.stored": True, "cachescope.entry.ttl_s": 86_400.0}
    row = LookupRow(
        trace_id=trace,
        span_id=span,
        dialect="native",
        cache_kind="response",
        at_ms=at_ms,
        duration_ms=duration,
        outcome=outcome,
        reason=reason,
        tier=tier,
        namespace=group.namespace,
        tenant=tenant,
        model=MODELS[group.namespace],
        provider="openai",
        client="cachescope-demo/1",
        switch="on",
        policy_version=3,
        generation="0193a0b1c2d3e-00aa11bb22cc33dd",
        partition=f"{hash_of(group.namespace + tenant):032x}",
        key=f"{hash_of(tenant + group.namespace + text):064x}"[::-1],  # its first digits are as good as random
        prompt_hash=f"{hash_of(tenant + text):032x}",
        prompt_simhash=f"{hash_of(group.prompt) & (2**64 - 1):016x}",
        prompt=text if record_prompts else None,
        entry_id=entry,
        entry_age_s=round(rng.uniform(5, 4_000), 1) if hit else None,
        entry_bytes=rng.randrange(600, 3_000) if hit else None,
        candidates=rng.randrange(1, 6) if near else (0 if embedded else None),
        candidate_id=(entry if outcome == "semantic_hit" else f"{rng.getrandbits(128):032x}") if near else "",
        similarity=similarity,
        threshold=0.9 if embedded else None,
        passed=None if similarity is None else outcome == "semantic_hit",
        verdicts=verdicts,
        candidate_prompt=group.prompt if near and record_prompts else None,
        holdout_propensity=1.0 if near else None,
        held_out=False if near else None,
        input_tokens=None if outcome in {"bypass", "error"} else tokens[0],
        output_tokens=None if outcome in {"bypass", "error"} else tokens[1],
        lookup_ms=lookup_ms,
        upstream_ms=upstream_ms,
        saved_ms=rng.lognormvariate(6.2, 0.5) if hit else None,
        saved_usd=price if hit and priced else None,
        cost_usd=price if outcome == "miss" and priced else None,
    )
    start = float(at_ms)
    root_span = _span(trace, root, None, "POST /ask", start - 2, start + duration + 3, service="shop-backend", operation="")
    status = 2 if outcome == "error" else 0
    parts = [
        _span(
            trace,
            span,
            root,
            "cachescope.lookup",
            start,
            start + duration,
            status=status,
            model=row.model,
            payload=_payload(attributes),
        )
    ]
    if upstream_ms:
        begun = start + lookup_ms
        told = {"kind": 3, "model": row.model, "is_call": True, "call_role": "call"}
        parts.append(_span(trace, call, span, f"chat {row.model}", begun, begun + upstream_ms, **told))
    return Made(root_span, tuple(parts), row)


def hash_of(text: str) -> int:
    """Return 128 bits that depend on the text alone."""
    return random.Random(text).getrandbits(128)


def write(store: Store, made: list[Made], *, now_ms: int) -> None:
    """Write requests as the collector would, in batches of 500."""
    for at in range(0, len(made), 500):
        part = made[at : at + 500]
        gateway = SourceBatch(GATEWAY, [span for one in part for span in one.gateway], [one.lookup for one in part])
        spans.write(store, [gateway, SourceBatch(APP, [one.app for one in part])], now_ms=now_ms)


def seed(store: Store, *, now_ms: int, hours: float = 2.0, per_minute: float = 20.0, **options: object) -> int:
    """Fill the last hours; return how many lookups were written."""
    start = now_ms - int(hours * 3_600_000)
    made = list(make(start_ms=start, end_ms=now_ms, per_minute=per_minute, **options))  # type: ignore[arg-type]
    write(store, made, now_ms=now_ms)
    return len(made)


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    now = time.time_ns() // 1_000_000
    print(seed(open_store(target), now_ms=now, hours=float(sys.argv[2]) if len(sys.argv) > 2 else 2.0, drop_after_ms=now - 1_500_000))
