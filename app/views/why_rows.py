"""The tables and sentences of "why did it change?", from its view model."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

from app.analysis.attribution import OTHER, Part, Segment
from app.analysis.hit_rate import HITS
from app.analysis.intervals import Difference
from app.views import causes, rates, words
from app.views.causes import DIMENSION_NAMES
from app.views.decision import reason_in_words
from app.views.rates import FEW
from app.views.why import Decomposed, Sides, Why
from storage.reads.window import Window

WHOSE = {"cache": "Cache", "model": "Model", "traffic": "Traffic", "telemetry": "Telemetry", "open": "Not known", "none": "No change"}
_FILTERS = {"namespace", "tenant", "model"}  # dimensions that the filter bar has


def headline(view: Why) -> str:
    """Return the answer in a sentence: `Cache: down 21.3 points since 14:05 UTC. namespace faq explains −20.9 points, …`."""
    change = view.change
    if view.counts_now.untold or view.counts_before.untold:
        return f"No change can be told: {view.verdict.told}."
    if view.rate_now is None or view.rate_before is None or change is None:
        side = "this time" if view.rate_now is None else view.sides.name
        return f"Nothing to explain: no eligible lookups in {side}."
    if min(view.counts_now.eligible, view.counts_before.eligible) < FEW:
        return (
            f"Too little to explain a change: {words.count(view.counts_before.eligible)} eligible lookups before and "
            f"{words.count(view.counts_now.eligible)} now; at least {FEW} are needed in each."
        )
    if view.verdict.whose == "none":
        return f"{WHOSE['none']}: {view.verdict.told}."
    way = "up" if change.ratio > 0 else "down"
    since = f"since {_at(view.sides.now)} UTC" if view.sides.found else f"against {view.sides.name}"
    told = view.verdict.told[0].upper() + view.verdict.told[1:]
    return f"{WHOSE[view.verdict.whose]}: {way} {abs(change.ratio) * 100:.1f} points {since}. {told}" + ("" if told.endswith("?") else ".")


def _at(side: Window) -> str:
    """Return when a side begins, `14:05`, with its day where it ends on another."""
    begins, ends = words.instant(side.start_ms), words.instant(side.end_ms - 1)
    return begins[11:16] if begins[:10] == ends[:10] else begins[5:16]


def turn(view: Why | None, change: Difference | None) -> tuple[str, bool]:
    """Return the change found within the time shown, for a page's first sentence, with a space before it, and whether it is bad news.

    change: what that sentence tells already; the same way, it is told once. ('', False) where nothing changed within the time.
    """
    within = view.change if view and view.sides.step_ms is not None and view.verdict.whose != "none" else None
    if view is None or within is None:
        return "", False
    fell = within.ratio < 0
    if change is not None and not causes.doubt(change) and (change.ratio < 0) is fell:
        return "", False
    points, at = f"{abs(within.ratio) * 100:.1f} points", _at(view.sides.now)
    if view.sides.found:
        return f" It {'fell' if fell else 'rose'} {points} at about {at} UTC.", fell
    return f" Since {at} UTC it is {'down' if fell else 'up'} {points}.", fell


def compared(sides: Sides) -> str:
    """Return which two windows are compared, with how the split came about."""
    how = "the hit rate was found to change there" if sides.found else f"compared with {sides.name}"
    now, before = (words.span(side.start_ms, side.end_ms) for side in (sides.now, sides.before))
    return f"Now: {now} · before: {before} ({how})"


def rates_told(view: Why) -> str:
    """Return both rates with interval and n, and of each side the part of the lookups that was decomposed, where it is not all."""
    sides = (
        ("before", view.rate_before, view.over_before, view.part_before),
        ("now", view.rate_now, view.over_now, view.part_now),
    )
    parts = [
        f"{name} {words.percent(share)} ({rates.labelled(over, share)}, n = {words.count(share.n)})"
        for name, share, over, _ in sides
        if share
    ]
    read = [f"{name} {_part(part)} (n = {words.count(part.n)})" for name, *_, part in sides if part.stride > 1 or part.gone]
    return " · ".join([*parts, *([f"decomposed {words.listed(read)}"] if read else [])])


def _part(part: Decomposed) -> str:
    """Return `from one lookup in 3 of those not removed yet`."""
    left = "of those not removed yet" if part.gone else ""
    return f"from one lookup in {part.stride} {left}".rstrip() if part.stride > 1 else f"from {left.removeprefix('of ')}"


def segment_rows(view: Why, query: Mapping[str, str]) -> list[dict[str, object]]:
    """Return the ranked explanations. query: the bar's part of the URL, for the link to the lookups."""
    return [
        {
            "what": causes.segment_name(one),
            "how": {"rate": "its own hit rate", "mix": "its share of traffic", "new": "new", "vanished": "vanished"}[one.kind],
            "effect": words.points(one.effect_ratio),
            "hit rate before": _rate(one.hits_before, one.n_before),
            "now": _rate(one.hits_now, one.n_now),
            "share before": _rate(one.n_before, view.part_before.n),
            "share now": _rate(one.n_now, view.part_now.n),
            "n before": one.n_before,
            "n now": one.n_now,
            "lookups": _link(view, one, query),
        }
        for one in view.segments
    ]


