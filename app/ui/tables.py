"""Tables: every chart's twin, and lists. Rows are dicts of plain values; times are text in UTC, never shifted by a browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
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


def twin(rows: Sequence[Mapping[str, Any]], *, of: str, columns: Mapping[str, Any] | None = None, key: str = "") -> None:
    """Draw a chart's numbers in an expander beneath it, and offer them as files. of: the chart's title."""
    with st.expander(f"Table: {of}"):
        if rows:
            show(rows, alt=f"The numbers of the chart: {of}", columns=columns)
            files(rows, name=key or of)
        else:
            st.caption("No rows.")


def files(rows: Sequence[Mapping[str, Any]], *, name: str) -> None:
    """Draw the buttons that save rows as CSV and Parquet. The files are made when they are asked for."""
    with st.container(horizontal=True, gap="small"):
        for kind, made, media in (("csv", csv, "text/csv"), ("parquet", parquet, "application/vnd.apache.parquet")):
            st.download_button(
                kind.upper() if kind == "csv" else kind.capitalize(),
                data=partial(made, rows),
                file_name=f"{name}.{kind}",
                mime=media,
                key=f"{name}_{kind}",
                on_click="ignore",
                icon=":material/download:",
                type="tertiary",
            )


def csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return rows as CSV. A text that a spreadsheet would run as a formula is kept text by a leading apostrophe."""
    safe = [{column: _inert(value) for column, value in row.items()} for row in rows]
    return bytes(pd.DataFrame(safe).to_csv(index=False).encode())


def _inert(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value[:1] in _FORMULA else value


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return rows as a Parquet file, with the columns' own types."""
    return bytes(pd.DataFrame(list(rows)).to_parquet(index=False))
