"""Acts on a real SQLite cache while no gateway runs: what they change, what they refuse, what stands in the audit."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import threading
from pathlib import Path

import pytest

from app.adapters.base import Capabilities, WarmRequest
from app.adapters.native import NativeAdapter
from app.adapters.store import SharedStore
from app.admin import actions as admin_acts
from app.admin.actions import ActResult, AdminContext, Role
from app.admin.record import after_a_change
from app.errors import ActFailed, EngineRefused, EngineUnavailable, Refused
from app.wiring import Wiring
from engine.records import GATEWAY, GatewayInfo, gateway_json
from engine.tiers import open_store
from engine.types import Policy
from storage import actions, jobs, policies
from tests.app import support


def _history(ctx: AdminContext) -> list[actions.Act]:
    with ctx.ops.read() as conn:
        assert actions.verify_chain(conn).ok
        return actions.history(conn)


def _purge(ctx: AdminContext, namespace: str, operation_id: str = "") -> ActResult:
    preview = admin_acts.preview_purge(ctx, namespace)
    return admin_acts.purge(ctx, preview.token, namespace, operation_id or support.operation())


def test_purge_hides_this_namespace_only_and_is_recorded_whole(wired: Wiring, ctx: AdminContext) -> None:
    for namespace in ("a[1]*?\\", "a1x", "faq"):
        support.fill(wired.config, namespace, 7)
    preview = admin_acts.preview_purge(ctx, "a[1]*?\\")
    assert (preview.preview.entries, preview.preview.tenants, str(preview.preview.via)) == (7, {"acme": 7}, "store")
    result = admin_acts.purge(ctx, preview.token, "a[1]*?\\", support.operation())
    assert (result.state, result.figures["entries"], result.figures["visible_after"]) == ("done", 7, 0)
    assert 0 <= result.figures["verified_ms"] < 60_000
    assert [ctx.engine.visible(name).visible for name in ("a[1]*?\\", "a1x", "faq")] == [0, 7, 7]
    (act,) = _history(ctx)
    assert (act.actor, act.origin, act.body["previewed_entries"], act.result["entries"]) == ("ann", "cli", 7, 7)
    with ctx.ops.read() as conn:
        job = jobs.of_act(conn, result.act_id)
    assert job is not None
    assert job.not_before_ms >= act.started_ms + 600_000


def test_preview_tells_what_the_entries_earn_a_minute(wired: Wiring, ctx: AdminContext) -> None:
    support.fill(wired.config, "faq", 1)
    unknown = admin_acts.preview_purge(ctx, "faq")
    assert unknown.stake is None
    assert "collector" in unknown.stake_unknown  # there is no telemetry yet: what to start
    support.record_misses(wired.config, "docs", ["one"])
    elsewhere = admin_acts.preview_purge(ctx, "faq")
    assert (elsewhere.stake, elsewhere.stake_unknown) == (None, "no lookup of this namespace was recorded in the last hour")
    support.record_misses(wired.config, "faq", ["two"])
    cold = admin_acts.preview_purge(ctx, "faq").stake
    assert cold is not None
    assert (cold.hits_per_minute, cold.saved_usd_per_minute, cold.partial) == (0, 0, False)
    support.record_misses(wired.config, "faq", [f"q{number}" for number in range(122)], outcome="exact_hit", saved_usd=0.5)
    priced = admin_acts.preview_purge(ctx, "faq").stake
    assert priced is not None
    assert priced.minutes in {3, 4}  # recording began 123 s ago: an hour's worth would look calmer than it is
    assert priced.hits_per_minute == pytest.approx(122 / priced.minutes)
    assert priced.saved_usd_per_minute == pytest.approx(61 / priced.minutes)
    assert not priced.partial
    support.record_misses(wired.config, "bare", ["three"], outcome="semantic_hit")
    bare = admin_acts.preview_purge(ctx, "bare").stake
    assert bare is not None
    assert (bare.saved_usd_per_minute, bare.partial) == (None, True)


@pytest.mark.parametrize("typed", ["", "FAQ", "faq ", "fa", "faq\n"])
def test_purge_needs_the_exact_name(wired: Wiring, ctx: AdminContext, typed: str) -> None:
    support.fill(wired.config, "faq", 1)
    preview = admin_acts.preview_purge(ctx, "faq")
    with pytest.raises(Refused, match="not exactly 'faq'"):
        admin_acts.purge(ctx, preview.token, typed, support.operation())
    assert ctx.engine.visible("faq").visible == 1
    assert not _history(ctx)


def test_preview_overtaken_by_another_purge_is_refused(wired: Wiring, ctx: AdminContext) -> None:
    support.fill(wired.config, "faq", 1)
    old = admin_acts.preview_purge(ctx, "faq")
    assert _purge(ctx, "faq").ok
    with pytest.raises(Refused, match="since the preview"):
        admin_acts.purge(ctx, old.token, "faq", support.operation())


def test_double_click_from_many_threads_does_it_once_and_tells_all_the_same(wired: Wiring, ctx: AdminContext) -> None:
    support.fill(wired.config, "faq", 5)
    preview = admin_acts.preview_purge(ctx, "faq")
    operation_id, results, gate = support.operation(), [], threading.Barrier(8)

    def click() -> None:
        gate.wait()
        results.append(admin_acts.purge(ctx, preview.token, "faq", operation_id))

    threads = [threading.Thread(target=click) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.state for result in results] == ["done"] * 8
    assert {result.figures["new"] for result in results} == {results[0].figures["new"]}
    assert sum(not result.repeated for result in results) == 1
    assert [act.state for act in _history(ctx)] == ["done"]


def test_repeated_operation_after_the_preview_expired_still_tells_the_outcome(wired: Wiring, ctx: AdminContext) -> None:
    support.fill(wired.config, "faq", 5)
    preview, operation_id = admin_acts.preview_purge(ctx, "faq"), support.operation()
    first = admin_acts.purge(ctx, preview.token, "faq", operation_id)
    again = admin_acts.purge(ctx, "worthless", "faq", operation_id)
    assert again.repeated
    assert again.figures["entries"] == first.figures["entries"]
    with pytest.raises(Refused, match="another act"):
        admin_acts.set_switch(ctx, "faq", "off", operation_id)


def test_undo_brings_back_what_was_hidden_and_keeps_what_came_since(wired: Wiring, ctx: AdminContext) -> None:
    support.fill(wired.config, "faq", 5)
    purged = _purge(ctx, "faq")
    undone = admin_acts.undo_purge(ctx, purged.act_id, support.operation())
    assert (undone.state, undone.figures["visible"]) == ("done", 5)
    states = {act.kind: act.state for act in _history(ctx)}
    assert states == {"purge": "undone", "undo": "done"}
    with ctx.ops.read() as conn:
        job = jobs.of_act(conn, purged.act_id)
    assert job is not None
    assert job.state == "cancelled"


def test_undo_of_a_reclaimed_purge_fails_and_says_why(wired: Wiring, ctx: AdminContext) -> None:
    support.fill(wired.config, "faq", 5)
    purged = _purge(ctx, "faq")
    ctx.engine.reclaim(purged.act_id)
    undone = admin_acts.undo_purge(ctx, purged.act_id, support.operation())
    assert (undone.state, undone.exit_code) == ("failed", 4)  # refused: nothing was changed
    assert "reclaimed" in undone.reason


def test_gateway_that_does_not_confirm_makes_the_purge_fail_by_name(wired: Wiring, ctx: AdminContext) -> None:
    support.fill(wired.config, "faq", 1)

    async def beat() -> None:
        store = open_store(wired.config.shared_cache_url, timeout_s=30)
        # Its clock is ahead: it has beaten a moment ago for as long as the test takes.
        info = GatewayInfo("g-stuck", "http://127.0.0.1:1", 1, wired.clock(), wired.clock() + 600_000, token=1)
        await store.control_put(GATEWAY + info.id, gateway_json(info))
        await store.close()

    asyncio.run(beat())
    result = _purge(ctx, "faq")
    assert (result.state, result.exit_code) == ("failed", 1)
    assert "g-stuck" in result.reason
    assert ctx.engine.visible("faq").visible == 0
    with ctx.ops.read() as conn:
        job = jobs.of_act(conn, result.act_id)
    assert job is not None  # what is hidden is deleted some day all the same
    assert job.state == "queued"


class _Watched(NativeAdapter):
    """An engine that can be looked at and nothing else."""

    capabilities = Capabilities()


def test_what_the_engine_cannot_do_is_refused_inside_the_acts(wired: Wiring, ctx: AdminContext) -> None:
    config = wired.config
    store = SharedStore(config.shared_cache_url, clock=wired.clock, defaults=Policy())
    with contextlib.closing(_Watched(config.control_url, config.control_token(), store=store)) as engine:
        watching = dataclasses.replace(ctx, engine=engine)
        for act in (
            lambda: admin_acts.preview_purge(watching, "faq"),
            lambda: admin_acts.set_switch(watching, "faq", "off", support.operation()),
            lambda: admin_acts.plan_warmup(watching, "faq"),
            lambda: admin_acts.create_key(watching, "acme", support.operation()),
        ):
            with pytest.raises(Refused, match=r"watched only.*Nothing was changed"):
                act()
    assert _history(ctx) == []


def test_roles_are_checked_inside_the_acts(wired: Wiring) -> None:
    support.fill(wired.config, "faq", 1)
    viewer, operator = support.admin(wired, Role.VIEWER), support.admin(wired, Role.OPERATOR)
    with pytest.raises(Refused, match="needs operator"):
        admin_acts.preview_purge(viewer, "faq")
    token = admin_acts.preview_purge(operator, "faq").token
    for act in (
        lambda: admin_acts.purge(viewer, token, "faq", support.operation()),
        lambda: admin_acts.undo_purge(viewer, "x", support.operation()),
        lambda: admin_acts.set_switch(viewer, "faq", "off", support.operation()),
        lambda: admin_acts.set_threshold(viewer, "faq", 0.5, support.operation(), 0),
        lambda: admin_acts.set_normaliser(viewer, "faq", "sql", support.operation(), 0),
        lambda: admin_acts.plan_warmup(viewer, "faq"),
        lambda: admin_acts.create_key(operator, "acme", support.operation()),
    ):
        with pytest.raises(Refused):
            act()
    assert not _history(viewer)


def test_switch_threshold_history_and_restore(ctx: AdminContext) -> None:
    assert admin_acts.set_switch(ctx, "faq", "exact-only", support.operation()).ok
    assert admin_acts.set_threshold(ctx, "faq", 0.91, support.operation(), 1).ok
    assert admin_acts.set_threshold(ctx, "faq", 0.5, support.operation(), 2).ok
    restored = admin_acts.restore_policy(ctx, "faq", 2, support.operation(), 3)
    assert restored.ok
    now = admin_acts.policy_in_force(ctx, "faq")
    assert (now.version, now.threshold, now.switch) == (4, 0.91, "exact-only")
    with ctx.ops.read() as conn:
        assert [(row.version, row.policy["threshold"]) for row in policies.history(conn, "faq")] == [
            (4, 0.91),
            (3, 0.5),
            (2, 0.91),
            (1, None),
        ]


def test_normaliser_is_set_once_and_comes_back_with_an_earlier_policy(ctx: AdminContext) -> None:
    operation = support.operation()
    assert admin_acts.set_normaliser(ctx, "faq", "sql", operation, 0).ok
    assert admin_acts.set_normaliser(ctx, "faq", "sql", operation, 0).repeated
    assert admin_acts.set_normaliser(ctx, "faq", "none", support.operation(), 1).ok
    assert admin_acts.restore_policy(ctx, "faq", 1, support.operation(), 2).ok
    assert admin_acts.policy_in_force(ctx, "faq").normaliser == "sql"
    with pytest.raises(Refused, match="'xml' is no normaliser"):
        admin_acts.set_normaliser(ctx, "faq", "xml", support.operation(), 3)


def test_policy_changed_by_somebody_else_is_a_clear_failure(ctx: AdminContext) -> None:
    assert admin_acts.set_threshold(ctx, "faq", 0.9, support.operation(), 0).ok
    late = admin_acts.set_threshold(ctx, "faq", 0.1, support.operation(), 0)
    assert (late.state, late.exit_code) == ("failed", 4)
    assert "at version 1, not 0" in late.reason
    assert admin_acts.policy_in_force(ctx, "faq").threshold == 0.9


@pytest.mark.parametrize("value", [1.5, -2.0, float("nan"), float("inf")])
def test_impossible_threshold_is_refused(ctx: AdminContext, value: float) -> None:
    with pytest.raises(Refused):
        admin_acts.set_threshold(ctx, "faq", value, support.operation(), 0)


def test_keys_are_shown_once_and_never_in_the_audit(ctx: AdminContext) -> None:
    operation_id = support.operation()
    result, key = admin_acts.create_key(ctx, "acme", operation_id, namespaces=["faq"])
    assert result.ok
    assert key is not None
    assert key.secret.startswith("csk_")
    assert admin_acts.create_key(ctx, "acme", operation_id, namespaces=["faq"])[1] is None
    assert [listed.secret for listed in ctx.engine.key_list()] == [""]
    assert admin_acts.revoke_key(ctx, key.id, support.operation()).ok
    assert ctx.engine.key_list()[0].revoked_ms is not None
    unknown = admin_acts.revoke_key(ctx, "abc", support.operation())
    assert (unknown.state, unknown.exit_code) == ("failed", 4)
    assert key.secret not in repr(_history(ctx))


def test_warm_needs_a_gateway_and_says_so(ctx: AdminContext) -> None:
    with pytest.raises(EngineUnavailable, match="cachescope gateway"):
        ctx.engine.warm(WarmRequest("faq", "acme", "", {}), "op")


def test_corrupt_store_is_a_refusal_in_one_line(tmp_path: Path) -> None:
    with contextlib.closing(support.wiring(tmp_path)) as wiring:
        Path(wiring.config.shared_cache_url.removeprefix("sqlite:///")).write_bytes(b"not a database" * 100)
        with pytest.raises(EngineRefused) as refusal:
            wiring.engine().namespaces()
        assert refusal.value.exit_code == 1  # a fault of the store's, not of what was asked


def test_what_is_refused_after_a_change_is_a_failure() -> None:
    with pytest.raises(ActFailed, match="no longer known") as failure, after_a_change():
        raise EngineRefused("this admin token is no longer known", code="invalid_token", status=401)
    assert failure.value.exit_code == 1


def test_plan_counts_what_cannot_be_warmed_with_its_reason(wired: Wiring, ctx: AdminContext) -> None:
    support.record_misses(wired.config, "faq", ["one", "two"], times=3)
    support.record_misses(wired.config, "faq", ["three"], recorded=False)
    support.record_misses(wired.config, "docs", ["other"])
    plan = admin_acts.plan_warmup(ctx, "faq")
    assert (plan.distinct, plan.misses, dict(plan.not_warmable)) == (3, 7, {"prompts_not_recorded": 1})
    assert [item.misses for item in plan.items] == [3, 3, 1]
    assert (len(plan.warmable), plan.tokens, plan.costed) == (2, 60, 2)
    assert plan.cost_usd == pytest.approx(0.02)


def test_plan_leaves_out_what_is_stored_by_now_and_says_which_headers_cannot_be_sent_again(wired: Wiring, ctx: AdminContext) -> None:
    support.record_misses(wired.config, "faq", ["one", "two"], times=2)
    support.record_misses(wired.config, "faq", ["three"], attributes={"cachescope.keyed_headers": ["x-portkey-provider"]})
    support.record_misses(wired.config, "faq", ["four"], attributes={"cachescope.adapter": "lora"})
    support.fill(wired.config, "another", 0, names=["two"])
    support.fill(wired.config, "faq", 0, names=["one"])
    plan = admin_acts.plan_warmup(ctx, "faq")
    assert {item.prompt: item.reason for item in plan.items} == {"one": "stored_by_now", "two": "", "three": "keyed_headers", "four": ""}
    assert (plan.stored, dict(plan.not_warmable), plan.tokens) == (1, {"keyed_headers": 1}, 60)
    # What is stored or expires meanwhile changes what is left to do, not what was agreed.
    support.fill(wired.config, "faq", 0, names=["four"])
    started = admin_acts.start_warmup(ctx, plan.token, support.operation())
    with ctx.ops.read() as conn:
        job = jobs.of_act(conn, started.act_id)
    assert job is not None
    asked = [item[0] for item in job.parameters["items"]]
    assert asked == [item.key for item in plan.items if item.prompt in {"one", "two"}], "the purge before 'four' hid 'one' again"


def test_plan_of_what_is_all_stored_is_refused_and_one_whose_store_is_silent_says_so(wired: Wiring, ctx: AdminContext) -> None:
    support.record_misses(wired.config, "faq", ["one"])
    support.fill(wired.config, "faq", 0, names=["one"])
    with pytest.raises(Refused, match="stored by now"):
        admin_acts.start_warmup(ctx, admin_acts.plan_warmup(ctx, "faq").token, support.operation())
    silent = SharedStore("redis://127.0.0.1:1/0", clock=ctx.clock, defaults=Policy(), timeout_s=1)
    with contextlib.closing(NativeAdapter("http://127.0.0.1:1", "token", store=silent)) as engine:
        plan = admin_acts.plan_warmup(dataclasses.replace(ctx, engine=engine), "faq")
    assert (plan.stored, len(plan.warmable)) == (None, 1)


def test_plan_overtaken_by_late_telemetry_is_refused(wired: Wiring, ctx: AdminContext) -> None:
    support.record_misses(wired.config, "faq", ["one"])
    plan = admin_acts.plan_warmup(ctx, "faq")
    support.record_misses(wired.config, "faq", ["two"])
    with pytest.raises(Refused, match="plan again"):
        admin_acts.start_warmup(ctx, plan.token, support.operation())


def test_plan_without_recorded_bodies_cannot_be_started(wired: Wiring, ctx: AdminContext) -> None:
    support.record_misses(wired.config, "faq", ["one"], recorded=False)
    plan = admin_acts.plan_warmup(ctx, "faq")
    with pytest.raises(Refused, match="no recorded miss"):
        admin_acts.start_warmup(ctx, plan.token, support.operation())


def test_cancel_of_a_queued_warm_up_is_its_outcome(wired: Wiring, ctx: AdminContext) -> None:
    support.record_misses(wired.config, "faq", ["one"])
    operation_id = support.operation()
    token = admin_acts.plan_warmup(ctx, "faq").token
    started = admin_acts.start_warmup(ctx, token, operation_id)
    again = admin_acts.start_warmup(ctx, token, operation_id)
    assert (started.state, again.state, again.repeated) == ("pending", "pending", True)
    assert admin_acts.cancel_job(ctx, str(started.figures["job_id"]))
    assert not admin_acts.cancel_job(ctx, str(started.figures["job_id"]))
    assert [act.state for act in _history(ctx)] == ["cancelled"]


def test_restoring_version_0_gives_the_installations_ttl_back(tmp_path: Path) -> None:
    with contextlib.closing(support.wiring(tmp_path, CACHESCOPE_TTL_S="123")) as wired:
        ctx = support.admin(wired)
        ctx.engine.set_policy("faq", {"ttl_s": 50}, 0, support.operation())
        assert admin_acts.restore_policy(ctx, "faq", 0, support.operation(), 1).ok
        assert admin_acts.policy_in_force(ctx, "faq").ttl_s == 123
