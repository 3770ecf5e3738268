"""Traces: what happened to this request?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.adapters.base import EngineAdapter
from app.views import trace_tree, words
from app.views.decision import Decision, PolicyNow, explain
from app.views.parts import Failure, attempt
from app.views.trace_tree import Bar
from app.views.understood import KINDS
from storage.reads import traces, window
from storage.reads.traces import Found, Search, StoredSpan
from storage.reads.window import Extent, Scope, Window
from storage.store import Store

TELEMETRY, GATEWAY = SOURCES = ("Telemetry database", "Gateway")
_MOST_DECISIONS = 20
_DEEPEST = 12  # indents of the table: beyond, the column says how deep
CALL_ROLES = {
    "call": "a model call",
    "cached": "answered from a cache",
    "repeat": "tells of a call that another span stands for",
    "retold": "tells of a decision that the span above it tells of, which counts",
}


@dataclass(frozen=True, slots=True)
class Listing:
    """The lookups that match. prompts: False when none of them has its prompt recorded. from_ms: since when was searched, None = all."""

    rows: tuple[Found, ...]
    more: bool
    extent: Extent
    failures: tuple[Failure, ...]
    from_ms: int | None = None

    @property
    def prompts(self) -> bool:
        return not self.rows or any(row.prompt is not None for row in self.rows)


def find(telemetry: Callable[[], Store], *, window: Window, scope: Scope, search: Search, now_ms: int) -> Listing:
    """Return the newest lookups that match."""
    read = attempt(TELEMETRY, lambda: _find(telemetry(), window, scope, search, now_ms), hides="every lookup and trace")
    if read.value is None:
        return Listing((), False, Extent(None, None), (read.failure,) if read.failure else ())
    return read.value


def sentence(listing: Listing, window_name: str) -> str:
    """Return what the list holds, in words."""
    if any(failure.missing for failure in listing.failures):
        return "No telemetry has been stored yet"
    if listing.failures:
        return "The telemetry database does not answer: no lookup can be shown"
    part = (
        ""
        if listing.from_ms is None
        else f"; searched back to {words.instant(listing.from_ms)} UTC: for older ones choose a range that ends there"
    )
    if not listing.rows:
        return f"No lookup in {window_name} matches{part}"
    slowest = max(listing.rows, key=lambda row: row.duration_ms)
    counted = f"The newest {words.count(len(listing.rows))} lookups" if listing.more else words.many(len(listing.rows), "lookup", "lookups")
    outcome = words.OUTCOME_NAMES.get(slowest.outcome, words.one_line(slowest.outcome))
    return f"{counted} in {window_name}; the slowest took {words.duration_ms(slowest.duration_ms)} ({outcome}){part}"


def _find(store: Store, shown: Window, scope: Scope, search: Search, now_ms: int) -> Listing:
    with store.read() as conn:
        page = traces.find(conn, shown, scope, search)
        return Listing(page.rows, page.more, window.extent(conn, now_ms), (), page.from_ms)


def reasons(telemetry: Callable[[], Store], *, window: Window, scope: Scope) -> list[str]:
    """Return the reasons to choose from; none when the database does not answer."""

    def read() -> list[str]:
        with telemetry().read() as conn:
            return traces.reasons(conn, window, scope)

    return attempt(TELEMETRY, read).value or []


def rows(listing: Listing) -> list[dict[str, object]]:
    """Return the list's table, in the listing's order. Caches of several kinds are told apart by a column of their own."""
    mixed = any(row.cache_kind != "response" for row in listing.rows)
    return [
        {
            "time (UTC)": words.instant(row.at_ms),
            "outcome": words.OUTCOME_NAMES.get(row.outcome, words.one_line(row.outcome)),
            **({"cache": KINDS.get(row.cache_kind, words.one_line(row.cache_kind))} if mixed else {}),
            "duration ms": round(row.duration_ms, 2),
            "namespace": words.name(row.namespace),
            "tenant": words.name(row.tenant),
            "prompt": "(not recorded)" if row.prompt is None else words.one_line(row.prompt, 120),
            "reason": words.one_line(row.reason.replace("_", " ")),
            "similarity": row.similarity,
            "model": words.name(row.model),
            "trace": row.trace_id.hex(),
        }
        for row in listing.rows
    ]


@dataclass(frozen=True, slots=True)
class Trace:
    """bars: every line, in the order of the call tree. drawn: those of the waterfall; the table has them all.

    skewed: spans whose clock disagrees with their parent's. corrected: bars stand where they would with the clocks corrected.
    """

    trace_id: str
    start_ms: float
    duration_ms: float
    bars: tuple[Bar, ...]
    decisions: tuple[Decision, ...]
    notes: tuple[str, ...]
    failures: tuple[Failure, ...]
    drawn: tuple[Bar, ...] = ()
    skewed: int = 0
    corrected: bool = False


def load(telemetry: Callable[[], Store], engine: Callable[[], EngineAdapter], *, trace_id: str, correct: bool = False) -> Trace | None:
    """Return a trace with its decisions explained, None when there is none of this id. A failed source is named in it.

    correct: shift spans whose clock disagrees with their parent's. What was sent stays beside it, in each bar.
    """
    try:
        wanted = bytes.fromhex(trace_id)
    except ValueError:
        return None
    read = attempt(TELEMETRY, lambda: _read(telemetry(), wanted), hides="this trace")
    if read.failure:
        return Trace(trace_id, 0, 0, (), (), (), (read.failure,))
    spans, found, size = read.value or ([], [], 0)
    if not spans and not found:
        return None
    policies = attempt(GATEWAY, lambda: _policies(engine()), hides="the threshold and switch in force now")
    by_span = {span.span_id: span for span in spans}
    decisions = []
    for row in found[:_MOST_DECISIONS]:
        span = by_span.get(row["span_id"])
        now = (policies.value or {}).get(row["namespace"])
        decisions.append(explain(row, span.attributes if span else {}, now))
    laid = trace_tree.lay_out(spans, {row["span_id"]: row for row in found}, correct=correct)
    start_ms = laid.start_ns / 1e6 if spans else float(found[0]["at_ms"])
    notes = _notes(laid, size, more=len(found) - len(decisions))
    failures = (policies.failure,) if policies.failure else ()
    return Trace(
        trace_id.lower(), start_ms, laid.duration_ms, laid.bars, tuple(decisions), notes, failures, laid.drawn, laid.skewed, correct
    )  # fmt: skip


def absent(trace_id: str) -> tuple[str, str]:
    """Return what to say of a trace that is not there, and what to do next."""
    if len(trace_id) != 32 or set(trace_id.lower()) - set("0123456789abcdef"):
        return "This is no trace's id", "A trace's id has 32 hexadecimal digits; choose one from the list below."
    return (
        "No trace with this id is stored",
        "It may not have arrived yet, or be older than what is kept. Sources shows whether spans arrive.",
    )


def _read(store: Store, trace_id: bytes) -> tuple[list[StoredSpan], list[dict[str, Any]], int]:
    with store.read() as conn:
        return traces.trace_spans(conn, trace_id), traces.trace_lookups(conn, trace_id), traces.trace_size(conn, trace_id)


def _policies(engine: EngineAdapter) -> dict[str, PolicyNow]:
    default = engine.state().embedder.get("default_threshold")
    found = {}
    for info in engine.namespaces():
        own = info.policy.threshold
        threshold = own if own is not None else float(default) if isinstance(default, int | float) else None
        found[info.name] = PolicyNow(info.policy.version, str(info.policy.switch), threshold, frozenset(info.live))
    return found


def _notes(laid: trace_tree.Laid, size: int, *, more: int) -> tuple[str, ...]:
    notes = []
    of = words.count(laid.spans)
    if laid.orphans:
        notes.append(
            f"{words.count(laid.orphans)} of {of} spans are orphans: {words.many(laid.missing, 'parent was', 'parents were')} not "
            "received, or not sent here. Each has a line of its own, and stands where it most likely belongs."
        )
    if laid.skewed or laid.backwards:
        told = (
            "They stand where they would with corrected clocks; the table has the times as sent."
            if laid.corrected
            else "They are shown as sent."
        )
        notes.append(
            f"{words.count(laid.skewed + laid.backwards)} of {of} spans have times that contradict each other: clocks disagree. {told}"
        )
    if size > laid.spans:
        notes.append(f"The trace has {words.count(size)} spans; the earliest {of} are shown.")
    if len(laid.drawn) < len(laid.bars):
        notes.append(
            f"{words.count(len(laid.drawn))} of {words.count(len(laid.bars))} lines are drawn: lookups, calls, failures, what is odd, "
            "and the longest. The table has them all."
        )
    if more > 0:
        notes.append(f"The first {_MOST_DECISIONS} lookups are explained; {words.count(more)} more are in the table.")
    return tuple(notes)


def bar_rows(trace: Trace) -> list[dict[str, object]]:
    """Return the waterfall's table twin: every line, with its times as sent."""
    shifted = any(bar.shift_ms for bar in trace.bars)
    return [
        {
            "what": "\u2003" * min(bar.depth, _DEEPEST) + bar.label,
            "depth": bar.depth,
            "service": bar.service,
            "kind": bar.kind,
            "start ms": round(bar.start_ms, 3),
            **({"shifted by ms": round(bar.shift_ms, 3)} if shifted else {}),
            "duration ms": round(bar.duration_ms, 3),
            "outcome": words.OUTCOME_NAMES.get(bar.outcome, bar.outcome),
            "call": CALL_ROLES.get(bar.call_role, bar.call_role),
            "tokens": bar.tokens,
            "error": bar.error,
            "notes": "; ".join(bar.flags),
        }
        for bar in trace.bars
    ]
