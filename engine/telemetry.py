"""One span a lookup, and the metrics beside it. Telemetry that cannot leave is counted; it never holds a request."""

from __future__ import annotations

import asyncio
import ipaddress
import random
import re
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from urllib.parse import urlsplit

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from engine import semconv
from engine.attributes import (
    State,
    course_attributes,
    is_recorded,
    keyed_headers,
    provider_of,
    request_attributes,
    state_attributes,
    state_of,
)
from engine.lookup import Lookup
from engine.metrics import Metrics
from engine.settings import GatewaySettings
from engine.types import Outcome, Step
from engine.wire import WrittenSpan, attributes_bytes, encode, write

QUEUE_SPANS = 65_536
QUEUE_BYTES = 64 * 1024 * 1024
BATCH_SPANS = 512
BATCH_DELAY_MS = 500
# A collector that restarts takes some seconds: a batch is tried again for so long while the queue holds what follows.
EXPORT_TIMEOUT_S = 30.0
FLUSH_S = 5.0

_TRACEPARENT = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_UNSET = Status(StatusCode.UNSET)


def parent_of(traceparent: str) -> tuple[int, int, int] | None:
    """Return trace id, span id and flags of a W3C traceparent, None when it is not a valid one."""
    match = _TRACEPARENT.fullmatch(traceparent.strip())
    if match is None or match[1] == "ff" or (match[1] == "00" and match[5]):
        return None
    trace_id, span_id = int(match[2], 16), int(match[3], 16)
    return (trace_id, span_id, int(match[4], 16)) if trace_id and span_id else None


@lru_cache(maxsize=512)
def _state_bytes(state: State) -> bytes:
    return attributes_bytes(state_attributes(state))


class CountingExporter(SpanExporter):
    """Counts what the wrapped exporter sent and what it gave up. done, done_bytes: spans that left the queue for good."""

    def __init__(self, exporter: SpanExporter, metrics: Metrics) -> None:
        self._exporter = exporter
        self._metrics = metrics
        self._closed = False
        self.done = 0
        self.done_bytes = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = SpanExportResult.FAILURE
        try:
            if not self._closed:
                result = self._exporter.export(spans)
        finally:
            self._metrics.spans("exported" if result is SpanExportResult.SUCCESS else "failed", len(spans))
            self.done += len(spans)
            self.done_bytes += sum(len(span.written) for span in spans if isinstance(span, WrittenSpan))
        return result

    def shutdown(self) -> None:
        """End a batch that is being tried again, and count the rest as failed."""
        if not self._closed:
            self._closed = True
            self._exporter.shutdown()


