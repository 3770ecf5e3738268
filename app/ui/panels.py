"""A chart with its title, its table twin, its files, and what is selected on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, cast

import streamlit as st

from app.charts import theme
from app.charts.theme import Chart
from app.ui import arrival, filters, tables
from app.ui.text import literal
from app.views import definitions
from storage.reads.window import MINUTE_MS

_ASKED = "why_asked"  # set by to_why, taken when the chart has been drawn


def chart(
    made: Chart,
    *,
    rows: Sequence[Mapping[str, Any]],
    key: str,
    columns: Mapping[str, Any] | None = None,
    on_point: Callable[[int], None] | None = None,
    step_ms: int = 0,
    on_name: Callable[[str], None] | None = None,
) -> None:
    """Draw title, figure and table twin; the definition is that of the key. on_point: called with the time (ms) that was clicked on.

    step_ms: points stand in the middle of steps of this length, and a click on one is of its step's start.
    on_name: called with the name that was clicked on, the last of the point's own data; for charts that have no time.
    While the page's switch for it is on, a region dragged over becomes the time range instead: Streamlit takes no clicks on a chart on
    which regions are drawn.
    """
    told = definitions.chart(key)
    theme.axis_text(made.figure, st.context.theme.type)
    st.markdown(f"**{literal(made.title)}**", help=literal(told) if told else None)
    if on_point is not None:
        _selectable(made, key=key, take=_taking(on_point, step_ms), region=filters.dragging())
    elif on_name is not None:
        _selectable(made, key=key, take=_naming(on_name), region=False)
    else:
        st.plotly_chart(made.figure, key=key, config=theme.CONFIG, alt=made.alt)
    tables.twin(rows, of=made.title, columns=columns, key=key)


def _taking(on_point: Callable[[int], None], step_ms: int) -> Callable[[Mapping[str, Any]], bool]:
    """Return what takes a selection on a chart over time, and says whether there was one."""

    def take(selection: Mapping[str, Any]) -> bool:
        picked = times(selection)
        if picked is None:
            return False
        start_ms, end_ms = picked
        if end_ms is None or end_ms - start_ms < MINUTE_MS:  # a region of less than a minute is a click that slipped
            on_point(beginning(start_ms, step_ms))
        else:
            filters.pick_range(start_ms, end_ms)
        return True

    return take


def _naming(on_name: Callable[[str], None]) -> Callable[[Mapping[str, Any]], bool]:
    def take(selection: Mapping[str, Any]) -> bool:
        found = name(selection)
        if found is not None:
            on_name(found)
        return found is not None

    return take


def _selectable(made: Chart, *, key: str, take: Callable[[Mapping[str, Any]], bool], region: bool) -> None:
    # A selection outlives its figure; with a new key after each one it is asked for once.
    turn = int(st.session_state.get(f"{key}_turn", 0))
    drawn = f"{key}_{turn}"

    def pick() -> None:
        if take(cast(Mapping[str, Any], st.session_state.get(drawn) or {}).get("selection") or {}):
            st.session_state[f"{key}_turn"] = turn + 1

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
    asked = st.session_state.pop(_ASKED, None)
    if asked is not None:
        arrival.go("hit_rate", filters.query("hit_rate", **asked))


def to_why(at_ms: int) -> None:
    """Go from a point on another page's chart to "why did it change?", from that time on. For a chart's callback."""
    st.session_state[_ASKED] = {"since": filters.minute(at_ms)}


def to_why_over(length_ms: int) -> Callable[[int], None]:
    """Return a chart's callback: go to why the hit rate changed in the time of this length before the point, against that before it."""

    def go(at_ms: int) -> None:
        start, end = filters.minute(at_ms - 2 * length_ms), filters.minute(at_ms)
        st.session_state[_ASKED] = {"range": filters.ABSOLUTE, "from": start, "to": end, "since": filters.minute(at_ms - length_ms)}

    return go


def times(selection: Mapping[str, Any]) -> tuple[int, int | None] | None:
    """Return the start and end (ms, UTC) of the region that a selection holds, or its point and None; None when it is empty."""
    boxes = selection.get("box") or []
    points = selection.get("points") or []
    if boxes:
        found = sorted(ms for ms in (_ms(value) for value in boxes[0].get("x") or []) if ms is not None)
        return (found[0], found[-1]) if len(found) > 1 and found[0] < found[-1] else None
    start = _ms(points[0].get("x")) if points else None
    return None if start is None else (start, None)


def beginning(at_ms: int, step_ms: int) -> int:
    """Return the start of the step in whose middle the time lies; the time itself where it is the middle of none: a mark has its own."""
    start = at_ms - step_ms // 2
    return start if step_ms and start % step_ms == 0 else at_ms


def name(selection: Mapping[str, Any]) -> str | None:
    """Return the name of the point that a selection holds, the last of the point's own data; None when it is empty."""
    points = selection.get("points") or []
    told = points[0].get("customdata") if points else None
    return str(told[-1]) if isinstance(told, list) and told else None


def _ms(value: object) -> int | None:
    """Return a figure's time, UTC without a zone, in milliseconds."""
    try:
        return int(datetime.fromisoformat(str(value)).replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        return None
