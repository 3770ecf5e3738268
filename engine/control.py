"""Acts on what is in force, through the shared store alone: so they work from any gateway, and while none runs.

Every act is a compare-and-set on one record, which is also the whole truth about it; other records (`purge:<id>`) are written
from it and can be written again. Doing an act twice with one operation id does it once.
"""

from __future__ import annotations

import asyncio
import hashlib
import heapq
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from engine.errors import Conflict, InvalidRequest, InvalidSetting
from engine.purges import MAX_ROUNDS, Purges, purges_of
from engine.records import (
    GATEWAY,
    GENERATIONS,
    KEY,
    POLICY,
    BadRecord,
    GatewayInfo,
    Purge,
    TenantKey,
    gateway_json,
    gateway_of,
    generations_or_none,
    key_json,
    key_of,
    made_by,
    policy_of,
    policy_or_off,
    policy_record,
)
from engine.tiers import wall_clock_ms
from engine.tiers.base import ControlDoc, StoreTier
from engine.types import EntryHead, Generations, Policy, ServingKey

SAMPLE = 10
_LOOKED_UP_AT_ONCE = 8  # entries, whose bodies are read with them
GATEWAY_LIVE_MS = 5_000
GATEWAY_FORGET_MS = 3_600_000
MAX_SCOPE_CHARS = 200


@dataclass(frozen=True, slots=True)
class NamespaceInfo:
    """A namespace as it is in force. undoable: purges that are neither undone nor reclaimed, newest first."""

    name: str
    policy: Policy
    generations: Generations
    undoable: list[Purge]


@dataclass(frozen=True, slots=True)
class Preview:
    """What a purge would hide now. value_usd: what the entries' upstream calls cost, None = no price is known for any of them."""

    namespace: str
    entries: int
    bytes: int
    tenants: dict[str, int]
    models: dict[str, int]
    oldest_ms: int | None
    newest_ms: int | None
    value_usd: float | None
    sample: list[EntryHead]
    live: list[str]