def _rate(k: int, n: int) -> float | None:
    return k / n * 100 if n else None


def _link(view: Why, one: Segment, query: Mapping[str, str]) -> str | None:
    """Return the traces of a segment's window, as far as the bar's filters can name the segment."""
    side = view.sides.before if one.kind == "vanished" else view.sides.now
    named = {dimension: value for dimension, value in one.literals if dimension in _FILTERS and value}
    return "/traces?" + urlencode({**query, **named, **window_query(side.start_ms, side.end_ms)})


def side_rows(view: Why, query: Mapping[str, str]) -> list[dict[str, object]]:
    """Return both windows with the way to their lookups."""
    sides = (("the time before", view.sides.before), ("now", view.sides.now))
    return [
        {
            "time": f"{name}: {words.span(side.start_ms, side.end_ms)}",
            "lookups": "/traces?" + urlencode({**query, **window_query(side.start_ms, side.end_ms)}),
        }
        for name, side in sides
    ]


def window_query(start_ms: int, end_ms: int) -> dict[str, str]:
    """Return the bar's part of a URL for an absolute time range."""
    return {"range": "custom", "from": words.instant(start_ms)[:16].replace(" ", "T"), "to": words.instant(end_ms)[:16].replace(" ", "T")}


def dimension_rows(view: Why) -> list[dict[str, object]]:
    """Return the dimensions, the most telling first, with the values that are to blame."""
    return [
        {
            "dimension": DIMENSION_NAMES[one.name],
            "values to blame": words.listed(_value(value) for value in one.blamed[:4]) if one.blamed else "spread over many",
            "explains": f"{one.explained_ratio * 100:.0f} %" if one.blamed else "–",
            "surprise (bits)": round(one.surprise_bits, 4) if one.blamed else None,
            "by mix": words.points(sum(part.mix_ratio for part in one.parts)),
            "by rate": words.points(sum(part.rate_ratio for part in one.parts)),
        }
        for one in view.dimensions
        if len(one.parts) > 1
    ]


def part_rows(view: Why, *, most: int = 60) -> list[dict[str, object]]:
    """Return every value of every dimension with its mix and rate part, the largest effects first."""
    pairs = [(one.name, part) for one in view.dimensions if len(one.parts) > 1 for part in one.parts]
    pairs.sort(key=lambda pair: -abs(pair[1].effect_ratio))
    return [
        {
            "dimension": DIMENSION_NAMES[name],
            "value": _value(part.value),
            "effect": words.points(part.effect_ratio),
            "mix": words.points(part.mix_ratio),
            "rate": words.points(part.rate_ratio),
            "hit rate before": _rate(part.hits_before, part.n_before),
            "now": _rate(part.hits_now, part.n_now),
            "n before": part.n_before,
            "n now": part.n_now,
            "state": _state(part),
        }
        for name, part in pairs[:most]
    ]


def _state(part: Part) -> str:
    return "" if part.n_before and part.n_now else "new" if part.n_now else "vanished"


def _value(value: str) -> str:
    return "all others" if value == OTHER else words.name(value, 32)


def became_rows(view: Why) -> list[dict[str, object]]:
    """Return what lookups became, then and now: tiers of hits, reasons of misses."""
    return [
        {
            "became": f"{words.OUTCOME_NAMES[one.outcome]}{_detail(one.outcome, one.detail)}",
            "before": _rate(one.before, one.before_of),
            "now": _rate(one.now, one.now_of),
            "effect": words.points(one.effect_ratio),
            "n before": one.before,
            "n now": one.now,
        }
        for one in view.became[:12]
    ]


def _detail(outcome: str, detail: str) -> str:
    if not detail:
        return ""
    return f", {words.name(detail)} tier" if outcome in HITS else f": {reason_in_words(detail)}"


def event_rows(view: Why) -> list[dict[str, object]]:
    return [{"time (UTC)": words.instant(event.at_ms), "what changed": event.what} for event in view.events]


def example_rows(view: Why) -> list[dict[str, object]]:
    return [
        {
            "time (UTC)": words.instant(one.at_ms),
            "outcome": words.OUTCOME_NAMES[one.outcome],
            "reason": words.name(one.reason.replace("_", " ")) if one.reason else "",
            "namespace": words.name(one.namespace),
            "tenant": words.name(one.tenant),
            "prompt": words.one_line(one.prompt, 120) if one.prompt else words.UNNAMED,
            "trace": f"/traces?{urlencode({'trace': one.trace_id.hex()})}",
        }
        for one in view.examples
    ]
