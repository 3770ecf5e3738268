"""A chart with its title and its table twin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from app.charts import theme
from app.charts.theme import Chart
from app.ui import tables
from app.ui.text import literal


def chart(made: Chart, *, rows: Sequence[Mapping[str, Any]], key: str, columns: Mapping[str, Any] | None = None) -> None:
    """Draw title, figure and table twin."""
    st.markdown(f"**{literal(made.title)}**")
    st.plotly_chart(made.figure, key=key, config=theme.CONFIG, alt=made.alt)
    tables.twin(rows, of=made.title, columns=columns)
