"""The values that pass between the parts of the engine. All frozen; a miss is a value, failures raise."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, NewType

ServingKey = NewType("ServingKey", str)
"""The key of a canonical request, 64 hex digits: the only text that may fetch an answer."""


class Outcome(StrEnum):
    """What became of a lookup. Only the first six are in a hit rate's denominator."""

    EXACT_HIT = "exact_hit"
    SEMANTIC_HIT = "semantic_hit"
    PARTIAL_HIT = "partial_hit"
    STALE_HIT = "stale_hit"
    COALESCED = "coalesced"  # waited for another's identical miss: no hit, but in the denominator
    MISS = "miss"
    BYPASS = "bypass"  # never looked up, or not allowed to: see Lookup.reason
    ERROR = "error"  # the upstream failed, or the client left


TOO_MANY_NAMESPACES = "too_many_namespaces"
"""The reason of a bypass: as many namespaces as are allowed have a record, and this one has none."""

HITS = frozenset({Outcome.EXACT_HIT, Outcome.SEMANTIC_HIT, Outcome.PARTIAL_HIT, Outcome.STALE_HIT})
ELIGIBLE = HITS | {Outcome.COALESCED, Outcome.MISS}


class Purpose(StrEnum):
    """Why a lookup was made. Only traffic counts in a hit rate."""

    TRAFFIC = "traffic"
    WARMUP = "warmup"
    PROBE = "probe"


class Switch(StrEnum):
    """The first lever at night: what a namespace may serve."""

    ON = "on"
    EXACT_ONLY = "exact-only"
    OFF = "off"


class VerifyMode(StrEnum):
    SAFE = "safe"
    HARD = "hard"
    STRICT = "strict"


class Normaliser(StrEnum):
    """Which spellings of a request share a key in a namespace (`engine.normalise`)."""

    NONE = "none"
    WHITESPACE = "whitespace"
    TEMPLATE = "template"
    SQL = "sql"
    PYTHON = "python"


@dataclass(frozen=True, slots=True)
class GroupFingerprint:
    """A group of requests that are alike with literals left out, 16 hex digits: for analysis only.

    No text on purpose: it cannot be taken for a key.
    """

    hex: str = ""


class Judging(StrEnum):
    """Whether a judge is asked before a semantic hit, and what happens where it gives no word."""

    OFF = "off"
    ELSE_MISS = "else-miss"
    ELSE_SERVE = "else-serve"  # as the rules alone would have it


class RemovalCause(StrEnum):
    """Why an entry left a tier."""

    EXPIRED = "expired"
    EXPLICIT = "explicit"
    REPLACED = "replaced"
    SIZE = "size"


class LeaseState(StrEnum):
    """What became of asking for a lease, and what an ended one says to those who come late."""

    MINE = "mine"
    HELD = "held"  # by another
    DONE = "done"  # ended: what it was for is in the store
    VOID = "void"  # ended: nothing came of it, each asks for itself
    FREE = "free"  # given up


@dataclass(frozen=True, slots=True)
class Score:
    """A logistic regression over `engine.verify.score`'s features, fitted from a namespace's labels.

    version: of the namespace's fits, counted from 1. features: the version of the features. cut: the probability in 0..1 from which
    a candidate may serve.
    """

    version: int
    features: int
    weights: tuple[float, ...]
    bias: float
    cut: float


@dataclass(frozen=True, slots=True)
class Policy:
    """What a namespace serves. `version` grows by one with each change, and stands on every lookup's span.

    threshold: cosine in [-1, 1]; a candidate may serve when its similarity >= threshold. None = the embedder's default.
    ttl_s: seconds > 0 from the store; the entry's own expiry is jittered once, at the store.
    holdout_ratio: share of would-be hits sent upstream at random, 0..1. None = the installation's; 0 = none, whatever it is.
    normaliser: part of every key: entries made under one are not seen under another, and are there again with it.
    score: weighs what the rules let through; None = the rules alone decide. judge: asked last.
    """

    version: int = 0
    switch: Switch = Switch.ON
    threshold: float | None = None
    ttl_s: float = 86_400.0
    verify_mode: VerifyMode = VerifyMode.HARD
    holdout_ratio: float | None = None
    normaliser: Normaliser = Normaliser.NONE
    score: Score | None = None
    judge: Judging = Judging.OFF


