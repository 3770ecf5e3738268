"""The drift between two windows, for its own page and for the Overview, and its charts.

It is what the worker computed, else computed once a minute at most.
"""

from __future__ import annotations

import streamlit as st

from app.charts import drift as charts
from app.ui import filters, handles, panels
from app.views import drift_ahead
from app.views.drift import Drift, Side
from storage.reads.window import Scope, Window

_KEPT_S = 60  # windows end with a minute: the next one asks anew in any case


def charts_of(now: Side, before: Side) -> None:
    """Draw both windows side by side; a click on a point leads to its lookups."""
    query = filters.query("traces")
    left, right = st.columns(2)
    with left:
        click = panels.on_address(charts.most_frequent(now, query), "Lookups of rank 1 now")
        panels.chart(charts.ranks(now, before, query), rows=charts.rank_rows(now, before), key="ranks", click=click)
    with right:
        click = panels.on_address(charts.nearest(now, before, query), "Lookups of the fullest step now")
        rows = charts.similarity_rows(now, before)
        panels.chart(charts.similarities(now, before, query), rows=rows, key="similarities", click=click)


class _Failed(Exception):
    """Carries a view whose source failed past the cache: the next look tries again."""

    def __init__(self, view: Drift) -> None:
        super().__init__()
        self.view = view


def load(selection: filters.Selection, window: Window) -> Drift:
    """Return the comparison of the window with the one chosen in the bar."""
    scope = selection.scope
    asked = (scope.namespace, scope.tenant, scope.model, scope.source)
    told = (selection.range, selection.name, selection.before_name)
    try:
        return _load(window.start_ms, window.end_ms, selection.before(window).start_ms, asked, told)
    except _Failed as failed:
        return failed.view


@st.cache_data(ttl=_KEPT_S, max_entries=16, show_spinner=False)
def _load(start_ms: int, end_ms: int, before_ms: int, asked: tuple[str | None, ...], told: tuple[str, str, str]) -> Drift:
    namespace, tenant, model, source = asked
    horizon, name, before_name = told
    window = Window(start_ms, end_ms)
    view = drift_ahead.load(
        handles.telemetry,
        handles.ops,
        window=window,
        scope=Scope(namespace=namespace, tenant=tenant, model=model, source=source),
        window_name=name,
        horizon=horizon,
        now_ms=handles.now_ms(),
        before=window.shifted(start_ms - before_ms),
        before_name=before_name,
    )
    if view.failures:
        raise _Failed(view)
    return view
