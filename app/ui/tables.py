"""Tables: every chart's twin, and lists. Rows are dicts of plain values; times are text in UTC, never shifted by a browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import streamlit as st


def percent_bar(label: str, *, help: str | None = None, width: int | None = None) -> Any:  # noqa: A002 - Streamlit's own word
    """Return a column of 0…100 values drawn as a bar and a percentage. None stays empty."""
    return st.column_config.ProgressColumn(label, min_value=0, max_value=100, format="%.1f %%", help=help, width=width)


def number(label: str, *, pattern: str = "localized", help: str | None = None) -> Any:  # noqa: A002 - Streamlit's own word
    return st.column_config.NumberColumn(label, format=pattern, help=help)


def link(label: str, *, shown: str, help: str | None = None) -> Any:  # noqa: A002 - Streamlit's own word
    """Return a column of addresses that are ours, never a tenant's. shown: a pattern whose first group is what is read."""
    return st.column_config.LinkColumn(label, display_text=shown, help=help)


def show(
    rows: Sequence[Mapping[str, Any]],
    *,
    alt: str,
    columns: Mapping[str, Any] | None = None,
    order: Sequence[str] | None = None,
    height: int | None = None,
    key: str | None = None,
) -> None:
    """Draw rows as a sortable table. columns: name -> label or column_config."""
    frame = pd.DataFrame(list(rows))
    st.dataframe(
        frame,
        hide_index=True,
        column_config=dict(columns or {}),
        column_order=order,
        height=height if height is not None else "auto",
        key=key,
        placeholder="–",
        alt=alt,
    )


def twin(rows: Sequence[Mapping[str, Any]], *, of: str, columns: Mapping[str, Any] | None = None) -> None:
    """Draw a chart's numbers in an expander beneath it. of: the chart's title."""
    with st.expander(f"Table: {of}"):
        if rows:
            show(rows, alt=f"The numbers of the chart: {of}", columns=columns)
        else:
            st.caption("No rows.")
