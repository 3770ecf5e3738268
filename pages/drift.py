"""Drift: is the traffic changing under the cache?"""

import streamlit as st

from app.charts import drift as charts
from app.ui import chrome, handles, panels, states, tables
from app.views import drift, words

selection = chrome.open_page("Drift")


def body() -> None:
    now = handles.now_ms()
    view = drift.load(handles.telemetry, window=selection.window(now), scope=selection.scope, window_name=selection.name)
    chrome.headline(view.sentence, bad=view.bad)
    states.report(view.failures, drift.SOURCES)
    if view.now is None or view.before is None:
        return
    if view.now.entropy is None:
        states.empty("No prompts in this time", "Widen the time range above, or send traffic through the gateway:", "cachescope status")
        return
    chrome.dials(drift.dials(view))
    st.caption(
        f"Now: {words.span(view.now.window.start_ms, view.now.window.end_ms)} · "
        f"before: {words.span(view.before.window.start_ms, view.before.window.end_ms)} · "
        "the same text of two tenants counts as two prompts"
    )
    left, right = st.columns(2)
    with left:
        panels.chart(charts.ranks(view.now, view.before), rows=charts.rank_rows(view.now, view.before), key="ranks")
    with right:
        rows = charts.similarity_rows(view.now, view.before)
        panels.chart(charts.similarities(view.now, view.before), rows=rows, key="similarities")
    if not view.prompts_recorded:
        states.prompts_hidden("new and vanished prompts show no texts")
    for title, found in drift.lists(view):
        st.markdown(f"**{title}**")
        if found:
            tables.show(drift.prompt_rows(found), alt=title)
        else:
            st.caption("None.")
    st.caption(f"Read at {words.clock(now)} UTC · all times are UTC")


chrome.live(body)
