"""Hit rate: where do hits come from, and where do they go?"""

import streamlit as st

from app.ui import chrome, counters_panel, handles, hit_rate_panel, lever, states, tables, why_panel
from app.views import counters, hit_rate, worth
from app.views.rates import sampled_note

selection = chrome.open_page("Hit rate", compare=True, over_time=True)
lever.draw(selection.scope.namespace)


def body() -> None:
    now = handles.now_ms()
    window = selection.window(now)
    view = hit_rate_panel.load(selection, window, now, answer := why_panel.answer(selection, window))
    loaded = view.loaded
    counted = counters_panel.load(window, now)
    told = "" if loaded is None or loaded.counts.total else f" {counters.named(counted)}"
    chrome.headline(f"{view.sentence}{told}".strip(), bad=view.bad)
    states.report(view.failures, hit_rate.SOURCES)
    if loaded is None:
        return
    states.stale(loaded.extent.last_ms if selection.moving else None, now)
    chrome.stamp(now, loaded.extent)
    if not loaded.counts.total and not loaded.others:
        if counters_panel.hit_rates(counted, window, view.marks):
            return
        states.no_lookups(last_ms=loaded.extent.last_ms, now_ms=now, window_name=selection.name)
        return
    states.sampled(sampled_note(loaded.counts))
    chrome.dials(hit_rate.coverage_dials(loaded))
    chrome.dials(worth.dials(loaded.worth))
    rows = hit_rate_panel.rate(view := hit_rate_panel.marked(view, answer), loaded)
    why_panel.panel(answer)
    hit_rate_panel.outcomes(view, loaded, rows)
    st.markdown(f"**{hit_rate.segments_title(loaded)}**")
    bar = tables.percent_bar
    tables.show(
        hit_rate.segment_rows(loaded),
        alt="Hit rate by namespace, tenant and model",
        columns={"hit rate": bar("hit rate"), "exact": bar("exact"), "semantic": bar("semantic"), "n": tables.number("n")},
    )
    left, right = st.columns([3, 5])  # the reasons are sentences
    with left:
        hit_rate_panel.funnel(loaded)
    with right:
        st.markdown("**Why lookups missed, were bypassed or failed**")
        shown = {"share": bar("share", help="Of all lookups with this outcome", width=110), "reason": tables.text("reason", width=330)}
        tables.show(hit_rate.reason_rows(loaded), alt="Reasons of misses, bypasses and errors", columns=shown)
    if loaded.others:
        st.markdown("**Other caches, counted apart**")
        tables.show(hit_rate.other_rows(loaded), alt="Caches of other kinds")
    counters_panel.hit_rates(counted, window, view.marks)


chrome.live(body)
