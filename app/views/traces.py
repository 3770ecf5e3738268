"""Traces: what happened to this request?"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.adapters.base import EngineAdapter
from app.views import words
from app.views.decision import Decision, PolicyNow, explain
from app.views.parts import Failure, attempt
from storage.reads import traces, window
from storage.reads.traces import Found, Search, StoredSpan
from storage.reads.window import Extent, Scope, Window
from storage.store import Store

TELEMETRY, GATEWAY = SOURCES = ("Telemetry database", "Gateway")
_SKEW_NS = 1_000_000  # a child that begins this much before its parent was timed by another clock


@dataclass(frozen=True, slots=True)
class Listing:
    """The lookups that match. prompts: False when none of them has its prompt recorded."""

    rows: tuple[Found, ...]
    more: bool
    extent: Extent
    failures: tuple[Failure, ...]

    @property
    def prompts(self) -> bool:
        return not self.rows or any(row.prompt is not None for row in self.rows)


def find(telemetry: Callable[[], Store], *, window: Window, scope: Scope, search: Search) -> Listing:
    """Return the newest lookups that match."""
    read = attempt(TELEMETRY, lambda: _find(telemetry(), window, scope, search), hides="every lookup and trace")
    if read.value is None:
        return Listing((), False, Extent(None, None), (read.failure,) if read.failure else ())
    return read.value


def sentence(listing: Listing, window_name: str) -> str:
    """Return what the list holds, in words."""
    if any(failure.missing for failure in listing.failures):
        return "No telemetry has been stored yet"
    if listing.failures:
        return "The telemetry database does not answer: no lookup can be shown"
    if not listing.rows:
        return f"No lookup in {window_name} matches"
    slowest = max(listing.rows, key=lambda row: row.duration_ms)
    counted = f"The newest {words.count(len(listing.rows))} lookups" if listing.more else words.many(len(listing.rows), "lookup", "lookups")
    outcome = words.OUTCOME_NAMES.get(slowest.outcome, words.one_line(slowest.outcome))
    return f"{counted} in {window_name}; the slowest took {words.duration_ms(slowest.duration_ms)} ({outcome})"


def _find(store: Store, shown: Window, scope: Scope, search: Search) -> Listing:
    with store.read() as conn:
        page = traces.find(conn, shown, scope, search)
        return Listing(page.rows, page.more, window.extent(conn), ())


def reasons(telemetry: Callable[[], Store], *, window: Window, scope: Scope) -> list[str]:
    """Return the reasons to choose from; none when the database does not answer."""

    def read() -> list[str]:
        with telemetry().read() as conn:
            return traces.reasons(conn, window, scope)

    return attempt(TELEMETRY, read).value or []


def rows(listing: Listing) -> list[dict[str, object]]:
    """Return the list's table, in the listing's order."""
    return [
        {
            "time (UTC)": words.instant(row.at_ms),
            "outcome": words.OUTCOME_NAMES.get(row.outcome, words.one_line(row.outcome)),
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
class Bar:
    """A line of the waterfall. start_ms counts from the trace's start; duration_ms is as sent, negative where clocks disagree.

    kind: span | lookup | step. flags: what is odd about it, in words.
    """

    label: str
    service: str
    kind: str
    depth: int
    start_ms: float
    duration_ms: float
    outcome: str
    error: str
    flags: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trace:
    trace_id: str
    start_ms: float
    duration_ms: float
    bars: tuple[Bar, ...]
    decisions: tuple[Decision, ...]
    notes: tuple[str, ...]
    failures: tuple[Failure, ...]


def load(telemetry: Callable[[], Store], engine: Callable[[], EngineAdapter], *, trace_id: str) -> Trace | None:
    """Return a trace with its decisions explained, None when there is none of this id. A failed source is named in it."""
    try:
        wanted = bytes.fromhex(trace_id)
    except ValueError:
        return None
    read = attempt(TELEMETRY, lambda: _read(telemetry(), wanted), hides="this trace")
    if read.failure:
        return Trace(trace_id, 0, 0, (), (), (), (read.failure,))
    spans, found = read.value or ([], [])
    if not spans and not found:
        return None
    policies = attempt(GATEWAY, lambda: _policies(engine()), hides="the threshold and switch in force now")
    by_span = {span.span_id: span for span in spans}
    decisions = []
    for row in found:
        span = by_span.get(row["span_id"])
        now = (policies.value or {}).get(row["namespace"])
        decisions.append(explain(row, span.attributes if span else {}, now))
    start = min((span.start_ns for span in spans), default=found[0]["at_ms"] * 1_000_000 if found else 0)
    end = max((max(span.start_ns, span.end_ns) for span in spans), default=start)
    bars = tuple(_bars(spans, {row["span_id"]: row for row in found}, start))
    failures = (policies.failure,) if policies.failure else ()
    return Trace(trace_id.lower(), start / 1e6, (end - start) / 1e6, bars, tuple(decisions), _notes(spans, bars), failures)


def _read(store: Store, trace_id: bytes) -> tuple[list[StoredSpan], list[dict[str, Any]]]:
    with store.read() as conn:
        return traces.trace_spans(conn, trace_id), traces.trace_lookups(conn, trace_id)


def _policies(engine: EngineAdapter) -> dict[str, PolicyNow]:
    default = engine.state().embedder.get("default_threshold")
    found = {}
    for info in engine.namespaces():
        own = info.policy.threshold
        threshold = own if own is not None else float(default) if isinstance(default, int | float) else None
        found[info.name] = PolicyNow(info.policy.version, str(info.policy.switch), threshold, frozenset(info.live))
    return found


def _bars(spans: Sequence[StoredSpan], found: Mapping[bytes, Mapping[str, Any]], start_ns: int) -> list[Bar]:
    """Return the lines in depth-first order: a span, the lookup's steps inside it, then its children."""
    ids = {span.span_id for span in spans}
    children: dict[bytes | None, list[StoredSpan]] = {}
    for span in spans:
        parent = span.parent_id if span.parent_id in ids and span.parent_id != span.span_id else None
        children.setdefault(parent, []).append(span)
    bars: list[Bar] = []
    done: set[bytes] = set()

    def walk(parent: StoredSpan | None, depth: int) -> None:
        for span in children.get(parent.span_id if parent else None, []):
            if span.span_id in done:
                continue
            done.add(span.span_id)
            row = found.get(span.span_id)
            bars.append(_bar(span, row, parent, depth, start_ns))
            if row is not None:
                bars.extend(_steps(span, depth + 1, start_ns))
            walk(span, depth + 1)

    walk(None, 0)
    # Spans that name each other as parent are reached from no root: shown, and flagged as orphans.
    for span in spans:
        if span.span_id not in done:
            done.add(span.span_id)
            bars.append(_bar(span, found.get(span.span_id), None, 0, start_ns))
    return bars


