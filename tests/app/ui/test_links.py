"""Links beside tables: names of rows stay text, and addresses are taken apart."""

from __future__ import annotations

from pathlib import Path

from app.ui import links


def test_a_row_is_named_by_what_it_has_and_stays_text() -> None:
    row = {"time (UTC)": "14:05", "outcome": "", "prompt": "<b>[x](https://evil.example)</b>", "tenant": None}
    assert links.label(row, ("time (UTC)", "outcome", "tenant", "prompt")).replace("\u2060", "") == (
        "14\\:05 · \\<b\\>\\[x\\]\\(https\\:\\/\\/evil\\.example\\)\\<\\/b\\>"
    )
    assert links.label({"prompt": "p" * 200}, ("prompt",)).endswith("…")
    assert links.label({}, ("prompt",)) == "open"


def test_pages_are_found_where_they_are() -> None:
    assert Path(links.page_path("traces")).is_file()
