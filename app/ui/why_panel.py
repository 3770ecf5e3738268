"""Why did the hit rate change? As one line, and as a panel with its evidence and example traces."""

from __future__ import annotations

import streamlit as st

from app.ui import chrome, filters, handles, links, tables
from app.ui.text import literal
from app.views import why, why_rows, words
from app.views.fell import Fall
from app.views.why import Why
from storage.reads.window import Window

SOURCES = (why.TELEMETRY,)
_HELP = (
    "Two windows are compared. A segment's share of the traffic may have changed (mix), or its own hit rate (rate). Each value and "
    "each combination of up to three is tested for both, over lookups that are alike in everything else; the one that fits best "
    "comes first. It says where the change is. What changed at that time says what may have caused it."
)


def answer(selection: filters.Selection, window: Window) -> Why:
    """Return why the hit rate changed: since the time picked, else where it was found to change, else against the period chosen."""
    return why.load(
        handles.telemetry,
        handles.ops,
        window=window,
        before=selection.before(window),
        before_name=selection.before_name,
        scope=selection.scope,
        since_ms=selection.since_ms,
        find=selection.compare == filters.PREVIOUS,
    )


def line(view: Why, fall: Fall | None = None) -> None:
    """Draw the answer in one line, with the way to its evidence. fall: before the window; a wider range then shows why."""
    if view.failures and view.rate_now is None:
        return
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.markdown(f"**Cache, model or traffic?** {literal(why_rows.headline(view))}", help=literal(_HELP), width="content")
        if fall and view.verdict.whose == "none":
            label, end_ms = f"Why it fell at about {words.instant(fall.at_ms)[11:16]}", view.sides.now.end_ms
            st.button(
                label, on_click=filters.pick_range, args=(2 * fall.at_ms - end_ms, end_ms), icon=":material/arrow_forward:", key="fell"
            )
            return
        chrome.evidence("hit_rate", "Why", **({"since": filters.minute(view.sides.now.start_ms)} if view.sides.found else {}))


def panel(view: Why) -> None:
    """Draw the answer, the ranked segments, what lookups became, what changed in that time, and lookups to look at."""
    st.markdown("#### Why did it change?", help=literal(_HELP))
    if filters.held_since() is not None:
        st.button("Compare with the chosen period again", on_click=filters.forget_since, icon=":material/undo:", key="forget_since")
    st.markdown(f"**{literal(why_rows.headline(view))}**")
    st.caption(literal(why_rows.compared(view.sides)))
    if view.rate_now is None or view.rate_before is None:
        return
    st.caption(literal(why_rows.rates_told(view)))
    bar = tables.percent_bar
    query = filters.query("traces")
    links.beneath(why_rows.side_rows(view, query), "lookups", by=("time",), lead="Lookups of")
    rows = why_rows.segment_rows(view, query)
    if rows:
        st.markdown("**Segments that explain it, the best first**")
        columns = {name: bar(name, width=110) for name in ("hit rate before", "now", "share before", "share now")}
        columns["lookups"] = tables.link("lookups", shown="/(traces)")
        tables.show(rows, alt="Segments that explain the change of the hit rate, the best first", columns=columns)
        links.beneath(rows, "lookups", by=("what",), lead="Lookups of")
    if not view.became:
        return
    changes(view)
    st.markdown("**What lookups became, before and now**")
    tables.show(
        why_rows.became_rows(view),
        alt="What eligible lookups became, before and now",
        columns={"before": bar("before", width=110), "now": bar("now", width=110)},
    )
    examples = why_rows.example_rows(view)
    if examples:
        st.markdown("**Lookups of the first segment**")
        tables.show(examples, alt="Example lookups of the first segment", columns={"trace": tables.link("trace", shown="/(traces)")})
        links.beneath(examples, "trace", by=("time (UTC)", "outcome", "prompt"), lead="Open the trace of")
    if not view.dimensions:
        return
    with st.expander("Every dimension: mix and rate"):
        tables.show(why_rows.dimension_rows(view), alt="Dimensions as explanations, the most surprising first")
        parts = why_rows.part_rows(view)
        columns = {name: bar(name, width=110) for name in ("hit rate before", "now")}
        tables.show(parts, alt="Values of every dimension with their mix and rate part", columns=columns)


def changes(view: Why) -> None:
    """Draw what changed in both windows."""
    st.markdown("**What changed in that time**")
    events = why_rows.event_rows(view)
    if events:
        tables.show(events, alt="Acts, versions, outages and restarts in both windows")
    else:
        st.caption("No act, no new version, no outage and no restart is on record in both windows.")