class Telemetry:
    """A gateway's spans and metrics. Every lookup is recorded, whatever the caller's sampling: a rate needs them all.

    exporter: where spans go; by default to the settings' OTLP endpoint, and nowhere when there is none.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        instance_id: str = "",
        exporter: SpanExporter | None = None,
        queue_spans: int = QUEUE_SPANS,
        queue_bytes: int = QUEUE_BYTES,
    ) -> None:
        self._settings = settings.engine
        self._provider = provider_of(settings)
        self._queue_spans = queue_spans
        self._queue_bytes = queue_bytes
        self._random = random.Random()  # noqa: S311 - span ids, no secrets
        self.metrics = Metrics(max_namespaces=settings.engine.max_namespaces)
        self.registry = self.metrics.registry
        self.instance_id = instance_id or uuid.uuid4().hex
        self._resource = Resource(
            {
                "service.name": "cachescope-gateway",
                "service.instance.id": self.instance_id,
                semconv.DEMO: settings.demo,
            }
        )
        self._scope = InstrumentationScope(semconv.SCOPE)
        self._queued = 0
        self._queued_bytes = 0
        self._exporter: CountingExporter | None = None
        self._processor: BatchSpanProcessor | None = None
        if exporter is None and settings.otlp_endpoint:
            exporter = _otlp_exporter(settings)
        if exporter is not None:
            self._exporter = CountingExporter(exporter, self.metrics)
            self._processor = BatchSpanProcessor(
                self._exporter,
                # Room for what waits in the queue: the bound is kept here, where what is dropped can be counted.
                max_queue_size=queue_spans + BATCH_SPANS,
                schedule_delay_millis=BATCH_DELAY_MS,
                max_export_batch_size=min(BATCH_SPANS, queue_spans),
            )

    def fault(self, tier: str, operation: str) -> None:
        """Count a fault of the cache that was answered without it."""
        self.metrics.fault(tier, operation)

    def watch(self, *, entries: Callable[[], float], size_bytes: Callable[[], float], control_age_s: Callable[[], float]) -> None:
        """Show these three as gauges, read at each scrape."""
        self.metrics.watch(entries=entries, size_bytes=size_bytes, control_age_s=control_age_s)

    def counters(self) -> dict[str, float]:
        """Return every counter's value by its name and labels in the exposition."""
        return self.metrics.counters()

    def trace_context(self, lookup: Lookup, *, parent: str = "") -> str:
        """Return the traceparent to forward upstream: the lookup's span, in the caller's trace when it sent one.

        The lookup's ids are fixed here; the caller's sampling flag is passed on.
        """
        caller = parent_of(parent)
        self._fix_ids(lookup, caller)
        return f"00-{lookup.trace_id:032x}-{lookup.span_id:016x}-{caller[2] & 1 if caller else 1:02x}"

    def record(self, lookup: Lookup, *, parent_context: str = "", duration_ms: float) -> None:
        """Count the lookup and end its span. A lookup is recorded once; again does nothing."""
        if lookup.recorded:
            return
        lookup.recorded = True
        if lookup.upstream_ms is not None:
            _add_upstream_step(lookup, lookup.upstream_ms)
        self._count(lookup)
        if self._processor is None or self._exporter is None:
            return
        self.metrics.spans("created")
        waiting_bytes = self._queued_bytes - self._exporter.done_bytes
        if self._queued - self._exporter.done >= self._queue_spans or waiting_bytes >= self._queue_bytes:
            self.metrics.spans("dropped")
            return
        span = self._span(lookup, parent_of(parent_context), duration_ms)
        self._queued += 1
        self._queued_bytes += len(span.written)
        self._processor.on_end(span)

    def _count(self, lookup: Lookup) -> None:
        self.metrics.lookup(
            lookup.request.namespace,
            lookup.outcome,
            lookup.request.purpose,
            reason=lookup.reason,
            lookup_s=lookup.lookup_ms / 1000,
        )
        for name in keyed_headers(lookup):
            self.metrics.keyed_header(name)
        if lookup.upstream_ms is not None:
            self.metrics.upstream(lookup.upstream_ms / 1000)
        if lookup.stored or lookup.store_reason:
            self.metrics.stored("stored" if lookup.stored else lookup.store_reason)

    def _fix_ids(self, lookup: Lookup, caller: tuple[int, int, int] | None) -> None:
        if not lookup.span_id:
            lookup.trace_id = caller[0] if caller else self._random.getrandbits(128) | 1
            lookup.span_id = self._random.getrandbits(64) | 1

    def _span(self, lookup: Lookup, caller: tuple[int, int, int] | None, duration_ms: float) -> WrittenSpan:
        self._fix_ids(lookup, caller)
        parent = SpanContext(caller[0], caller[1], is_remote=True) if caller and caller[0] == lookup.trace_id else None
        context = SpanContext(lookup.trace_id, lookup.span_id, is_remote=False, trace_flags=_SAMPLED)
        # Written as it ends, and not begun and ended through a tracer, which checks and locks for each attribute.
        written = write(
            semconv.SPAN_LOOKUP,
            kind=SpanKind.SERVER,
            context=context,
            parent=parent,
            start_ns=lookup.started_ns,
            end_ns=lookup.started_ns + int(max(duration_ms, 0.0) * 1e6),
            attributes=b"".join(
                (
                    self._request_bytes(lookup),
                    _state_bytes(state_of(lookup, provider=self._provider)),
                    attributes_bytes(course_attributes(lookup, self._settings)),
                )
            ),
            status=Status(StatusCode.ERROR, lookup.error_type or None) if lookup.outcome is Outcome.ERROR else _UNSET,
        )
        return WrittenSpan(written, context=context, resource=self._resource, scope=self._scope)

    def _request_bytes(self, lookup: Lookup) -> bytes:
        """Return the attributes of the request, written once for a body that comes again."""
        request, known = lookup.request, lookup.request.known
        if known is None:
            return attributes_bytes(request_attributes(lookup, self._settings))
        # All that they are made of beside the body. Without a key, which stands for most of it, the cache was never asked.
        recorded = is_recorded(lookup, self._settings)
        by = (lookup.key, lookup.model, request.namespace, request.tenant, request.model_version, request.keyed, recorded)
        told = known.told.get(by)
        if told is None:
            told = attributes_bytes(request_attributes(lookup, self._settings))
            known.keep(known.told, by, told)
        return told

    async def flush(self) -> None:
        """Send what waits now."""
        if self._processor is not None:
            await asyncio.to_thread(self._processor.force_flush)

    async def close(self) -> None:
        """Send what waits, for FLUSH_S at most; what has not left then is counted as failed."""
        if self._processor is None or self._exporter is None:
            return
        closing = asyncio.create_task(asyncio.to_thread(self._processor.shutdown))
        _, late = await asyncio.wait({closing}, timeout=FLUSH_S)
        if late:
            self._exporter.shutdown()  # ends the batch that is being tried again
            await asyncio.wait({closing}, timeout=FLUSH_S)
        lost, self._queued = self._queued - self._exporter.done, self._exporter.done
        if lost > 0:
            self.metrics.spans("failed", lost)
        self._processor = None


