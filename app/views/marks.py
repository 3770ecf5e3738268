"""What is marked on every time chart: operators' acts, senders that fell silent, gateways that were restarted, versions that changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from app.analysis.silence import silences
from app.views import words
from app.views.causes import Event
from app.views.parts import Failure, attempt
from storage.reads import acts, changes
from storage.reads.acts import Mark
from storage.reads.window import Scope, Window, coarse
from storage.store import Store

ACTS = "Record of acts"
_MOST_MARKS = 24  # more of them are put together by kind and time: each is a line across the chart
_MOST_BUCKETS = 720  # of the search for silences: a day is looked at in steps of two minutes, a week by the hour


def load(telemetry: Callable[[], Store], ops: Callable[[], Store], window: Window, scope: Scope) -> tuple[tuple[Mark, ...], Failure | None]:
    """Return the marks of the window, oldest first, and the failure of the record of acts.

    That the telemetry database fails is the page's to say: it reads more of it.
    """
    acted = attempt(ACTS, lambda: _acts(ops(), window, scope), hides="operators' acts on the charts")
    seen = attempt("", lambda: recorded(telemetry(), window, scope))
    return tuple(sorted([*(acted.value or ()), *(seen.value or ())], key=lambda mark: mark.at_ms)), acted.failure


def with_changes(marked: Sequence[Mark], events: Sequence[Event], window: Window) -> tuple[Mark, ...]:
    """Return the marks and what lookups and counters show to have changed in the window, oldest first; many of a kind in one."""
    seen = [
        Mark("", event.at_ms, event.kind, "seen", event.namespace, "", _of(event))
        for event in events
        if event.seen and window.start_ms <= event.at_ms < window.end_ms
    ]
    return _grouped(sorted([*marked, *seen], key=lambda mark: mark.at_ms), window)


def _of(event: Event) -> str:
    """Return what changed without its kind, which stands before a mark's text."""
    _, of, rest = event.what.partition(" of ")
    return f"of {rest}" if of else event.what.removeprefix(event.kind).lstrip(": ")


def _grouped(found: Sequence[Mark], window: Window) -> tuple[Mark, ...]:
    if len(found) <= _MOST_MARKS:
        return tuple(found)
    step = max(1, window.length_ms // _MOST_MARKS)
    groups: dict[tuple[int, str], list[Mark]] = {}
    for mark in found:
        groups.setdefault(((mark.at_ms - window.start_ms) // step, mark.kind), []).append(mark)
    return tuple(_one(several) for several in groups.values())


def _one(several: Sequence[Mark]) -> Mark:
    first = several[0]
    if len(several) == 1:
        return first
    places = sorted({mark.namespace for mark in several if mark.namespace})
    of = f", of {words.listed((words.name(place, 24) for place in places), most=3)}" if places else ""
    detail = f"{len(several)} times from {words.clock(first.at_ms)} to {words.clock(several[-1].at_ms)} UTC{of}"
    return Mark("", first.at_ms, first.kind, "seen", "", "", detail)


def _acts(store: Store, window: Window, scope: Scope) -> list[Mark]:
    with store.read() as conn:
        return acts.marks(conn, window, namespace=scope.namespace)


def recorded(store: Store, window: Window, scope: Scope) -> list[Mark]:
    """Return outages and restarts that telemetry itself shows. A sender's silence is looked for over all of its lookups."""
    step = coarse(window, _MOST_BUCKETS)
    with store.read() as conn:
        rows = changes.activity(conn, window, step_ms=step)
        restarts = changes.resets(conn, window)
        last_ms = max((row.at_ms for row in rows), default=None)
    services: dict[str, dict[int, int]] = {}
    for row in rows:
        if scope.source in {None, row.service}:
            services.setdefault(row.service, {})[row.at_ms] = row.lookups
    # What has not arrived yet is no silence: buckets after the newest lookup of any sender are left out.
    buckets = [at for at in range(window.start_ms // step * step, window.end_ms, step) if last_ms is not None and at <= last_ms]
    found = []
    for service, counts in services.items():
        for gap in silences(counts, buckets, step_ms=step):
            lasted = f"{words.clock(gap.start_ms)[:5]} to {words.clock(gap.end_ms)[:5]}" if gap.ended else "until now"
            detail = f"of {words.name(service, 40)}: no lookup came, {lasted} UTC"
            found.append(Mark("", gap.start_ms, "outage", "seen", "", "", detail))
    found += [
        Mark("", one.at_ms, "restart", "seen", "", "", f"of {words.name(one.service, 60)}: its counters began anew") for one in restarts
    ]
    return found
