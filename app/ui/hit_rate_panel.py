"""The hit rate over time: what is read for it, and a chart on which a time can be picked."""

from __future__ import annotations

from dataclasses import replace

from app.charts import rates
from app.ui import filters, handles, panels, tables
from app.views import hit_rate, marks
from app.views import rates as rates_view
from app.views.hit_rate import HitRate, Loaded
from app.views.why import Why
from storage.reads.window import Window


def load(selection: filters.Selection, window: Window, now_ms: int, answer: Why) -> HitRate:
    return hit_rate.load(handles.telemetry, handles.ops, selection.question(window, now_ms), answer)


def marked(view: HitRate, answer: Why) -> HitRate:
    """Return the view with what the answer found to have changed on its charts too."""
    return replace(view, marks=marks.with_changes(view.marks, answer.events, view.window))


def rate(view: HitRate, loaded: Loaded) -> list[dict[str, object]]:
    """Draw the chart and return the rows of its table twin."""
    rows = hit_rate.bucket_rows(loaded)
    worth = loaded.worth
    known = worth.usd.break_even_ratio
    chart = rates.hit_rate(
        *(loaded.buckets, view.window, view.marks),
        break_even=worth.ms.break_even_ratio if known is None else known,
        earlier=loaded.beside,
        compared=loaded.compared,
    )
    click = panels.on_time(filters.since, rates_view.worst_ms(loaded.buckets), step_ms=view.window.bucket_ms)
    panels.chart(chart, rows=rows, key="rate", click=click)
    return rows


def outcomes(view: HitRate, loaded: Loaded, rows: list[dict[str, object]]) -> None:
    """Draw what the lookups of each step became; rows: as `rate` returned them."""
    click = panels.on_time(filters.since, rates_view.worst_ms(loaded.buckets))
    panels.chart(rates.outcomes(loaded.buckets, view.window, view.marks), rows=rows, key="outcomes", click=click)


def funnel(loaded: Loaded) -> None:
    """Draw what each tier answered; a click on a bar leads to its lookups."""
    if not loaded.funnel:
        return
    query = filters.query("traces")
    missed = next((address for step in loaded.funnel if step.outcome == "miss" and (address := rates.address(step, query))), "")
    click = panels.on_address(missed, "Lookups of the misses")
    columns = {"share": tables.percent_bar("share")}
    panels.chart(rates.funnel(loaded.funnel, query), rows=hit_rate.funnel_rows(loaded), key="funnel", columns=columns, click=click)
