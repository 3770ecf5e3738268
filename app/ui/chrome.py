"""The frame of every page: title, banner, filter bar, refreshing body, dials."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import streamlit as st

from app.errors import AppError
from app.ui import arrival, confirm, filters, handles, tables
from app.ui.links import page_path
from app.ui.text import literal
from app.views import definitions, words
from app.views.dial import Dial
from storage.reads.window import Extent, Scope

REFRESH_S = 10
_MOST_IN_A_ROW = 5
# Drawn here and not a Material symbol: a browser fetches that one's picture from a font server.
ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'%3E%3Crect width='32' height='32' rx='6' "
    "fill='%231f5fa8'/%3E%3Ccircle cx='16' cy='16' r='8' fill='none' stroke='%23fff' stroke-width='4' "
    "stroke-dasharray='36 15'/%3E%3C/svg%3E"
)
# Its text is of one colour on both themes' sidebars.
LOGO = (
    "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 168 32' width='168' height='32'><rect width='32' height='32' rx='6' "
    "fill='#1f5fa8'/><circle cx='16' cy='16' r='8' fill='none' stroke='#fff' stroke-width='4' stroke-dasharray='36 15'/>"
    "<text x='42' y='22' font-family='system-ui, sans-serif' font-size='19' font-weight='600' fill='#3f83c9'>Cachescope</text></svg>"
)
SIDEBAR_PX = 212  # the filter bar of the widest page then fits a laptop's line
_UNIT = re.compile(r"(?<=\d) (?=(?:ms|s|min|h|d|KiB|MiB|GiB|bits)\b)")


@dataclass(frozen=True, slots=True)
class Entry:
    """A page of the menu."""

    name: str
    title: str
    icon: str


SECTIONS: dict[str, tuple[Entry, ...]] = {
    "Observe": (
        Entry("overview", "Overview", ":material/monitoring:"),
        Entry("hit_rate", "Hit rate", ":material/target:"),
        Entry("traces", "Traces", ":material/account_tree:"),
        Entry("drift", "Drift", ":material/shuffle:"),
        Entry("regret", "Regret & capacity", ":material/savings:"),
    ),
    "Act": (
        Entry("purge", "Purge", ":material/delete_sweep:"),
        Entry("warmup", "Warm-up", ":material/local_fire_department:"),
        Entry("thresholds", "Thresholds", ":material/tune:"),
    ),
    "Record": (
        Entry("audit", "Audit", ":material/receipt_long:"),
        Entry("sources", "Sources", ":material/sensors:"),
    ),
}


def _home() -> None:
    """Send `/` to the overview. The default page answers at `/` alone, and a link to /overview must work too."""
    arrival.go("overview", st.query_params.to_dict())


def menu() -> dict[str, list[st.Page]]:
    """Return the menu's sections with the pages that exist."""
    sections = {"": [st.Page(_home, title="Cachescope", url_path="home", default=True, visibility="hidden")]}
    for section, entries in SECTIONS.items():
        pages = [
            st.Page(page_path(entry.name), title=entry.title, icon=entry.icon, url_path=entry.name)
            for entry in entries
            if Path(page_path(entry.name)).is_file()
        ]
        if pages:
            sections[section] = pages
    return sections


def open_page(
    title: str,
    *,
    tier: bool = False,
    compare: bool = False,
    bar: bool = True,
    scoped: bool = True,
    refreshed: bool = True,
    over_time: bool = False,
) -> filters.Selection:
    """Draw title, banner and filter bar; return the selection. Stops the page when the configuration cannot be read.

    scoped: False = the bar is the time range alone. refreshed: False = the page stands as it was drawn, and has no switch for that.
    over_time: the page has charts over time.
    """
    tables.begin()
    with st.container(horizontal=True, vertical_alignment="center", gap="small"):
        st.title(title, width="content", anchor=False)  # a link to a heading is one more stop of the Tab key
        try:
            config = handles.config()
        except AppError as error:
            st.error(f"The configuration cannot be used: {literal(str(error))}", icon=":material/settings_alert:")
            st.stop()
        if config.demo:
            st.badge("Demo data: generated traffic against a bundled stub model", icon=":material/science:", color="blue")
        if refreshed:
            st.space("stretch")
            if over_time:
                filters.drag()
            filters.live()
    if not bar:
        return filters.Selection(filters.DEFAULT_RANGE, Scope())
    return filters.bar(tier=tier, compare=compare, scoped=scoped)


def live(body: Callable[[], None], *, every_s: float | None = REFRESH_S) -> None:
    """Draw the body, again every ten seconds unless paused or a dialog is open. No inputs inside: they would lose their focus."""
    running = bool(st.session_state.get("live", True)) and not confirm.any_open()

    def drawn() -> None:
        with tables.offered():
            body()

    st.fragment(drawn, run_every=every_s if running else None)()


def stamp(now_ms: int, stored: Extent) -> None:
    """Draw when the page was read and how old the newest lookup was then: the age is the data's, not the page's."""
    newest = f"newest lookup {words.age(now_ms - stored.last_ms)} old" if stored.last_ms is not None else "no lookup stored"
    paused = "" if st.session_state.get("live", True) else " · paused"
    st.caption(f"Read at {words.clock(now_ms)} UTC · {newest}{paused} · all times are UTC")
    if stored.ahead_ms is not None:
        st.caption(f":material/warning: A lookup is dated {words.instant(stored.ahead_ms)} UTC, after now: a sender's clock is wrong.")


def headline(sentence: str, *, bad: bool = False) -> None:
    """Draw the page's answer: plain text, whatever tenants called their namespaces."""
    mark = ":material/warning:" if bad else ":material/check_circle:"
    colour = "orange" if bad else "green"
    st.markdown(f"##### :{colour}[{mark}] {literal(sentence)}")


def evidence(page: str, label: str, **changes: str) -> None:
    """Draw the link to the page that shows why, with the bar's filters and these changes."""
    st.page_link(page_path(page), label=label, icon=":material/arrow_forward:", query_params=filters.query(page, **changes))


def dials(items: Sequence[Dial]) -> None:
    """Draw dials in rows that fill the width: at most five on a laptop, two on a phone. Each tells what its number is."""
    rows = -(-len(items) // _MOST_IN_A_ROW) or 1
    size = -(-len(items) // rows)
    for at in range(0, len(items), max(1, size)):
        with st.container(horizontal=True, gap="small"):
            for dial in items[at : at + size]:
                _dial(dial)


def _dial(dial: Dial) -> None:
    told = " ".join(part for part in (definitions.dial(dial.label), dial.help) if part)
    with st.container(border=True, width="stretch", height="stretch", gap=None):
        st.markdown(f":gray[{literal(dial.label)}]", help=literal(told) if told else None)
        st.subheader(_unbroken(dial.value), anchor=False)
        # No captions: those are drawn at 60 %, at which no colour stands out from white.
        if dial.spark:
            st.markdown(f":small[:blue[{dial.spark}]]")
        if dial.change:
            colour = "gray" if dial.good is None else "green" if dial.good else "orange"
            st.markdown(f":small[:{colour}[{_unbroken(dial.change)}]]")
        for line in (dial.detail, dial.age):
            if line:
                st.caption(_unbroken(line))


def _unbroken(text: str) -> str:
    """Return literal Markdown in which a number keeps its unit and an interval its ends on one line."""
    told = literal(text.replace(" %", "%%")).replace("\\%\\%", "\u00a0\\%").replace("–", "\u2060–\u2060")
    return _UNIT.sub("\u00a0", told)  # at the end: literal() makes every space an ordinary one
