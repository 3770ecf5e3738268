"""The Overview's parts: the four dials, what moved, what changed."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from app.charts import latency, rates
from app.ui import chrome, filters, handles, links, panels, regret_panel, states, tables, why_panel
from app.ui.text import literal
from app.views import drift_rows, marks, overview, overview_rows, regret, regret_past
from app.views import rates as rates_view
from app.views.drift import Drift
from app.views.overview import Overview, Traffic
from app.views.why import Why
from storage.reads.window import Window


def load(selection: filters.Selection, window: Window, now_ms: int, answer: Why, mix: Drift) -> Overview:
    return overview.load(handles.telemetry, handles.ops, handles.engine, selection.question(window, now_ms), answer, drifted=mix.bad)


def draw(view: Overview, traffic: Traffic, selection: filters.Selection, answer: Why, mix: Drift) -> None:
    """Draw everything that needs lookups, the answer first."""
    states.sampled(rates_view.sampled_note(traffic.counts))
    why_panel.line(answer, traffic.fall)
    four(view, traffic, selection, mix)
    regret_panel.line(selection.scope, view.now_ms)
    marked = marks.with_changes(view.marks, answer.events, view.window)
    chart = rates.outcomes(traffic.buckets, view.window, marked)
    click = panels.on_time(panels.to_why, rates_view.worst_ms(traffic.buckets))
    panels.chart(chart, rows=overview_rows.outcome_rows(traffic), key="outcomes", click=click)
    left, right = st.columns([8, 5])
    with left:
        _movers(traffic, selection)
    with right:
        why_panel.changes(answer)
    chrome.dials(overview_rows.share_dials(traffic))
    chrome.dials(overview_rows.other_dials(traffic))
    chart = latency.figure(traffic.latency, view.window, marked, late_ms=overview_rows.late_ms(traffic))
    click = panels.on_time(panels.to_why, traffic.latency.worst_ms, step_ms=traffic.latency.step_ms)
    panels.chart(chart, rows=overview_rows.latency_rows(traffic), key="latency", click=click)


def four(view: Overview, traffic: Traffic, selection: filters.Selection, mix: Drift) -> None:
    """Draw hit rate, entropy, drift and regret, each from the analysis of its own page."""
    namespace, now = selection.scope.namespace, view.now_ms
    lost = regret.front(
        regret.load(handles.ops, horizon="24h", namespace=namespace, now_ms=now),
        regret_past.course(handles.ops, horizon="24h", namespace=namespace, now_ms=now),
    )
    if note := regret.whole_note(selection.scope):
        lost = replace(lost, detail=f"{lost.detail}; {note}")
    chrome.dials([overview_rows.rate_dial(traffic), *drift_rows.front(mix, now), lost])


def _movers(traffic: Traffic, selection: filters.Selection) -> None:
    st.markdown("**What moved the hit rate, by namespace**")
    moved = overview_rows.mover_rows(traffic, filters.query("traces"), rate_query=filters.query("hit_rate"))
    if not moved:
        why = rates_view.refusal(traffic.counts) or f"{rates_view.nothing(traffic.before)} in {selection.before_name}"
        st.caption(f"Nothing to compare: {literal(why)}.")
        return
    columns = {name: tables.link(name, shown="/(hit_rate|traces)") for name in ("rate", "traces")}
    tables.show(moved, alt="Effect of each namespace on the change of the hit rate", columns=columns)
    links.beneath(moved, "rate", by=("namespace",), lead="Hit rate of", icon=":material/target:")
    links.beneath(moved, "traces", by=("namespace",), lead="Lookups of")
