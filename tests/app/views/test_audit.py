"""Audit: what it says of the record, and of every act, whatever its namespace is called."""

import pytest

from app.admin import actions as admin_acts
from app.admin.actions import ActResult, AdminContext
from app.views import audit, outcomes, words
from app.wiring import Wiring
from storage import actions
from tests.app import support

HOSTILE = ["a[1]*?\\", "<script>alert(1)</script>", "**bold** :red[x]", "left\u202eright", "n" * 200]


def _purge(ctx: AdminContext, namespace: str) -> ActResult:
    preview = admin_acts.preview_purge(ctx, namespace)
    return admin_acts.purge(ctx, preview.token, namespace, support.operation())


@pytest.mark.parametrize("namespace", HOSTILE)
def test_hostile_name_is_purged_alone_and_shown_as_one_plain_line(wired: Wiring, ctx: AdminContext, namespace: str) -> None:
    support.fill(wired.config, namespace, 2)
    support.fill(wired.config, "other", 3)
    done = _purge(ctx, namespace)
    assert done.figures["entries"] == 2
    assert ctx.engine.visible("other").visible == 3
    shown = str(audit.rows(audit.load(wired.ops))[0]["namespace"])
    assert "\u202e" not in shown + outcomes.sentence(done, now_ms=0)
    assert len(shown) <= 60
    assert words.name(namespace) == shown


def test_audit_tells_every_act_whatever_its_namespace_is_called(wired: Wiring, ctx: AdminContext) -> None:
    support.fill(wired.config, "a: b: c", 2)
    done = _purge(ctx, "a: b: c")
    admin_acts.set_threshold(ctx, "a: b: c", 0.91, support.operation(), 0)
    admin_acts.set_threshold(ctx, "a: b: c", 0.92, support.operation(), 0)
    view = audit.load(wired.ops)
    assert view.sentence.startswith("The record is whole: 6 rows")
    failed, changed, purged = audit.rows(view)
    assert str(failed["outcome"]).startswith("failed: ")
    assert changed["outcome"] == "threshold the embedder's default → 0.91 (version 1)"
    assert str(purged["outcome"]).startswith("2 entries hidden, verified after")
    assert "can be undone" not in str(purged["outcome"])

    one = audit.load(wired.ops, act_id=done.act_id, kind="purge", namespace="a: b: c")
    assert one.chosen is not None
    assert [row["event"] for row in audit.events(one.chosen)] == ["pending", "done"]
    assert [act.act_id for act in one.acts] == [done.act_id]
    assert audit.load(wired.ops, namespace="another").acts == ()
    assert audit.load(wired.ops, act_id="unknown").chosen is None


def test_audit_turns_pages(wired: Wiring) -> None:
    store = wired.ops()
    for number in range(audit.PAGE + 5):
        common = {"kind": "switch", "namespace": "faq", "actor": "ann", "origin": "cli"}
        actions.begin(store, act_id=f"act-{number:05}", body={}, at_ms=number, **common)
    newest = audit.load(wired.ops)
    assert (len(newest.acts), newest.older_seq) == (audit.PAGE, newest.acts[-1].seq)
    older = audit.load(wired.ops, before_seq=newest.older_seq)
    assert (len(older.acts), older.older_seq) == (5, None)
    assert not {act.act_id for act in older.acts} & {act.act_id for act in newest.acts}


def test_audit_says_where_the_record_is_broken(wired: Wiring, ctx: AdminContext) -> None:
    support.fill(wired.config, "faq", 1)
    _purge(ctx, "faq")
    with ctx.ops.write() as conn:
        conn.exec_driver_sql("UPDATE act_events SET actor = 'eve' WHERE seq = (SELECT MIN(seq) FROM act_events)")
    view = audit.load(wired.ops)
    assert view.bad
    assert view.sentence.startswith("The record is broken at row ")
