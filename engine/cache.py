"""Exact, then semantic, then miss: the one orchestrator. A fault of a tier is a counted miss, never a failed request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from engine.types import Candidate, Entry, Namespace, Outcome, Purpose, Step, Usage


@dataclass(frozen=True, slots=True)
class CacheRequest:
    """A chat request as the gateway hands it over.

    body: the parsed JSON object of POST /v1/chat/completions. no_store: do not keep the answer. refresh: do not serve one.
    """

    body: Mapping[str, Any]
    namespace: str
    tenant: str
    model_version: str = ""
    purpose: Purpose = Purpose.TRAFFIC
    no_store: bool = False
    refresh: bool = False
    client: str = ""


@dataclass(slots=True)
class Lookup:
    """One lookup as it goes on; the gateway completes it and hands it to telemetry. Every field stands on the span."""

    request: CacheRequest
    started_ns: int  # wall clock, unix ns
    started_mono: float  # time.perf_counter() at the start; steps and durations are measured from here
    space: Namespace  # the policy and generations in force when it began
    outcome: Outcome = Outcome.MISS
    reason: str = ""
    tier: str = ""
    model: str = ""
    key: str = ""
    partition: str = ""
    fingerprint: str = ""
    prompt: str = ""  # the last user turn
    prompt_hash: str = ""
    simhash: str = ""
    vector: bytes = b""
    parse: str = ""
    entry: Entry | None = None  # what serves
    candidate: Candidate | None = None
    candidates: int | None = None
    threshold: float | None = None
    semantic_skipped: str = ""
    holdout_propensity: float = 1.0
    held_out: bool = False
    stored: bool = False
    store_reason: str = ""  # why it was not stored
    stored_entry_id: str = ""
    steps: list[Step] = field(default_factory=list)
    lookup_ms: float = 0.0
    upstream_ms: float | None = None
    usage: Usage = Usage()
    streamed: bool = False
    status: int = 200
    error_type: str = ""
    finish_reasons: tuple[str, ...] = ()
    response_model: str = ""
    storable: bool = False  # may the answer be stored at all (a bypass may not)

    @property
    def hit(self) -> bool:
        return self.entry is not None


# The class that does it, as the gateway uses it (constructor keyword-only: settings, store, memory, vector, embedder, faults, clock, rng):
#   await cache.start(); await cache.close()
#   lookup = await cache.lookup(request)            never raises for a cache fault; raises InvalidRequest for a malformed body
#   stored = await cache.store(lookup, body=bytes, usage=Usage, upstream_ms=float, finish_reasons=…)   -> bool; never raises for a cache fault
#   cache.control: engine.control.Control           cache.view: engine.view.ControlView (space(namespace), age_s, token, refresh())
#   cache.flights: engine.singleflight.SingleFlight
