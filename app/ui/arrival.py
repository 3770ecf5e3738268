"""Coming to a page by its address: a link shows in a session that is under way what it shows in a new one, and Back what was shown.

Streamlit ties `range`, `namespace` and every other value of the bar to the page on which its widget was drawn last. From the address of
another page it removes what is so tied, then restores what the session had; and it refuses to switch pages with such a value. So no
value stays tied once a page is drawn: its widget is tied to it again when it is drawn.
A browser appends a link's query to the values of the page that it leaves, and it enters the address that the server makes of both into
its history while the old page's path still stands there. Nobody has ever seen that page with these values: Back must not show it.
Streamlit's public names offer no way around either, so that this module alone uses those of its runtime.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl

import streamlit as st
from streamlit.runtime.scriptrunner import get_script_run_ctx
from streamlit.runtime.state.query_params import QueryParams

from app.ui.links import page_path

_SHOWN = "page_shown"
_QUERY = "page_query"  # what its address said when it was drawn last
_TIED = "page_values"  # the names of the values that its widgets have
_LEFT = "page_left"  # the page before with what its address said, until the one that it was left for is drawn
_PASSED = "pages_passed"  # addresses that were never shown -> what that page's address said
_MOST_PASSED = 200


def take(page: str) -> None:
    """Let the address decide what is shown where another page was shown before. For the router, before the page runs."""
    context, before = get_script_run_ctx(), st.session_state.get(_SHOWN)
    st.session_state[_SHOWN] = page
    if context is None or before is None:
        return
    pairs = parse_qsl(context.query_string, keep_blank_values=True)
    said = dict(pairs)  # a browser puts the values of the page before first
    was: dict[str, str] = st.session_state.get(_QUERY, {})
    meant = _passed().get((page, frozenset(said.items())), said) if context.is_history_navigation else said
    if before != page and not context.is_history_navigation:
        st.session_state[_LEFT] = before, was
        _pass(before, was, said)
    if meant is said and before == page:
        return
    st.session_state[_QUERY] = meant  # of a page that is left before it is drawn nothing else will be known
    with context.session_state.query_params() as address:
        if address.to_dict() == meant and len(pairs) == len(said):
            return
        _loosen(address, meant)  # of a page that was left before it was drawn
        # In the order in which the old page's address has them they are no other address to a browser: it enters nothing.
        address.from_dict({**{name: meant[name] for name in was if name in meant}, **meant})
        address.set_initial_query_params_from_current()


def settle() -> None:
    """Free the values of the page that was drawn from their widgets, and take those from the address whose widgets went. For the router."""
    context = get_script_run_ctx()
    if context is None:
        return
    page, (of, before) = st.session_state.get(_SHOWN), st.session_state.get(_TIED, ("", frozenset()))
    names = [str(name) for name in st.session_state]
    with context.session_state.query_params() as address:
        tied = frozenset(name for name in names if address.is_bound(name))
        _loosen(address, dict.fromkeys(tied, ""))
        held = address.to_dict()
        kept = {name: value for name, value in held.items() if of != page or name not in before - tied}
        if kept != held:
            address.from_dict(kept)
    st.session_state[_TIED], st.session_state[_QUERY] = (page, tied), kept
    if left := st.session_state.pop(_LEFT, None):
        _pass(left[0], left[1], kept)


def _passed() -> dict[tuple[str, frozenset[tuple[str, str]]], dict[str, str]]:
    found: dict[tuple[str, frozenset[tuple[str, str]]], dict[str, str]] = st.session_state.setdefault(_PASSED, {})
    return found


def _pass(page: str, was: dict[str, str], query: Mapping[str, str]) -> None:
    """Note that the page's address may stand in the history with this query, though it said `was`."""
    passed = _passed()
    if query != was:
        passed[page, frozenset(query.items())] = was
    while len(passed) > _MOST_PASSED:
        passed.pop(next(iter(passed)))


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
