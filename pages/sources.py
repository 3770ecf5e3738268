"""Sources: can these numbers be trusted?"""

import streamlit as st

from app.ui import chrome, counters_panel, handles, sources_panel, states, tables
from app.ui.text import literal
from app.views import sources, words

selection = chrome.open_page("Sources", scoped=False)


def body() -> None:
    now = handles.now_ms()
    view = sources.load(handles.telemetry, window=selection.window(now), now_ms=now)
    chrome.headline(view.sentence, bad=view.bad)
    states.report(view.failures, sources.SOURCES)
    if view.failures:
        return
    chrome.stamp(now, view.extent)
    if not view.sources:
        states.empty("No sender yet", "Start everything on this machine, or point an OTLP exporter here:", "cachescope up")
        return
    sources_panel.senders(view)
    left, right = st.columns(2)
    with left:
        st.markdown("**The gateways' counters beside the stored lookups**")
        balance = view.reconciliation
        if balance:
            tables.show(sources.balance_rows(balance), alt="Reconciliation of counters and stored lookups")
            resets = f"; {balance.resets} counter resets (restarts)" if balance.resets else ""
            told = f"From {words.instant(balance.from_ms)} to {words.instant(balance.to_ms)} UTC{resets}"
            st.caption(literal(f"{told}. A few either way ended during a scrape."))
        elif view.uncounted:
            st.caption("The gateways have counted no lookup yet.")
        else:
            states.empty(
                "No counters scraped in this range",
                "The collector scrapes each gateway every few seconds; see whether it runs:",
                "cachescope status",
            )
    with right:
        st.markdown("**Rejected spans, by reason**")
        rejected = sources.reject_rows(view)
        tables.show(rejected, alt="Rejected spans by reason") if rejected else st.caption("None.")
    sources_panel.draw(view, selection.name)
    counters_panel.sources(view.window, now)


chrome.live(body)
