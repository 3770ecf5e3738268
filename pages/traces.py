"""Traces: what happened to this request?"""

import streamlit as st

from app.ui import chrome, handles, lever, states, trace, trace_list
from app.views import traces

selection = chrome.open_page("Traces", tier=True)
lever.draw(selection.scope.namespace)
now = handles.now_ms()
search = trace_list.search(traces.reasons(handles.telemetry, window=selection.window(now), scope=selection.scope))
trace_id = trace_list.picked()
if trace_id:
    with st.container(border=True):
        st.button("Close the trace", on_click=trace_list.forget, icon=":material/close:", key="close_trace")
        shown = traces.load(handles.telemetry, handles.engine, trace_id=trace_id, correct=trace.corrects())
        if shown:
            trace.draw(shown)
        else:
            states.empty(*traces.absent(trace_id))


def body() -> None:
    at = handles.now_ms()
    listing = traces.find(handles.telemetry, window=selection.window(at), scope=selection.scope, search=search, now_ms=at)
    chrome.headline(traces.sentence(listing, selection.name), bad=any(not failure.missing for failure in listing.failures))
    states.report(listing.failures, traces.SOURCES[:1])
    if listing.failures:
        return
    chrome.stamp(at, listing.extent)
    if not listing.rows:
        states.no_lookups(last_ms=listing.extent.last_ms, now_ms=at, window_name=selection.name)
        return
    if not listing.prompts:
        states.prompts_hidden("the list shows no text, and the search finds ids only.")
    trace_list.draw(listing)


chrome.live(body, every_s=chrome.REFRESH_S if not trace_id else None)
