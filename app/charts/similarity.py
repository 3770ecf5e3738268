"""Similarities of candidates: what was served, what was not, and where the threshold lies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from app.charts import theme
from app.charts.theme import Chart
from app.views import addresses, words
from storage.reads.thresholds import CandidateRow

_BINS = 40
_HIGHEST_START = 0.98  # a window whose candidates are all equal texts still gets an axis
_SAME = 0.0005  # half a step of the page's slider
_KINDS = (
    ("served", "semantic_hit", ""),
    ("passed, not served", "miss", ""),
    ("vetoed by verification", "error", "x"),
    ("held out", "coalesced", ""),
)


def histogram(rows: Sequence[CandidateRow], query: Mapping[str, str], *, in_force: float | None, moved: float | None) -> Chart:
    """Bars of lookups by their candidate's similarity and what became of them; lines at the thresholds in force and moved.

    query: the bar's part of the URL. The last of each bar's own data is the address of its lookups, for the click on it.
    """
    made = theme.figure(height=260)
    edges = _edges(rows, in_force, moved)
    low = float(edges[0])
    middles = (edges[:-1] + edges[1:]) / 2
    for name, outcome, pattern in _KINDS:
        if name == "held out" and not any(row.held_out for row in rows):
            continue
        chosen = [row for row in rows if kind(row) == name]
        # The cosine of two equal vectors comes out a rounding error above 1.
        values, _ = np.histogram([min(1.0, row.similarity) for row in chosen], edges)
        told = _became(chosen)
        bar = theme.outcome_bar(outcome, middles, values, width=float(edges[1] - edges[0]) * 0.92, hovertemplate="%{y:,} at %{x:.4f}")
        bar.name = name
        bar.customdata = [
            [addresses.lookups(query, {**told, **addresses.near(start, end)})]
            for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
        ]
        bar.marker.pattern.shape = pattern or bar.marker.pattern.shape
        made.add_trace(bar)
    same = in_force is not None and moved is not None and abs(in_force - moved) < _SAME
    for value, name, dash, down in ((in_force, "in force", "solid", 0), (None if same else moved, "moved", "dash", 16)):
        if value is not None:
            made.add_vline(
                x=value,
                line={"color": theme.NEUTRAL, "width": 2, "dash": dash},
                annotation={
                    "text": f"{name} {value:.4f}",
                    "yshift": -down,
                    "xshift": 4 if value <= (low + 1) / 2 else -4,
                    "font": {"size": 12},
                },
                annotation_position="top left" if value > (low + 1) / 2 else "top right",
            )
    made.update_layout(hovermode="closest")  # a click is of one bar
    made.update_xaxes(title={"text": "similarity of the candidate (cosine)", "font": {"size": 12}}, tickformat=".3f")
    made.update_yaxes(title={"text": "lookups", "font": {"size": 12}})
    title = "Lookups by their candidate's similarity"
    return Chart(title, made, f"{title}: served, passed and not served, vetoed; n = {len(rows):,}")


def _edges(rows: Sequence[CandidateRow], in_force: float | None, moved: float | None) -> NDArray[np.float64]:
    lines = [value for value in (in_force, moved) if value is not None]
    return np.linspace(min([*(row.similarity for row in rows), *lines, _HIGHEST_START]), 1.0, _BINS + 1)


def _became(rows: Sequence[CandidateRow]) -> dict[str, str]:
    """Return the filter for what became of the lookups; none where it was not one thing."""
    became = {row.outcome for row in rows}
    only = words.OUTCOME_NAMES.get(next(iter(became), "")) if len(became) == 1 else None
    return {"outcome": only} if only else {}


def nearest(rows: Sequence[CandidateRow], query: Mapping[str, str], *, in_force: float | None, moved: float | None) -> str:
    """Return the address of the lookups in the highest step whose candidate did not serve; '' where every one did."""
    refused = [row for row in rows if kind(row) != "served"]
    if not refused:
        return ""
    edges = _edges(rows, in_force, moved)
    highest = max(min(1.0, row.similarity) for row in refused)
    at = min(int(np.searchsorted(edges, highest, side="right")) - 1, _BINS - 1)
    return addresses.lookups(query, {**_became(refused), **addresses.near(float(edges[at]), float(edges[at + 1]))})


def kind(row: CandidateRow) -> str:
    """Return which of the bars a lookup belongs to."""
    if row.outcome == "semantic_hit":
        return "served"
    if row.held_out:
        return "held out"
    return "passed, not served" if row.passed else "vetoed by verification"


def table(rows: Sequence[CandidateRow]) -> list[dict[str, object]]:
    """Return the histogram's numbers in steps of 0.01."""
    found: dict[float, dict[str, int]] = {}
    for row in rows:
        step = found.setdefault(float(np.floor(row.similarity * 100) / 100), dict.fromkeys([name for name, *_ in _KINDS], 0))
        step[kind(row)] += 1
    return [{"similarity from": f"{low:.2f}", **counts, "n": sum(counts.values())} for low, counts in sorted(found.items(), reverse=True)]
