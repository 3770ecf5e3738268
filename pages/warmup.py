"""Warm-up: what should be there before they ask?"""

import streamlit as st

from app.ui import acts, chrome, handles, states, warmup_panel
from app.views import warmup, words

chrome.open_page("Warm-up", bar=False)
first = warmup.load(handles.engine, handles.ops, now_ms=handles.now_ms())


def head() -> None:
    view = warmup.load(handles.engine, handles.ops, now_ms=handles.now_ms())
    chrome.headline(view.sentence, bad=view.bad)
    states.report(view.failures, warmup.SOURCES)
    warmup_panel.progress(view)
    if first.running and not view.running:
        st.rerun()  # it ended: the outcome, the cancel button and the pace of this page are the whole page's


def tail() -> None:
    now = handles.now_ms()
    warmup_panel.recent(warmup.load(handles.engine, handles.ops, now_ms=now))
    st.caption(f"Read at {words.clock(now)} UTC · all times are UTC")


pace_s = 2 if first.running else chrome.REFRESH_S
chrome.live(head, every_s=pace_s)
warmup_panel.cancel(first)
acts.outcome(warmup_panel.SLOT)
name = acts.pick_namespace(first.names)
if name is not None:
    warmup_panel.plan(name)
elif not first.names and not first.failures:
    states.empty("There is nothing to warm", "A namespace shows here with its first request through the gateway:", "cachescope status")
chrome.live(tail, every_s=pace_s)
warmup_panel.confirmation()
