"""Counter-only sources on Hit rate and on Sources: drawn apart from lookups, each in its own unit."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from app.charts import counters as charts
from app.ui import chrome, filters, handles, links, panels, states, tables
from app.ui.text import literal
from app.views import counters, snapshots
from app.views.counters import Counters
from storage.reads.acts import Mark
from storage.reads.window import Window


def load(window: Window, now_ms: int) -> Counters:
    return counters.load(handles.telemetry, handles.families, window=window, now_ms=now_ms)


def line(window: Window, now_ms: int) -> bool:
    """Draw, on another page, the rates that were only counted, with the link to them; return whether there was one."""
    told = counters.named(load(window, now_ms))
    if told:
        with st.container(horizontal=True, vertical_alignment="center", gap="small"):
            st.markdown(literal(told), width="content")
            chrome.evidence("hit_rate", "Hit rates that are counted")
    return bool(told)


def hit_rates(view: Counters, window: Window, marks: Sequence[Mark]) -> bool:
    """Draw the hit rates of sources that only count; return whether there was one."""
    states.report([one for one in view.failures if one.source == counters.FAMILIES], (counters.FAMILIES,))
    found = counters.totals(view)
    if not found:
        return False
    st.markdown("**Sources that only count, each in its own unit and in no total of this page**")
    st.caption(literal(counters.sentence(view)))
    for unit in charts.units(found):
        drawn = [rate for rate in found if rate.cache.unit == unit]
        panels.chart(
            charts.hit_rates(drawn, window, unit, marks),
            rows=counters.bucket_rows(drawn),
            key=f"counters_{unit}",
            click=panels.on_time(filters.since, charts.worst_ms(drawn), step_ms=window.bucket_ms),
        )
    _rates(view)
    return True


def _rates(view: Counters) -> None:
    columns = {
        "hit rate": tables.percent_bar("hit rate", help="Hits over queries, from what the counters grew by. Empty = no data."),
        "hits": tables.number("hits"),
        "queries": tables.number("queries"),
    }
    tables.show(counters.rate_rows(view), alt="Hit rates of sources that only count", columns=columns)


def sources(window: Window, now_ms: int) -> None:
    """Draw what sources that only count have counted, the traces behind it, and what their pages held."""
    view = load(window, now_ms)
    states.report(view.failures, (counters.FAMILIES,))
    if view.rates:
        st.markdown("**Hit rates of sources that only count**")
        st.caption(literal(counters.sentence(view)))
        _rates(view)
    if counts := counters.count_rows(view):
        st.markdown("**Counters without a rate, and by how much they grew in this range**")
        tables.show(counts, alt="Counters without a rate", columns={"grew by": tables.number("grew by")})
    if levels := counters.level_rows(view):
        st.markdown("**Gauges, as they were read last**")
        tables.show(levels, alt="Gauges of sources, with a warning where they mislead")
    if behind := snapshots.exemplar_rows(view):
        st.markdown("**Newest measurements behind these counters, with their traces**")
        columns = {"trace": tables.link("trace", shown="/(traces)", help="Empty = no span of this trace is stored here")}
        tables.show(behind, alt="Exemplars and their traces", columns=columns)
        links.beneath(behind, "trace", by=("time (UTC)", "metric", "value"), lead="Open the trace of")
    if servers := snapshots.server_rows(view):
        st.markdown("**Redis and Valkey servers**")
        tables.show(servers, alt="Redis and Valkey servers", columns={"memory": tables.number("memory", pattern="bytes")})
    if shapes := snapshots.keyspace_rows(view):
        st.markdown("**What their keyspaces are made of: a sample, by the shape of names, which are not kept**")
        tables.show(shapes, alt="Keyspaces by shape, type and lifetime", columns={"share": tables.percent_bar("share")})
    if slow := snapshots.slow_rows(view):
        st.markdown("**Their newest slow commands, without arguments**")
        tables.show(slow, alt="Slow commands")
    if targets := snapshots.target_rows(view):
        st.markdown("**What Prometheus servers scrape**")
        tables.show(targets, alt="Targets of Prometheus servers")
    if pages := snapshots.page_rows(view):
        st.markdown("**What the newest pages of metrics held**")
        tables.show(pages, alt="Facts of the newest scraped pages")
