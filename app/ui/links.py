"""Ways from a table's rows to other pages, as links. A table is drawn on a canvas: a keyboard and a screen reader reach no link in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import streamlit as st

from app.ui.text import literal

MOST = 6
_LONGEST = 64  # characters of a label: two of them stand beside each other on a laptop
_PAGES = Path(__file__).resolve().parents[2] / "pages"


def page_path(name: str) -> str:
    """Return the absolute path of a page: what `st.page_link` and `st.switch_page` take."""
    return str(_PAGES / f"{name}.py")


def beneath(
    rows: Sequence[Mapping[str, Any]], column: str, *, by: Sequence[str], lead: str, icon: str = ":material/account_tree:", most: int = MOST
) -> None:
    """Draw the links of a table's first rows, after the words of what they lead to.

    column: the rows' addresses, `/page?query`. by: the columns that name a row.
    """
    found = [(row, str(row[column])) for row in rows if row.get(column)][:most]
    if not found:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.caption(literal(lead), width="content")
        for row, address in found:
            to = urlsplit(address)
            st.page_link(
                page_path(to.path.strip("/")),
                label=label(row, by),
                icon=icon,
                query_params=dict(parse_qsl(to.query, keep_blank_values=True)),
            )


def label(row: Mapping[str, Any], by: Sequence[str]) -> str:
    """Return what names a row as literal Markdown: the values of these columns that it has."""
    told = " · ".join(str(row[name]) for name in by if row.get(name) not in {None, ""})
    return literal(told if len(told) <= _LONGEST else f"{told[: _LONGEST - 1]}…") or "open"
