"""The thresholds page's parts: moving, applying, history and restore."""

from __future__ import annotations

import math
from collections.abc import Sequence

import streamlit as st

from app.admin import actions
from app.charts import similarity
from app.ui import acts, confirm, filters, links, panels, states, tables
from app.ui.text import literal
from app.views import labelled, thresholds, words
from app.views.thresholds import Thresholds

SLOT, RESTORE = "threshold", "restore"
_STEP = 0.001
COLUMNS = {
    "similarity": tables.number("similarity (cosine)", pattern="%.4f"),
    "distance": tables.number("distance (1 − cosine)", pattern="%.4f"),
    "trace": tables.link("trace", shown="trace=(.{8})"),
}


def explore(view: Thresholds, namespace: str) -> None:
    """Draw the similarities, the threshold to move, and what moving it would have done."""
    if view.effective is None or view.effective.value is None:
        if view.effective is not None:  # else the page has said that the engine does not answer
            why = thresholds.unknown(view.effective)
            states.empty("There is no threshold to move", f"{why[0].upper()}{why[1:]}:", "cachescope status")
        if view.candidates:
            _similarities(view, None, None)
        return
    in_force = view.effective.value
    moved = st.slider(
        "Threshold (cosine; a candidate may serve at or above it)",
        min_value=math.floor(view.effective.lowest * 1000) / 1000,
        max_value=1.0,
        value=min(1.0, round(in_force, 3)),
        step=_STEP,
        format="%.3f",
        key=f"move_{namespace}_{view.effective.policy.version}",
    )
    result = thresholds.move(view, moved)
    st.markdown(f"**{literal(thresholds.consequence(result))}**")
    for note in thresholds.notes(view):
        st.caption(literal(note))
    _similarities(view, in_force, moved)
    for title, ids in (
        ("Hits that would be gained", result.gained),
        ("Hits that would be lost", result.lost),
        ("Similar enough, vetoed by verification", thresholds.vetoed_ids(view)),
    ):
        _pairs(view, title, ids)
    _labelled(view)
    _apply(view, namespace, moved)


def _similarities(view: Thresholds, in_force: float | None, moved: float | None) -> None:
    query = filters.query("traces")
    chart = similarity.histogram(view.candidates, query, in_force=in_force, moved=moved)
    click = panels.on_address(similarity.nearest(view.candidates, query, in_force=in_force, moved=moved), "Lookups not served, the nearest")
    panels.chart(chart, rows=similarity.table(view.candidates), key="similarity", click=click)


def _pairs(view: Thresholds, title: str, ids: Sequence[int]) -> None:
    shown = f", the first {thresholds.PAIRS} shown" if len(ids) > thresholds.PAIRS else ""
    with st.expander(f"{title}: {words.count(len(ids))}{shown}", expanded=bool(ids) and "gained" in title):
        if ids:
            rows = thresholds.pair_rows(view, ids)
            tables.show(rows, alt=title, columns=COLUMNS)
            links.beneath(rows, "trace", by=("at (UTC)", "asked"), lead="Open the trace of")
        else:
            st.caption("None.")


def _labelled(view: Thresholds) -> None:
    """Draw what people's labels say, the worst pair first."""
    if not view.labels:
        return
    with st.expander(f"Labelled pairs: {words.count(len(view.pairs()))}", expanded=True):
        for line in labelled.advice(view):
            st.markdown(literal(line))
        tables.show(
            labelled.label_rows(view), alt="Labelled pairs: the divided ones, then the most similar wrong one first", columns=COLUMNS
        )


def _apply(view: Thresholds, namespace: str, moved: float) -> None:
    if view.effective is None:
        return
    why = acts.may_act("threshold")
    same = view.effective.value is not None and abs(moved - view.effective.value) < _STEP / 2
    st.button(
        f"Apply {moved:.3f}…",
        key="open_threshold",
        on_click=confirm.ask,
        args=(SLOT, namespace, f"{moved:.3f}|{view.effective.policy.version}"),
        disabled=bool(why) or same,
        help=why or ("This is the threshold in force" if same else None),
    )


def confirmation(view: Thresholds) -> None:
    """Draw the dialog of a new threshold; the policy's version that was looked at travels with it."""

    def body(request: confirm.Request) -> None:
        value = float(request.token.split("|")[0])
        st.markdown(
            literal(thresholds.consequence(thresholds.move(view, value)))
            if view.candidates
            else f"The threshold will be {value:.3f}. No lookup with a candidate is recorded in this time: its effect is not known."
        )

    def act(request: confirm.Request) -> None:
        value, version = request.token.split("|")
        acts.perform(SLOT, lambda ctx: actions.set_threshold(ctx, request.subject, float(value), request.operation_id, int(version)))

    confirm.dialog(SLOT, "Set the threshold", body=body, act_label="Set the threshold", act=act)


def restoring(view: Thresholds) -> None:
    """Draw the dialog that brings an earlier policy back."""

    def body(request: confirm.Request) -> None:
        version = int(request.token.split("|")[0])
        for line in thresholds.restored(view, version):
            st.markdown(literal(line))

    def act(request: confirm.Request) -> None:
        version, seen = (int(part) for part in request.token.split("|"))
        acts.perform(SLOT, lambda ctx: actions.restore_policy(ctx, request.subject, version, request.operation_id, seen))

    confirm.dialog(RESTORE, "Restore a policy", body=body, act_label="Restore", act=act)


def history(view: Thresholds, namespace: str) -> None:
    """Draw the policy's history and the way back to an earlier version."""
    if any(failure.source == thresholds.ACTS for failure in view.failures):
        return
    st.markdown("**History of the policy**")
    if not view.history or view.effective is None:
        st.caption("No change was recorded: the policy is the default.")
        return
    tables.show(thresholds.history_rows(view), alt="Versions of the policy, newest first", columns=acts.RECORD)
    current = view.effective.policy.version
    earlier = [row.version for row in view.history if row.version != current] + [0]
    why = acts.may_act("threshold")
    with st.container(horizontal=True, vertical_alignment="bottom", gap="small"):
        version = st.selectbox(
            "Restore version",
            earlier,
            format_func=lambda v: f"{v}: the default" if v == 0 else str(v),
            key=f"restore_{namespace}_{current}",
        )
        st.button(
            "Restore…",
            icon=":material/history:",
            disabled=bool(why),
            help=why,
            key="restore",
            on_click=confirm.ask,
            args=(RESTORE, namespace, f"{version}|{current}"),
        )
