"""The contract of a tier. One conformance suite (`tests/conformance`) runs against every one of them.

A miss is None. A tier that cannot answer raises `engine.errors.TierUnavailable` (retryable) and never invents an answer.
Visibility (generation, expiry) is the orchestrator's to judge, except that an expired entry may be dropped at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from engine.types import Entry, EntryHead, LeaseState, RemovalCause, ServingKey, VectorRow

if TYPE_CHECKING:  # an operator's act on the store needs no vectors, and numpy takes a tenth of a second
    import numpy as np
    from numpy.typing import NDArray

Removed = Callable[[RemovalCause, int], None]
"""Called with a cause and how many entries left the store for it, as far as the store itself removed them."""


def untold(cause: RemovalCause, count: int) -> None:
    """A `Removed` for who does not ask."""


class Tier(Protocol):
    """Entries by exact key."""

    name: str

    async def get(self, key: ServingKey) -> Entry | None:
        """Return the entry of this key, or None. Never an expired one."""

    async def put(self, entry: Entry) -> None:
        """Store an entry, replacing the one of the same key. Visible to `get` at once when it returns."""

    async def delete(self, keys: Iterable[str]) -> int:
        """Remove these keys; return how many were there."""

    async def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ControlDoc:
    """One versioned control record: `policy:<namespace>`, `generations:<namespace>`, `purge:<id>`, `key:<id>`, `gateway:<id>`."""

    key: str
    value: str  # JSON
    version: int  # grows by one with each write of this key, from 1


class StoreTier(Tier, Protocol):
    """The shared store (SQLite or Redis): entries, the vectors to catch up with, and the control records in force."""

    async def delete_entries(self, entries: Mapping[str, str]) -> int:
        """Remove the entries given as key -> entry_id; return how many were there.

        A key that was stored anew since, and so has another id, stays. Each key is compared and removed in one atomic step.
        """

    async def vectors_since(self, partition: str, cursor: int, limit: int) -> tuple[list[VectorRow], int]:
        """Return vectors of this partition stored after `cursor` (0 = all), oldest first, and the new cursor.

        A key stored again appears again, after its older row. Cursors grow and are never reused.
        """

    async def scan(self, namespace: str, cursor: str, limit: int, *, expired: bool = False) -> tuple[list[EntryHead], str]:
        """Return up to about `limit` unexpired entries of exactly this namespace (never a glob) and the next cursor, '' = end.

        Each entry present for the whole scan is seen at least once. expired: those too that expired and are still kept; a store
        whose server removes them by itself has none.
        """

    async def namespaces(self) -> list[str]:
        """Return all namespaces that hold entries or ever had a policy, sorted."""

    async def control_token(self) -> int:
        """Return a number that changes whenever any control record but a `gateway:` heartbeat changes. Cheap: polled often."""

    async def control_all(self, prefix: str = "") -> list[ControlDoc]:
        """Return every control record whose key starts with this exact prefix."""

    async def control_get(self, key: str) -> ControlDoc | None:
        """Return the control record of exactly this key."""

    async def control_changed(self, timeout_s: float) -> None:
        """Return when a control record may have changed, and after timeout_s at the latest. Raises nothing.

        A store that is told of changes returns early; the caller asks for the token behind it in any case.
        """

    async def control_put(self, key: str, value: str, *, expected: int | None = None) -> ControlDoc | None:
        """Write a control record. With `expected` (0 = must not exist), do it only if that is its version; else return None."""

    async def control_delete(self, key: str) -> bool: ...

    async def lease(self, key: str, owner: str, ttl_ms: int) -> LeaseState:
        """Take this lease for ttl_ms, or renew it if it is the owner's: then MINE. Else say what it is: HELD, DONE or VOID."""

    async def lease_end(self, key: str, owner: str, state: LeaseState, ttl_ms: int) -> None:
        """End the owner's lease: remove it (FREE), or leave DONE or VOID in its place for ttl_ms. Another's lease stays."""

    async def ping(self) -> None:
        """Return when the store answers; raise `TierUnavailable` when it does not."""


class Neighbour(NamedTuple):
    """A stored vector near the one asked for. similarity: cosine, -1..1."""

    key: ServingKey
    entry_id: str
    generation: str
    similarity: float


class VectorTier(Protocol):
    """Nearest neighbours inside one partition; follows the store, so that gateways converge."""

    async def search(
        self, partition: str, vector: NDArray[np.float32], *, k: int, live: frozenset[str], floor: float = -1.0
    ) -> list[Neighbour]:
        """Return up to k unexpired neighbours whose generation is in `live` and whose similarity is at least `floor`, nearest first.

        Raises TierUnavailable.
        """

    def written(self, partition: str) -> None:
        """Say that a vector of this partition was just stored from here: the next search finds it."""

    def gone(self, partition: str, neighbours: Iterable[Neighbour]) -> None:
        """Say that the store has no entry of these neighbours any more: none of them is found again."""

    def forget(self, partition: str) -> None:
        """Drop what is held of a partition; the next search rebuilds it from the store."""

    async def close(self) -> None: ...
