"""Two windows side by side: how often their prompts come, and how near their candidates lie.

The last of each point's own data is the address of its lookups, of its own window, for the click on it. query: the bar's part of the URL.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from app.charts import theme
from app.charts.theme import Chart
from app.views import addresses
from app.views.drift import Side
from storage.reads.window import Window

_BINS = 30
_HIGHEST_START = 0.98  # a window whose candidates are all equal texts still gets an axis
_TICKS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)


def similarities(now: Side, before: Side, query: Mapping[str, str]) -> Chart:
    """Shares of lookups by their candidate's similarity, now and before."""
    made = theme.figure(height=240)
    edges = _edges(now, before)
    for side, name, colour, dash in ((before, "before", theme.NEUTRAL, "dot"), (now, "now", theme.ACCENT, "solid")):
        if not side.similarities:
            continue
        values = _counted(side, edges)
        shares = values / values.sum() * 100
        made.add_scatter(
            x=(edges[:-1] + edges[1:]) / 2,
            y=shares,
            mode="lines+markers",  # a line alone takes no clicks
            name=f"{name}, n = {len(side.similarities):,}",
            line={"color": colour, "dash": dash, "width": 2, "shape": "hvh"},
            marker={"size": 4},
            customdata=[
                [addresses.lookups(query, addresses.near(low, high), of=_other(side, now))] if n else [""]
                for low, high, n in zip(edges[:-1].tolist(), edges[1:].tolist(), values.tolist(), strict=True)
            ],
            hovertemplate="%{y:.1f} % at %{x:.3f}",
        )
    made.update_layout(showlegend=True, hovermode="closest")  # a click is of one window
    made.update_xaxes(title={"text": "similarity of the candidate (cosine)", "font": {"size": 12}}, tickformat=".3f")
    made.update_yaxes(ticksuffix=" %", title={"text": "lookups", "font": {"size": 12}})
    title = "Similarity of candidates, now and before"
    return Chart(title, made, f"{title}: shares of lookups")


def ranks(now: Side, before: Side, query: Mapping[str, str]) -> Chart:
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
            customdata=[[address] for address in _prompts(side, now, query)],
            hovertemplate="rank %{x}: %{y:.2f} %",
        )
    made.update_layout(showlegend=True, hovermode="closest")
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


def _other(side: Side, now: Side) -> Window | None:
    """Return the time of the window's lookups where the bar does not say it."""
    return None if side is now else side.window


def _prompts(side: Side, now: Side, query: Mapping[str, str]) -> list[str]:
    """Return the address of the lookups of each rank's prompt; '' where the prompt is not known."""
    named = [*side.prompts, *[""] * (len(side.largest) - len(side.prompts))]
    return [addresses.lookups(query, {"q": prompt}, of=_other(side, now)) if prompt else "" for prompt in named]


def most_frequent(now: Side, query: Mapping[str, str]) -> str:
    """Return the address of the lookups of this window's most frequent prompt; '' where it is not known."""
    return next(iter(_prompts(now, now, query)), "")


def nearest(now: Side, before: Side, query: Mapping[str, str]) -> str:
    """Return the address of this window's lookups in its fullest step of similarity; '' where it has none."""
    if not now.similarities:
        return ""
    edges = _edges(now, before)
    at = int(np.argmax(_counted(now, edges)))
    return addresses.lookups(query, addresses.near(float(edges[at]), float(edges[at + 1])))


def _shares(side: Side) -> list[float]:
    total = side.entropy.n if side.entropy else 1
    return [n / total * 100 for n in side.largest]


def _edges(now: Side, before: Side) -> NDArray[np.float64]:
    return np.linspace(min([*now.similarities, *before.similarities, _HIGHEST_START]), 1.0, _BINS + 1)


def _counted(side: Side, edges: NDArray[np.float64]) -> NDArray[np.int64]:
    # The cosine of two equal vectors comes out a rounding error above 1.
    return np.histogram(np.minimum(side.similarities, 1.0), edges)[0].astype(np.int64)


def rank_rows(now: Side, before: Side) -> list[dict[str, object]]:
    """Return the ranks that are drawn: lookups and their share of each window's; None where a window has no prompt of the rank."""
    both = [(side.largest, _shares(side), side.entropy.n if side.entropy else 0) for side in (now, before)]
    (mine, now_shares, n_now), (earlier, then_shares, n_before) = both
    return [
        {
            "rank": i + 1,
            "now %": round(now_shares[i], 3) if i < len(mine) else None,
            "lookups now": mine[i] if i < len(mine) else None,
            "n now": n_now,
            "before %": round(then_shares[i], 3) if i < len(earlier) else None,
            "lookups before": earlier[i] if i < len(earlier) else None,
            "n before": n_before,
        }
        for i in range(max(len(mine), len(earlier)))
    ]


def similarity_rows(now: Side, before: Side) -> list[dict[str, object]]:
    """Return the bins that are drawn: lookups with a candidate as near as that, and their share of each window's."""
    edges = _edges(now, before)
    mine, earlier = (_counted(side, edges) for side in (now, before))
    n_now, n_before = int(mine.sum()), int(earlier.sum())
    if not n_now and not n_before:
        return []
    return [
        {
            "similarity from": round(float(low), 4),
            "similarity to": round(float(high), 4),
            "now %": round(float(k_now / n_now * 100), 3) if n_now else None,
            "lookups now": int(k_now),
            "n now": n_now,
            "before %": round(float(k_before / n_before * 100), 3) if n_before else None,
            "lookups before": int(k_before),
            "n before": n_before,
        }
        for low, high, k_now, k_before in zip(edges[:-1], edges[1:], mine, earlier, strict=True)
    ]
