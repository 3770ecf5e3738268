"""A request as the cache is asked, and one lookup as it goes on."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from engine.judge import Opinion
from engine.keys import Canonical
from engine.types import Candidate, Entry, GroupFingerprint, Namespace, Other, Outcome, Purpose, ServingKey, Step, Usage

T = TypeVar("T")

NO_USAGE = Usage()
NO_KEY, NO_GROUP = ServingKey(""), GroupFingerprint()


# What parts keys under names of our own, beside headers of the request.
ADAPTER, RETRIEVAL_VERSION, SCOPE = b"cachescope-adapter", b"cachescope-retrieval-version", b"cachescope-scope"


class Known:
    """A request's body that is kept, since the same bytes mostly come again. Nothing may change it.

    oddity: why its bytes must not be looked up. forms: its canonical forms. told: what telemetry writes of it. Each of the two by all
    that it depends on beside the body; FORMS of each at most.
    """

    __slots__ = ("body", "forms", "oddity", "told")

    FORMS = 4

    def __init__(self, body: dict[str, Any], oddity: str = "") -> None:
        self.body = body
        self.oddity = oddity
        self.forms: dict[tuple[object, ...], Canonical] = {}
        self.told: dict[tuple[object, ...], bytes] = {}

    def keep(self, among: dict[tuple[object, ...], T], by: tuple[object, ...], made: T) -> None:
        """Keep what was made in `forms` or `told`, in place of all the others when there are too many."""
        if len(among) >= self.FORMS:
            among.clear()
        among[by] = made


class CacheRequest(NamedTuple):
    """A chat request as the gateway hands it over.

    body: the parsed JSON object of POST /v1/chat/completions. no_store: do not keep the answer. refresh: do not serve one.
    bypass: why it must not be looked up whatever the body says, '' = nothing speaks against it.
    keyed: what goes upstream beside the body and may change the answer, by name, lower-case; then adapter, retrieval version, scope.
    known: of this very body, None = it is not kept.
    """

    body: Mapping[str, Any]
    namespace: str
    tenant: str
    model_version: str = ""
    purpose: Purpose = Purpose.TRAFFIC
    no_store: bool = False
    refresh: bool = False
    client: str = ""
    keyed: tuple[tuple[bytes, bytes], ...] = ()
    bypass: str = ""
    known: Known | None = None


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
    key: ServingKey = NO_KEY
    partition: str = ""
    fingerprint: GroupFingerprint = NO_GROUP
    normaliser: str = ""  # the namespace's normaliser with its version, '' = none
    normalised: bool = False  # whether the key is of a normal form
    prompt: str = ""  # the last user turn
    prompt_hash: str = ""
    simhash: str = ""
    vector: bytes = b""
    parse: str = ""
    embedder: str = ""  # the embedder in use, '' = none
    entry: Entry | None = None  # what serves
    candidate: Candidate | None = None
    candidates: int | None = None
    others: tuple[Other, ...] = ()  # beside `candidate`, nearest first
    judged: Opinion | None = None
    threshold: float | None = None
    semantic_skipped: str = ""
    holdout_propensity: float = 1.0
    held_out: bool = False
    held: tuple[Outcome, Entry, str] | None = None  # of a held-out lookup: what would have served, from which tier
    answers: tuple[bytes, ...] = ()  # of a held-out lookup: what would have served, and what the upstream said instead
    agreement_ratio: float | None = None  # of the two, 0..1
    stored: bool = False
    store_reason: str = ""  # why it was not stored
    stored_entry_id: str = ""
    steps: list[Step] = field(default_factory=list)
    lookup_ms: float = 0.0
    upstream_ms: float | None = None
    usage: Usage = NO_USAGE
    streamed: bool = False
    status: int = 200
    error_type: str = ""
    finish_reasons: tuple[str, ...] = ()
    response_model: str = ""
    storable: bool = False  # may the answer be stored at all (a bypass may not)
    at_ms: int = 0  # the cache's clock at the start: ages and expiries are counted against it
    trace_id: int = 0  # set by telemetry, before the upstream call at the latest
    span_id: int = 0
    recorded: bool = False

    @property
    def hit(self) -> bool:
        return self.entry is not None

    def step(self, name: str, started: float) -> float:
        """Add a step that began at `started` (perf_counter) and ends now; return now."""
        now = time.perf_counter()
        self.steps.append(Step(name, int((started - self.started_mono) * 1e6), int((now - started) * 1e6)))
        return now
