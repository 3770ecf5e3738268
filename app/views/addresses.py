"""Addresses of lookups: what a point of a chart, or a row of a table, leads to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from urllib.parse import urlencode

from app.views.why_rows import window_query
from storage.reads.window import Window

_DIGITS = 6  # of a similarity in an address: far finer than a step of any chart


def lookups(query: Mapping[str, str], named: Mapping[str, str], *, of: Window | None = None) -> str:
    """Return the address of the lookups with these filters. query: the bar's part of the URL. of: their time, where it is not the bar's."""
    return "/traces?" + urlencode({**query, **named, **(window_query(of.start_ms, of.end_ms) if of else {})})


def near(low: float, high: float) -> dict[str, str]:
    """Return the filters for candidates in this step of the cosine, both ends included; the highest step takes what rounds to above 1."""
    scale = 10**_DIGITS
    found = {"similarity_from": f"{math.floor(low * scale) / scale:g}"}
    return found if high >= 1 else {**found, "similarity_to": f"{math.ceil(high * scale) / scale:g}"}