@dataclass(frozen=True, slots=True)
class Generations:
    """Which entries of a namespace may be seen: those whose generation is in `live`. New ones are written with `write`.

    A token is never repeated (milliseconds + 64 random bits). An empty `live` (a lost record) sees nothing.
    A purge sets live = {new}; its undo adds the old tokens back, so that entries stored in between stay visible too.
    """

    write: str = ""
    live: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and money of one upstream answer. None = not reported; absent is not 0."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int | None = None  # the provider's own prompt cache; included in input_tokens
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One stored answer.

    entry_id: 32 hex digits, new with each store. key: 64 hex digits, HMAC-SHA-256 of the canonical request.
    partition: 32 hex digits, HMAC of all that must be equal before two prompts may be compared.
    vector: float32 little-endian bytes, L2-normalised, or empty when the entry is exact-only; `embedder` names its space.
    body: the upstream's complete non-streamed JSON answer, bytes.
    prompt: the last user turn's text (what a verifier compares), parse: its verifier parse as JSON.
    simhash: of the vector, as far as it was asked for; no tier stores it. A copy in memory has it in place of the vector.
    """

    entry_id: str
    key: str
    partition: str
    namespace: str
    tenant: str
    model: str
    model_version: str
    generation: str
    created_ms: int
    expires_ms: int
    body: bytes
    prompt: str = ""
    parse: str = ""
    vector: bytes = b""
    embedder: str = ""
    usage: Usage = Usage()
    upstream_ms: float = 0.0
    simhash: str = ""

    @property
    def comparable(self) -> bool:
        """Whether it has a vector, or is the copy of one that has."""
        return bool(self.vector or self.simhash)

    @property
    def size_bytes(self) -> int:
        """Approximate bytes that the entry occupies: body, prompt, parse, vector and a constant for the rest."""
        return len(self.body) + len(self.prompt.encode("utf-8", "surrogatepass")) + len(self.parse) + len(self.vector) + 512


@dataclass(frozen=True, slots=True)
class EntryHead:
    """An entry without its body: what scans, previews and reclaiming need."""

    entry_id: str
    key: str
    partition: str
    namespace: str
    tenant: str
    model: str
    generation: str
    created_ms: int
    expires_ms: int
    size_bytes: int
    cost_usd: float | None
    prompt: str


@dataclass(frozen=True, slots=True)
class VectorRow:
    """A stored vector as the vector tier catches up with its partition."""

    key: str
    entry_id: str
    generation: str
    expires_ms: int
    embedder: str
    vector: bytes


@dataclass(frozen=True, slots=True)
class Verdict:
    """One rule's word on a candidate. veto = the candidate must not serve. detail: the tokens compared, nothing more."""

    rule: str
    veto: bool
    detail: str = ""


class Candidate(NamedTuple):
    """The nearest entry that the semantic lookup considered: the most similar one that passed, else the most similar.

    score: the probability that the policy's score gave it, None = none was asked for, or a rule vetoed it before.
    """

    entry_id: str
    key: str
    similarity: float
    passed: bool
    verdicts: tuple[Verdict, ...] = ()
    prompt: str = ""
    score: float | None = None


class Other(NamedTuple):
    """A candidate beside the one that is named. vetoed_by: the first rule that did, '' = it was not looked at."""

    entry_id: str
    similarity: float
    vetoed_by: str = ""


class Step(NamedTuple):
    """One timed step of a lookup: offset and duration in microseconds from the lookup's start."""

    name: str
    start_us: int
    duration_us: int


@dataclass(frozen=True, slots=True)
class Namespace:
    """A namespace's policy and generations as a gateway sees them now."""

    name: str
    policy: Policy = field(default_factory=Policy)
    generations: Generations = field(default_factory=Generations)
