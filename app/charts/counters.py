"""Hit rates of counter-only sources over time: one small chart a unit, since tokens, requests and keys are not to be compared."""

from __future__ import annotations

from collections.abc import Sequence

from app.charts import theme
from app.charts.theme import Chart
from app.views import words
from app.views.counters import FELL, RESTART, Rate
from storage.reads.acts import Mark
from storage.reads.window import Window

COLOURS = tuple(theme.OUTCOME_COLOURS[one] for one in ("exact_hit", "error", "partial_hit", "coalesced", "miss", "semantic_hit"))
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SYMBOLS = {RESTART: "triangle-up", FELL: "x"}
_MOST_LINES = 12


def units(rates: Sequence[Rate]) -> list[str]:
    """Return the units that have something to draw, in a fixed order."""
    present = {rate.cache.unit for rate in rates if rate.ratio is not None}
    return [unit for unit in ("requests", "tokens", "keys", "blocks", "items") if unit in present]


def worst_ms(rates: Sequence[Rate]) -> int | None:
    """Return the start of the bucket in which one of these rates was lowest, of as low ones that with most queries; None = none has one."""
    known = [(hits / queries, -queries, at_ms) for rate in rates for at_ms, hits, queries in rate.buckets if 0 < queries >= hits]
    return min(known)[2] if known else None


def hit_rates(rates: Sequence[Rate], window: Window, unit: str, acted: Sequence[Mark] = ()) -> Chart:
    """Lines of the hit rates counted in one unit, on a fixed axis. A bucket without a query, or without a reading, is a gap.

    acted: marks of acts and outages; restarts are those that the counters themselves show.
    """
    made = theme.figure(height=200)
    drawn = sorted((rate for rate in rates if rate.cache.unit == unit and rate.ratio is not None), key=lambda rate: -rate.queries)
    for place, rate in enumerate(drawn[:_MOST_LINES]):
        known = {at_ms: (hits, queries) for at_ms, hits, queries in rate.buckets}
        values: list[float | None] = []
        told: list[str] = []
        for at_ms in window.buckets:
            hits, queries = known.get(at_ms, (0.0, 0.0))
            good = queries > 0 and hits <= queries * 1.000001
            values.append(100 * hits / queries if good else None)
            told.append(f"{hits:,.0f} of {queries:,.0f} {unit}" if good else "")
        made.add_scatter(
            x=theme.times([at_ms + window.bucket_ms // 2 for at_ms in window.buckets]),
            y=values,
            mode="lines+markers",
            name=f"{theme.label(rate.system)}: {theme.label(rate.cache.title)}, {theme.label(rate.source)}",
            line={"color": COLOURS[place % len(COLOURS)], "dash": _DASHES[place // len(COLOURS) % len(_DASHES)], "width": 2},
            marker={"size": 4},
            cliponaxis=False,
            connectgaps=False,
            customdata=told,
            hovertemplate="%{y:.1f} %, %{customdata}",
        )
    for what, symbol in _SYMBOLS.items():
        marks = [(at_ms, rate) for rate in drawn for at_ms, mark in rate.marks if mark == what]
        if marks:
            made.add_scatter(
                x=theme.times([at_ms + window.bucket_ms // 2 for at_ms, _ in marks]),
                y=[97] * len(marks),
                mode="markers",
                name=what,
                marker={"symbol": symbol, "size": 10, "color": theme.NEUTRAL, "line": {"width": 1, "color": "#ffffff"}},
                cliponaxis=False,
                customdata=[theme.label(rate.source) for _, rate in marks],
                hovertemplate=f"{what}: %{{customdata}}<extra></extra>",
            )
    theme.act_marks(made, [one for one in acted if one.kind != "restart"], top=97)
    theme.time_axis(made, window)
    theme.ratio_axis(made)
    left = f"; {len(drawn) - _MOST_LINES} more are in the table" if len(drawn) > _MOST_LINES else ""
    title = f"Hit rates of sources that only count, in {unit}, per {words.each(window.bucket_ms)}{left}"
    return Chart(title, made, f"{title}: {words.many(len(drawn), 'line', 'lines')} from {words.span(window.start_ms, window.end_ms)}")
