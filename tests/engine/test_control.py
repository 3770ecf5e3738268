"""Purge, undo, reclaim, policies and keys: once per operation, never more than the namespace, never what can be undone."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from engine.control import Control
from engine.errors import Conflict, InvalidRequest, InvalidSetting
from engine.purges import PURGE_KEPT_MS
from engine.records import GATEWAY, GENERATIONS, POLICY, PURGE, GatewayInfo
from engine.tiers.sqlite import SqliteTier
from engine.types import EntryHead, Switch
from tests.conformance.samples import FakeClock
from tests.engine.rig import Rig, rig

ODD = "a[1]*?\\"


async def _visible(it: Rig, *texts: str, namespace: str = "faq") -> list[bool]:
    return [(await it.ask(text, namespace=namespace)).hit for text in texts]


async def test_a_purge_hides_one_namespace_and_its_undo_brings_back_old_and_new(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False) as it:
        for namespace in ("faq", ODD, "a1x"):
            await it.teach("old", namespace=namespace)
        purge = await it.cache.control.purge(ODD, operation_id="p1")
        assert (purge.state, purge.entries, len(purge.old_live)) == ("hidden", 1, 1)
        assert await _visible(it, "old", namespace=ODD) == [False]
        assert await _visible(it, "old", namespace="faq") == await _visible(it, "old", namespace="a1x") == [True]
        await it.teach("new", namespace=ODD)
        assert (await it.cache.control.undo("p1")).state == "undone"
        assert await _visible(it, "old", "new", namespace=ODD) == [True, True]
        assert await it.cache.control.count_visible(ODD) == 2


async def test_one_operation_id_purges_once(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False) as it, rig(tmp_path, semantic=False) as other:
        await it.teach("old")
        twice = await asyncio.gather(*(each.cache.control.purge("faq", operation_id="p1") for each in (it, other, it, other)))
        assert len({(purge.new, purge.old_live) for purge in twice}) == 1
        await it.teach("after")
        again = await other.cache.control.purge("faq", operation_id="p1")
        assert again.new == twice[0].new
        assert await _visible(it, "old", "after") == [False, True]
        with pytest.raises(Conflict):
            await it.cache.control.purge("docs", operation_id="p1")


async def test_a_purge_whose_writer_died_after_its_first_write_is_still_known(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False) as it:
        await it.teach("old")
        control = it.cache.control
        done = await control.purge("faq", operation_id="p1")
        await it.store.control_delete(f"{PURGE}p1")  # as if the second write had never come
        assert (await control.purge("faq", operation_id="p1")).new == done.new
        await it.store.control_delete(f"{PURGE}p1")
        await control.purge("faq", operation_id="p2")
        assert (await control.undo("p1")).state == "undone"
        assert await _visible(it, "old") == [True]


async def test_a_purge_without_a_record_works_and_begins_a_generation(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False) as it:
        purge = await it.cache.control.purge("faq", operation_id="p1")
        assert (purge.old_live, purge.entries) == ((), 0)
        await it.teach("new")
        assert await _visible(it, "new") == [True]
        assert (await it.store.get((await it.ask("new")).key)).generation == purge.new  # type: ignore[union-attr]


async def test_records_of_purges_long_done_with_are_forgotten_and_nothing_comes_back(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False) as it:
        control = it.cache.control
        for text, namespace, operation in (("a", "faq", "reclaimed"), ("b", "docs", "undone"), ("", "empty", "0"), ("c", "kept", "hidden")):
            if text:
                await it.teach(text, namespace=namespace)
            await control.purge(namespace, operation_id=operation)
        while (await control.reclaim("reclaimed"))[1]:
            pass
        await control.undo("undone")
        await control.undo("0")
        it.clock.now_ms += PURGE_KEPT_MS - 1
        assert await control.forget() == 0
        it.clock.now_ms += 1
        assert await control.forget() == 3
        assert [doc.key for doc in await it.store.control_all(PURGE)] == [f"{PURGE}hidden"]
        again = await control.purge("faq", operation_id="reclaimed")
        assert again.state == "reclaimed", "a late repetition of the act does nothing"
        await it.teach("new", namespace="docs")
        for namespace, operation in (("docs", "undone"), ("empty", "0")):
            assert (await control.purge(namespace, operation_id=operation)).state == "undone"
        assert await _visible(it, "new", namespace="docs") == [True]
        with pytest.raises(InvalidRequest):
            await control.undo("reclaimed")
        await control.purge("faq", operation_id="next")
        assert {doc.key for doc in await it.store.control_all(PURGE)} == {f"{PURGE}hidden", f"{PURGE}next"}


async def test_generation_tokens_never_repeat(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False) as it:
        purges = [await it.cache.control.purge("faq", operation_id=f"p{n}") for n in range(20)]
        assert len({purge.new for purge in purges}) == 20


async def test_reclaim_deletes_the_hidden_entries_of_that_namespace_in_batches(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False) as it:
        for n in range(25):
            await it.teach(f"q{n}")
        await it.teach("other", namespace="faq2")
        control = it.cache.control
        await control.purge("faq", operation_id="p1")
        await it.teach("new")
        deleted, remaining = await control.reclaim("p1", batch=10)
        assert (deleted, remaining) == (10, 15)
        with pytest.raises(Conflict):
            await control.undo("p1")
        total, calls = deleted, 1
        while remaining:
            deleted, remaining = await control.reclaim("p1", batch=10)
            total, calls = total + deleted, calls + 1
            assert calls < 10
        assert total == 25
        heads, _ = await it.store.scan("faq", "", 100)
        assert len(heads) == 1
        assert await _visible(it, "new") == await _visible(it, "other", namespace="faq2") == [True]
        assert await control.reclaim("p1") == (0, 0)


async def test_reclaim_spares_what_is_stored_anew_between_its_scan_and_its_delete(tmp_path: Path) -> None:
    class Interleaved(SqliteTier):
        """Lets another writer act right after a scan."""

        after_scan: Callable[[], Awaitable[object]] | None = None

        async def scan(self, namespace: str, cursor: str, limit: int, *, expired: bool = False) -> tuple[list[EntryHead], str]:
            found = await super().scan(namespace, cursor, limit, expired=expired)
            if self.after_scan is not None:
                act, self.after_scan = self.after_scan, None
                await act()
            return found

    async with rig(tmp_path, semantic=False) as it:
        await it.teach("asked again")
        await it.teach("not asked again")
        await it.cache.control.purge("faq", operation_id="p1")
        store = Interleaved(tmp_path / "cache.db", timeout_s=30, clock=it.clock)
        store.after_scan = lambda: it.teach("asked again")
        control = Control(store, clock=it.clock)
        deleted, remaining = await control.reclaim("p1")
        while remaining:
            more, remaining = await control.reclaim("p1")
            deleted += more
        assert deleted == 1
        heads, _ = await it.store.scan("faq", "", 10)
        assert [head.prompt for head in heads] == ["asked again"]
        assert await _visible(it, "asked again") == [True]
        await store.close()


async def test_reclaim_keeps_what_another_purge_can_bring_back(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False) as it:
        control = it.cache.control
        await it.teach("first")
        await control.purge("faq", operation_id="p1")
        await it.teach("second")
        await control.purge("faq", operation_id="p2")
        assert await control.reclaim("p2") == (1, 0)
        await control.undo("p1")
        assert await _visible(it, "first", "second") == [True, False]
        with pytest.raises(Conflict):
            await control.reclaim("p1")


async def test_reclaim_deletes_entries_that_were_in_flight(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False) as one, rig(tmp_path, semantic=False) as two:
        await one.teach("old")
        flying = await one.ask("late")
        await two.cache.control.purge("faq", operation_id="p1")
        assert await one.keep(flying)
        assert await two.cache.control.reclaim("p1") == (2, 0)


async def test_undo_completes_what_a_dead_writer_began(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False) as it:
        await it.teach("old")
        await it.cache.control.purge("faq", operation_id="p1")
        doc = next(doc for doc in await it.store.control_all(PURGE))
        await it.store.control_put(doc.key, doc.value.replace('"hidden"', '"undoing"'))
        assert (await it.cache.control.undo("p1")).state == "undone"
        assert await _visible(it, "old") == [True]
        with pytest.raises(InvalidRequest):
            await it.cache.control.undo("unknown")


async def test_preview_counts_what_a_purge_would_hide(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False) as it:
        for n in range(12):
            await it.teach(f"q{n}", tenant="acme" if n % 3 else "globex")
            it.clock.now_ms += 1000
        control = it.cache.control
        preview = await control.preview("faq")
        assert (preview.entries, preview.tenants, preview.models) == (12, {"acme": 8, "globex": 4}, {"gpt-test": 12})
        assert preview.value_usd == pytest.approx(0.024)
        assert [head.prompt for head in preview.sample][:2] == ["q11", "q10"]
        assert len(preview.sample) == 10
        assert preview.oldest_ms is not None
        assert preview.newest_ms == preview.oldest_ms + 11_000
        assert preview.live == sorted(it.cache.view.space("faq").generations.live)
        purge = await control.purge("faq", operation_id="p1")
        assert purge.entries == preview.entries
        after = await control.preview("faq")
        assert (after.entries, after.value_usd, after.oldest_ms, after.sample) == (0, None, None, [])


async def test_namespaces_show_what_is_in_force(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False, ttl_s=500.0) as it:
        await it.teach("x", namespace="a")
        await it.cache.control.set_policy("b", {"threshold": 0.9})
        await it.cache.control.purge("a", operation_id="p1")
        await it.store.control_put(f"{POLICY}c", "not json")
        found = {info.name: info for info in await it.cache.control.namespaces()}
        assert list(found) == ["a", "b", "c"]
        assert [purge.id for purge in found["a"].undoable] == ["p1"]
        assert (found["b"].policy.threshold, found["b"].policy.ttl_s, found["b"].policy.version) == (0.9, 500.0, 1)
        assert found["c"].policy.switch is Switch.OFF


async def test_policies_change_by_compare_and_set_and_once_per_operation(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False) as it:
        control = it.cache.control
        first = await control.set_policy("faq", {"threshold": 0.9}, expected_version=0, operation_id="o1")
        assert (first.version, first.threshold) == (1, 0.9)
        assert await control.set_policy("faq", {"threshold": 0.9}, expected_version=0, operation_id="o1") == first
        with pytest.raises(InvalidSetting):
            await control.set_policy("faq", {"judge": "sometimes"}, expected_version=0, operation_id="o1")
        with pytest.raises(Conflict):
            await control.set_policy("faq", {"threshold": 0.8}, expected_version=0, operation_id="o2")
        second = await control.set_policy("faq", {"switch": "exact-only"}, expected_version=1)
        assert (second.version, second.threshold, second.switch) == (2, 0.9, Switch.EXACT_ONLY)
        assert it.cache.view.space("faq").policy == second  # without waiting for a poll
        both = await asyncio.gather(control.set_policy("faq", {"ttl_s": 60}), control.set_policy("faq", {"holdout_ratio": 0.1}))
        assert {policy.version for policy in both} == {3, 4}
        assert (await control.set_policy("faq", {"threshold": None})).threshold is None


@pytest.mark.parametrize(
    "changes",
    [{}, {"x": 1}, {"threshold": 2}, {"threshold": "0.9"}, {"threshold": float("nan")}, {"ttl_s": 0}, {"ttl_s": True},
     {"switch": "OFF"}, {"switch": []}, {"verify_mode": "none"}, {"normaliser": "xml"}, {"normaliser": None},
     {"holdout_ratio": 1.1}, {"holdout_ratio": "none"}],
)  # fmt: skip
async def test_a_policy_that_cannot_work_is_refused(tmp_path: Path, changes: dict[str, object]) -> None:
    async with rig(tmp_path, semantic=False) as it:
        with pytest.raises(InvalidSetting):
            await it.cache.control.set_policy("faq", changes)
        assert await it.store.control_all(POLICY) == []


async def test_a_key_is_shown_once_and_its_revocation_keeps_the_record(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False) as it:
        control = it.cache.control
        key, token = await control.key_create("acme", namespaces=("faq",))
        kind, key_id, secret = token.split("_", 2)
        assert (kind, key_id) == ("csk", key.id)
        assert key.hash == hashlib.sha256(secret.encode()).hexdigest()
        assert secret not in "".join(doc.value for doc in await it.store.control_all())
        assert it.cache.view.keys[key.id] == key
        revoked = await control.key_revoke(key.id)
        assert revoked.revoked_ms == it.clock.now_ms
        assert await control.key_revoke(key.id) == revoked
        assert await control.key_list() == [revoked]
        assert it.cache.view.keys[key.id].revoked_ms is not None
        with pytest.raises(InvalidRequest):
            await control.key_revoke("unknown")
        with pytest.raises(InvalidSetting):
            await control.key_create("")


async def test_heartbeats_do_not_move_the_control_token(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False) as it:
        control, token = it.cache.control, await it.store.control_token()
        info = GatewayInfo("g1", "http://x", 1, it.clock.now_ms, 0, token)
        await control.heartbeat(info)
        assert await it.store.control_token() == token
        assert await control.gateways() == [replace(info, last_ms=it.clock.now_ms)]
        it.clock.now_ms += 6_000
        assert await control.gateways() == []
        it.clock.now_ms += 4_000_000
        await control.gateways()
        assert await it.store.control_all(GATEWAY) == []
        await control.heartbeat(info)
        await control.leave("g1")
        assert await control.gateways() == []


async def test_control_works_without_a_gateway(tmp_path: Path) -> None:
    async with rig(tmp_path, semantic=False) as it:
        await it.teach("old")
        await Control(it.store, clock=FakeClock()).purge("faq", operation_id="p1")
        await it.cache.view.poll()
        assert await _visible(it, "old") == [False]


# Any history of acts against a model that only knows sets

_ACTS = st.lists(st.tuples(st.sampled_from(["teach", "purge", "undo", "reclaim", "lose"]), st.integers(0, 5)), min_size=1, max_size=14)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@example(acts=[("purge", 0), ("teach", 0), ("lose", 0), ("undo", 0)])
@example(acts=[("purge", 0), ("teach", 0), ("purge", 1), ("lose", 0), ("undo", 0)])
@given(acts=_ACTS)
def test_any_history_of_acts_shows_what_the_model_shows(tmp_path_factory: pytest.TempPathFactory, acts: list[tuple[str, int]]) -> None:
    async def run() -> None:
        async with rig(tmp_path_factory.mktemp("acts"), semantic=False) as it:
            control, taught, seen = it.cache.control, set[int](), set[int]()
            hidden: dict[str, set[int]] = {}  # by purge: what its undo brings back
            state: dict[str, str] = {}
            gone: set[int] = set()
            for act, n in acts:
                if act == "teach" and n not in seen:
                    await it.teach(f"q{n}")
                    taught.add(n)
                    seen.add(n)
                    for members in hidden.values():
                        members.discard(n)  # replaced: it now belongs to another generation
                    gone.discard(n)
                elif act == "purge":
                    name = f"p{len(state)}"
                    await control.purge("faq", operation_id=name)
                    state[name], hidden[name], seen = "hidden", set(seen), set()
                elif act in {"undo", "reclaim"} and f"p{n}" in state:
                    name = f"p{n}"
                    allowed = state[name] in ({"hidden", "undone"} if act == "undo" else {"hidden", "reclaimed"})
                    try:
                        if act == "undo":
                            await control.undo(name)
                        else:
                            while (await control.reclaim(name))[1]:
                                pass
                    except Conflict:
                        assert not allowed
                        continue
                    assert allowed
                    if act == "undo" and state[name] == "hidden":
                        seen |= hidden[name] - gone
                        state[name] = "undone"
                    elif act == "reclaim":
                        state[name] = "reclaimed"
                        kept = set(seen).union(*(hidden[p] for p in hidden if state[p] == "hidden"))
                        gone |= taught - kept
                elif act == "lose":
                    await it.store.control_delete(f"{GENERATIONS}faq")
                    await it.cache.view.poll()
                    seen = set()
                shown = {k for k in taught if (await it.ask(f"q{k}")).hit}
                assert shown == seen
                assert await control.count_visible("faq") == len(seen)

    asyncio.run(run())
