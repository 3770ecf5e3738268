"""A trace of block hashes, brought by the operator, and what each size of unit would save of it."""

from __future__ import annotations

import streamlit as st

from app.charts import regret as charts
from app.ui import panels, tables
from app.ui.text import literal
from app.views import granularity


def draw() -> None:
    """Draw the upload and its answer. Nothing of the file is kept."""
    st.markdown("**Granularity: prompt, chunk or token block**")
    st.caption(
        "No sender records its blocks' hashes in telemetry. Bring them as JSON lines with `hash_ids` (each hash covers all before it) "
        "and `input_length` (tokens), as inference servers' traces have them."
    )
    tokens = st.number_input(
        "Tokens of a block", min_value=1, max_value=65_536, value=512, key="block_tokens", bind="query-params", width=200
    )
    brought = st.file_uploader("Trace of block hashes", type=["jsonl", "json"], key="block_trace", max_upload_size=32)
    if brought is None:
        return
    view = granularity.load(brought.getvalue(), block_tokens=int(tokens))
    (st.error if view.bad else st.markdown)(literal(view.sentence) if view.bad else f"**{literal(view.sentence)}**")
    if view.found:
        bars = {name: tables.percent_bar(name) for name in ("prefill saved", "prompts with a hit")}
        numbers = {name: tables.number(name) for name in ("tokens saved", "units stored", "tokens held")}
        rows = granularity.rows(view.found)
        panels.chart(charts.granularity(view.found), rows=rows, key="granularity", columns={**bars, **numbers})
