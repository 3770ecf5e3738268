"""What happens while a lookup waits: a purge is obeyed all the same, a view that grows old stores nothing, a refusal keeps no prompt."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from engine.control import Control
from engine.errors import Conflict, EmbedderUnavailable
from engine.gateway.boundary import Boundary
from engine.gateway.flights import Flights, Lead
from engine.leases import Leases
from engine.records import PURGE
from engine.settings import EngineSettings, GatewaySettings
from engine.singleflight import SingleFlight
from engine.telemetry import Telemetry
from engine.tiers.base import ControlDoc
from engine.tiers.sqlite import SqliteTier
from engine.types import Entry, LeaseState, Outcome
from tests.engine.rig import SECRET, rig
from tests.support.polling import eventually

PARAPHRASE = "How do I reset my passwords?"


async def test_a_purge_during_the_embedding_hides_what_it_finds(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        await it.teach("How do I reset my password?")
        it.embedder.meanwhile = lambda: it.cache.control.purge("faq", operation_id="p1")
        lookup = await it.ask(PARAPHRASE)
        assert (lookup.outcome, lookup.entry, lookup.reason) == (Outcome.MISS, None, "no_candidate")


async def test_a_view_that_grows_old_during_the_embedding_serves_and_stores_nothing(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        await it.teach("How do I reset my password?")
        kept = await it.ask("Where is my invoice?")

        async def grow_old() -> None:
            it.monotonic[0] += 1.5

        it.embedder.meanwhile = grow_old
        lookup = await it.ask(PARAPHRASE)
        assert (lookup.outcome, lookup.reason) == (Outcome.MISS, "control_stale")
        await it.store.close()  # else the overdue read makes it current
        assert not await it.keep(kept)
        assert (kept.store_reason, it.faults[("store", "put")]) == ("control_stale", 0)


async def test_what_another_gateway_made_is_not_served_when_it_was_purged_meanwhile(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False) as it:
        await it.teach("first")
        waiting = await it.ask("asked by both")
        await it.teach("asked by both")
        assert await it.cache.again(waiting) is not None
        await it.cache.control.purge("faq", operation_id="p1")
        assert await it.cache.again(waiting) is None


async def test_one_operation_id_at_once_for_two_namespaces_purges_one_of_them(tmp_path: Path) -> None:
    class Interleaved(SqliteTier):
        """Lets another gateway purge another namespace after the id was found free, before the purge is written."""

        armed = True

        async def control_put(self, key: str, value: str, *, expected: int | None = None) -> ControlDoc | None:
            if self.armed:
                self.armed = False
                await it.cache.control.purge("docs", operation_id="p1")
            return await super().control_put(key, value, expected=expected)

    async with rig(tmp_path, semantic=False) as it:
        for namespace in ("faq", "docs"):
            await it.teach("old", namespace=namespace)
        store = Interleaved(tmp_path / "cache.db", timeout_s=30, clock=it.clock)
        control = Control(store, clock=it.clock)
        with pytest.raises(Conflict):
            await control.purge("faq", operation_id="p1")
        await it.cache.view.refresh()
        assert [(await it.ask("old", namespace=namespace)).hit for namespace in ("faq", "docs")] == [True, False]
        # Neither is lost: the one can be purged under another id, the other undone.
        assert len((await control.purge("faq", operation_id="p2")).old_live) == 2
        assert (await control.undo("p1")).namespace == "docs"
        await store.close()
        await it.cache.view.refresh()
        assert [(await it.ask("old", namespace=namespace)).hit for namespace in ("faq", "docs")] == [False, True]


async def test_reclaim_keeps_what_a_purge_hides_while_it_reads_the_purges(tmp_path: Path) -> None:
    class Interleaved(SqliteTier):
        """Lets another gateway purge right after the purges were read."""

        armed = False

        async def control_all(self, prefix: str = "") -> list[ControlDoc]:
            found = await super().control_all(prefix)
            if self.armed and prefix == PURGE:
                self.armed = False
                await it.cache.control.purge("faq", operation_id="p2")
            return found

    async with rig(tmp_path, semantic=False) as it:
        await it.teach("first")
        await it.cache.control.purge("faq", operation_id="p1")
        await it.teach("second")
        store = Interleaved(tmp_path / "cache.db", timeout_s=30, clock=it.clock)
        store.armed = True
        assert (await Control(store, clock=it.clock).reclaim("p1"))[0] == 1
        await store.close()
        await it.cache.control.undo("p2")
        assert (await it.ask("second")).hit


async def test_a_purge_whose_writer_died_can_still_be_undone_after_a_reclaim(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False) as it:
        await it.teach("first")
        await it.cache.control.purge("faq", operation_id="p1")
        await it.teach("second")
        await it.cache.control.purge("faq", operation_id="p2")
        await it.store.control_delete(f"{PURGE}p2")  # as if it had died before it wrote the record
        assert (await it.cache.control.reclaim("p1"))[0] == 1
        heads, _ = await it.store.scan("faq", "", 10)
        assert [head.prompt for head in heads] == ["second"]


async def test_an_embedder_that_is_refused_keeps_no_frames(tmp_path: Path) -> None:
    async with rig(tmp_path) as it:
        it.embedder.broken = True
        for number in range(9):
            assert (await it.ask(f"What is {number}?")).semantic_skipped == "embedder_fault"
        assert it.embedder.calls < 9, "none was refused: the test tells nothing"
        assert it.faults[("embedder", "embed")] == it.embedder.calls
        gc.collect()
        kept = [thing for thing in gc.get_objects() if issubclass(type(thing), EmbedderUnavailable) and thing.__traceback__]
        assert kept == []


async def test_a_broken_entry_of_another_gateway_leaves_the_lead_free(tmp_path: Path) -> None:
    telemetry = Telemetry(GatewaySettings(EngineSettings("sqlite:///x", SECRET)))
    async with rig(tmp_path, semantic=False) as it:
        leases = Leases(it.store, owner="gw-1", faults=lambda tier, operation: it.faults.update([(tier, operation)]))
        single = SingleFlight()
        flights = Flights(single, Boundary(it.cache, telemetry, leases, give_up_s=5))
        await it.teach("first")
        lookup = await it.ask("asked by both")
        key = flights.key_of(lookup)
        await it.teach("asked by both")
        stored = await it.store.get(lookup.key)
        assert stored is not None
        broken = Entry(**{name: getattr(stored, name) for name in Entry.__slots__} | {"body": b"{"})
        await it.store.put(broken)
        await it.memory.delete([lookup.key])
        await it.store.lease(key, "gw-2", 60_000)
        await it.store.lease_end(key, "gw-2", LeaseState.DONE, 60_000)
        lead = await flights.join(lookup, key)
        assert isinstance(lead, Lead), "it asks the upstream itself"
        lead.release()
        assert single.join(key).leader, "nobody waits for a lead that is gone"
        await leases.close()
    await telemetry.close()


async def test_leases_are_renewed_whatever_a_renewal_ends_in(tmp_path: Path) -> None:
    class Failing(SqliteTier):
        """Fails once in a way that no tier should."""

        asked = 0

        async def lease(self, key: str, owner: str, ttl_ms: int) -> LeaseState:
            self.asked += 1
            if self.asked == 2:
                raise AttributeError("a closed connection has no writer")
            return await super().lease(key, owner, ttl_ms)

    async with rig(tmp_path, semantic=False) as it:
        store = Failing(tmp_path / "cache.db", timeout_s=30, clock=it.clock)
        leases = Leases(store, owner="gw-1", faults=lambda tier, operation: it.faults.update([(tier, operation)]), lease_ms=30)

        async def nothing() -> None: ...

        assert await leases.lead("k", nothing, give_up_s=1) is None
        await eventually(lambda: store.asked > 3, what="renewed after the fault")
        assert it.faults[("store", "lease")] == 1
        await leases.close()
        await store.close()
