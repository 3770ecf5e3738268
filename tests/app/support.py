"""An installation in a folder of its own, on free ports, with a real SQLite cache that can be filled."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from app.admin.actions import Actor, AdminContext, Role
from app.config import Config, load
from app.jobs.run import JobRun
from app.wiring import Wiring, now_ms
from engine.control import Control
from engine.tiers import open_store
from storage import jobs, spans
from storage.payloads import pack
from storage.rows import LookupRow, SourceBatch, SourceKey, SpanRow
from storage.store import open_telemetry
from tests.conformance.samples import entry, key_of
from tests.support.servers import free_port

GATEWAY = SourceKey("otlp_traces", "cachescope-gateway", "gw-1", "cachescope.engine", "native")
BINDS = ("GATEWAY_BIND", "OTLP_GRPC_BIND", "OTLP_HTTP_BIND", "CONSOLE_BIND", "STUB_BIND")


def environ(folder: Path, **more: str) -> dict[str, str]:
    """Return settings for an installation in this folder, every bind on a free port."""
    ports = {f"CACHESCOPE_{name}": f"127.0.0.1:{free_port()}" for name in BINDS}
    return {"HOME": str(folder), "CACHESCOPE_DATA_DIR": str(folder / "data"), **ports, **more}


def wiring(folder: Path, **more: str) -> Wiring:
    config = load(environ(folder, **more))
    config.prepare()
    return Wiring(config)


def admin(wired: Wiring, role: Role = Role.ADMIN, **changes: object) -> AdminContext:
    return dataclasses.replace(wired.admin(Actor("ann", role), "cli"), **changes)  # type: ignore[arg-type]


def operation() -> str:
    return secrets.token_hex(16)


def fill(config: Config, namespace: str, count: int, *, names: Sequence[object] = ()) -> str:
    """Store entries that are visible now, of these names where there are any; return their generation."""

    async def work() -> str:
        store = open_store(config.shared_cache_url, timeout_s=30)
        try:
            made = await Control(store).purge(namespace, operation_id=operation())
            now = now_ms()
            for name in names or [(namespace, number) for number in range(count)]:
                changes = {"generation": made.new, "created_ms": now, "expires_ms": now + 3_600_000, "namespace": namespace}
                await store.put(entry(name, **changes))
            return made.new
        finally:
            await store.close()

    return asyncio.run(work())


def worked(ctx: AdminContext, kind: Any) -> dict[str, object]:
    """Queue what a kind of job (its module) computes ahead, do it as the worker would, and return its figures."""
    now = ctx.clock()
    kind.schedule(ctx.ops, now_ms=now)
    job = jobs.claim(ctx.ops, lease_ms=60_000, now_ms=now)
    assert job is not None
    figures = dict(kind.run(JobRun(job, ctx, threading.Event())))
    jobs.finish(ctx.ops, job, now_ms=now)
    return figures


def stored(config: Config, namespace: str) -> int:
    """Count every unexpired entry in the file, visible or not."""

    async def work() -> int:
        store = open_store(config.shared_cache_url, timeout_s=30)
        try:
            count, cursor = 0, ""
            while True:
                heads, cursor = await store.scan(namespace, cursor, 500)
                count += len(heads)
                if not cursor:
                    return count
        finally:
            await store.close()

    return asyncio.run(work())


def record_misses(
    config: Config,
    namespace: str,
    prompts: list[str],
    *,
    times: int = 1,
    recorded: bool = True,
    outcome: str = "miss",
    saved_usd: float | None = None,
    attributes: Mapping[str, object] | None = None,
    kept_ratio: float | None = None,
) -> None:
    """Write telemetry of lookups that missed, or had another outcome, as the collector does.

    attributes: more of their spans. kept_ratio: with which probability a sampler let them through; None = nobody samples.
    """
    store = open_telemetry(config.storage_settings(), write=True)
    rows, lookups = [], []
    now = time.time_ns()
    for number, prompt in enumerate(prompts * times):
        trace, span = secrets.token_bytes(16), secrets.token_bytes(8)
        body = {"model": "demo-small", "messages": [{"role": "user", "content": prompt}], "stream": True}
        told: dict[str, object] = {"cachescope.prompt": prompt, "cachescope.request.body": json.dumps(body)} if recorded else {}
        at_ns = now - (number + 1) * 1_000_000_000
        rows.append(_span(trace, span, at_ns, told | dict(attributes or {})))
        row = _lookup(trace, span, at_ns // 1_000_000, namespace, prompt)
        lookups.append(row._replace(outcome=outcome, saved_usd=saved_usd, sampler="ratio" if kept_ratio else "", kept_ratio=kept_ratio))
    try:
        spans.write(store, [SourceBatch(GATEWAY, spans=rows, lookups=lookups)], now_ms=now_ms())
    finally:
        store.close()


def _span(trace: bytes, span: bytes, at_ns: int, attributes: dict[str, object]) -> SpanRow:
    payload = pack(json.dumps({"attributes": attributes, "events": [], "links": [], "resource": {}}).encode())
    return SpanRow(
        trace_id=trace,
        span_id=span,
        parent_id=None,
        name="cachescope.lookup",
        kind=2,
        start_ns=at_ns,
        end_ns=at_ns + 1_000_000,
        status=0,
        status_message="",
        service="cachescope-gateway",
        operation="chat",
        provider="",
        model="demo-small",
        input_tokens=10,
        output_tokens=20,
        cached_input_tokens=None,
        token_rule="",
        cost_usd=None,
        is_call=False,
        payload=payload,
    )


def _lookup(trace: bytes, span: bytes, at_ms: int, namespace: str, prompt: str) -> LookupRow:
    return LookupRow(
        trace_id=trace,
        span_id=span,
        dialect="native",
        cache_kind="response",
        at_ms=at_ms,
        duration_ms=1.0,
        outcome="miss",
        namespace=namespace,
        tenant="acme",
        model="demo-small",
        key=key_of(prompt),
        prompt=prompt,
        input_tokens=10,
        output_tokens=20,
        cost_usd=0.01,
    )