def _bar(span: StoredSpan, row: Mapping[str, Any] | None, parent: StoredSpan | None, depth: int, start_ns: int) -> Bar:
    flags = []
    if span.end_ns < span.start_ns:
        flags.append("ends before it starts: its clock was set back")
    if span.parent_id and parent is None:
        flags.append("orphan: its parent was not received")
    if parent and span.start_ns < parent.start_ns - _SKEW_NS:
        flags.append(f"starts {words.duration_ms((parent.start_ns - span.start_ns) / 1e6)} before its parent: the clocks disagree")
    error = (words.one_line(span.status_message) or "failed") if span.status == 2 else ""
    return Bar(
        label=words.one_line(span.name) or "(unnamed)",
        service=words.name(span.service),
        kind="span" if row is None else "lookup",
        depth=depth,
        start_ms=(span.start_ns - start_ns) / 1e6,
        duration_ms=(span.end_ns - span.start_ns) / 1e6,
        outcome=str(row["outcome"]) if row else "",
        error=error,
        flags=tuple(flags),
    )


def _steps(span: StoredSpan, depth: int, start_ns: int) -> list[Bar]:
    """Return the lookup's timed steps; those that cannot be read are left out."""
    try:
        read = json.loads(span.attributes.get("cachescope.steps") or "[]")
        steps = [(str(name), float(offset), float(took)) for name, offset, took in read]
    except (TypeError, ValueError):
        return []
    base = (span.start_ns - start_ns) / 1e6
    return [
        Bar(words.one_line(name), words.name(span.service), "step", depth, base + offset / 1e3, took / 1e3, "", "", ())
        for name, offset, took in steps
    ]


def _notes(spans: Sequence[StoredSpan], bars: Sequence[Bar]) -> tuple[str, ...]:
    notes = []
    orphans = sum(any(flag.startswith("orphan") for flag in bar.flags) for bar in bars)
    skewed = sum(any("clock" in flag for flag in bar.flags) for bar in bars)
    if orphans:
        notes.append(f"{orphans} of {len(spans)} spans are orphans: their parents were not received, or not sent here.")
    if skewed:
        notes.append(f"{skewed} of {len(spans)} spans have times that contradict each other: clocks disagree. They are shown as sent.")
    return tuple(notes)


def bar_rows(trace: Trace) -> list[dict[str, object]]:
    """Return the waterfall's table twin."""
    return [
        {
            "what": "\u2003" * bar.depth + bar.label,
            "service": bar.service,
            "kind": bar.kind,
            "start ms": round(bar.start_ms, 3),
            "duration ms": round(bar.duration_ms, 3),
            "outcome": words.OUTCOME_NAMES.get(bar.outcome, bar.outcome),
            "error": bar.error,
            "notes": "; ".join(bar.flags),
        }
        for bar in trace.bars
    ]
