"""The one filter bar. Its state lives in the URL, so that a link shows a colleague the same thing. All times are UTC."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import streamlit as st

from app.ui import arrival, handles
from app.views import kept, words
from app.views.parts import attempt
from app.views.question import Question
from storage.reads.window import MINUTE_MS, Choices, Horizons, Scope, Window, choices, horizons

PRESETS_MS = {"15m": 900_000, "1h": 3_600_000, "6h": 21_600_000, "24h": 86_400_000, "7d": 604_800_000}
PRESET_NAMES = {
    "15m": "the last 15 minutes",
    "1h": "the last hour",
    "6h": "the last 6 hours",
    "24h": "the last 24 hours",
    "7d": "the last 7 days",
}
DEFAULT_RANGE, ABSOLUTE = "1h", "custom"
PREVIOUS, DAY, WEEK, CHOSEN = COMPARISONS = ("vs period before", "vs day before", "vs week before", "vs chosen time")
_OFFSETS_MS = {DAY: 86_400_000, WEEK: 604_800_000}
_BAR = ("range", "from", "to", "namespace", "tenant", "model", "source", "live")
_COMPARED = (*_BAR, "compare", "compare_from")
# What a page has of the bar: a link to it names no more.
_KEYS = {
    "overview": (*_COMPARED, "drag"),
    "hit_rate": (*_COMPARED, "drag"),
    "drift": _COMPARED,
    "traces": _BAR,
    "regret": ("namespace", "live"),
}
_CHOICES_TTL_S = 15
_MOST_OPTIONS = 1_000  # a browser would be long over more
_WIDTH = 132  # five beside the range fill a laptop's line
_NARROW = 120  # and six
_UNNAMED_OPTION = words.UNNAMED
PICKED = "time_picked"  # set where a time is picked or forgotten, taken by the next chart drawn


@dataclass(frozen=True, slots=True)
class Selection:
    """What the bar says. A preset moves with the clock: ask for the window at each refresh, not once."""

    range: str
    scope: Scope
    start_ms: int = 0
    end_ms: int = 0
    compare: str = PREVIOUS
    compare_ms: int = 0
    since_ms: int | None = None  # picked on a chart: what came after it is compared with what came before

    @property
    def moving(self) -> bool:
        return self.range in PRESETS_MS

    def window(self, now_ms: int) -> Window:
        if self.moving:
            return Window.of(now_ms - PRESETS_MS[self.range], now_ms)
        return Window.of(self.start_ms, self.end_ms)

    def before(self, window: Window) -> Window:
        """The window of the same length that this one is compared with."""
        if self.compare == CHOSEN:
            return window.shifted(window.start_ms - self.compare_ms)
        return window.shifted(self._back * _OFFSETS_MS[self.compare] if self.compare in _OFFSETS_MS else window.length_ms)

    @property
    def _back(self) -> int:
        """How many days, or weeks, before: as few as leave no lookup in both windows, for these are compared as independent."""
        length_ms = PRESETS_MS[self.range] if self.moving else self.end_ms - self.start_ms
        return max(1, -(-length_ms // _OFFSETS_MS[self.compare]))

    def question(self, window: Window, now_ms: int) -> Question:
        """Return what a page of rates is asked of this window."""
        usd_per_hour = handles.config().cache_usd_per_hour
        return Question(window, self.scope, self.name, now_ms, self.before(window), self.before_name, usd_per_hour)

    @property
    def before_name(self) -> str:
        """`the period before`, or when the chosen one began."""
        if self.compare == CHOSEN:
            return f"the period from {words.instant(self.compare_ms)[:16]} UTC"
        if self.compare in _OFFSETS_MS and self._back > 1:
            return f"the same time {self._back} {'days' if self.compare == DAY else 'weeks'} before"
        return self.compare.replace("vs ", "the ")

    @property
    def name(self) -> str:
        """`the last hour`, or the absolute range."""
        if self.moving:
            return PRESET_NAMES[self.range]
        window = self.window(0)
        return words.span(window.start_ms, window.end_ms)


@st.cache_data(ttl=_CHOICES_TTL_S, show_spinner=False, max_entries=64)
def _choices(start_ms: int, end_ms: int) -> Choices:
    store = handles.telemetry()
    with store.read() as conn:
        return choices(conn, Window(start_ms, end_ms))


@st.cache_data(ttl=_CHOICES_TTL_S, show_spinner=False, max_entries=4)
def _kept() -> Horizons:
    with handles.telemetry().read() as conn:
        return horizons(conn)


def _note_removed(shown: Window, compared: Window | None) -> None:
    """Draw what retention has removed of the windows. A database that does not answer is told of by the page itself."""
    told = kept.note(attempt("telemetry", _kept).value or Horizons(), shown, compared)
    if told:
        st.caption(f":material/auto_delete: {told}")


def live() -> None:
    """Draw the switch of the automatic refresh."""
    st.toggle("Live", value=True, key="live", bind="query-params", help="Read again every 10 seconds")


def drag() -> None:
    """Draw the switch of what the pointer does on charts over time."""
    told = (
        "On: drag over a chart over time, and that becomes the time range. "
        "Off: click on a point of one, and see why the hit rate changed since then."
    )
    st.toggle("Drag a range", key="drag", bind="query-params", help=told)


def dragging() -> bool:
    return bool(st.session_state.get("drag", False))


def query(page: str, **changes: str) -> dict[str, str]:
    """Return the bar's part of the URL, as far as that page has it, with these changes: it then shows the same lookups."""
    held = {key: value for key, value in st.query_params.to_dict().items() if key in _KEYS[page] and isinstance(value, str)}
    return {**held, **changes}


