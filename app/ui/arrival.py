"""Coming to a page by its address: a link shows in a session that is under way what it shows in a new one.

Streamlit ties `range`, `namespace` and every other value of the bar to the page on which its widget was drawn last. From the address of
another page it removes what is so tied, then restores what the session had; and it refuses to switch pages with such a value.
Its public names offer no way around either, so that this module alone uses those of its runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.state.query_params import QueryParams

from app.ui.links import page_path

_SHOWN = "page_shown"


def take(page: str) -> None:
    """Let the address decide what is shown where another page was shown before. For the router, before the page runs."""
    context, before = get_script_run_ctx(), st.session_state.get(_SHOWN)
    st.session_state[_SHOWN] = page
    if context is None or before in {None, page}:
        return
    said = dict(parse_qsl(context.query_string, keep_blank_values=True))  # a browser puts the values of the page before first
    with context.session_state.query_params() as address:
        _loosen(address, said)
        address.from_dict(said)
        address.set_initial_query_params_from_current()


def go(page: str, query: Mapping[str, str]) -> None:
    """Show another page with this query. Ends the run."""
    context = get_script_run_ctx()
    if context is not None:
        with context.session_state.query_params() as address:
            _loosen(address, query)
    st.switch_page(page_path(page), query_params=dict(query))


def say(query: Mapping[str, str]) -> None:
    """Write these values to the address of the page that is shown, whether or not their widgets are drawn. For callbacks."""
    context = get_script_run_ctx()
    if context is not None:
        with context.session_state.query_params() as address:
            _loosen(address, query)
            address.update(query)


def _loosen(address: QueryParams, query: Mapping[str, str]) -> None:
    """Free these values from their widgets: a widget is tied to its value again when it is drawn."""
    for key in query:
        if tied := address.get_binding_for_param(key):
            address.unbind_widget(tied.widget_id)
