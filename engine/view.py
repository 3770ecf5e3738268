"""A gateway's view of the control records: policies, generations, keys. It follows the store, or says that it cannot."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType

from engine.errors import EngineError
from engine.records import (
    BadRecord,
    GatewayInfo,
    Purge,
    TenantKey,
    gateway_of,
    generations_of,
    key_of,
    policy_of,
    policy_or_off,
    purge_of,
    unpurged_of,
    value_of,
)
from engine.tiers.base import ControlDoc, StoreTier
from engine.types import Namespace, Policy

Faults = Callable[[str, str], None]
"""Called with (tier, operation) for each fault that was answered without."""


class ControlView:
    """Polls the store's control token, and reads all records when it changed.

    A namespace without a policy has the defaults; one without a generations record sees nothing, so that a lost record serves
    nothing old.
    hidden: called with the generations that were visible and are so no more.
    The age counts from the start of the last successful read: what was written after that may not be known here.
    """

    def __init__(
        self,
        store: StoreTier,
        *,
        poll_s: float,
        max_age_s: float,
        defaults: Policy,
        faults: Faults,
        monotonic: Callable[[], float] = time.monotonic,
        hidden: Callable[[frozenset[str]], object] | None = None,
    ) -> None:
        self._hidden = hidden
        self._store = store
        self._poll_s = poll_s
        self._max_age_s = max_age_s
        self._defaults = defaults
        self._faults = faults
        self._monotonic = monotonic
        self._read_at: float | None = None
        self._tried_at = 0.0  # the end of the last attempt
        self._token: int | None = None
        self._records = _Records(defaults)
        self._keyed = False
        self._reading = asyncio.Lock()
        self._task: asyncio.Task[None] | None = None
        self._closing = False

    # What is known

    @property
    def loaded(self) -> bool:
        """All records have been read at least once."""
        return self._token is not None

    @property
    def token(self) -> int:
        """The control token whose records are applied; 0 before the first read."""
        return self._token or 0

    @property
    def age_s(self) -> float:
        """Seconds since the start of the last successful read; infinite before it."""
        return float("inf") if self._read_at is None else self._monotonic() - self._read_at

    def usable(self) -> bool:
        """Return whether the view is young enough to serve and to store by it."""
        return self.age_s <= self._max_age_s

    async def current(self) -> bool:
        """Return whether the view is usable; when its poll is overdue (the event loop was busy for long), ask the store now.

        Not when the store fails to answer: then polls are not overdue but fail, and no request waits for them.
        """
        if self.usable():
            return True
        overdue = self._monotonic() - self._tried_at > 2 * self._poll_s
        return overdue and not self._reading.locked() and await self.poll() and self.usable()

    def space(self, namespace: str) -> Namespace:
        """Return the namespace's policy and generations as they are known here."""
        return self._records.space(namespace)

    def unpurged(self, namespace: str) -> str:
        """Return the generation that a store began and no purge has touched since, '' = there is none."""
        return self._records.unpurged.get(namespace, "")

    @property
    def spaces(self) -> Mapping[str, Namespace]:
        return MappingProxyType(self._records.spaces)

    @property
    def keys(self) -> Mapping[str, TenantKey]:
        """All tenant keys by id, the revoked ones too."""
        return MappingProxyType(self._records.keys)

    @property
    def keyed(self) -> bool:
        """A tenant key was on record once, also one that could not be read: a store that lost it must not open the gateway."""
        return self._keyed

    @property
    def purges(self) -> Mapping[str, Purge]:
        return MappingProxyType(self._records.purges)

    @property
    def gateways(self) -> Mapping[str, GatewayInfo]:
        """The heartbeats as of the last full read; `Control.gateways` reads them anew."""
        return MappingProxyType(self._records.gateways)

    # Following the store

    async def start(self) -> None:
        """Read once (a store that does not answer is no error here) and go on in the background."""
        await self.poll()
        if self._task is None:
            self._task = asyncio.create_task(self._follow(), name="cachescope-control-view")

    async def close(self) -> None:
        self._closing = True  # a client library may swallow the cancellation in the middle of a read
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def poll(self) -> bool:
        """Ask for the token, read all records when it changed; return whether the store answered."""
        return await self._read(always=False)

    async def refresh(self) -> bool:
        """Read all records now, after an act of our own; return whether the store answered."""
        return await self._read(always=True)

    async def _follow(self) -> None:
        while not self._closing:
            try:
                await self._store.control_changed(self._poll_s)
                await self.poll()
            except Exception:  # noqa: BLE001 - the loop that decides whether anything may be served must outlive whatever fails in it
                self._faults("control", "follow")

    async def _read(self, *, always: bool) -> bool:
        async with self._reading:
            started = self._monotonic()
            try:
                # A store that hangs must not hold the lock: the next poll may find it well.
                async with asyncio.timeout(max(self._max_age_s, 1.0)):
                    # The token first: a change between the two reads then shows as a changed token at the next poll.
                    token = await self._store.control_token()
                    if always or token != self._token:
                        self._apply(await self._store.control_all())
                        self._token = token
            except (EngineError, TimeoutError):
                self._faults("control", "read")
                return False
            finally:
                self._tried_at = self._monotonic()
            self._read_at = started
            return True

    def _apply(self, docs: list[ControlDoc]) -> None:
        records = _Records(self._defaults)
        for doc in docs:
            try:
                records.add(doc)
            except BadRecord:
                self._faults("control", "decode")
                records.distrust(doc)
        before, self._records = self._records, records
        live = (space.generations.live - records.space(name).generations.live for name, space in before.spaces.items())
        dead = frozenset[str]().union(*live)
        if dead and self._hidden is not None:
            self._hidden(dead)
        self._keyed = self._keyed or any(doc.key.startswith("key:") for doc in docs)


class _Records:
    """All control records at one moment, replaced as a whole."""

    def __init__(self, defaults: Policy) -> None:
        self._defaults = defaults
        self.spaces: dict[str, Namespace] = {}
        self.unpurged: dict[str, str] = {}
        self.purges: dict[str, Purge] = {}
        self.keys: dict[str, TenantKey] = {}
        self.gateways: dict[str, GatewayInfo] = {}

    def space(self, namespace: str) -> Namespace:
        return self.spaces.get(namespace) or Namespace(namespace, self._defaults)

    def add(self, doc: ControlDoc) -> None:
        """Raises BadRecord."""
        kind, _, name = doc.key.partition(":")
        if kind == "policy":
            self.spaces[name] = replace(self.space(name), policy=policy_of(doc, self._defaults))
        elif kind == "generations":
            self.spaces[name] = replace(self.space(name), generations=generations_of(doc))
            self.unpurged[name] = unpurged_of(doc)
        elif kind == "purge":
            self.purges[name] = purge_of(name, value_of(doc))
        elif kind == "key":
            self.keys[name] = key_of(doc)
        elif kind == "gateway":
            self.gateways[name] = gateway_of(doc)

    def distrust(self, doc: ControlDoc) -> None:
        """Err on the side of serving nothing. Without a generations record nothing is seen."""
        kind, _, name = doc.key.partition(":")
        if kind == "policy":
            self.spaces[name] = replace(self.space(name), policy=policy_or_off(doc, self._defaults))
