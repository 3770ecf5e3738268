"""The lower half of *Sources*: what was understood of each sender, what was missing, and what that hides."""

from __future__ import annotations

import streamlit as st

from app.analysis.pricing import Rates
from app.ui import handles, tables
from app.views import sources, understood
from app.views.sources import Sources

# Two tables in place of one: each fits a laptop.
_CAME = ("accepted", "lookups", "calls", "duplicates", "rejected", "answered, not stored")
_COST = ("cost as sent", "cost by your prices", "saved by the provider's cache", "input as sent", "rule")


def senders(view: Sources) -> None:
    """Draw every sender and target, and what came of each."""
    rows = sources.source_rows(view)
    st.markdown("**Senders and scrape targets**")
    tables.show(_without(rows, _CAME), alt="Every sender of telemetry and every scrape target")
    st.markdown("**What came of each, since it was first seen**")
    tables.show(_only(rows, ("service", "kind", "instance", *_CAME)), alt="What came of every sender and scrape target")


def _only(rows: list[dict[str, object]], names: tuple[str, ...]) -> list[dict[str, object]]:
    return [{name: row[name] for name in names} for row in rows]


def _without(rows: list[dict[str, object]], names: tuple[str, ...]) -> list[dict[str, object]]:
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


def draw(view: Sources, window_name: str) -> None:
    """Draw the tables; a table that would be empty says so, or stays away where its absence is the normal case."""
    st.markdown("**What was understood, by sender, since each was first seen**")
    rows = understood.understood_rows(view.sources)
    if rows:
        # Scope and number of spans stand above.
        tables.show(_without(rows, ("spans", "scope")), alt="What was understood of each sender's spans")
        st.caption("A call that several spans tell of counts once. What a response cache answered is no call.")
    else:
        st.caption("No spans have come.")
    st.markdown("**What was missing, and what that hides**")
    missing = understood.missing_rows(view.sources)
    tables.show(missing, alt="Fields that lookups and calls lacked, and what that hides") if missing else st.caption("Nothing.")
    _calls(view, window_name)
    scores = understood.score_rows(view.told, view.sources)
    if scores:
        st.markdown(f"**Which way scores point, by what was served in {window_name}**")
        tables.show(scores, alt="The direction of each sender's similarity scores")
    errors = understood.error_rows(view.told, view.sources)
    if errors:
        st.markdown(f"**Errors served from a cache in {window_name}**")
        tables.show(errors, alt="Senders whose cache served errors")


def _calls(view: Sources, window_name: str) -> None:
    st.markdown(f"**Model calls in {window_name}, and the providers' own prompt caches**")
    prices = {
        model: Rates(price.input_usd, price.output_usd, price.cached_input_usd) for model, price in handles.config().price_table.items()
    }
    rows = understood.call_rows(view.told, prices)
    if not rows:
        st.caption("None was told of.")
        return
    columns = {"share of input": tables.percent_bar("share of input", width=130)}
    tables.show(_without(rows, _COST), alt="Model calls by service, provider and model", columns=columns)
    tables.show(_only(rows, ("service", "provider", "model", *_COST)), alt="Cost of model calls by service, provider and model")
    more = "The newest 100,000 calls of the range. " if understood.calls_cut(view.told) else ""
    st.caption(
        f"{more}Input tokens hold the cached ones, whatever the sender wrote (*input as sent*). The share is of the calls that told of "
        "cached tokens; a call that did not is no miss. Prices are those of the settings; fresh and cached tokens are priced apart."
    )
