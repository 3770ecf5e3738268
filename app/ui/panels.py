"""A chart with its title, its table twin, its files, and what is selected on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, cast
from urllib.parse import parse_qsl, urlsplit

import streamlit as st

from app.charts import theme
from app.charts.theme import Chart
from app.ui import arrival, filters, tables
from app.ui.text import literal
from app.views import definitions, words
from storage.reads.window import MINUTE_MS

_ASKED = "page_asked"  # (page, query): set where a chart leads to another page, taken when it has been drawn


@dataclass(frozen=True, slots=True)
class Click:
    """What a click on a chart does, of which `definitions.CLICKS` tells. take: gets a selection, says whether there was one in it.

    label, go: the same for the point that matters most, as a button beside the title, for whoever does not point; go None = no such point.
    over_time: a region may be dragged over instead.
    """

    take: Callable[[Mapping[str, Any]], bool]
    label: str
    go: Callable[[], None] | None
    over_time: bool = False


def chart(
    made: Chart,
    *,
    rows: Sequence[Mapping[str, Any]],
    key: str,
    columns: Mapping[str, Any] | None = None,
    click: Click | None = None,
) -> None:
    """Draw title, figure and table twin; the definition is that of the key. click: None = nothing can be selected on it.

    While the page's switch for it is on, a region dragged over becomes the time range instead: Streamlit takes no clicks on a chart on
    which regions are drawn.
    """
    told = definitions.chart(key)
    theme.axis_text(made.figure, st.context.theme.type)
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"**{literal(made.title)}**", help=literal(told) if told else None, width="content")
        if click is not None and click.go is not None:
            label, icon = literal(click.label), ":material/arrow_forward:"
            st.button(
                label, icon=icon, key=f"{key}_worst", type="tertiary", on_click=click.go, help="As a click on that point of the chart"
            )
    if click is not None:
        _selectable(made, key=key, take=click.take, region=click.over_time and filters.dragging())
    else:
        st.plotly_chart(made.figure, key=key, config=theme.CONFIG, alt=made.alt)
    tables.twin(rows, of=made.title, columns=columns, key=key)


def on_time(go: Callable[[int], None], worst_ms: int | None, *, step_ms: int = 0, label: str = "Why since") -> Click:
    """Return what leads from a time: go is called with the one (ms) that was clicked on, and a region becomes the time range.

    step_ms: points stand in the middle of steps of this length, and a click on one is of its step's start.
    """
    told = "" if worst_ms is None else f"{label} {words.instant(worst_ms)[5:16]}"
    return Click(_taking(go, step_ms), told, None if worst_ms is None else partial(go, worst_ms), over_time=True)


def on_name(go: Callable[[str], None], best: str | None, label: str) -> Click:
    """Return what takes the name that was clicked on, the last of the point's own data; '' is a name as well."""
    return Click(_naming(go), label, None if best is None else partial(go, best))


def on_address(best: str, label: str) -> Click:
    """Return what leads to the address that was clicked on, the last of the point's own data; where that is '' nothing happens."""
    return Click(_naming(_to), label, partial(_to, best) if best else None)


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
        arrival.go(*asked)


def _to(address: str) -> None:
    """Go to an address of ours, `/page?query`. For a chart's callback."""
    if address:
        to = urlsplit(address)
        st.session_state[_ASKED] = (to.path.strip("/"), dict(parse_qsl(to.query, keep_blank_values=True)))


def to_why(at_ms: int) -> None:
    """Go from a point on another page's chart to "why did it change?", from that time on. For a chart's callback."""
    st.session_state[_ASKED] = ("hit_rate", filters.query("hit_rate", since=filters.minute(at_ms)))


def to_why_over(length_ms: int) -> Callable[[int], None]:
    """Return a chart's callback: go to why the hit rate changed in the time of this length before the point, against that before it."""

    def go(at_ms: int) -> None:
        start, end = filters.minute(at_ms - 2 * length_ms), filters.minute(at_ms)
        named = {"range": filters.ABSOLUTE, "from": start, "to": end, "since": filters.minute(at_ms - length_ms)}
        st.session_state[_ASKED] = ("hit_rate", filters.query("hit_rate", **named))

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