def bar(*, tier: bool = False, compare: bool = False, scoped: bool = True) -> Selection:
    """Draw the bar and return what it says. tier: also offer the tiers. compare: also offer what to compare with.

    scoped: False = the time range alone.
    """
    now = handles.now_ms()
    with st.container(horizontal=True, vertical_alignment="center", gap="small", key="filter_bar"):
        picked = st.segmented_control(
            "Time range (UTC)",
            [*PRESETS_MS, ABSOLUTE],
            default=DEFAULT_RANGE,
            required=True,
            key="range",
            bind="query-params",
            label_visibility="collapsed",
        )
        chosen = picked or DEFAULT_RANGE
        start_ms, end_ms = _absolute(now) if chosen == ABSOLUTE else (0, 0)
        if not scoped:
            return Selection(chosen, Scope(), start_ms, end_ms)
        around = Selection(chosen, Scope(), start_ms, end_ms).window(now)
        found = attempt("telemetry", lambda: _choices(around.start_ms, around.end_ms)).value or Choices()
        scope = Scope(
            namespace=_pick("namespace", "All namespaces", found.namespaces),
            tenant=_pick("tenant", "All tenants", found.tenants, narrow=tier),
            model=_pick("model", "All models", found.models, narrow=tier),
            tier=_pick("tier", "All tiers", found.tiers, narrow=True) if tier else None,
            source=_pick("source", "All senders", found.sources, narrow=tier),
        )
        against, against_ms = _comparison(around) if compare else (PREVIOUS, 0)
    selection = Selection(chosen, scope, start_ms, end_ms, against, against_ms, held_since())
    _note_removed(around, selection.before(around) if compare else None)
    return selection


def since(at_ms: int) -> None:
    """Compare what came from this time on with what came before it. For a chart's callback; the page is then drawn anew."""
    st.query_params["since"] = minute(at_ms)
    st.session_state[PICKED] = True


def pick_range(start_ms: int, end_ms: int) -> None:
    """Make a region of a time chart the time range. For a chart's callback; the page is then drawn anew, the bar with it."""
    window = Window.of(start_ms, end_ms)
    forget_since()
    st.session_state["range"] = ABSOLUTE
    for name, ms in (("from", window.start_ms), ("to", window.end_ms)):
        st.session_state[name] = datetime.fromtimestamp(ms / 1000, UTC).replace(tzinfo=None)
        arrival.say({name: minute(ms)})  # the widget may not be drawn yet, and a value that is its first is not written
    st.session_state[PICKED] = True


def minute(at_ms: int) -> str:
    """Return a minute as the URL has it: `2026-04-14T14:05`, UTC."""
    return words.instant(at_ms)[:16].replace(" ", "T")


def held_since() -> int | None:
    """Return the time of the URL since when to compare; None when there is none, or none that can be read."""
    try:
        held = datetime.fromisoformat(st.query_params.get("since", "")).replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(held.timestamp() * 1000)


def forget_since() -> None:
    """Compare with the chosen period again: for a button's on_click; the page is then drawn anew, for the bar says what is compared."""
    st.query_params.pop("since", None)
    st.session_state[PICKED] = True


def _comparison(shown: Window) -> tuple[str, int]:
    """Draw what to compare with; return it, and when a chosen period begins: the period before's start until it is chosen."""
    picked = st.selectbox(
        "Compare with",
        COMPARISONS,
        key="compare",
        bind="query-params",
        label_visibility="collapsed",
        width=_WIDTH + 14,
    )
    if picked != CHOSEN:
        return picked or PREVIOUS, 0
    begins = st.datetime_input("Compare from (UTC)", None, key="compare_from", bind="query-params", step=60, width=190)
    start_ms = int(begins.replace(tzinfo=UTC).timestamp() * 1000) if begins else shown.previous.start_ms
    if abs(shown.start_ms - start_ms) < shown.length_ms - MINUTE_MS:  # a moving range holds the minute that has begun as well
        st.caption(f"The period from {words.instant(start_ms)[:16]} UTC shares lookups with this one: compared with the period before.")
        return PREVIOUS, 0
    return CHOSEN, start_ms


def _absolute(now_ms: int) -> tuple[int, int]:
    """Draw the two times and return them: the last full hour until they are chosen. An end before the start is swapped, and said.

    They have no default of their own: a value that equals its default leaves the URL, and a link would then move with the clock.
    """
    end = datetime.fromtimestamp(now_ms // 3_600_000 * 3_600, UTC).replace(tzinfo=None)
    start = datetime.fromtimestamp(now_ms // 3_600_000 * 3_600 - 3_600, UTC).replace(tzinfo=None)
    first = st.datetime_input("From (UTC)", None, key="from", bind="query-params", step=60, width=190)
    last = st.datetime_input("To (UTC)", None, key="to", bind="query-params", step=60, width=190)
    times = sorted(int(moment.replace(tzinfo=UTC).timestamp() * 1000) for moment in (first or start, last or end))
    if first and last and first > last:
        st.caption("From is after To: swapped.")
    return times[0], times[1]


def _pick(key: str, everything: str, found: tuple[str, ...], *, narrow: bool = False) -> str | None:
    """Draw one selectbox; None = all. What is picked stays an option when the window has none of it."""
    options = [value or _UNNAMED_OPTION for value in found[:_MOST_OPTIONS]]
    for held in (st.session_state.get(key), st.query_params.get(key)):
        if held and held not in options:
            options.append(held)
    value = st.selectbox(
        everything,
        options,
        index=None,
        placeholder=everything,
        key=key,
        bind="query-params",
        label_visibility="collapsed",
        width=_NARROW if narrow else _WIDTH,
        accept_new_options=len(found) > _MOST_OPTIONS,  # the others can be typed
    )
    return "" if value == _UNNAMED_OPTION else value
