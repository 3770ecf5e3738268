"""Sources: can these numbers be trusted?"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from app.views import words
from app.views.overview import SILENT_AFTER_MS
from app.views.parts import Failure, attempt
from app.views.understood import NOTHING_TOLD, Told
from storage.reads import calls, sources, window
from storage.reads.sources import Point, SourceStatus
from storage.reads.window import Extent, Window
from storage.store import Store

TELEMETRY = "Telemetry database"
SOURCES = (TELEMETRY,)
GATEWAY_SERVICE = "cachescope-gateway"
LOOKUPS, SPANS = "cachescope_lookups_total", "cachescope_spans_total"
_SLACK = 0.001  # lookups that end between a scrape and its arrival: at most this share, and at least a handful
_HANDFUL = 5
_MOST_NAMED = 3
MOST_SENDERS = 1_000  # more would be slow to draw every ten seconds, and nobody reads them


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """What the gateways counted beside what is stored, from the first scrape to the last in the window.

    counted: lookups by the gateways' own counters. created, exported, failed, dropped: their spans.
    """

    from_ms: int
    to_ms: int
    counted: int
    created: int
    exported: int
    failed: int
    dropped: int
    stored: int
    resets: int

    @property
    def in_flight(self) -> int:
        """Spans made and not yet sent, refused or dropped."""
        return self.created - self.exported - self.failed - self.dropped

    @property
    def missing(self) -> int:
        """Lookups counted that are not stored; negative = more are stored than were counted."""
        return self.counted - self.stored

    @property
    def unexplained(self) -> int:
        """What remains of the difference after failed, dropped and waiting spans."""
        return self.missing - self.failed - self.dropped - self.in_flight

    @property
    def whole(self) -> bool:
        return abs(self.unexplained) <= max(_HANDFUL, self.counted * _SLACK)


@dataclass(frozen=True, slots=True)
class Sources:
    window: Window
    now_ms: int
    sentence: str
    bad: bool
    sources: tuple[SourceStatus, ...]
    reconciliation: Reconciliation | None
    extent: Extent
    failures: tuple[Failure, ...]
    told: Told = NOTHING_TOLD
    uncounted: bool = False  # gateways were scraped in the window, and had counted no lookup


def load(telemetry: Callable[[], Store], *, window: Window, now_ms: int) -> Sources:
    """Return the page."""
    read = attempt(TELEMETRY, lambda: _read(telemetry(), window, now_ms), hides="what arrived, and what was refused")
    if read.value is None:
        failures = (read.failure,) if read.failure else ()
        missing = bool(read.failure and read.failure.missing)
        told = "No telemetry has been stored yet" if missing else "The telemetry database does not answer"
        return Sources(window, now_ms, told, not missing, (), None, Extent(None, None), failures)
    found, number, balance, extent, told_of, uncounted = read.value
    sentence, bad = _sentence(found, number, balance, now_ms, uncounted=uncounted)
    return Sources(window, now_ms, sentence, bad, tuple(found), balance, extent, (), told_of, uncounted)


def _read(store: Store, shown: Window, now_ms: int) -> tuple[list[SourceStatus], int, Reconciliation | None, Extent, Told, bool]:
    with store.read() as conn:
        found, number = sources.sources(conn, senders=MOST_SENDERS), sources.number(conn)
        points = sources.counter_points(conn, shown, (LOOKUPS, SPANS))
        # A target's page has no counter of lookups before its first one, but one of spans: known from there on, it grew from 0.
        at = [point.at_ms for point in (*points[LOOKUPS], *points[SPANS])]
        balance = None
        if points[LOOKUPS] and min(at) < max(at):
            # The baseline may lie before the window; what is stored is counted over exactly the scrapes' time.
            stored = sources.stored_lookups(conn, min(at), max(at), GATEWAY_SERVICE)
            balance = _reconcile(points[LOOKUPS], points[SPANS], stored, first_seen_ms={one.id: one.first_seen_ms for one in found})
        told = Told(tuple(calls.uses(conn, shown)), tuple(calls.scores(conn, shown)), calls.errors_served(conn, shown))
        return found, number, balance, window.extent(conn, now_ms), told, bool(at) and not points[LOOKUPS]


def increase(points: Sequence[Point], *, known_from_ms: int) -> tuple[float, int]:
    """Return how much one counter grew over its points, and how often it was reset.

    A series that appears after `known_from_ms` was born at 0 after its target was first scraped, so its first value counts. A
    value below the one before it means a restart: it counts in full.
    """
    total = points[0].value if points and points[0].at_ms > known_from_ms else 0.0
    resets = 0
    for before, after in pairwise(points):
        fell = after.value < before.value
        resets += fell
        total += after.value if fell else after.value - before.value
    return total, resets


def _growth(points: Sequence[Point], wanted: Callable[[dict[str, str]], bool], known_from_ms: Mapping[int, int]) -> tuple[int, int]:
    series: dict[tuple[int, str], list[Point]] = {}
    for point in points:
        series.setdefault((point.source_id, point.labels), []).append(point)
    total, resets = 0.0, dict[int, int]()  # a restart resets every series of its target: it is one
    for (source_id, labels), mine in series.items():
        if wanted(json.loads(labels)):
            grown, fell = increase(mine, known_from_ms=known_from_ms[source_id])
            total += grown
            resets[source_id] = max(resets.get(source_id, 0), fell)
    return round(total), sum(resets.values())


def _reconcile(counted: Sequence[Point], spans: Sequence[Point], stored: int, *, first_seen_ms: Mapping[int, int]) -> Reconciliation:
    at = [point.at_ms for point in (*counted, *spans)]
    start, end = min(at), max(at)
    # A target that was scraped before is known from its own first scrape here on; one that is new counted nothing before.
    known: dict[int, int] = {}
    for point in (*counted, *spans):
        known[point.source_id] = min(known.get(point.source_id, point.at_ms), point.at_ms)
    known = {source_id: at_ms if first_seen_ms[source_id] < start else start for source_id, at_ms in known.items()}
    total, resets = _growth(counted, lambda _: True, known)
    results = {
        name: _growth(spans, lambda labels, name=name: labels.get("result") == name, known)[0]  # type: ignore[misc]
        for name in ("created", "exported", "failed", "dropped")
    }
    return Reconciliation(start, end, total, stored=stored, resets=resets, **results)


def _sentence(
    found: Sequence[SourceStatus], number: int, balance: Reconciliation | None, now_ms: int, *, uncounted: bool = False
) -> tuple[str, bool]:
    if not found:
        return "Nothing has ever been received: there are no numbers to trust yet.", False
    heard = {(source.kind, source.service) for source in found if now_ms - source.last_seen_ms <= SILENT_AFTER_MS}
    # A restarted sender comes back as another instance: the old one is silent for good, and that is no fault.
    silent = [source for source in found if (source.kind, source.service) not in heard]
    refused = sum(source.rejected for source in found)
    told = words.many(number, "source", "sources")
    told += f", of which the {words.count(MOST_SENDERS)} senders heard last are shown" if number > len(found) else ""
    if silent:
        names = list(dict.fromkeys(words.name(source.service, 40) for source in silent))
        told += f", {len(silent)} of them silent for more than two minutes: {words.listed(names, most=_MOST_NAMED)}"
    else:
        told += ", each service heard in the last two minutes"
    told += f"; {words.many(refused, 'span was', 'spans were')} rejected." if refused else "; nothing was rejected."
    bad = bool(silent) or bool(refused)
    if balance is None and uncounted:
        return f"{told} The gateways have counted no lookup yet, so there is nothing to compare.", bad
    if balance is None:
        return f"{told} The gateways' own counters were not scraped in this range, so nothing proves that all lookups arrived.", True
    if balance.whole:
        return f"{told} The gateways counted {words.count(balance.counted)} lookups and {words.count(balance.stored)} are stored.", bad
    lost = words.count(abs(balance.unexplained))
    side = "are missing without an explanation" if balance.unexplained > 0 else "are stored that no scraped gateway counted"
    counts = f"{words.count(balance.counted)} counted, {words.count(balance.stored)} stored"
    return f"{told} {lost} lookups {side} ({counts}).", True


# Only traces are understood by a dialect.
_NO_DIALECT = {
    "scrape": "Prometheus text",
    "prometheus": "Prometheus API",
    "redis": "Redis INFO",
    "otlp_metrics": "OTLP metrics",
    "otlp_logs": "no cache decision",
}


def source_rows(view: Sources) -> list[dict[str, object]]:
    """Return the table of senders and targets."""
    return [
        {
            "service": words.name(source.service, 60),
            "last seen": f"{words.age(view.now_ms - source.last_seen_ms)} ago" if source.last_seen_ms else "never",
            "last error": ""
            if not source.last_error
            else f"{words.instant(source.last_error_ms)}: {words.one_line(source.last_error, 160)}",
            "kind": source.kind.replace("_", " "),
            "instance": words.one_line(source.instance),
            "dialect": source.dialect or _NO_DIALECT.get(source.kind, "none understood it"),
            "lag": "" if source.lag_ms is None else words.duration_ms(source.lag_ms),
            "accepted": source.accepted,
            "lookups": source.lookups,
            "calls": source.calls,
            "duplicates": source.duplicates,
            "rejected": source.rejected,
            "answered, not stored": source.dropped,
            "scope": words.one_line(source.scope),
            "demo": "yes" if source.demo else "",
        }
        for source in view.sources
    ]


def reject_rows(view: Sources) -> list[dict[str, object]]:
    return [
        {"service": words.name(source.service, 60), "reason": words.one_line(reason.replace("_", " ")), "spans": spans}
        for source in view.sources
        for reason, spans in source.rejects.items()
    ]


def balance_rows(balance: Reconciliation) -> list[dict[str, object]]:
    """Return the reconciliation, line by line."""
    return [
        {"line": "Lookups counted by the gateways", "lookups": balance.counted, "meaning": "counted before any telemetry is sent"},
        {"line": "Spans created", "lookups": balance.created, "meaning": "one a lookup"},
        {"line": "Spans exported", "lookups": balance.exported, "meaning": "the collector said that it has them"},
        {"line": "Spans failed", "lookups": balance.failed, "meaning": "given up after retries"},
        {"line": "Spans dropped", "lookups": balance.dropped, "meaning": "the gateway's queue was full"},
        {"line": "Spans in flight", "lookups": balance.in_flight, "meaning": "waiting in the gateway at the last scrape"},
        {"line": "Lookups stored", "lookups": balance.stored, "meaning": "ended in the same time, in the database"},
        {"line": "Difference", "lookups": balance.missing, "meaning": "counted less stored"},
        {"line": "Not explained", "lookups": balance.unexplained, "meaning": "the difference less failed, dropped and in flight"},
    ]
