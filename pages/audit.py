"""Audit: who did what, and is the record whole?"""

import streamlit as st

from app.ui import acts, audit_panel, chrome, handles, states, tables
from app.views import audit, words

chrome.open_page("Audit", bar=False, refreshed=False)
asked = audit_panel.filters()
view = audit.load(handles.ops, kind=asked.kind, namespace=asked.namespace, act_id=asked.act_id, before_seq=asked.before_seq)
chrome.headline(view.sentence, bad=view.bad)
states.report(view.failures, audit.SOURCES)
audit_panel.chosen(view, asked)
if view.acts:
    st.markdown("**Acts, newest first**")
    tables.show(audit.rows(view), alt="Acts of operators, newest first", columns=acts.RECORD)
elif view.chain and not view.chain.events:
    states.empty(
        "Nothing to show yet", "Purges, switches, thresholds, warm-ups and keys are recorded here as they are done:", "cachescope --help"
    )
elif view.chain:
    states.empty("No act matches these filters", "Clear a filter above to see the others.")
audit_panel.turn(view, asked)
tables.offer()
st.caption(f"Read at {words.clock(handles.now_ms())} UTC · all times are UTC")
