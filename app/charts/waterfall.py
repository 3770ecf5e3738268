"""A trace's spans on a time axis, with the lookup's steps inside it."""

from __future__ import annotations

import html

from app.charts import theme
from app.charts.theme import Chart
from app.views import words
from app.views.traces import Bar, Trace

_SPAN, _CALL, _STEP = "#5b6b7f", "#5b6b7f", "#a9b4c2"


def _colour(bar: Bar) -> str:
    if bar.kind == "step":
        return _STEP
    if bar.error:
        return theme.OUTCOME_COLOURS["error"]
    return theme.OUTCOME_COLOURS.get(bar.outcome, _SPAN)


def figure(trace: Trace) -> Chart:
    """Horizontal bars in the order of the call tree. A negative duration is drawn to the left of its start, and named."""
    made = theme.figure(height=64 + 26 * max(1, len(trace.bars)), legend=False)
    rows = list(range(len(trace.bars)))
    shortest = trace.duration_ms / 400  # a step of microseconds stays visible beside seconds
    widths = [bar.duration_ms if abs(bar.duration_ms) >= shortest else shortest for bar in trace.bars]
    made.add_bar(
        y=rows,
        x=widths,
        base=[bar.start_ms for bar in trace.bars],
        orientation="h",
        marker={
            "color": [_colour(bar) for bar in trace.bars],
            "line": {"width": 0},
            "pattern": {
                "shape": ["x" if bar.error else "/" if bar.duration_ms < 0 else "" for bar in trace.bars],
                "fillmode": "overlay",
            },
        },
        text=[_text(bar) for bar in trace.bars],
        textposition="outside",
        cliponaxis=False,
        customdata=[
            [
                theme.label(bar.label),
                theme.label(bar.service),
                words.duration_ms(bar.duration_ms),
                words.duration_ms(bar.start_ms),
                _odd(bar),
            ]
            for bar in trace.bars
        ],
        hovertemplate="%{customdata[0]} (%{customdata[1]}): %{customdata[2]}, from %{customdata[3]}%{customdata[4]}<extra></extra>",
    )
    low = min([0.0, *(bar.start_ms + min(0.0, bar.duration_ms) for bar in trace.bars)])
    made.update_xaxes(
        range=[low, low + (trace.duration_ms - low) * 1.18 or 1],
        ticksuffix=" ms",
        showgrid=True,
        gridcolor="rgba(138,145,155,0.25)",
    )
    made.update_yaxes(
        tickvals=rows,
        ticktext=["\u2003" * min(bar.depth, 6) + theme.label(bar.label, 28) for bar in trace.bars],
        autorange="reversed",
        showgrid=False,
    )
    made.update_layout(bargap=0.35)
    title = f"Spans of this trace on its own clock, {words.duration_ms(trace.duration_ms)} in all"
    return Chart(title, made, f"{title}: {len(trace.bars)} bars")


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
