"""How long requests took with and without a hit."""

from __future__ import annotations

from collections.abc import Sequence

from app.charts import theme
from app.charts.theme import Chart
from app.views import words
from app.views.rates import LatencyView
from storage.reads.acts import Mark
from storage.reads.window import Window

_HIT, _NO_HIT = theme.OUTCOME_COLOURS["exact_hit"], theme.OUTCOME_COLOURS["miss"]
_LINES = (
    ("hit p50", "hit", "p50_ms", _HIT, "dot"),
    ("hit p95", "hit", "p95_ms", _HIT, "solid"),
    ("no hit p50", "no hit", "p50_ms", _NO_HIT, "dot"),
    ("no hit p95", "no hit", "p95_ms", _NO_HIT, "solid"),
)


def figure(latency: LatencyView, window: Window, marks: Sequence[Mark] = (), *, late_ms: int | None = None) -> Chart:
    """Median and 95th percentile per bucket, logarithmic: hits and misses lie orders of magnitude apart.

    late_ms: from when on late data may still come; the points of such buckets are hollow. None = from nowhere on.
    """
    made = theme.figure(height=220)
    buckets, every = latency.buckets, window.starts(latency.step_ms)
    late = [late_ms is not None and at + latency.step_ms > late_ms for at in every]
    marker: dict[str, object] = {"size": 3}
    if any(late):
        marker = {"size": [7 if one else 3 for one in late], "symbol": ["circle-open" if one else "circle" for one in late]}
    for name, side, attribute, colour, dash in _LINES:
        rows = {bucket.at_ms: bucket for bucket in buckets if bucket.side == side}
        if not rows:
            continue
        made.add_scatter(
            x=theme.times([at + latency.step_ms // 2 for at in every]),
            y=[getattr(rows[at], attribute) if at in rows else None for at in every],
            mode="lines+markers",
            marker=marker,
            line={"color": colour, "width": 2, "dash": dash},
            name=name,
            connectgaps=False,
            customdata=[[words.duration_ms(getattr(rows[at], attribute)), f"{rows[at].n:,}"] if at in rows else ["", ""] for at in every],
            hovertemplate="%{customdata[0]} (n = %{customdata[1]})",
        )
    longest = max((bucket.p95_ms for bucket in buckets if bucket.p95_ms), default=1.0)
    theme.act_marks(made, marks, top=longest * 1.5)
    theme.time_axis(made, window)
    made.update_yaxes(type="log", title={"text": "ms", "font": {"size": 12}}, rangemode="normal", dtick=1)
    title = "Request duration with and without a hit, median and 95th percentile"
    return Chart(title, made, f"{title}: lines on a logarithmic axis from {words.span(window.start_ms, window.end_ms)}")
