"""Overview: is it all right, and if not, whose fault?"""

import streamlit as st

from app.ui import chrome, counters_panel, drift_panel, handles, lever, overview_panel, states, tables, why_panel
from app.views import overview, overview_rows

selection = chrome.open_page("Overview", compare=True, over_time=True)
lever.draw(selection.scope.namespace)


def body() -> None:
    now = handles.now_ms()
    window = selection.window(now)
    answer = why_panel.answer(selection, window)
    mix = drift_panel.load(selection, window)
    view = overview_panel.load(selection, window, now, answer, mix)
    chrome.headline(view.sentence, bad=view.bad)
    chrome.evidence("hit_rate", "The hit rate in detail")
    states.report(view.failures, overview.SOURCES)
    traffic = view.traffic
    if traffic:
        states.stale(traffic.extent.last_ms if selection.moving else None, now)
        chrome.stamp(now, traffic.extent)
    if traffic and not traffic.counts.total:
        if traffic.extent.last_ms is not None:
            overview_panel.four(view, traffic, selection, mix)
        if not counters_panel.line(view.window, now) or traffic.extent.last_ms is not None:
            states.no_lookups(last_ms=traffic.extent.last_ms, now_ms=now, window_name=selection.name)
    elif traffic:
        overview_panel.draw(view, traffic, selection, answer, mix)
    st.markdown("**Health**")
    tables.show(overview_rows.health_rows(view.health), alt="Health of the gateway and of each source of telemetry")


chrome.live(body)
