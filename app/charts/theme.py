"""One look for every figure: fixed colours and patterns by outcome, neutral lines, escaped text.

Colours follow Okabe and Ito, which colour-blind eyes tell apart; a pattern repeats each distinction without colour. The light ones of
theirs are darker here: each stands out from both themes' backgrounds by 3:1 at least (WCAG 1.4.11).
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import plotly.graph_objects as go

from app.views import words
from storage.reads.acts import Mark
from storage.reads.window import Window

OUTCOME_COLOURS = {
    "exact_hit": "#0072b2",
    "semantic_hit": "#3b99d6",
    "partial_hit": "#009e73",
    "stale_hit": "#8c6d1f",
    "coalesced": "#cc79a7",
    "miss": "#c98500",
    "bypass": "#8a919b",
    "error": "#d55e00",
}
OUTCOME_PATTERNS = {
    "exact_hit": "",
    "semantic_hit": "/",
    "partial_hit": ".",
    "stale_hit": "+",
    "coalesced": "\\",
    "miss": "",
    "bypass": "-",
    "error": "x",
}
NEUTRAL = "#8a919b"
ACCENT = "#2b7bbd"
MARK_SYMBOLS = {
    "purge": "triangle-down",
    "undo": "triangle-up",
    "switch": "square",
    "threshold": "diamond",
    "normaliser": "diamond-wide",
    "verification": "diamond-tall",
    "warmup": "circle",
    "policy": "pentagon",
    "generation": "triangle-left",
    "embedder": "bowtie",
    "model": "cross",
    "model version": "cross-thin-open",
    "eviction": "triangle-right",
    "outage": "x",
    "restart": "star",
    "change": "hexagon",
}
AXIS_TEXT = {"light": "#4a4f58", "dark": "#b3bac4"}  # the library's own grey has 3.7:1 on white
_GRID = "rgba(138,145,155,0.25)"
CONFIG = {"displayModeBar": False, "scrollZoom": False, "doubleClick": "reset"}


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure with the sentence that says what it shows (its title) and what a screen reader says."""

    title: str
    figure: go.Figure
    alt: str


def label(text: str, limit: int = 48) -> str:
    """Return tenants' text for a figure. Plotly reads a subset of HTML in names, ticks and hovers: none of it may act."""
    return html.escape(words.name(text, limit), quote=False)


def figure(*, height: int = 240, legend: bool = True) -> go.Figure:
    """Return an empty figure in the house's look. Fonts and background are the page's theme's."""
    made = go.Figure()
    made.update_layout(
        height=height,
        margin={"l": 8, "r": 8, "t": 8, "b": 8},
        showlegend=legend,
        legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "font": {"size": 12}, "traceorder": "normal"},
        hovermode="x unified" if legend else "closest",
        hoverlabel={"align": "left", "namelength": -1},
        bargap=0.12,
        dragmode=False,
        barmode="stack",
    )
    made.update_xaxes(showgrid=False, zeroline=False, automargin=True)
    made.update_yaxes(gridcolor=_GRID, zeroline=False, automargin=True, rangemode="tozero")
    return made


def axis_text(made: go.Figure, base: str | None) -> None:
    """Write ticks, axis titles and notes in a colour that can be read on this theme: light or dark; None = not known, nothing is done."""
    colour = AXIS_TEXT.get(base or "")
    if colour:
        for update in (made.update_xaxes, made.update_yaxes):
            update(tickfont_color=colour, title_font_color=colour)
        made.update_annotations(font_color=colour)


def times(at_ms: Sequence[int]) -> list[str]:
    """Return UTC times without a zone: Plotly shows them as they stand, whatever the browser's zone."""
    return [words.instant(ms) for ms in at_ms]


def time_axis(made: go.Figure, window: Window) -> None:
    """Fix the time axis to the window, gaps included."""
    made.update_xaxes(
        range=[words.instant(window.start_ms), words.instant(window.end_ms)],
        type="date",
        hoverformat="%Y-%m-%d %H:%M UTC",
        nticks=8,
        tickangle=0,
    )


def ratio_axis(made: go.Figure) -> None:
    """Fix the value axis to 0–100 %; values are percentages."""
    ticks = [0, 25, 50, 75, 100]
    made.update_yaxes(range=[0, 100], tickvals=ticks, ticktext=[f"{tick} %" for tick in ticks], rangemode="normal")


def outcome_bar(outcome: str, x: Any, y: Any, **more: Any) -> go.Bar:
    """Return a bar trace in the outcome's colour and pattern."""
    return go.Bar(
        x=x,
        y=y,
        name=words.OUTCOME_NAMES[outcome],
        marker={
            "color": OUTCOME_COLOURS[outcome],
            "line": {"width": 0},
            "pattern": {
                "shape": OUTCOME_PATTERNS[outcome],
                "size": 6,
                "solidity": 0.2,
                "fillmode": "overlay",
                "fgcolor": "#ffffff",
            },
        },
        **more,
    )


def act_marks(made: go.Figure, marks: Sequence[Mark], *, top: float) -> None:
    """Draw acts, outages, restarts and changes found as lines, with a symbol by kind at the top that says what it was."""
    for mark in marks:
        made.add_vline(x=words.instant(mark.at_ms), line={"color": NEUTRAL, "width": 1, "dash": "dot"})
    for kind in dict.fromkeys(mark.kind for mark in marks):
        of_kind = [mark for mark in marks if mark.kind == kind]
        made.add_scatter(
            x=times([mark.at_ms for mark in of_kind]),
            y=[top] * len(of_kind),
            mode="markers",
            cliponaxis=False,
            name=kind,
            marker={
                "symbol": MARK_SYMBOLS.get(kind, "circle"),
                "size": 10,
                "color": NEUTRAL,
                "line": {"width": 1, "color": "#ffffff"},
            },
            customdata=[[_told(mark)] for mark in of_kind],
            hovertemplate=f"{html.escape(kind)} %{{customdata[0]}}<extra></extra>",
        )


def _told(mark: Mark) -> str:
    return label(mark.detail, 120) if mark.detail else f"{mark.event}: {label(mark.namespace)}, by {label(mark.actor)}"
