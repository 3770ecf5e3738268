"""The list of lookups: its filters, and picking a row. What is picked lives in the URL as `?trace=…`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import streamlit as st

from app.analysis.hit_rate import OUTCOMES
from app.ui import links, tables
from app.views import traces, words
from app.views.traces import Listing
from storage.reads.traces import Search

_SHOWN, _PICKED = "traces_shown", "trace_picked"
_MOST_LINKS = 20  # each is an element of the page; what is older is found by the filters


def search(reasons: list[str]) -> Search:
    """Draw the list's own filters and return them."""
    names = {words.OUTCOME_NAMES[outcome]: outcome for outcome in OUTCOMES}
    held = st.query_params.get("reason") or st.session_state.get("reason")
    options = reasons if not held or held in reasons else [*reasons, held]
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        text = st.text_input(
            "Search",
            key="q",
            bind="query-params",
            placeholder="Text, trace id or entry id",
            label_visibility="collapsed",
            icon=":material/search:",
            max_chars=200,
            width=260,
        )
        outcome = st.selectbox(
            "Outcome",
            list(names),
            index=None,
            placeholder="All outcomes",
            key="outcome",
            bind="query-params",
            label_visibility="collapsed",
            width=142,
        )
        reason = st.selectbox(
            "Reason",
            options,
            index=None,
            placeholder="All reasons",
            key="reason",
            bind="query-params",
            label_visibility="collapsed",
            width=142,
        )
        slow = st.number_input(
            "At least ms",
            min_value=0.0,
            value=None,
            key="min_ms",
            bind="query-params",
            placeholder="At least … ms",
            label_visibility="collapsed",
            width=150,
        )
        near = tuple(
            st.number_input(
                f"Similarity {end}",
                min_value=-1.0,
                max_value=1.0,
                value=None,
                step=0.01,
                format="%.4f",
                key=f"similarity_{end}",
                bind="query-params",
                placeholder=f"Cosine {end}",
                label_visibility="collapsed",
                width=150,
            )
            for end in ("from", "to")
        )
    low, high = near
    return Search(names.get(outcome or "", ""), reason or "", text or "", slow or 0.0, similarity_from=low, similarity_to=high)


def picked() -> str:
    """Return the trace id of the URL, '' when there is none."""
    return st.query_params.get("trace", "")


def forget() -> None:
    """Close the trace: for a button's on_click."""
    st.query_params.pop("trace", None)


def draw(listing: Listing) -> None:
    """Draw the list. Its key changes with its rows, so that a selection never points at a row that has moved."""
    rows, shown = traces.rows(listing), [row.trace_id.hex() for row in listing.rows]
    key = f"trace_list_{listing.rows[0].id if listing.rows else 0}_{len(shown)}"
    st.session_state[_SHOWN] = (key, shown)

    def pick() -> None:
        held, ids = st.session_state.get(_SHOWN, ("", []))
        selected = cast(dict[str, Any], st.session_state.get(key) or {}).get("selection", {}).get("rows", [])
        if held == key and selected and selected[0] < len(ids):
            st.query_params["trace"] = ids[selected[0]]
            st.session_state[_PICKED] = True

    alt = "Lookups, the newest first; select one to open its trace"
    tables.keep(rows, alt=alt)
    st.dataframe(
        tables.filled(rows),
        hide_index=True,
        key=key,
        on_select=pick,
        selection_mode="single-row",
        placeholder="–",
        height=min(35 * (len(shown) + 1) + 3, 460),
        column_config={
            "duration ms": tables.number("duration ms", pattern="%.2f"),
            "similarity": tables.number("similarity", pattern="%.4f"),
            "trace": st.column_config.TextColumn("trace", width=78, help="The trace's id; a cell shows all of it when it is selected"),
            "prompt": st.column_config.TextColumn("prompt", width=250),
            "reason": st.column_config.TextColumn("reason", width=110),  # most rows have none, and a width of their own would clip it
        },
        alt=alt,
    )
    if st.session_state.pop(_PICKED, False):
        st.rerun()  # the trace is drawn outside the refreshing fragment
    more = "; there are more: narrow the range or the filters" if listing.more else ""
    st.caption(f"{words.many(len(shown), 'lookup', 'lookups')}, the newest first{more}. Select a row to open its trace.")
    _links(rows)


def _links(rows: Sequence[Mapping[str, object]]) -> None:
    """Draw the newest traces as links, for whoever does not point at the list. The filters stay as they are."""
    held = st.query_params.to_dict()
    with st.expander("The newest as links"):  # no number in it: an expander whose label changes closes
        for row in rows[:_MOST_LINKS]:
            told = links.label(row, ("time (UTC)", "outcome", "namespace", "tenant", "prompt"))
            st.page_link(
                links.page_path("traces"), label=told, icon=":material/account_tree:", query_params={**held, "trace": str(row["trace"])}
            )
