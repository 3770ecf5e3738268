"""What an operator can ask of a cache engine, whichever it is. Results are frozen and say which way they were got."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from engine.types import Judging, Policy


class Via(StrEnum):
    """Which way was taken: the gateway's control API, or the shared store itself because no gateway answered."""

    GATEWAY = "gateway"
    STORE = "store"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What this engine can do; a page that asks for more says so instead of failing."""

    purge: bool = False
    undo: bool = False
    reclaim: bool = False
    policy: bool = False
    warm: bool = False
    keys: bool = False


@dataclass(frozen=True, slots=True)
class PurgeInfo:
    """A purge and what became of it. state: hidden | undoing | undone | reclaimed.

    entries: how many it hid; None = not counted.
    """

    id: str
    namespace: str
    at_ms: int
    state: str
    entries: int | None
    old_live: tuple[str, ...] = ()
    new: str = ""
    via: Via = Via.GATEWAY


@dataclass(frozen=True, slots=True)
class NamespaceInfo:
    """A namespace, its policy in force and the purges that can still be undone."""

    name: str
    policy: Policy
    live: tuple[str, ...]
    purges: tuple[PurgeInfo, ...] = ()
    via: Via = Via.GATEWAY


@dataclass(frozen=True, slots=True)
class SampleEntry:
    """One entry of a preview. prompt is a tenant's text: data, never markup."""

    entry_id: str
    tenant: str
    model: str
    created_ms: int
    expires_ms: int
    size_bytes: int
    cost_usd: float | None
    prompt: str


@dataclass(frozen=True, slots=True)
class Preview:
    """What a purge of this namespace would hide, counted by the engine now. value_usd: None = no entry's cost is known."""

    namespace: str
    entries: int
    bytes: int
    tenants: Mapping[str, int]
    models: Mapping[str, int]
    oldest_ms: int | None
    newest_ms: int | None
    value_usd: float | None
    sample: tuple[SampleEntry, ...]
    live: tuple[str, ...]
    via: Via = Via.GATEWAY


@dataclass(frozen=True, slots=True)
class Reclaimed:
    """One batch: entries deleted by it, and invisible ones that remain."""

    deleted: int
    remaining: int
    via: Via = Via.GATEWAY


@dataclass(frozen=True, slots=True)
class Visible:
    """Entries of a namespace that may be served now. control_token: of the store, at the count."""

    visible: int
    control_token: int
    via: Via = Via.GATEWAY


@dataclass(frozen=True, slots=True)
class WarmRequest:
    """A request to warm: whose it is, and its body. adapter, retrieval_version, scope: what else parts its key, '' = nothing does."""

    namespace: str
    tenant: str
    model_version: str
    body: Mapping[str, Any]
    timeout_s: float = 120.0
    adapter: str = ""
    retrieval_version: str = ""
    scope: str = ""


@dataclass(frozen=True, slots=True)
class WarmResult:
    """What became of one warm-up request. already: an entry was there. reason: why nothing was stored."""

    outcome: str
    stored: bool
    entry_id: str = ""
    reason: str = ""
    cost_usd: float | None = None

    @property
    def already(self) -> bool:
        return self.outcome in {"exact_hit", "semantic_hit", "partial_hit", "stale_hit", "coalesced"}


@dataclass(frozen=True, slots=True)
class GatewayInfo:
    """A gateway's heartbeat. current: it has applied the control token in force."""

    id: str
    url: str
    pid: int
    started_ms: int
    last_ms: int
    token: int
    current: bool
    via: Via = Via.GATEWAY


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """A tenant's key. secret is set once, by the call that made it."""

    id: str
    tenant: str
    namespaces: tuple[str, ...]
    model_versions: tuple[str, ...]
    created_ms: int
    revoked_ms: int | None
    scope: str = ""  # '' = none
    secret: str = field(default="", repr=False)
    via: Via = Via.GATEWAY


@dataclass(frozen=True, slots=True)
class EngineState:
    """What the engine says of itself. With via = store there is no gateway, and only the store is known."""

    gateway_id: str
    started_ms: int
    control_token: int
    control_age_ms: int | None
    store: Mapping[str, Any]
    embedder: Mapping[str, Any]
    upstream: Mapping[str, Any]
    keys: int
    counters: Mapping[str, Any]
    prompts_recorded: bool | None
    demo: bool | None
    via: Via = Via.GATEWAY
    judge: bool | None = None  # whether one is configured; None = not known

    def without_judge(self, judging: Judging) -> str:
        """Return what it means that this policy asks a judge and none is configured; '' where that is not so, or not known."""
        if judging is Judging.OFF or self.judge is not False:
            return ""
        then = "every semantic hit becomes a miss" if judging is Judging.ELSE_MISS else "hits serve by the rules alone"
        return f"no judge is configured (setting judge_url), so {then}"


class EngineAdapter(Protocol):
    """Synchronous. Raises EngineUnavailable, EngineRefused, EngineConflict (app.errors) and nothing of its transport's."""

    name: str
    capabilities: Capabilities

    def state(self) -> EngineState: ...
    def namespaces(self) -> Sequence[NamespaceInfo]: ...
    def gateways(self) -> Sequence[GatewayInfo]: ...
    def preview(self, namespace: str) -> Preview: ...
    def visible(self, namespace: str) -> Visible: ...

    def stored(self, namespace: str, keys: Sequence[str]) -> frozenset[str]:
        """Return those of the lookups' keys, at most 1,000, that have an entry which may be served now."""

    def purge(self, namespace: str, operation_id: str) -> PurgeInfo:
        """Hide all entries of the namespace. The same operation_id twice is one purge."""

    def undo(self, purge_id: str, operation_id: str) -> PurgeInfo:
        """Make them visible again. Raises EngineConflict when they are being reclaimed."""

    def reclaim(self, purge_id: str, batch: int = 500) -> Reclaimed:
        """Delete up to `batch` invisible entries; after the first call the purge cannot be undone."""

    def set_policy(self, namespace: str, changes: Mapping[str, Any], expected_version: int, operation_id: str) -> Policy:
        """Change these fields of the policy, if its version is the expected one; return what is in force now."""

    def warm(self, request: WarmRequest, operation_id: str) -> WarmResult:
        """Make this request as that tenant, for the cache's sake. Needs a gateway."""

    def key_list(self) -> Sequence[KeyInfo]: ...
    def key_create(
        self, tenant: str, namespaces: Sequence[str] = ("*",), model_versions: Sequence[str] = ("*",), scope: str = ""
    ) -> KeyInfo: ...
    def key_revoke(self, key_id: str) -> KeyInfo: ...