def _add_upstream_step(lookup: Lookup, upstream_ms: float) -> None:
    """Put the upstream call between what the lookup did and the store."""
    steps = [step for step in lookup.steps if step.name != "store"]
    if not any(step.name == "upstream" for step in steps):
        began_us = max([int(lookup.lookup_ms * 1000), *(step.start_us + step.duration_us for step in steps if step.name == "wait")])
        steps.append(Step("upstream", began_us, int(upstream_ms * 1000)))
        lookup.steps[:] = steps + [step for step in lookup.steps if step.name == "store"]


class LeanExporter(OTLPSpanExporter):
    """The SDK's exporter with `engine.wire` as its encoder; its connection, retries and time-outs are the SDK's."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        client = getattr(self, "_client", None)
        written = [span for span in spans if isinstance(span, WrittenSpan)]
        if client is None or len(written) < len(spans):  # another version of the SDK, or its spans: its own encoder serves as well
            return super().export(spans)
        return SpanExportResult.SUCCESS if client.export(encode(written)).success else SpanExportResult.FAILURE


def _otlp_exporter(settings: GatewaySettings) -> OTLPSpanExporter:
    session = requests.Session()
    host = urlsplit(settings.otlp_endpoint).hostname or ""
    loopback = host == "localhost"
    with suppress(ValueError):
        loopback = loopback or ipaddress.ip_address(host).is_loopback
    session.trust_env = not loopback  # a proxy from the environment is never asked for a server on this machine
    headers = {"authorization": f"Bearer {settings.otlp_token}"} if settings.otlp_token else None
    endpoint = f"{settings.otlp_endpoint.rstrip('/').removesuffix('/v1/traces')}/v1/traces"
    certificate = settings.otlp_ca or None
    return LeanExporter(endpoint=endpoint, certificate_file=certificate, headers=headers, timeout=EXPORT_TIMEOUT_S, session=session)
