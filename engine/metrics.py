"""The gateway's Prometheus metrics. They count every lookup before any span is sent, so that what got lost can be told."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric

from engine import semconv
from engine.breaker import Shown, State
from engine.types import TOO_MANY_NAMESPACES, Entry, Outcome, Purpose, RemovalCause

OTHER_NAMESPACES = OTHER_HEADERS = "(other)"
_MOST_HEADERS = 50

_LOOKUP_BUCKETS = (0.0002, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
_UPSTREAM_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


class Metrics:
    """One registry a gateway; nothing is registered globally.

    max_namespaces: a namespace comes from a request's header; beyond so many, those that are new share the label `(other)`, so
    that the exposition stays bounded and its counters still add up.
    """

    def __init__(self, *, max_namespaces: int = 1_000) -> None:
        self._max_namespaces = max_namespaces
        self.registry = registry = CollectorRegistry()
        self._lookups = Counter(
            semconv.METRIC_LOOKUPS, "Lookups by what became of them.", ["namespace", "outcome", "purpose"], registry=registry
        )
        self._bypasses = Counter(semconv.METRIC_BYPASSES, "Lookups that were not made, by reason.", ["reason"], registry=registry)
        self._keyed_headers = Counter(
            semconv.METRIC_KEYED_HEADERS, "Lookups whose key holds this header of the request.", ["header"], registry=registry
        )
        self._faults = Counter(
            semconv.METRIC_FAULTS, "Faults of the cache that were answered as a miss.", ["tier", "operation"], registry=registry
        )
        self._spans = Counter(
            semconv.METRIC_SPANS, "Lookup spans by what became of them; the rest of created waits.", ["result"], registry=registry
        )
        self._lookup_seconds = Histogram(
            semconv.METRIC_LOOKUP_SECONDS, "Time in the cache itself.", ["outcome"], buckets=_LOOKUP_BUCKETS, registry=registry
        )
        self._upstream_seconds = Histogram(
            semconv.METRIC_UPSTREAM_SECONDS, "Time of the upstream calls.", buckets=_UPSTREAM_BUCKETS, registry=registry
        )
        self._stores = Counter(semconv.METRIC_STORES, "Answers that were stored, or why not.", ["result"], registry=registry)
        self._removals = Counter(semconv.METRIC_REMOVALS, "Entries that left a tier.", ["tier", "cause"], registry=registry)
        self._breaker_state = Gauge(
            semconv.METRIC_BREAKER_STATE, "0 closed, 1 half open, 2 open.", ["dependency", "operation"], registry=registry
        )
        self._breaker_changes = Counter(
            semconv.METRIC_BREAKER_CHANGES, "Changes of breakers, by new state.", ["dependency", "operation", "state"], registry=registry
        )
        self._breaker_refused = Counter(
            semconv.METRIC_BREAKER_REFUSED, "Calls that a breaker kept from being made.", ["dependency", "operation"], registry=registry
        )
        self._failing_models = Gauge(
            semconv.METRIC_FAILING_MODELS, "Models at the upstream whose breaker is not closed.", registry=registry
        )
        self._upstream_waits = Counter(
            semconv.METRIC_UPSTREAM_WAITS,
            "Upstream calls held back while hits had stopped or their model failed.",
            ["result"],
            registry=registry,
        )
        self._judged = Counter(semconv.METRIC_JUDGED, "Opinions of the judge, or why it gave none.", ["word", "source"], registry=registry)
        self._entries = Gauge(semconv.METRIC_ENTRIES, "Entries in the memory tier.", registry=registry)
        self._bytes = Gauge(semconv.METRIC_BYTES, "Bytes in the memory tier.", registry=registry)
        self._control_age = Gauge(semconv.METRIC_CONTROL_AGE, "Age of this gateway's view of policies and generations.", registry=registry)
        Gauge(semconv.METRIC_PROCESS_UP, "1: the process answered this scrape.", registry=registry).set(1)
        self._namespaces: set[str] = set()
        self._headers: set[str] = set()
        # A label lookup costs several microseconds, a dictionary a tenth of one.
        self._lookup_children: dict[tuple[str, Outcome, Purpose], Counter] = {}
        self._seconds_children = {outcome: self._lookup_seconds.labels(outcome.value) for outcome in Outcome}
        self._removal_children = {cause: self._removals.labels("memory", cause.value) for cause in RemovalCause}
        self._span_children = {result: self._spans.labels(result) for result in ("created", "exported", "failed", "dropped")}

    def lookup(self, namespace: str, outcome: Outcome, purpose: Purpose, *, reason: str, lookup_s: float) -> None:
        if namespace not in self._namespaces:
            # One that is refused takes no label from those that are not.
            if reason != TOO_MANY_NAMESPACES and len(self._namespaces) < self._max_namespaces:
                self._namespaces.add(namespace)
            else:
                namespace = OTHER_NAMESPACES
        key = (namespace, outcome, purpose)
        child = self._lookup_children.get(key)
        if child is None:
            child = self._lookup_children[key] = self._lookups.labels(namespace, outcome.value, purpose.value)
        child.inc()
        if outcome is Outcome.BYPASS:
            self.bypassed(reason)
        self._seconds_children[outcome].observe(lookup_s)

    def bypassed(self, reason: str) -> None:
        """Count a request that was not looked up; by itself where it is no lookup either."""
        self._bypasses.labels(reason).inc()

    def keyed_header(self, name: str) -> None:
        """Count a header that is part of a lookup's key: one that differs at each request makes every request a miss."""
        if name not in self._headers and len(self._headers) >= _MOST_HEADERS:
            name = OTHER_HEADERS
        self._headers.add(name)
        self._keyed_headers.labels(name).inc()

    def upstream(self, seconds: float) -> None:
        self._upstream_seconds.observe(seconds)

    def stored(self, result: str) -> None:
        self._stores.labels(result).inc()

    def fault(self, tier: str, operation: str) -> None:
        self._faults.labels(tier, operation).inc()

    def spans(self, result: str, count: int = 1) -> None:
        """Count spans: created, exported, failed or dropped. Safe from any thread."""
        self._span_children[result].inc(count)

    def breaker_changed(self, dependency: str, operation: str, state: State) -> None:
        """Count a breaker's change; given to the breakers as their callback."""
        self._breaker_changes.labels(dependency, operation, state.value).inc()

    def breaker_denied(self, dependency: str, operation: str) -> None:
        """Count a call that a breaker refused; given to the breakers as their callback."""
        self._breaker_refused.labels(dependency, operation).inc()

    def upstream_waited(self, in_time: bool) -> None:
        """Count an upstream call that was held back: until it got its place, or until it had waited long enough."""
        self._upstream_waits.labels("went" if in_time else "overdue").inc()

    def judged(self, word: str, source: str) -> None:
        """Count an opinion; given to the judge as its callback."""
        self._judged.labels(word, source).inc()

    def memory_removal(self, entry: Entry, cause: RemovalCause) -> None:
        """Count an entry that left the memory tier; given to the tier as its callback."""
        del entry
        self._removal_children[cause].inc()

    def store_removal(self, cause: RemovalCause, count: int) -> None:
        """Count entries that the store itself removed; given to the store as its callback."""
        self._removals.labels("store", cause.value).inc(count)

    def families(self) -> list[Metric]:
        """Return every metric with its samples as they are now."""
        return list(self.registry.collect())

    def counters(self) -> dict[str, float]:
        """Return every counter's value by name and labels, as the exposition shows them."""
        return totals(self.families())

    def watch(self, *, entries: Callable[[], float], size_bytes: Callable[[], float], control_age_s: Callable[[], float]) -> None:
        """Read these three at each scrape."""
        self._entries.set_function(entries)
        self._bytes.set_function(size_bytes)
        self._control_age.set_function(control_age_s)

    def watch_breakers(self, breakers: Mapping[tuple[str, str], Shown], *, failing_models: Callable[[], float]) -> None:
        """Read the breakers' states at each scrape. failing_models: how many there are, for their names are the clients' words."""
        self._failing_models.set_function(failing_models)
        for labels, breaker in breakers.items():
            self._breaker_state.labels(*labels).set_function(partial(_level, breaker))


def totals(families: Iterable[Metric]) -> dict[str, float]:
    """Return the counters' values among these metrics, by name and labels."""
    found: dict[str, float] = {}
    for family in families:
        for sample in family.samples:
            if family.type == "counter" and sample.name.endswith("_total"):
                labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
                found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def _level(breaker: Shown) -> float:
    return float((State.CLOSED, State.HALF_OPEN, State.OPEN).index(breaker.state))
