"""Outcomes and hit rates over time, and where hits come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from app.analysis.hit_rate import OUTCOMES
from app.charts import theme
from app.charts.theme import Chart
from app.views import addresses, words
from app.views.rates import Bucket, Funnel
from storage.reads.acts import Mark
from storage.reads.window import Window


def outcomes(buckets: Sequence[Bucket], window: Window, marks: Sequence[Mark] = ()) -> Chart:
    """Stacked bars of lookups by outcome. The last bucket is pale while late data may still come."""
    made = theme.figure(height=260)
    at = theme.times([bucket.at_ms for bucket in buckets])
    opacity = [0.45 if bucket.provisional else 1.0 for bucket in buckets]
    width = window.bucket_ms * 0.88
    present = [outcome for outcome in OUTCOMES if any(bucket.counts.of(outcome) for bucket in buckets)]
    for outcome in present:
        values = [bucket.counts.of(outcome) for bucket in buckets]
        bar = theme.outcome_bar(outcome, at, values, offset=0, width=width, hovertemplate="%{y:,}")
        bar.marker.opacity = opacity
        made.add_trace(bar)
    theme.time_axis(made, window)
    made.update_yaxes(title={"text": f"lookups per {words.each(window.bucket_ms)}", "font": {"size": 12}})
    top = max((bucket.counts.total for bucket in buckets), default=1) or 1
    theme.act_marks(made, marks, top=top * 1.06)
    title = f"Lookups by outcome, per {words.each(window.bucket_ms)}"
    return Chart(title, made, f"{title}: stacked bars from {words.span(window.start_ms, window.end_ms)}")


def hit_rate(
    buckets: Sequence[Bucket],
    window: Window,
    marks: Sequence[Mark] = (),
    *,
    break_even: float | None = None,
    earlier: Mapping[int, Bucket] | None = None,
    compared: Window | None = None,
) -> Chart:
    """The hit rate per bucket with its 95 % interval as if lookups were independent, on a fixed axis.

    Buckets without lookups are gaps; provisional ones are hollow.

    break_even: the rate (0…1) above which the cache pays, drawn as a line; left out when None or above 1.
    earlier: the compared window's buckets by the start of those that they stand beside, drawn as a thin dashed line.
    """
    made = theme.figure(height=220)
    middle = [bucket.at_ms + window.bucket_ms // 2 for bucket in buckets]
    shares = [bucket.counts.hit_rate for bucket in buckets]
    at = theme.times(middle)
    if earlier and compared is not None:
        _compared(made, [earlier.get(bucket.at_ms) for bucket in buckets], at, compared)
    for values, fill in (
        ([None if share is None else share.low_ratio for share in shares], None),
        ([None if share is None else share.high_ratio for share in shares], "tonexty"),
    ):
        made.add_scatter(
            x=at,
            y=[None if value is None else value * 100 for value in values],
            mode="lines",
            line={"width": 0},
            fill=fill,
            fillcolor="rgba(43,123,189,0.18)",
            name="95 %, as if independent",
            showlegend=fill is not None,
            hoverinfo="skip",
            connectgaps=False,
        )
    made.add_scatter(
        x=at,
        y=[None if share is None else share.ratio * 100 for share in shares],
        mode="lines+markers",
        name="hit rate",
        line={"color": theme.ACCENT, "width": 2},
        marker={
            "size": [7 if bucket.provisional else 4 for bucket in buckets],
            "symbol": ["circle-open" if bucket.provisional else "circle" for bucket in buckets],
        },
        cliponaxis=False,
        connectgaps=False,
        customdata=[
            ["", "", ""] if share is None else [f"{share.k:,} of {share.n:,}", words.interval(share), _late(bucket.provisional)]
            for share, bucket in zip(shares, buckets, strict=True)
        ],
        hovertemplate="%{y:.1f} % (%{customdata[1]}), %{customdata[0]}%{customdata[2]}<extra></extra>",
    )
    theme.time_axis(made, window)
    theme.ratio_axis(made)
    if break_even is not None and break_even <= 1:
        told = {"text": f"pays above {words.ratio(break_even)}", "font": {"size": 11}}
        line = {"color": theme.NEUTRAL, "dash": "dash", "width": 1}
        made.add_hline(y=break_even * 100, line=line, annotation=told, annotation_position="top left")
    theme.act_marks(made, marks, top=97)
    title = f"Hit rate per {words.each(window.bucket_ms)}, with its 95 % interval as if lookups were independent"
    return Chart(title, made, f"{title}: a line from {words.span(window.start_ms, window.end_ms)}")


def _late(provisional: bool) -> str:
    return ", late data may still come" if provisional else ""


def _compared(made: go.Figure, beside: Sequence[Bucket | None], at: Sequence[str], compared: Window) -> None:
    shares = [bucket.counts.hit_rate if bucket else None for bucket in beside]
    if not any(shares):
        return
    times = theme.times([bucket.at_ms if bucket else 0 for bucket in beside])
    made.add_scatter(
        x=at,
        y=[None if share is None else share.ratio * 100 for share in shares],
        mode="lines",
        name=f"{words.span(compared.start_ms, compared.end_ms)}, compared",
        line={"color": theme.NEUTRAL, "width": 1, "dash": "dash"},
        connectgaps=False,
        customdata=[
            ["", ""] if share is None else [f"{share.k:,} of {share.n:,}", time] for share, time in zip(shares, times, strict=True)
        ],
        hovertemplate="%{y:.1f} %, %{customdata[0]} at %{customdata[1]} UTC<extra></extra>",
    )


def funnel(steps: Sequence[Funnel], query: Mapping[str, str]) -> Chart:
    """Bars of what each tier answered and what went on to the next; widths are shares of eligible lookups.

    query: the bar's part of the URL. The last of each bar's own data is the address of its lookups, for the click on it.
    """
    made = theme.figure(height=60 + 34 * max(1, len(steps)), legend=False)
    made.add_bar(
        y=[theme.label(step.name) for step in steps],
        x=[step.share.ratio * 100 for step in steps],
        orientation="h",
        marker={"color": [theme.OUTCOME_COLOURS[step.outcome] if step.outcome else theme.NEUTRAL for step in steps]},
        text=[f"{words.percent(step.share)} · {step.share.k:,}" for step in steps],
        textposition="outside",  # on a bar's own colour no text can be read
        cliponaxis=False,
        customdata=[[f"{step.share.k:,} of {step.share.n:,}", words.interval(step.share), address(step, query)] for step in steps],
        hovertemplate="%{y}: %{customdata[0]} (%{customdata[1]})<extra></extra>",
    )
    ticks = [0, 25, 50, 75, 100]
    # The text of a whole bar stands beyond 100 %.
    made.update_xaxes(range=[0, 135], tickvals=ticks, ticktext=[f"{tick} %" for tick in ticks], showgrid=True)
    made.update_yaxes(autorange="reversed", title=None)
    title = "Where eligible lookups were answered, tier by tier"
    return Chart(title, made, f"{title}: " + ", ".join(f"{step.name} {words.percent(step.share)}" for step in steps))


def address(step: Funnel, query: Mapping[str, str]) -> str:
    """Return the address of a step's lookups; '' where no filters show them."""
    return addresses.lookups(query, step.filters) if step.filters else ""
