"""Purge: its view models on a real SQLite cache and the real record of acts, while no gateway runs."""

from typing import NoReturn

from app.admin import actions as admin_acts
from app.admin.actions import ActResult, AdminContext
from app.errors import EngineUnavailable
from app.views import audit, outcomes, purge
from app.wiring import Wiring
from storage.errors import StoreMissing
from tests.app import support


def no_engine() -> NoReturn:
    raise EngineUnavailable("neither a gateway nor the store answered")


def no_ops() -> NoReturn:
    raise StoreMissing("there is no record of acts")


def _purge(ctx: AdminContext, namespace: str) -> ActResult:
    preview = admin_acts.preview_purge(ctx, namespace)
    return admin_acts.purge(ctx, preview.token, namespace, support.operation())


def _purge_view(wired: Wiring) -> purge.PurgeView:
    return purge.load(wired.engine, wired.ops, now_ms=wired.clock())


def test_empty_cache_has_nothing_to_purge(wired: Wiring) -> None:
    view = _purge_view(wired)
    assert (view.sentence, view.bad) == ("The cache knows no namespace yet: there is nothing to purge", False)
    assert (view.names, view.recent, view.failures) == ((), (), ())


def test_what_a_sampler_let_through_is_the_least_that_is_at_stake(wired: Wiring, ctx: AdminContext) -> None:
    support.fill(wired.config, "faq", 1)
    support.record_misses(wired.config, "faq", ["one", "two"], outcome="exact_hit", saved_usd=0.5, kept_ratio=0.01)
    found = {dial.label: dial for dial in purge.dials(admin_acts.preview_purge(ctx, "faq"))}
    assert found["Hits a minute"].value.startswith("at least ")
    assert found["Saved a minute"].value.startswith("at least $")
    assert found["Hits a minute"].detail == "of what a sampler let through in the last hour: there were more"


def test_preview_shows_the_engines_own_count(wired: Wiring, ctx: AdminContext) -> None:
    support.fill(wired.config, "faq", 7)
    kept = admin_acts.preview_purge(ctx, "faq")
    dials = {dial.label: dial.value for dial in purge.dials(kept)}
    assert (dials["Entries"], dials["Tenants"]) == ("7", "1")
    assert purge.tenant_rows(kept.preview) == [{"tenant": "acme", "entries": 7}]
    assert len(purge.sample_rows(kept.preview)) == 7
    assert ctx.engine.visible("faq").visible == 7


def test_purge_can_be_undone_until_it_was(wired: Wiring, ctx: AdminContext) -> None:
    support.fill(wired.config, "faq", 7)
    done = _purge(ctx, "faq")
    told = outcomes.sentence(done, now_ms=wired.clock())
    assert told.startswith("Purge of faq: 7 entries hidden, verified after ")
    assert "none from before is visible, no gateway runs. It can be undone for 9 min" in told
    view = _purge_view(wired)
    (row,) = view.recent
    assert row.undo_left_ms is not None
    assert view.sentence.startswith("1 namespace, all switched on. 1 purge can be undone. No gateway answers")
    assert purge.recent_rows(view)[0]["record"] == f"audit?act={done.act_id}"

    undone = admin_acts.undo_purge(ctx, done.act_id, support.operation())
    assert outcomes.sentence(undone, now_ms=wired.clock()) == "Undo of a purge of faq: 7 entries are visible again"
    (row,) = _purge_view(wired).recent
    assert (row.undo_left_ms, row.act.state, row.reclaim) == (None, "undone", "cancelled")
    assert outcomes.told(outcomes.of(row.act), now_ms=wired.clock()).endswith("It was undone since")


def test_switch_is_named_where_it_is_not_on(wired: Wiring, ctx: AdminContext) -> None:
    support.fill(wired.config, "faq", 1)
    done = admin_acts.set_switch(ctx, "faq", "exact-only", support.operation())
    assert outcomes.sentence(done, now_ms=0) == "Switch of faq: switch on → exact-only (version 1)"
    assert "not fully on: faq" in _purge_view(wired).sentence
    found = _purge_view(wired).find("faq")
    assert found is not None
    assert found.policy.switch.value == "exact-only"


def test_failing_sources_are_named_and_the_rest_stays(wired: Wiring) -> None:
    support.fill(wired.config, "faq", 1)
    assert [failure.source for failure in purge.load(no_engine, wired.ops, now_ms=0).failures] == [purge.ENGINE]
    view = purge.load(wired.engine, no_ops, now_ms=0)
    assert ([failure.source for failure in view.failures], view.names) == ([purge.ACTS], ("faq",))
    assert audit.load(no_ops).sentence == "The record of acts cannot be read"
