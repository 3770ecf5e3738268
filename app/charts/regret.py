"""Regret by namespace, and miss ratios by space and by lifetime with today's point."""

from __future__ import annotations

from collections.abc import Sequence

from app.analysis.granularity import Granularity
from app.analysis.regret import Amount, Findings
from app.charts import theme
from app.charts.theme import Chart
from app.views import granularity as granularity_view
from app.views import regret, words
from app.views.regret import Row
from app.views.regret_past import Point
from storage.reads.acts import Mark
from storage.reads.window import Window

MOST_BARS = 12
_LIFETIMES_MS = (60_000, 600_000, 3_600_000, 21_600_000, 86_400_000, 604_800_000, 2_592_000_000)


def bracket(rows: Sequence[Row]) -> Chart:
    """Lines from the least to the most regret, in money where every namespace has prices, else in hits; the largest at the top.

    The last of each point's own data is its namespace's name, for the click on it; it is not drawn.
    """
    found = [(row.namespace, row.findings) for row in rows if row.findings is not None]
    priced = bool(found) and all(one.regret[1].usd is not None for _, one in found)

    def of(amount: Amount) -> float:
        return float(amount.usd or 0.0) if priced else amount.hits

    largest = sorted(found, key=lambda pair: of(pair[1].regret[1]))[-MOST_BARS:]
    made = theme.figure(height=100 + 34 * len(largest))
    labels = [theme.label(name, 24) for name, _ in largest]
    ends = [one.regret for _, one in largest]
    told = [
        [words.money(low.usd), words.money(high.usd), f"{low.hits:,.0f}", f"{high.hits:,.0f}", words.duration_ms(high.ms), name]
        for (low, high), (name, _) in zip(ends, largest, strict=True)
    ]
    made.add_scatter(
        x=[x for low, high in ends for x in (of(low), of(high), None)],
        y=[y for label in labels for y in (label, label, label)],
        mode="lines+markers",
        name="regret, least to most",
        line={"color": theme.ACCENT, "width": 6},
        marker={"symbol": "line-ns", "size": 18, "line": {"color": theme.ACCENT, "width": 3}},
        customdata=[row for row in told for _ in range(3)],
        hovertemplate="%{customdata[0]} to %{customdata[1]}<br>%{customdata[2]} to %{customdata[3]} hits<br>up to %{customdata[4]} waited",
    )
    best = [one.best_knob for _, one in largest]
    made.add_scatter(
        x=[None if knob is None else of(knob.gain) for knob in best],
        y=labels,
        mode="markers",
        name="what the best knob wins, maybe in more space",
        marker={"symbol": "diamond", "size": 11, "color": theme.OUTCOME_COLOURS["miss"], "line": {"width": 1, "color": "#ffffff"}},
        customdata=[["" if knob is None else regret.knob_words(knob, one), name] for knob, (name, one) in zip(best, largest, strict=True)],
        hovertemplate="%{customdata[0]}",
    )
    made.update_layout(hovermode="closest")
    axis = {"text": "US dollars" if priced else "hits", "font": {"size": 12}}
    # Plotly would write $0.00045 as $450μ.
    whole = {"exponentformat": "none", "separatethousands": True}
    made.update_xaxes(rangemode="tozero", showgrid=True, tickprefix="$" if priced else "", title=axis, **whole)
    made.update_yaxes(showgrid=False, type="category")
    title = f"Regret by namespace, in {'US dollars' if priced else 'hits'}"
    return Chart(title, made, f"{title}: lines from the least to the most that a perfect cache would have won")


def course(points: Sequence[Point], window: Window, marks: Sequence[Mark] = ()) -> Chart:
    """The least and the most regret of each time before, as part of its lookups, and what was done. A time without one is a gap."""
    made = theme.figure(height=200)
    at = theme.times([point.end_ms for point in points])
    told = [[f"{point.ends.replayed:,}", words.many(point.namespaces, "namespace", "namespaces")] for point in points]
    for name, end, fill in (("least", 0, None), ("most", 1, "tonexty")):
        made.add_scatter(
            x=at,
            y=[point.ends.ratios[end] * 100 for point in points],
            mode="lines+markers",
            name=name,
            line={"color": theme.ACCENT, "width": 2, "dash": "solid" if fill else "dot"},
            marker={"size": 4},
            fill=fill,
            fillcolor="rgba(43,123,189,0.18)",
            cliponaxis=False,
            customdata=told,
            hovertemplate="%{y:.1f} % of lookups (n = %{customdata[0]}, %{customdata[1]})",
        )
    theme.act_marks(made, marks, top=97)
    theme.time_axis(made, window)
    theme.ratio_axis(made)
    title = "Regret over time, as part of the lookups"
    return Chart(title, made, f"{title}: two lines, the least and the most, from {words.span(window.start_ms, window.end_ms)}")


