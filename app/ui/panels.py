"""A chart with its title, its table twin, its files, and what is selected on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import streamlit as st

from app.charts import theme
from app.charts.theme import Chart
from app.ui import chrome, filters, tables
from app.ui.text import literal
from app.views import definitions

Chosen = Callable[[int, int | None], None]  # start_ms and end_ms of a region; None = a point
_SINCE = "why_since"  # set by to_why, taken when the chart has been drawn


def chart(
    made: Chart,
    *,
    rows: Sequence[Mapping[str, Any]],
    key: str,
    columns: Mapping[str, Any] | None = None,
    on_time: Chosen | None = None,
    region: bool = True,
) -> None:
    """Draw title, figure and table twin; the definition is that of the key. on_time: called with the time picked.

    region: drag over a region; False = click on a point. Streamlit takes no clicks on a chart on which regions are drawn.
    """
    told = definitions.chart(key)
    st.markdown(f"**{literal(made.title)}**", help=literal(told) if told else None)
    if on_time is None:
        st.plotly_chart(made.figure, key=key, config=theme.CONFIG, alt=made.alt)
    else:
        _selectable(made, key=key, on_time=on_time, region=region)
    tables.twin(rows, of=made.title, columns=columns, key=key)


def _selectable(made: Chart, *, key: str, on_time: Chosen, region: bool) -> None:
    # A selection outlives its figure; with a new key after each one it is asked for once.
    turn = int(st.session_state.get(f"{key}_turn", 0))
    drawn = f"{key}_{turn}"

    def pick() -> None:
        picked = times(cast(Mapping[str, Any], st.session_state.get(drawn) or {}).get("selection") or {})
        if picked:
            st.session_state[f"{key}_turn"] = turn + 1
            on_time(*picked)

    if region:
        made.figure.update_layout(dragmode="select", selectdirection="h")
    else:
        made.figure.update_xaxes(fixedrange=True)
        made.figure.update_yaxes(fixedrange=True)
    st.plotly_chart(
        made.figure, key=drawn, config=theme.CONFIG, alt=made.alt, on_select=pick, selection_mode=["box" if region else "points"]
    )
    if st.session_state.pop(filters.PICKED, False):
        st.rerun()  # the bar is drawn outside the refreshing fragment
    since = st.session_state.pop(_SINCE, None)
    if since is not None:
        st.switch_page(chrome.page_path("hit_rate"), query_params=filters.query(since=filters.minute(since)))


def to_why(start_ms: int, end_ms: int | None) -> None:
    """Go from a point on another page's chart to "why did it change?", from that time on. For a chart's callback."""
    st.session_state[_SINCE] = start_ms


def times(selection: Mapping[str, Any]) -> tuple[int, int | None] | None:
    """Return the start and end (ms, UTC) of the region that a selection holds, or its point and None; None when it is empty."""
    boxes = selection.get("box") or []
    points = selection.get("points") or []
    if boxes:
        found = sorted(ms for ms in (_ms(value) for value in boxes[0].get("x") or []) if ms is not None)
        return (found[0], found[-1]) if len(found) > 1 and found[0] < found[-1] else None
    start = _ms(points[0].get("x")) if points else None
    return None if start is None else (start, None)


def _ms(value: object) -> int | None:
    """Return a figure's time, UTC without a zone, in milliseconds."""
    try:
        return int(datetime.fromisoformat(str(value)).replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        return None
