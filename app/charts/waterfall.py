"""A trace's spans on a time axis, with the lookup's steps inside it."""

from __future__ import annotations

import html

from app.charts import theme
from app.charts.theme import Chart
from app.views import words
from app.views.trace_tree import Bar
from app.views.traces import Trace

SPAN, STEP = "#5b6b7f", "#7f8c9c"


def _colour(bar: Bar) -> str:
    if bar.kind in {"step", "missing"}:
        return STEP
    if bar.error:
        return theme.OUTCOME_COLOURS["error"]
    return theme.OUTCOME_COLOURS.get(bar.outcome, SPAN)


def figure(trace: Trace) -> Chart:
    """Horizontal bars in the order of the call tree. A negative duration is drawn to the left of its start, and named."""
    bars = trace.drawn
    made = theme.figure(height=64 + 26 * max(1, len(bars)), legend=False)
    rows = list(range(len(bars)))
    shortest = trace.duration_ms / 400  # a step of microseconds stays visible beside seconds
    widths = [bar.duration_ms if abs(bar.duration_ms) >= shortest else shortest for bar in bars]
    made.add_bar(
        y=rows,
        x=widths,
        base=[bar.shown_ms for bar in bars],
        orientation="h",
        marker={
            "color": [_colour(bar) for bar in bars],
            "line": {"width": 0},
            "pattern": {
                "shape": ["x" if bar.error else "/" if bar.duration_ms < 0 else "." if bar.kind == "missing" else "" for bar in bars],
                "fillmode": "overlay",
            },
        },
        text=[_text(bar) for bar in bars],
        textposition="outside",
        cliponaxis=False,
        customdata=[
            [
                theme.label(bar.label),
                theme.label(bar.service),
                words.duration_ms(bar.duration_ms),
                words.duration_ms(bar.shown_ms),
                _odd(bar),
            ]
            for bar in bars
        ],
        hovertemplate="%{customdata[0]} (%{customdata[1]}): %{customdata[2]}, from %{customdata[3]}%{customdata[4]}<extra></extra>",
    )
    high = max([trace.duration_ms, *(bar.shown_ms + bar.duration_ms for bar in bars)])
    low = min([0.0, *(bar.shown_ms + min(0.0, bar.duration_ms) for bar in bars)])
    made.update_xaxes(
        range=[low, low + (high - low) * 1.18 or 1],
        ticksuffix=" ms",
        showgrid=True,
        gridcolor="rgba(138,145,155,0.25)",
    )
    made.update_yaxes(
        tickvals=rows,
        ticktext=["\u2003" * min(bar.depth, 6) + theme.label(bar.label, 28) for bar in bars],
        autorange="reversed",
        showgrid=False,
    )
    made.update_layout(bargap=0.35)
    clock = "with its clocks corrected" if trace.corrected else "on its own clock"
    title = f"Spans of this trace {clock}, {words.duration_ms(trace.duration_ms)} in all"
    return Chart(title, made, f"{title}: {len(bars)} bars")


def _text(bar: Bar) -> str:
    told = [words.duration_ms(bar.duration_ms)]
    if bar.outcome:
        told.append(words.OUTCOME_NAMES.get(bar.outcome, html.escape(bar.outcome)))
    if bar.error:
        told.append("failed")
    if bar.flags:
        told.append("⚠")
    return " · ".join(told)


def _odd(bar: Bar) -> str:
    odd = [*((theme.label(bar.error, 80),) if bar.error else ()), *bar.flags]
    return "<br>" + "<br>".join(html.escape(words.one_line(part, 100), quote=False) for part in odd) if odd else ""