def spaces(found: Findings) -> Chart:
    """Miss ratio of LRU by space, with and without today's lifetime, and where the cache stands today.

    The last of each point's own data is its space, for the click on it; of `lifetimes` its lifetime.
    """
    made = theme.figure(height=280)
    money = [[words.money(point.saved.usd), regret.space_words(point.at, found), regret.held(point.at)] for point in found.space_curve]
    made.add_scatter(
        x=[at for at, _ in found.lru_curve],
        y=[ratio * 100 for _, ratio in found.lru_curve],
        mode="lines+markers",  # a line alone takes no clicks
        name="no expiry",
        line={"color": theme.NEUTRAL, "dash": "dot", "width": 2},
        marker={"size": 3},
        customdata=[[regret.held(at)] for at, _ in found.lru_curve],
        hovertemplate="%{y:.1f} % missed",
    )
    made.add_scatter(
        x=[point.at for point in found.space_curve],
        y=[point.miss_ratio * 100 for point in found.space_curve],
        mode="lines+markers",
        name=f"lifetime of {words.age(found.ttl_ms)}",
        line={"color": theme.ACCENT, "width": 2},
        marker={"size": 4},
        customdata=money,
        hovertemplate="%{y:.1f} % missed, %{customdata[0]} saved",
    )
    _today(made, found.capacity, found)
    last = max([found.capacity, *(point.at for point in found.space_curve)])
    ticks = _ticks(last, found)
    made.update_xaxes(
        type="log",
        tickvals=ticks,
        ticktext=[regret.space_words(tick, found) for tick in ticks],
        title={"text": "space of all entries, logarithmic", "font": {"size": 12}},
    )
    theme.ratio_axis(made)
    title = "Lookups missed, by space"
    return Chart(title, made, f"{title}: falling lines, today's point marked")


def lifetimes(found: Findings) -> Chart:
    """Miss ratio by lifetime without a limit of space, and where the cache stands today."""
    made = theme.figure(height=280)
    made.add_scatter(
        x=[point.at for point in found.ttl_curve],
        y=[point.miss_ratio * 100 for point in found.ttl_curve],
        mode="lines+markers",
        name="replayed",
        line={"color": theme.ACCENT, "width": 2},
        marker={"size": 4},
        customdata=[
            [
                words.age(point.at),
                words.money(point.saved.usd),
                "" if point.space is None else regret.space_words(point.space, found),
                regret.held(point.at),
            ]
            for point in found.ttl_curve
        ],
        hovertemplate="%{customdata[0]}: %{y:.1f} % missed, %{customdata[1]} saved, in %{customdata[2]}",
    )
    _today(made, found.ttl_ms, found)
    last = max(point.at for point in found.ttl_curve)
    axis = {"text": "lifetime of an entry, logarithmic", "font": {"size": 12}}
    ticks: list[float] = [tick for tick in _LIFETIMES_MS if tick <= last] or [last]
    made.update_xaxes(type="log", tickvals=ticks, ticktext=[words.age(tick) for tick in ticks], title=axis)
    theme.ratio_axis(made)
    title = "Lookups missed, by lifetime"
    return Chart(title, made, f"{title}: a falling line, today's point marked")


def granularity(found: Sequence[Granularity]) -> Chart:
    """What each size of unit saves of a trace: tokens of the prefill, and prompts with a hit."""
    made = theme.figure(height=260)
    units = [str(row["unit"]) for row in granularity_view.rows(found)]
    drawn = (
        ("prefill saved", theme.ACCENT, "", [(one.saved_tokens, one.total_tokens) for one in found]),
        ("prompts with a hit", theme.NEUTRAL, "/", [(one.hits, one.prompts) for one in found]),
    )
    for name, colour, shape, counts in drawn:
        made.add_bar(
            x=units,
            y=[k / n * 100 if n else None for k, n in counts],
            name=name,
            marker={"color": colour, "line": {"width": 0}, "pattern": {"shape": shape, "size": 6, "solidity": 0.2}},
            customdata=[f"{k:,} of {n:,}" for k, n in counts],
            hovertemplate="%{y:.1f} %, %{customdata}",
        )
    made.update_layout(barmode="group")
    made.update_xaxes(type="category", title={"text": "unit that is cached", "font": {"size": 12}})
    theme.ratio_axis(made)
    title = f"What each size of unit saves, n = {words.count(found[0].prompts if found else 0)} prompts"
    return Chart(title, made, f"{title}: two bars for each size, from a block of tokens to the whole prompt")


def _today(made: object, at: float, found: Findings) -> None:
    made.add_scatter(  # type: ignore[attr-defined]
        x=[at],
        y=[found.miss_ratio * 100],
        mode="markers",
        name="today, recorded",
        marker={"symbol": "diamond", "size": 12, "color": theme.OUTCOME_COLOURS["miss"], "line": {"width": 1, "color": "#ffffff"}},
        customdata=[[words.money(found.recorded.usd), regret.held(at)]],
        hovertemplate="%{y:.1f} % missed, %{customdata[0]} saved",
    )


def _ticks(last: float, found: Findings) -> list[float]:
    """Return round spaces, a factor of ten apart (of four in bytes), the last four."""
    factor = 4.0 if found.known.unit == "bytes" else 10.0
    ticks = [1.0]
    while ticks[-1] * factor <= last:
        ticks.append(ticks[-1] * factor)
    return ticks[-4:]
