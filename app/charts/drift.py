"""Two windows side by side: how often their prompts come, and how near their candidates lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.charts import theme
from app.charts.theme import Chart
from app.views import words
from app.views.drift import Side

_BINS = 30
_HIGHEST_START = 0.98  # a window whose candidates are all equal texts still gets an axis
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


def similarities(now: Side, before: Side) -> Chart:
    """Shares of lookups by their candidate's similarity, now and before."""
    made = theme.figure(height=240)
    edges = np.linspace(_low([*now.similarities, *before.similarities]), 1.0, _BINS + 1)
    for side, name, colour, dash in ((before, "before", theme.NEUTRAL, "dot"), (now, "now", theme.ACCENT, "solid")):
        if not side.similarities:
            continue
        # The cosine of two equal vectors comes out a rounding error above 1.
        values, _ = np.histogram(np.minimum(side.similarities, 1.0), edges)
        shares = values / values.sum() * 100
        made.add_scatter(
            x=(edges[:-1] + edges[1:]) / 2,
            y=shares,
            mode="lines",
            name=f"{name}, n = {len(side.similarities):,}",
            line={"color": colour, "dash": dash, "width": 2, "shape": "hvh"},
            hovertemplate="%{y:.1f} %",
        )
    made.update_layout(showlegend=True)
    made.update_xaxes(title={"text": "similarity of the candidate (cosine)", "font": {"size": 12}}, tickformat=".3f")
    made.update_yaxes(ticksuffix=" %", title={"text": "lookups", "font": {"size": 12}})
    title = "Similarity of candidates, now and before"
    return Chart(title, made, f"{title}: shares of lookups")


def ranks(now: Side, before: Side) -> Chart:
    """Share of lookups by a prompt's rank, now and before, on logarithmic axes: steeper is more repeated."""
    made = theme.figure(height=240)
    for side, name, colour, dash in ((before, "before", theme.NEUTRAL, "dot"), (now, "now", theme.ACCENT, "solid")):
        if not side.entropy:
            continue
        shares = _shares(side)
        made.add_scatter(
            x=list(range(1, len(shares) + 1)),
            y=shares,
            mode="lines+markers",
            name=f"{name}, n = {side.entropy.n:,}",
            line={"color": colour, "dash": dash, "width": 2},
            marker={"size": 4},
            hovertemplate="%{y:.2f} %",
        )
    made.update_layout(showlegend=True)
    made.update_xaxes(type="log", title={"text": "rank of the prompt", "font": {"size": 12}}, dtick=1)
    made.update_yaxes(
        type="log",
        tickvals=_TICKS,
        ticktext=[f"{tick:g} %" for tick in _TICKS],
        rangemode="normal",
        title={"text": "lookups", "font": {"size": 12}},
    )
    title = "Share of lookups by a prompt's rank, now and before"
    return Chart(title, made, f"{title}: lines on logarithmic axes, steeper is more repeated")


def _shares(side: Side) -> list[float]:
    total = side.entropy.n if side.entropy else 1
    return [n / total * 100 for n in side.largest]


def _low(values: Sequence[float]) -> float:
    return min([*values, _HIGHEST_START])


def rank_rows(now: Side, before: Side) -> list[dict[str, object]]:
    both = [_shares(side) for side in (now, before)]
    return [
        {
            "rank": i + 1,
            **{name: f"{shares[i]:.2f} %" if i < len(shares) else "" for name, shares in zip(("now", "before"), both, strict=True)},
        }
        for i in range(max(len(shares) for shares in both))
    ]


def similarity_rows(now: Side, before: Side) -> list[dict[str, object]]:
    rows = []
    for side, name in ((now, "now"), (before, "before")):
        if side.similarities:
            low, middle, high = np.quantile(side.similarities, [0.05, 0.5, 0.95])
            row = {
                "window": name,
                "n": len(side.similarities),
                "5 %": f"{low:.4f}",
                "median": f"{middle:.4f}",
                "95 %": f"{high:.4f}",
            }
            rows.append({**row, "from": words.instant(side.window.start_ms), "to": words.instant(side.window.end_ms)})
    return rows
