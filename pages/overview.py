"""Overview: is it all right, and if not, whose fault?"""

import streamlit as st

from app.charts import latency, rates
from app.ui import chrome, filters, handles, lever, panels, regret_panel, states, tables, why_panel
from app.views import overview, overview_rows

selection = chrome.open_page("Overview", compare=True)
lever.draw(selection.scope.namespace)


def body() -> None:
    now = handles.now_ms()
    window = selection.window(now)
    view = overview.load(
        handles.telemetry,
        handles.ops,
        handles.engine,
        window=window,
        scope=selection.scope,
        window_name=selection.name,
        now_ms=now,
        before=selection.before(window),
        before_name=selection.before_name,
    )
    chrome.headline(view.sentence, bad=view.bad)
    chrome.evidence("hit_rate", "The hit rate in detail")
    states.report(view.failures, overview.SOURCES)
    traffic = view.traffic
    if traffic:
        states.stale(traffic.extent.last_ms if selection.moving else None, now)
        chrome.stamp(now, traffic.extent.last_ms)
    if traffic and not traffic.counts.total:
        states.no_lookups(last_ms=traffic.extent.last_ms, now_ms=now, window_name=selection.name)
    elif traffic:
        why_panel.line(why_panel.answer(selection, window))
        chrome.dials(overview_rows.rate_dials(traffic))
        chrome.dials(overview_rows.other_dials(traffic))
        regret_panel.line(selection.scope.namespace, now)
        panels.chart(rates.outcomes(traffic.buckets, view.window, view.marks), rows=overview_rows.outcome_rows(traffic), key="outcomes")
        left, right = st.columns(2)
        with left:
            panels.chart(latency.figure(traffic.latency.buckets, view.window), rows=overview_rows.latency_rows(traffic), key="latency")
        with right:
            st.markdown("**What moved the hit rate, by namespace**")
            moved = overview_rows.mover_rows(traffic, filters.query())
            if moved:
                links = {name: tables.link(name, shown="/(hit_rate|traces)") for name in ("hit rate page", "traces")}
                tables.show(moved, alt="Effect of each namespace on the change of the hit rate", columns=links)
            else:
                st.caption(f"Nothing to compare with: no eligible lookups in {selection.before_name}.")
    st.markdown("**Health**")
    tables.show(overview_rows.health_rows(view.health), alt="Health of the gateway and of each source of telemetry")


chrome.live(body)
