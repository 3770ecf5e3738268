"""The cache's boundary: whatever goes wrong behind it, the request goes on. The one place of the gateway with a broad catch."""

from __future__ import annotations

import time
from functools import partial

from engine.agreement import agreement
from engine.cache import Cache
from engine.errors import InvalidRequest
from engine.gateway.answers import Answer, answer_of
from engine.gateway.inbound import Inbound
from engine.keys import printable
from engine.leases import Leases
from engine.lookup import CacheRequest, Lookup
from engine.telemetry import Telemetry
from engine.types import Namespace, Outcome


class Boundary:
    """The cache and its telemetry as a request sees them: a fault is counted and answered as a miss."""

    def __init__(self, cache: Cache, telemetry: Telemetry, leases: Leases, *, give_up_s: float) -> None:
        self._leases = leases
        self._give_up_s = give_up_s  # so long another gateway's call is waited for at most
        self._cache = cache
        self._telemetry = telemetry

    async def lookup(self, request: CacheRequest) -> Lookup:
        """Return the lookup; a plain miss that stores nothing when the cache failed. Raises InvalidRequest only."""
        started_ns, started_mono = time.time_ns(), time.perf_counter()
        try:
            return await self._cache.lookup(request)
        except InvalidRequest:
            raise
        except Exception:  # noqa: BLE001 - a fault of the cache must never fail a request; it is counted
            self._telemetry.fault("gateway", "lookup")
            return Lookup(request, started_ns, started_mono, Namespace(request.namespace), reason="cache_fault")

    def bypass(self, request: CacheRequest, reason: str) -> Lookup:
        """Return a lookup that never asked the cache."""
        space = Namespace(request.namespace)
        model = request.body.get("model")
        return Lookup(
            request,
            time.time_ns(),
            time.perf_counter(),
            space,
            outcome=Outcome.BYPASS,
            reason=reason,
            model=printable(model) if isinstance(model, str) else "",
        )

    async def store(self, lookup: Lookup, answer: Answer) -> None:
        """Store the answer when it may be; the lookup then says that it was, or why not."""
        if lookup.held_out and 200 <= answer.status < 300:
            lookup.answers = (*lookup.answers[:1], answer.body)
        if answer.store_reason:
            lookup.store_reason = answer.store_reason
            return
        try:
            await self._cache.store(
                lookup,
                body=answer.body,
                usage=answer.usage,
                upstream_ms=answer.upstream_ms,
                finish_reasons=answer.finish_reasons,
            )
        except Exception:  # noqa: BLE001 - the answer is already there; that it could not be kept is counted
            self._telemetry.fault("gateway", "store")
            lookup.store_reason = "cache_fault"

    def unhold(self, lookup: Lookup) -> bool:
        """Make a held-out lookup the hit that it would have been, since its upstream call failed; return whether it could be."""
        return self._cache.unhold(lookup)

    async def made_elsewhere(self, key: str, lookup: Lookup) -> Answer | None:
        """Return what another gateway's identical miss came to. None: this gateway asks the upstream itself, and others wait for it."""
        try:
            entry = await self._leases.lead(key, partial(self._cache.again, lookup), give_up_s=self._give_up_s)
            return None if entry is None else answer_of(entry)
        except Exception:  # noqa: BLE001 - a lease only saves an upstream call; its fault is counted
            self._telemetry.fault("gateway", "lease")
            return None

    def ended(self, key: str, *, done: bool | None) -> None:
        """Tell the other gateways: the answer is stored, nothing came of it, or (None) it was given up."""
        self._leases.end(key, done=done)

    def traceparent(self, lookup: Lookup, inbound: Inbound) -> str:
        """Return the traceparent for the upstream call; the client's own when there is none to give."""
        try:
            return self._telemetry.trace_context(lookup, parent=inbound.traceparent)
        except Exception:  # noqa: BLE001 - telemetry must never fail a request; it is counted
            self._telemetry.fault("gateway", "trace")
            return inbound.traceparent

    def record(self, lookup: Lookup, inbound: Inbound) -> None:
        """End the lookup's span and count it. The client has its answer: here two answers may be compared."""
        duration_ms = (time.perf_counter() - lookup.started_mono) * 1000
        try:
            if len(lookup.answers) == 2:
                lookup.agreement_ratio = agreement(*lookup.answers)
                lookup.answers = ()
            self._telemetry.record(lookup, parent_context=inbound.traceparent, duration_ms=duration_ms)
        except Exception:  # noqa: BLE001 - telemetry must never fail a request; it is counted
            self._telemetry.fault("gateway", "record")
