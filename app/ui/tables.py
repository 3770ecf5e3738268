"""Tables: every chart's twin, and lists. Rows are dicts of plain values; times are text in UTC, never shifted by a browser."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
import streamlit as st

from app.ui.text import literal
from app.views import definitions

_DRAWN = "tables_drawn"
_UNSAFE = re.compile(r"[^A-Za-z0-9]+")


def percent_bar(label: str, *, help: str | None = None, width: int | None = None) -> Any:  # noqa: A002 - Streamlit's own word
    """Return a column of 0…100 values drawn as a bar and a percentage. None stays empty."""
    return st.column_config.ProgressColumn(label, min_value=0, max_value=100, format="%.1f %%", help=help, width=width)


def number(label: str, *, pattern: str = "localized", help: str | None = None) -> Any:  # noqa: A002 - Streamlit's own word
    return st.column_config.NumberColumn(label, format=pattern, help=help)


def text(label: str, *, width: int | None = None, help: str | None = None) -> Any:  # noqa: A002 - Streamlit's own word
    return st.column_config.TextColumn(label, width=width, help=help)


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
    """Draw rows as a sortable table, with the definition of each number at its heading, and offer it as files.

    columns: name -> column_config. A column that holds nothing in any row is not drawn.
    """
    frame = pd.DataFrame(filled(rows))
    keep(rows, alt=alt)
    st.dataframe(
        frame,
        hide_index=True,
        column_config=configured(frame.columns, columns or {}, _counts(frame)),
        column_order=order,
        height=height if height is not None else "auto",
        key=key,
        placeholder="–",
        alt=alt,
    )


def filled(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows without the columns that hold nothing in any of them."""
    held = {name for row in rows for name, value in row.items() if value is not None and value != ""}
    return [{name: value for name, value in row.items() if name in held} for row in rows]


def keep(rows: Sequence[Mapping[str, Any]], *, alt: str) -> None:
    """Offer rows that were drawn as files, at the end of what is drawn."""
    _drawn().setdefault(alt, rows)


def _counts(frame: pd.DataFrame) -> list[str]:
    """Return the columns of whole numbers: they are read with a comma at the thousands, as in sentences."""
    return [str(name) for name in frame.columns if pd.api.types.is_integer_dtype(frame[name])]


def configured(names: Iterable[str], columns: Mapping[str, Any], whole: Collection[str] = ()) -> dict[str, Any]:
    """Return the columns' configuration with what each number is, where none of their own says so. whole: columns of counts."""
    found = dict(columns)
    for name in names:
        told = definitions.column(name)
        own = found.get(name) or (number(name) if name in whole else st.column_config.Column())
        if told and own.get("help") is None:
            found[name] = {**own, "help": literal(told)}
        elif name in whole:
            found[name] = own
    return found


def _drawn() -> dict[str, Sequence[Mapping[str, Any]]]:
    """Return the tables of this page drawn so far, by what they are."""
    kept: dict[str, Sequence[Mapping[str, Any]]] = st.session_state.setdefault(_DRAWN, {})
    return kept


def begin() -> None:
    """Forget what another page, or an earlier run of this one, drew."""
    st.session_state[_DRAWN] = {}


@contextmanager
def offered() -> Iterator[None]:
    """Draw, at the end of what is drawn inside, each of its tables as files. Charts have theirs beneath them."""
    around = st.session_state.get(_DRAWN, {})
    st.session_state[_DRAWN] = {}
    try:
        yield
        offer("save_live")
    finally:
        st.session_state[_DRAWN] = around


def offer(key: str = "save") -> None:
    shown = {alt: rows for alt, rows in _drawn().items() if rows}
    if not shown:
        return
    with st.expander("Save the tables of this page", icon=":material/download:", key=key, on_change="rerun") as box:
        if not box.open:
            return
        for alt, rows in shown.items():
            with st.container(horizontal=True, vertical_alignment="center", gap="small"):
                st.markdown(literal(alt), width="stretch")
                files(rows, name=_UNSAFE.sub("_", alt).lower())


def twin(rows: Sequence[Mapping[str, Any]], *, of: str, columns: Mapping[str, Any] | None = None, key: str = "") -> None:
    """Draw a chart's numbers in an expander beneath it, and offer them as files. of: the chart's title."""
    name = key or of
    with st.expander(f"Table: {of}", key=f"{name}_table", on_change="rerun") as box:
        if rows:
            alt = f"The numbers of the chart: {of}"
            show(rows, alt=alt, columns=columns)
            _drawn().pop(alt, None)
            if box.open:
                files(rows, name=name)
        else:
            st.caption("No rows.")


def files(rows: Sequence[Mapping[str, Any]], *, name: str) -> None:
    """Draw the buttons that save rows as CSV and Parquet, for what is open to be seen: both are made now.

    What is made when it is asked for is gone when the page has read again meanwhile, and a click at that moment does nothing.
    """
    with st.container(horizontal=True, gap="small"):
        for kind, made, media in (("csv", csv, "text/csv"), ("parquet", parquet, "application/vnd.apache.parquet")):
            st.download_button(
                kind.upper() if kind == "csv" else kind.capitalize(),
                data=made(rows),
                file_name=f"{name}.{kind}",
                mime=media,
                key=f"{name}_{kind}",
                on_click="ignore",
                icon=":material/download:",
                type="tertiary",
            )


def csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return rows as CSV, with the columns that are drawn. A text that a spreadsheet would run as a formula gets a leading apostrophe."""
    safe = [{column: _inert(value) for column, value in row.items()} for row in filled(rows)]
    return bytes(pd.DataFrame(safe).to_csv(index=False).encode())


def _inert(value: object) -> object:
    return f"'{value}" if isinstance(value, str) and value[:1] in _FORMULA else value


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def parquet(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return rows as a Parquet file, with the columns that are drawn and their own types.

    One of numbers and texts is of texts: the format has no other.
    """
    frame = pd.DataFrame(filled(rows))
    for name in frame.columns:
        known = frame[name].dropna()
        if frame[name].dtype == object and len({type(value) for value in known}) > 1:
            frame[name] = frame[name].map(str, na_action="ignore")
    return bytes(frame.to_parquet(index=False))
