"""Cache, model, traffic or telemetry: what a change of the hit rate is laid to, from what changed at that time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.analysis.attribution import Segment
from app.analysis.hit_rate import HITS
from app.analysis.intervals import Difference
from app.views import words
from app.views.decision import reason_in_words
from storage.reads.acts import Mark
from storage.reads.changes import Evicted, Versions
from storage.reads.window import MINUTE_MS, Window

DIMENSION_NAMES = {
    "namespace": "namespace",
    "tenant": "tenant",
    "model": "model",
    "model_version": "model version",
    "client": "client",
    "fingerprint": "template",
    "source": "sender",
}
MIN_CHANGE = 0.02  # a change of the rate below this is no finding, however certain
_NEAR_MS = 15 * MINUTE_MS  # an event this long before the change may be its cause: a purge bites as requests come
_LATE_MS = 3 * MINUTE_MS  # so much too early a change is found now and then; what came later than that is no cause of it
_ALIKE = 0.95  # a segment that holds so much of both sides is no part of them: all changed alike
_CACHE_EVENTS = (
    *("purge", "undo", "switch", "threshold", "normaliser", "verification", "warmup", "policy", "generation", "embedder", "restart"),
    "eviction",
)
_MODEL_EVENTS = ("model", "model version")
# Why a lookup missed that the cache itself is the cause of.
_CACHE_REASONS = (
    "exact_only",
    "no_embedder",
    "embedder_fault",
    "tier_fault",
    "cache_fault",
    "control_stale",
    "vetoed",
    "holdout",
    "request",
)
_MOST_EVENTS = 40
_SURGE, _SURGE_N = 3, 30  # of so few, or less than threefold, chance and a warming cache are as likely


@dataclass(frozen=True, slots=True)
class Event:
    """Something that changed. kind: an act's kind, or what telemetry shows. namespace: '' = not of one namespace.

    seen: the compared lookups or counters show it; no mark of a chart was made of it yet.
    """

    at_ms: int
    kind: str
    namespace: str
    what: str
    seen: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """whose: cache | model | traffic | telemetry | open (a change, and nothing recorded explains it) | none (no change to explain)."""

    whose: str
    told: str


UNKNOWN = Verdict("none", "there is too little to compare")


@dataclass(frozen=True, slots=True)
class Became:
    """What eligible lookups became: a kind of hit by tier, or a miss by reason."""

    outcome: str
    detail: str
    before: int
    now: int
    before_of: int
    now_of: int

    @property
    def effect_ratio(self) -> float:
        """The change of its share, -1…1: a hit's for the rate, a miss's against it. The hits' sum to the change; so do the misses'."""
        moved = self.now / self.now_of - self.before / self.before_of
        return moved if self.outcome in HITS else -moved


def of_mark(mark: Mark) -> Event:
    told = mark.detail or f"of {words.name(mark.namespace)}, by {words.name(mark.actor)}"
    failed = " (failed)" if mark.event == "failed" else ""
    return Event(mark.at_ms, mark.kind, mark.namespace, f"{mark.kind} {told}{failed}")


def versions_changed(
    before: Sequence[Versions], now: Sequence[Versions], embedder_before: str, embedder_now: str, window: Window
) -> list[Event]:
    """Return what the lookups themselves show to have changed, oldest first: policies, thresholds, generations, models, embedder."""
    found: list[Event] = []
    asked: tuple[tuple[str, str, Callable[[Versions], str], Callable[[Versions], str]], ...] = (
        ("policy", "policy version", _namespace, lambda row: "" if row.policy_version is None else str(row.policy_version)),
        ("threshold", "threshold", _namespace, lambda row: "" if row.threshold is None else f"{row.threshold:g}"),
        ("switch", "switch", _namespace, lambda row: row.switch),
        ("generation", "generation", _namespace, lambda row: row.generation),
        ("model", "models", _namespace, lambda row: row.model),
        ("model version", "version", lambda row: row.model, lambda row: row.model_version),
    )
    for kind, what, owner, value in asked:
        earlier, later = _first_seen(before, owner, value), _first_seen(now, owner, value)
        for name in sorted(earlier.keys() & later.keys()):
            new, gone = later[name].keys() - earlier[name].keys(), earlier[name].keys() - later[name].keys()
            if not new and not (gone and kind.startswith("model")):
                continue
            at_ms = min((later[name][one] for one in new), default=window.start_ms)
            told = f"{what} of {words.name(name)}: {_values(earlier[name])} → {_values(later[name])}"
            if kind == "generation":
                told = f"new generation of {words.name(name)}: it was purged or restored"
            found.append(Event(at_ms, kind, "" if kind == "model version" else name, told, seen=True))
    if embedder_before and embedder_now and embedder_before != embedder_now:
        told = f"embedder: {words.one_line(embedder_before, 40)} → {words.one_line(embedder_now, 40)}"
        found.append(Event(window.start_ms, "embedder", "", told, seen=True))
    return sorted(found, key=lambda event: event.at_ms)[:_MOST_EVENTS]


def surges(found: Sequence[Evicted], length_ms: int) -> list[Event]:
    """Return the gateways that evicted three times as many entries in this time as in as long before it, and 30 or more."""
    return [
        Event(
            one.at_ms,
            "eviction",
            "",
            f"evictions of {words.name(one.service, 40)}: {words.count(one.after)} entries left memory or the store for want of space in "
            f"{words.age(length_ms)}, {words.count(one.before)} in as long before",
            seen=True,
        )
        for one in found
        if one.after >= _SURGE_N and one.after >= _SURGE * one.before
    ]


def _namespace(row: Versions) -> str:
    return row.namespace


def _first_seen(rows: Sequence[Versions], owner: Callable[[Versions], str], value: Callable[[Versions], str]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for row in rows:
        if value(row):
            seen = found.setdefault(owner(row), {})
            seen[value(row)] = min(seen.get(value(row), row.first_ms), row.first_ms)
    return found


def _values(seen: Mapping[str, int]) -> str:
    names = [words.one_line(name, 24) for name in sorted(seen)]
    return words.listed(names, most=3)


def segment_name(segment: Segment) -> str:
    """Return `namespace faq, tenant acme`."""
    return ", ".join(f"{DIMENSION_NAMES[dimension]} {words.name(value, 32)}" for dimension, value in segment.literals)


def _way(segment: Segment) -> str:
    return {
        "rate": "by its own hit rate",
        "mix": "by its share of the traffic",
        "new": "which is new",
        "vanished": "which is gone",
    }[segment.kind]


@dataclass(frozen=True, slots=True)
class Lookups:
    """What lookups there were. namespaces: with any in either window. first_ms: of the first that is stored; None = not known."""

    namespaces: frozenset[str] | None = None
    first_ms: int | None = None


def told_apart(segments: Sequence[Segment], n_before: int, n_now: int) -> tuple[Segment, ...]:
    """Return the segments, or none where the best holds nearly all of both sides (n_before, n_now): it is no part of them."""
    if segments and segments[0].n_before > _ALIKE * n_before and segments[0].n_now > _ALIKE * n_now:
        return ()
    return tuple(segments)


def doubt(change: Difference) -> str:
    """Return why a change of the hit rate is no finding; '' = it is one. The same words wherever a change is told."""
    if change.few:
        return "too few to compare"
    if not change.clear:
        return "within noise"
    return "too little to act on" if abs(change.ratio) < MIN_CHANGE else ""


def told(change: Difference | None) -> str:
    """Return a change in words, with what there is against it."""
    return "" if change is None else ", ".join(filter(None, (words.points(change), doubt(change))))


def verdict(
    change: Difference | None,
    segments: Sequence[Segment],
    became: Sequence[Became],
    events: Sequence[Event],
    *,
    sides: tuple[Window, Window],
    lookups: Lookups,
    step_ms: int | None = None,
    unnamed: str = "all segments alike",
) -> Verdict:
    """Return whose change it is, with the evidence in words. sides: before, now. unnamed: what it means that there is no segment.

    step_ms: the change is at the start of `now`, as closely as this; None = it may be anywhere in it.
    """
    before, now = sides
    if change is None or change.few:
        return UNKNOWN
    if doubt(change):
        silent = [event.what for event in events if event.kind == "outage" and event.at_ms >= now.start_ms]
        missing = f"; {words.listed(silent)}: what came then is not in it" if silent else ""
        return Verdict("none", f"the hit rate is as before ({words.points(change)}, {doubt(change)}){missing}")
    first = segments[0] if segments else None
    told = f"{segment_name(first)} explains {words.points(first.effect_ratio)}, {_way(first)}" if first else unnamed
    filling = _filling(change, became, before, lookups)
    if filling:
        return Verdict("cache", filling)
    last_ms = now.end_ms if step_ms is None else min(now.end_ms, now.start_ms + max(step_ms, _LATE_MS))
    near = [event for event in events if now.start_ms - _NEAR_MS <= event.at_ms < last_ms and _concerns(event, first, lookups)]
    near.sort(key=lambda event: abs(event.at_ms - now.start_ms))
    reason = next((one for one in became if one.outcome == "miss" and (one.effect_ratio < 0) == (change.ratio < 0)), None)
    why = f"; most of it {_miss(reason.detail)}" if reason and change.ratio < 0 else ""
    return _laid(first, near, told, reason, why)


def _filling(change: Difference, became: Sequence[Became], before: Window, lookups: Lookups) -> str:
    """Return that the rate rose from a cold start: lookups began in the window before, and most found nothing stored. '' = it did not."""
    if change.ratio < 0 or lookups.first_ms is None or lookups.first_ms < before.start_ms:
        return ""
    misses = sum(one.before for one in became if one.outcome == "miss")
    cold = sum(one.before for one in became if one.outcome == "miss" and one.detail in {"no_candidate", ""})
    if not misses or cold * 2 <= misses:
        return ""
    return f"the cache was filling: lookups began at {words.clock(lookups.first_ms)} UTC, and nothing like them was stored before"


def _laid(first: Segment | None, near: Sequence[Event], told: str, reason: Became | None, why: str) -> Verdict:
    moved = first is not None and first.kind != "rate"
    dimensions = {dimension for dimension, _ in first.literals} if first else set()
    silent = next((event for event in near if event.kind == "outage"), None)
    model = next((event for event in near if event.kind in _MODEL_EVENTS), None)
    cache = next((event for event in near if event.kind in _CACHE_EVENTS), None)
    about_model, about_caller = dimensions & {"model", "model_version"}, dimensions & {"client", "fingerprint"}
    open_question = f"{told}; no act and no new version is on record near it{why}. Are prompts new (Drift), or did entries leave?"
    ruled = (
        (silent and moved, "telemetry", f"{told}; {_when(silent)}: lookups are missing, not hits"),
        (about_model and (model or moved), "model", told + _also(model)),
        (moved, "traffic", told),
        (cache, "cache", told + _also(cache)),
        (about_model or model, "model", told + _also(model) + why),
        (reason and reason.detail in _CACHE_REASONS, "cache", told + why),
        (about_caller, "traffic", f"{told}: what it asks has changed{why}"),
        (True, "open", open_question),
    )
    return next(Verdict(whose, evidence) for applies, whose, evidence in ruled if applies)


def _concerns(event: Event, first: Segment | None, lookups: Lookups) -> bool:
    """Return whether an event may touch the segment: it is of its namespace, or of none, or the segment names none.

    An act on a namespace without lookups touches nothing.
    """
    if event.what.endswith("(failed)"):
        return False
    if event.namespace and lookups.namespaces is not None and event.namespace not in lookups.namespaces:
        return False
    names = [value for dimension, value in first.literals if dimension == "namespace"] if first else []
    return not event.namespace or not names or event.namespace in names


def _when(event: Event | None) -> str:
    return f"{event.what} at {words.clock(event.at_ms)} UTC" if event else ""


def _also(event: Event | None) -> str:
    return f"; {_when(event)}" if event else ""


def _miss(reason: str) -> str:
    return f"because {reason_in_words(reason)}" if reason else "with no reason recorded"
