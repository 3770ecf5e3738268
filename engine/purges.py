"""Hide, bring back, reclaim: what a purge does to a namespace's generations. `engine.control.Control` is the whole of the acts.

The generations record is the truth about a purge. It carries the last purge in full, so that a crash after its write loses
nothing.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace

from engine.errors import Conflict, InvalidRequest, TierUnavailable
from engine.records import (
    GENERATIONS,
    PURGE,
    BadRecord,
    Purge,
    generations_json,
    generations_or_none,
    last_purge_of,
    purge_json,
    purge_of,
    value_of,
)
from engine.tiers.base import ControlDoc, StoreTier
from engine.types import EntryHead, Generations

SCAN_BATCH = 500
# Under contention each round one writer wins; so many rounds lost in a row mean that something else is wrong.
MAX_ROUNDS = 50
MAX_RECLAIMING = 64
# Records of purges that are done with are kept for so long, so that a late repetition of the act is recognised.
PURGE_KEPT_MS = 7 * 86_400_000


def new_generation(now_ms: int) -> str:
    """Return a token that never repeats: milliseconds, so that they sort by time, and 64 random bits."""
    return f"{now_ms:013x}-{secrets.randbits(64):016x}"


@dataclass(slots=True)
class _Reclaiming:
    """Where the reclaiming of a purge stands: in this process only; another starts at the beginning, which costs a scan."""

    cursor: str = ""
    deleted: int = 0
    found_in_pass: int = 0


class Purges:
    """clock: Unix milliseconds. changed: awaited after each act, so that the gateway that did it sees it at once."""

    def __init__(self, store: StoreTier, *, clock: Callable[[], int], changed: Callable[[], Awaitable[object]] | None) -> None:
        self._store = store
        self._clock = clock
        self._changed = changed
        self._reclaiming: OrderedDict[str, _Reclaiming] = OrderedDict()

    async def purge(self, namespace: str, *, operation_id: str) -> Purge:
        """Hide every entry of the namespace, those in flight too; return the purge, whose id is the operation's.

        One small write at any size; the entries are counted afterwards. Undo until it is reclaimed.
        """
        if not operation_id:
            raise InvalidRequest("a purge needs an operation id")
        for _ in range(MAX_ROUNDS):
            known = await self._purge(operation_id)
            if known is not None:
                return _of_this(known, namespace)
            current, doc = await self._generations(namespace)
            last = _last(doc)
            if last is not None and self._is_kept(last):
                # The record of the purge before this one is missing if its writer died in between. It must exist before it is
                # overwritten here, or that purge could be neither undone nor recognised as done.
                await self._store.control_put(f"{PURGE}{last.id}", purge_json(last), expected=0)
                if last.id == operation_id:
                    continue
            elif last is not None and last.id == operation_id:
                # Its record is forgotten, so it was undone, which the generations say, or else reclaimed.
                return last if last.state == "undone" else replace(last, state="reclaimed")
            now_ms = self._clock()
            token = new_generation(now_ms)
            purge = Purge(operation_id, namespace, tuple(sorted(current.live)), token, now_ms)
            record = generations_json(Generations(token, frozenset({token})), last=purge)
            made = await self._store.control_put(f"{GENERATIONS}{namespace}", record, expected=doc.version if doc else 0)
            if made is None:
                continue
            if await self._store.control_put(f"{PURGE}{operation_id}", purge_json(purge), expected=0) is None:
                # Written meanwhile: by a later purge of this namespace, from its generations, or by one of another namespace under the
                # same id, which it then belongs to. What this one hid could not be undone, so it is brought back.
                known = await self._purge(operation_id)
                if known is not None and known.namespace != namespace:
                    await self._restore(purge)
                    await self._tell()
                    _of_this(known, namespace)
            await self._tell()
            return await self._counted(purge)
        raise Conflict(f"the generations of {namespace!r} kept changing; try again")

    async def undo(self, purge_id: str) -> Purge:
        """Make visible again what the purge hid; what was stored since stays visible. Raises Conflict when it was reclaimed."""
        for _ in range(MAX_ROUNDS):
            purge, version = await self._known_purge(purge_id)
            if purge.state == "undone":
                return purge
            if purge.state == "reclaimed":
                raise Conflict(f"the purge {purge_id!r} was reclaimed: its entries are being deleted, or are gone")
            # The purge's record first, so that no reclaiming can begin; whoever finds `undoing` completes it.
            if purge.state == "hidden":
                marked = replace(purge, state="undoing")
                if await self._store.control_put(f"{PURGE}{purge_id}", purge_json(marked), expected=version) is None:
                    continue
                purge, version = marked, version + 1
            await self._restore(purge)
            done = replace(purge, state="undone")
            await self._store.control_put(f"{PURGE}{purge_id}", purge_json(done), expected=version)
            await self._tell()
            return done
        raise Conflict(f"the purge {purge_id!r} kept changing; try again")

    async def _restore(self, purge: Purge) -> None:
        for _ in range(MAX_ROUNDS):
            current, doc = await self._generations(purge.namespace)
            live = current.live | set(purge.old_live)
            last = _last(doc)
            if last is not None and last.id == purge.id:
                last = replace(last, state="undone")
            if doc is not None and live == current.live and last == _last(doc):
                return
            # After a lost record nobody knows whether another purge hid what was stored since this one: it stays hidden.
            write = current.write or new_generation(self._clock())
            restored = generations_json(Generations(write, live | {write}), last=last)
            key = f"{GENERATIONS}{purge.namespace}"
            if await self._store.control_put(key, restored, expected=doc.version if doc else 0) is not None:
                return
        raise Conflict(f"the generations of {purge.namespace!r} kept changing; try again")

    async def reclaim(self, purge_id: str, *, batch: int = SCAN_BATCH) -> tuple[int, int]:
        """Delete up to `batch` entries that nobody can see any more; return (deleted, remaining).

        remaining is 0 only when a whole scan found nothing left; before, it is an estimate of at least 1. Call it until 0.
        Entries that an undo of another purge could bring back are kept, and so is what was stored anew under the key of one that
        is deleted. Raises Conflict when the purge was undone.
        """
        purge = await self._mark_reclaimed(purge_id)
        state = self._reclaiming.setdefault(purge_id, _Reclaiming())
        self._reclaiming.move_to_end(purge_id)
        while len(self._reclaiming) > MAX_RECLAIMING:
            self._reclaiming.popitem(last=False)
        deleted = scanned = 0
        # A call reads a bounded number of heads, so that a large namespace with little to delete does not hold its caller either.
        while deleted < batch and scanned < 20 * batch:
            heads, cursor = await self._store.scan(purge.namespace, state.cursor, min(batch, SCAN_BATCH), expired=True)
            # Read after the scan: a generation is recorded before an entry is stored under it, so none found above is newer.
            kept = await self._kept(purge.namespace)
            doomed = [head for head in heads if head.generation not in kept][: batch - deleted]
            scanned += max(1, len(heads))
            gone = await self._store.delete_entries({head.key: head.entry_id for head in doomed}) if doomed else 0
            deleted += gone
            state.found_in_pass += len(doomed)
            cut = len(doomed) < sum(head.generation not in kept for head in heads)
            state.cursor = state.cursor if cut else cursor
            if not cut and not cursor:
                clean, state.found_in_pass = state.found_in_pass == 0, 0
                if clean:
                    self._reclaiming.pop(purge_id, None)
                    return deleted, 0
            await asyncio.sleep(0)
        state.deleted += deleted
        return deleted, max(1, (purge.entries or 0) - state.deleted)

    async def _mark_reclaimed(self, purge_id: str) -> Purge:
        for _ in range(MAX_ROUNDS):
            purge, version = await self._known_purge(purge_id)
            if purge.state == "reclaimed":
                return purge
            if purge.state != "hidden":
                raise Conflict(f"the purge {purge_id!r} was undone: there is nothing to reclaim")
            marked = replace(purge, state="reclaimed")
            if await self._store.control_put(f"{PURGE}{purge_id}", purge_json(marked), expected=version) is not None:
                await self._tell()
                return marked
        raise Conflict(f"the purge {purge_id!r} kept changing; try again")

    async def _kept(self, namespace: str) -> set[str]:
        """Return the generations whose entries must stay: the live ones, and those that an undo can bring back."""
        # The generations before and after the purges: a purge in between hides what was live before, an undo makes live what is
        # live after. A purge whose record is still to come, or was lost with its writer, stands in the generations.
        before, doc = await self._generations(namespace)
        purges = {purge.id: purge for purge in purges_of(await self._store.control_all(PURGE))}
        after, later = await self._generations(namespace)
        for last in (_last(doc), _last(later)):
            if last is not None and self._is_kept(last):
                purges.setdefault(last.id, last)
        kept = set(before.live | after.live)
        for purge in purges.values():
            if purge.namespace == namespace and purge.state in {"hidden", "undoing"}:
                kept.update(purge.old_live)
        return kept

    async def forget(self) -> int:
        """Remove the records of purges that were reclaimed or undone and are a week old; return how many."""
        forgotten = 0
        for purge in purges_of(await self._store.control_all(PURGE)):
            if purge.state in {"reclaimed", "undone"} and not self._is_kept(purge):
                forgotten += await self._store.control_delete(f"{PURGE}{purge.id}")
        return forgotten

    def _is_kept(self, purge: Purge) -> bool:
        return self._clock() - purge.at_ms < PURGE_KEPT_MS

    # Reading

    async def _generations(self, namespace: str) -> tuple[Generations, ControlDoc | None]:
        doc = await self._store.control_get(f"{GENERATIONS}{namespace}")
        return (generations_or_none(doc) if doc else Generations()), doc

    async def _purge(self, purge_id: str) -> Purge | None:
        doc = await self._store.control_get(f"{PURGE}{purge_id}")
        return purge_of(purge_id, value_of(doc)) if doc else None

    async def _known_purge(self, purge_id: str) -> tuple[Purge, int]:
        doc = await self._store.control_get(f"{PURGE}{purge_id}")
        if doc is None:
            raise InvalidRequest(f"there is no purge {purge_id!r}", status=404, code="unknown_purge")
        return purge_of(purge_id, value_of(doc)), doc.version

    async def _counted(self, purge: Purge) -> Purge:
        """Return the purge with the number of entries that it hid, recorded if nothing else has happened to it."""
        try:
            counted = replace(purge, entries=await self._count(purge.namespace, frozenset(purge.old_live)))
            await self._store.control_put(f"{PURGE}{purge.id}", purge_json(counted), expected=1)
        except TierUnavailable:
            return purge  # it is done; only its size is unknown
        return counted

    async def _count(self, namespace: str, generations: frozenset[str]) -> int:
        count = 0
        async for heads in self._scan(namespace):
            count += sum(head.generation in generations for head in heads)
        return count

    async def _scan(self, namespace: str) -> AsyncIterator[list[EntryHead]]:
        """Yield the namespace's heads, each entry once (a scan may show one twice), giving way to the loop between batches."""
        seen: set[str] = set()
        cursor = ""
        while True:
            heads, cursor = await self._store.scan(namespace, cursor, SCAN_BATCH)
            fresh = [head for head in heads if head.key not in seen]
            seen.update(head.key for head in fresh)
            yield fresh
            if not cursor:
                return
            await asyncio.sleep(0)

    async def _tell(self) -> None:
        if self._changed is not None:
            await self._changed()


def purges_of(docs: list[ControlDoc]) -> list[Purge]:
    purges = []
    for doc in docs:
        if doc.key.startswith(PURGE):
            try:
                purges.append(purge_of(doc.key.removeprefix(PURGE), value_of(doc)))
            except BadRecord:
                continue
    return purges


def _of_this(purge: Purge, namespace: str) -> Purge:
    if purge.namespace != namespace:
        raise Conflict(f"the operation id {purge.id!r} belongs to a purge of another namespace")
    return purge


def _last(doc: ControlDoc | None) -> Purge | None:
    try:
        return last_purge_of(doc) if doc else None
    except BadRecord:
        return None