class Control(Purges):
    """The acts on one store.

    clock: Unix milliseconds. defaults: the policy of a namespace that has none. changed: awaited after each act, so that the
    gateway that did it sees it at once.
    """

    def __init__(
        self,
        store: StoreTier,
        *,
        clock: Callable[[], int] = wall_clock_ms,
        defaults: Policy = Policy(),  # noqa: B008 - frozen
        changed: Callable[[], Awaitable[object]] | None = None,
    ) -> None:
        super().__init__(store, clock=clock, changed=changed)
        self._defaults = defaults

    # What is there

    async def namespaces(self) -> list[NamespaceInfo]:
        """Return all namespaces that hold entries or have a record, sorted by name."""
        docs = await self._store.control_all()
        names = set(await self._store.namespaces())
        policies: dict[str, ControlDoc] = {}
        generations: dict[str, ControlDoc] = {}
        for doc in docs:
            if doc.key.startswith(POLICY):
                policies[doc.key.removeprefix(POLICY)] = doc
            elif doc.key.startswith(GENERATIONS):
                generations[doc.key.removeprefix(GENERATIONS)] = doc
        hidden = sorted((p for p in purges_of(docs) if p.state in {"hidden", "undoing"}), key=lambda p: (p.at_ms, p.id), reverse=True)
        return [
            NamespaceInfo(
                name=name,
                policy=policy_or_off(policies[name], self._defaults) if name in policies else self._defaults,
                generations=generations_or_none(generations[name]) if name in generations else Generations(),
                undoable=[purge for purge in hidden if purge.namespace == name],
            )
            for name in sorted(names | policies.keys() | generations.keys())
        ]

    async def stored(self, namespace: str, keys: Sequence[str]) -> list[str]:
        """Return those of the keys whose entry in this namespace may be served now, in their order."""
        live = (await self._generations(namespace))[0].live
        found: list[str] = []
        for start in range(0, len(keys), _LOOKED_UP_AT_ONCE):
            some = keys[start : start + _LOOKED_UP_AT_ONCE]
            entries = await asyncio.gather(*(self._store.get(ServingKey(key)) for key in some))
            found += [entry.key for entry in entries if entry is not None and entry.namespace == namespace and entry.generation in live]
        return found

    async def preview(self, namespace: str) -> Preview:
        """Return what a purge of this namespace would hide. Reads every entry's head."""
        live = (await self._generations(namespace))[0].live
        tenants: Counter[str] = Counter()
        models: Counter[str] = Counter()
        newest: list[tuple[int, str, EntryHead]] = []
        entries = size = 0
        oldest_ms: int | None = None
        costs: list[float] = []
        async for heads in self._scan(namespace):
            for head in heads:
                if head.generation not in live:
                    continue
                entries += 1
                size += head.size_bytes
                tenants[head.tenant] += 1
                models[head.model] += 1
                oldest_ms = head.created_ms if oldest_ms is None else min(oldest_ms, head.created_ms)
                if head.cost_usd is not None:
                    costs.append(head.cost_usd)
                heapq.heappush(newest, (head.created_ms, head.entry_id, head))
                if len(newest) > SAMPLE:
                    heapq.heappop(newest)
        sample = [head for _, _, head in sorted(newest, key=lambda item: item[:2], reverse=True)]
        return Preview(
            namespace=namespace,
            entries=entries,
            bytes=size,
            tenants=dict(tenants.most_common()),
            models=dict(models.most_common()),
            oldest_ms=oldest_ms,
            newest_ms=sample[0].created_ms if sample else None,
            value_usd=sum(costs) if costs else None,
            sample=sample,
            live=sorted(live),
        )

    async def count_visible(self, namespace: str) -> int:
        """Return how many entries of this namespace may be seen. Reads every entry's head."""
        live = (await self._generations(namespace))[0].live
        return await self._count(namespace, live) if live else 0

    # Policies

    async def set_policy(
        self, namespace: str, changes: Mapping[str, object], *, expected_version: int | None = None, operation_id: str = ""
    ) -> Policy:
        """Change fields of the namespace's policy; return the one now in force, its version grown by one.

        expected_version: the version that the change was made from (0 = the defaults); None = whatever is in force.
        Raises InvalidSetting, and Conflict when the version differs, unless this very operation made it so.
        """
        if not changes:
            raise InvalidSetting("a change of policy needs at least one field")
        key = f"{POLICY}{namespace}"
        for _ in range(MAX_ROUNDS):
            doc = await self._store.control_get(key)
            version = doc.version if doc else 0
            record = policy_record(doc, changes, operation_id=operation_id)  # what is no change is none the second time either
            if doc is not None and operation_id and made_by(doc) == operation_id:
                return policy_of(doc, self._defaults)
            if expected_version is not None and version != expected_version:
                raise Conflict(f"the policy of {namespace!r} is at version {version}, not {expected_version}: read it again")
            made = await self._store.control_put(key, record, expected=version)
            if made is not None:
                await self._tell()
                return policy_of(made, self._defaults)
        raise Conflict(f"the policy of {namespace!r} kept changing; try again")

    # Tenant keys

    async def key_create(
        self, tenant: str, *, namespaces: tuple[str, ...] = ("*",), model_versions: tuple[str, ...] = ("*",), scope: str = ""
    ) -> tuple[TenantKey, str]:
        """Return a new key and its token `csk_<id>_<secret>`, which is kept nowhere: it is shown once."""
        if not tenant or not namespaces or not model_versions:
            raise InvalidSetting("a key needs a tenant, and at least one namespace and model version (* = all)")
        if len(scope) > MAX_SCOPE_CHARS or any(ord(char) < 0x20 or 0x7F <= ord(char) <= 0x9F for char in scope):
            raise InvalidSetting(f"a key's scope has at most {MAX_SCOPE_CHARS} characters, none of them a control character")
        key_id, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
        # Without a salt: the secret has 256 random bits, too many to be guessed.
        digest = hashlib.sha256(secret.encode()).hexdigest()
        key = TenantKey(key_id, tenant, digest, tuple(namespaces), tuple(model_versions), self._clock(), scope=scope)
        if await self._store.control_put(f"{KEY}{key_id}", key_json(key), expected=0) is None:
            raise Conflict("the new key's id is taken; try again")
        await self._tell()
        return key, f"csk_{key_id}_{secret}"

    async def key_list(self) -> list[TenantKey]:
        """Return all keys, revoked ones too, oldest first."""
        return sorted((key_of(doc) for doc in await self._store.control_all(KEY)), key=lambda key: (key.created_ms, key.id))

    async def key_revoke(self, key_id: str) -> TenantKey:
        """Return the key, revoked from now on. Its record stays: without any key the gateway would ask for none."""
        for _ in range(MAX_ROUNDS):
            doc = await self._store.control_get(f"{KEY}{key_id}")
            if doc is None:
                raise InvalidRequest(f"there is no key {key_id!r}; list them first", status=404, code="unknown_key")
            key = key_of(doc)
            if key.revoked_ms is not None:
                return key
            revoked = replace(key, revoked_ms=self._clock())
            if await self._store.control_put(doc.key, key_json(revoked), expected=doc.version) is not None:
                await self._tell()
                return revoked
        raise Conflict(f"the key {key_id!r} kept changing; try again")

    # Gateways

    async def heartbeat(self, info: GatewayInfo) -> None:
        """Say that this gateway lives, and which control token it has applied. Does not change the control token."""
        await self._store.control_put(f"{GATEWAY}{info.id}", gateway_json(replace(info, last_ms=self._clock())))

    async def leave(self, gateway_id: str) -> None:
        await self._store.control_delete(f"{GATEWAY}{gateway_id}")

    async def gateways(self, *, max_age_ms: int = GATEWAY_LIVE_MS) -> list[GatewayInfo]:
        """Return the gateways that have beaten within max_age_ms, oldest first; records long dead are removed."""
        live, now_ms = [], self._clock()
        for doc in await self._store.control_all(GATEWAY):
            try:
                info = gateway_of(doc)
            except BadRecord:
                continue
            if now_ms - info.last_ms > GATEWAY_FORGET_MS:
                await self._store.control_delete(doc.key)
            elif now_ms - info.last_ms <= max_age_ms:
                live.append(info)
        return sorted(live, key=lambda info: (info.started_ms, info.id))
