"""The controls of *Regret & capacity*, which stand in the URL, and its states."""

from __future__ import annotations

from functools import partial

import streamlit as st

from app.analysis.regret import Findings
from app.charts import regret as charts
from app.ui import chrome, filters, handles, panels, states, tables
from app.ui.text import literal
from app.views import marks, regret, regret_past, regret_rows, words
from app.views.regret import Regret
from app.views.regret_rows import Curve
from storage.reads.window import Scope, Window

_DEFAULT = "24h"


def choose() -> tuple[str, str | None]:
    """Draw which time before now, and which namespace; return them. None = all."""
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        picked = st.segmented_control(
            "Time before now",
            list(regret.HORIZONS),
            default=_DEFAULT,
            required=True,
            key="horizon",
            bind="query-params",
            label_visibility="collapsed",
        )
        horizon = picked if picked in regret.HORIZONS else _DEFAULT
        options = [name or words.UNNAMED for name in regret.names(handles.ops, horizon)]
        for held in (st.session_state.get("namespace"), st.query_params.get("namespace")):
            if held and held not in options:
                options.append(held)
        named = st.selectbox(
            "Namespace",
            options,
            index=None,
            placeholder="All namespaces",
            key="namespace",
            bind="query-params",
            label_visibility="collapsed",
            width=200,
        )
    return horizon, "" if named == words.UNNAMED else named


def show(namespace: str) -> None:
    """Choose the namespace. For a chart's callback; the page is then drawn anew, its controls with it."""
    st.session_state["namespace"] = namespace or words.UNNAMED
    st.session_state[filters.PICKED] = True


def line(scope: Scope, now_ms: int) -> None:
    """Draw, on another page, what tuning would win, with the link to the evidence. Nothing while nothing was computed."""
    view = regret.load(handles.ops, horizon=_DEFAULT, namespace=scope.namespace, now_ms=now_ms)
    if view.chosen is not None and (view.chosen.findings is not None or view.chosen.refused):
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            note = regret.whole_note(scope) if view.chosen.findings is not None else ""
            told = f"{view.sentence} This is {note}." if note else view.sentence
            st.markdown(f"**Is tuning worth it?** {literal(told)}", width="content")
            chrome.evidence("regret", "Regret")


def whose(view: Regret) -> None:
    """Draw of which namespace the numbers are, where several were analysed."""
    if view.chosen is not None and len(view.rows) > 1:
        name = words.name(view.chosen.namespace)
        told = (
            f"Numbers, knobs, curves and policies are of namespace {name}, which has the most to win; choose another above or on the chart."
        )
        if len(view.rows) >= regret_past.MOST_NAMESPACES:
            told += f" The {regret_past.MOST_NAMESPACES} busiest namespaces are analysed, the others are not."
        st.caption(literal(told))


def course(horizon: str, namespace: str | None, now_ms: int) -> None:
    """Draw the regret of earlier times, once there are two. A click leads to why the hit rate changed in that time."""
    points = regret_past.course(handles.ops, horizon=horizon, namespace=namespace, now_ms=now_ms)
    if len(points) < 2:
        st.caption("The worker keeps the figures of each analysis: their course is drawn here once there are two, an hour or more apart.")
        return
    shown = Window.of(points[0].end_ms - regret_past.STEP_MS[horizon], now_ms)
    found, failure = marks.load(handles.telemetry, handles.ops, shown, Scope(namespace=namespace))
    states.report([failure] if failure else [], (marks.ACTS,))
    columns = {name: tables.percent_bar(name) for name in ("least", "most")}
    worst = max(points, key=lambda point: (point.ends.ratios[1], point.end_ms))
    click = panels.on_time(panels.to_why_over(regret_past.LENGTH_MS[horizon]), worst.end_ms, label="Why until")
    panels.chart(charts.course(points, shown, found), rows=regret_past.rows(points), key="course", columns=columns, click=click)


def bracket(view: Regret) -> None:
    """Draw the regret of each namespace; a click on one chooses it."""
    most = view.chosen.namespace if view.chosen is not None else None
    click = panels.on_name(show, most, f"Choose {words.name(most or '')}")
    panels.chart(charts.bracket(view.rows), rows=regret_rows.namespace_rows(view), key="bracket", click=click)


def curves(found: Findings) -> None:
    """Draw misses by space and by lifetime, and beneath each what the value chosen on it would have changed. It stands in the URL."""
    left, right = st.columns(2)
    with left:
        panels.chart(charts.spaces(found), rows=regret_rows.space_rows(found), key="spaces", click=_asks(found, "space"))
        _what_if(found, "space")
    with right:
        panels.chart(charts.lifetimes(found), rows=regret_rows.lifetime_rows(found), key="lifetimes", click=_asks(found, "lifetime"))
        _what_if(found, "lifetime")


def _asks(found: Findings, curve: Curve) -> panels.Click:
    """Return the click that chooses a value of a curve; beside it the least value that misses hardly more than the best."""
    point = regret_rows.best(found, curve)
    if point is None:
        return panels.on_name(partial(_choose, curve), None, "")
    return panels.on_name(partial(_choose, curve), regret.held(point.at), f"What if {regret_rows.value_words(found, curve, point)}")


def _what_if(found: Findings, curve: Curve) -> None:
    if told := regret_rows.what_if(found, curve, st.query_params.get(curve, "")):
        st.markdown(literal(told))


def _choose(curve: str, at: str) -> None:
    st.query_params[curve] = at


def waiting(view: Regret) -> bool:
    """Draw why there is nothing, or that what there is is old; return whether there is something to show."""
    if view.failures:  # of the worker nothing is known either
        return False
    if view.no_room:
        states.not_done("The disk of ops.db is full", view.no_room)
    elif view.silent:
        seen = "was never seen" if view.worker_age_ms is None else f"gave no sign of life for {words.age(view.worker_age_ms)}"
        st.warning(f"**The worker {seen}**: it computes these numbers, and nothing new comes until it runs.", icon=":material/schedule:")
    elif view.old and view.computed_ms is not None:
        st.warning(
            f"**The oldest of these numbers is {words.age(view.now_ms - view.computed_ms)} old.** The worker takes the longest waiting "
            "namespaces first.",
            icon=":material/schedule:",
        )
    if view.job is not None and view.job.state == "failed":
        at = words.clock(view.job.finished_ms or 0)
        st.error(f"The last analysis failed at {at} UTC: {literal(view.job.error)}", icon=":material/error:")
    if (told := regret.left_out(view)) and view.chosen is not None and view.chosen.findings is not None:
        st.warning(literal(told), icon=":material/filter_alt:")
    if not view.rows and not view.past:
        how = "The worker does so every ten minutes, once lookups are recorded"
        states.empty("Nothing has been computed yet", f"{how}:" if view.silent else f"{how}.", "cachescope worker" if view.silent else "")
    return bool(view.rows or view.past)


def apart(view: Regret) -> None:
    """Draw the namespaces that are in no sum of the page, with the reason; nothing where there is none."""
    if view.past:
        near = words.age(regret_past.NEAR_MS[view.horizon])
        st.markdown("**Not counted above**")
        st.caption(
            f"Analysed last more than {near} ago: since then without lookups, not among the busiest namespaces, or the worker did not run."
        )
        tables.show(regret_rows.past_rows(view), alt="Namespaces whose newest analysis is not of this time")
