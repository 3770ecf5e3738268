"""The thresholds page's part about what was held out: how far the two answers agree, and the pairs that agree least."""

from __future__ import annotations

import streamlit as st

from app.ui import links, tables
from app.ui.text import literal
from app.ui.threshold_panel import COLUMNS
from app.views import holdout
from app.views.holdout import Holdout


def draw(view: Holdout) -> None:
    """Draw it; nothing where the database does not answer, which the page says by itself."""
    if view.failures:
        return
    st.markdown("**Holdout: the cache's answer against the upstream's**")
    st.caption(literal(holdout.sentence(view)))
    if not view.held:
        return
    tables.show(holdout.rows(view), alt="Agreement of the answers held out with the upstream's")
    st.caption(holdout.NOTE)
    worst = holdout.worst_rows(view)
    if worst:
        with st.expander(f"Semantic hits whose answers agree least: {len(worst)}"):
            tables.show(worst, alt="Held-out semantic hits whose answers agree least", columns=COLUMNS)
            links.beneath(worst, "trace", by=("at (UTC)", "asked"), lead="Open the trace of")
