"""Purge: remove it, now, provably."""

import streamlit as st

from app.ui import acts, chrome, handles, purge_panel, states, tables
from app.ui.text import literal
from app.views import purge, words

chrome.open_page("Purge", bar=False, refreshed=False)
now = handles.now_ms()
view = purge.load(handles.engine, handles.ops, now_ms=now)
chrome.headline(view.sentence, bad=view.bad)
states.report(view.failures, purge.SOURCES)
acts.outcome(purge_panel.PURGE)
acts.outcome(purge_panel.UNDO)

name = acts.pick_namespace(view.names)
row = view.find(name) if name is not None else None
if row:
    purge_panel.switch(row)
    purge_panel.preview(row.name)
elif name is not None and view.namespaces:
    st.warning(f"The cache does not know the namespace {literal(words.name(name))}", icon=":material/search_off:")
elif view.namespaces:
    st.markdown("**Namespaces**")
    tables.show(purge.namespace_rows(view), alt="Namespaces and what they may serve")
elif not view.failures:
    states.empty("There is nothing to purge", "A namespace shows here with its first request through the gateway:", "cachescope status")
purge_panel.recent(view)
purge_panel.confirmation()
purge_panel.undo_confirmation()
tables.offer()
st.caption(f"Read at {words.clock(now)} UTC · all times are UTC")
