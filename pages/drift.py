"""Drift: is the traffic changing under the cache?"""

import streamlit as st

from app.ui import chrome, drift_panel, filters, handles, links, states, tables
from app.ui.text import literal
from app.views import drift, drift_rows, words

selection = chrome.open_page("Drift", compare=True)


def body() -> None:
    now = handles.now_ms()
    view = drift_panel.load(selection, selection.window(now))
    chrome.headline(view.sentence, bad=view.bad)
    states.report(view.failures, drift.SOURCES)
    if view.now is None or view.before is None:
        return
    if view.now.entropy is None:
        if view.refused:
            return
        states.empty("No prompts in this time", "Widen the time range above, or send traffic through the gateway:", "cachescope status")
        return
    states.sampled(view.sampled)
    chrome.evidence("hit_rate", "Why did the hit rate change?")
    chrome.dials(drift_rows.dials(view))
    st.caption(
        f"Now: {words.span(view.now.window.start_ms, view.now.window.end_ms)} · "
        f"before: {words.span(view.before.window.start_ms, view.before.window.end_ms)} · {literal(drift_rows.grouped_by(view))} · "
        "the same text of two tenants counts as two prompts"
    )
    if view.panels:
        st.markdown("**What changed, against chance**", help=drift_rows.PANELS_HELP)
        tables.show(drift_rows.panel_rows(view), alt="What changed between the two windows, against chance")
    if view.findings:
        st.markdown("**Findings: collapse and scatter**")
        columns = {"traces": tables.link("traces", shown="/(traces)")}
        rows = drift_rows.finding_rows(view.findings, view.now.stride, filters.query("traces"))
        tables.show(rows, alt="Entries that answer too many prompts, or too few", columns=columns)
        links.beneath(rows, "traces", by=("finding", "for example"), lead="Lookups behind")
    drift_panel.charts_of(view.now, view.before)
    if not view.prompts_recorded:
        states.prompts_hidden("new and vanished prompts show no texts")
    for (title, found), side in zip(drift_rows.lists(view), (view.now, view.before), strict=False):
        st.markdown(f"**{title}**")
        tables.show(drift_rows.kind_rows(found, side.stride), alt=title) if found else st.caption("None.")
    if told := drift_rows.unseen(view):
        st.caption(told[0].upper() + told[1:] + ".")
    st.caption(f"{drift_rows.made(view, now)} · all times are UTC")


chrome.live(body)
