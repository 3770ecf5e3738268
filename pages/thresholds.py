"""Thresholds: how low can we go, safely?"""

import streamlit as st

from app.ui import acts, chrome, handles, holdout_panel, normaliser_panel, score_panel, states, tables, threshold_panel
from app.views import holdout, thresholds, words

selection = chrome.open_page("Thresholds", refreshed=False)
now = handles.now_ms()
view = thresholds.load(
    handles.telemetry,
    handles.ops,
    handles.engine,
    window=selection.window(now),
    scope=selection.scope,
    window_name=selection.name,
)
chrome.headline(view.sentence, bad=view.bad)
states.report(view.failures, thresholds.SOURCES)
acts.outcome(threshold_panel.SLOT)
namespace = selection.scope.namespace
if namespace is None:
    if view.counts:
        tables.show(thresholds.count_rows(view), alt="Lookups with a candidate by namespace")
        st.caption("Choose a namespace in the bar above to see its similarities and move its threshold.")
    elif not view.failures:
        states.empty("No lookups in this time", "Widen the time range above, or send traffic through the gateway:", "cachescope status")
else:
    if not view.prompts_recorded:
        states.prompts_hidden("the pairs below show no texts, only similarities and verdicts")
    threshold_panel.explore(view, namespace)
    if view.effective is not None:
        normaliser_panel.draw(view.effective.policy, namespace)
    score_panel.draw(view, namespace)
    holdout_panel.draw(holdout.load(handles.telemetry, window=selection.window(now), scope=selection.scope))
    threshold_panel.history(view, namespace)
    threshold_panel.confirmation(view)
    threshold_panel.restoring(view)
tables.offer()
st.caption(f"Read at {words.clock(now)} UTC · all times are UTC")
