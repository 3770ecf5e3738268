"""Regret & capacity: is tuning worth it, and which knob?"""

import streamlit as st

from app.ui import chrome, granularity_panel, handles, regret_panel, states, tables
from app.ui.text import literal
from app.views import regret, regret_rows, words

chrome.open_page("Regret & capacity", bar=False)
horizon, namespace = regret_panel.choose()


def body() -> None:
    now = handles.now_ms()
    view = regret.load(handles.ops, horizon=horizon, namespace=namespace, now_ms=now)
    chrome.headline(view.sentence, bad=view.bad or view.failing)
    states.report(view.failures, regret.SOURCES)
    if not regret_panel.waiting(view):
        return
    row = view.chosen
    if row is not None and row.findings is not None:
        found = row.findings
        regret_panel.whose(view)
        chrome.dials(regret.dials(row, view))
        regret_panel.bracket(view)
        regret_panel.course(horizon, namespace, now)
        st.markdown(f"**What each knob would have won in namespace {literal(words.name(row.namespace))}**")
        share = {"of its lookups": tables.percent_bar("of its lookups"), "hits": tables.number("hits")}
        tables.show(regret_rows.knob_rows(found), alt="What each knob would have won", columns=share)
        regret_panel.curves(found)
        st.markdown("**Policies on the recorded stream, at shares of today's space**")
        rows = regret_rows.tournament_rows(found)
        bars = {name: tables.percent_bar(name) for name in rows[0] if name.startswith("missed")}
        tables.show(rows, alt="Miss ratio of each policy at shares of today's space", columns=bars)
        st.caption(literal(" · ".join(regret_rows.notes(row))))
    elif view.rows:
        tables.show(regret_rows.namespace_rows(view), alt="Namespaces without an analysis")
    regret_panel.apart(view)
    st.caption(f"Read at {words.clock(now)} UTC · all times are UTC")


chrome.live(body)
granularity_panel.draw()
