"""How far a score's probabilities are true: what it said of labelled pairs, and what people said."""

from __future__ import annotations

from app.analysis.score import Fitted
from app.charts import theme
from app.charts.theme import Chart


def figure(fitted: Fitted, *, version: str) -> Chart:
    """Points of fifths of the labelled pairs with intervals, against the line on which the score would be right."""
    made = theme.figure(height=260)
    made.add_scatter(
        x=[0, 1], y=[0, 1], mode="lines", line={"color": theme.NEUTRAL, "width": 1, "dash": "dash"}, hoverinfo="skip", showlegend=False
    )
    made.add_scatter(
        x=[one.mean for one in fitted.bins],
        y=[one.observed.ratio for one in fitted.bins],
        error_y={
            "type": "data",
            "symmetric": False,
            "array": [one.observed.high_ratio - one.observed.ratio for one in fitted.bins],
            "arrayminus": [one.observed.ratio - one.observed.low_ratio for one in fitted.bins],
        },
        mode="markers",
        marker={"size": 9, "color": theme.ACCENT},
        customdata=[[one.observed.k, one.observed.n] for one in fitted.bins],
        hovertemplate="score %{x:.2f}: %{customdata[0]} of %{customdata[1]} serve<extra></extra>",
        showlegend=False,
    )
    if fitted.cut is not None:
        line = {"color": theme.NEUTRAL, "width": 2}
        made.add_vline(x=fitted.cut, line=line, annotation={"text": f"cut {fitted.cut:.3f}", "font": {"size": 12}})
    made.update_xaxes(title={"text": "probability by the score, out of fold", "font": {"size": 12}}, range=[-0.02, 1.02])
    made.update_yaxes(title={"text": "share that serves, by labels", "font": {"size": 12}}, range=[-0.02, 1.02], tickformat=".0%")
    title = f"Calibration of score {version}"
    return Chart(title, made, f"{title}: what it said of labelled pairs, and what people said; n = {fitted.n:,}, intervals of 95 %")
