"""Overview: is it all right, and if not, whose fault?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.adapters.base import EngineAdapter, EngineState, GatewayInfo
from app.analysis.hit_rate import HITS, Counts, Mover, count, movers
from app.views import causes, fell, marks, rates, why, why_rows, words, worth
from app.views.parts import Failure, Part, attempt
from app.views.question import Question
from storage.reads import hit_rate, overview, sources, window
from storage.reads.acts import Mark
from storage.reads.hit_rate import Cell
from storage.reads.sources import SourceStatus
from storage.reads.window import Extent, Window
from storage.store import Store

TELEMETRY, ACTS, GATEWAY = SOURCES = ("Telemetry database", "Record of acts", "Gateway")
SILENT_AFTER_MS = 120_000  # a sender that reports every few seconds and has not for this long is worth a look
_MOST_HEALTH = 12  # senders among the components


@dataclass(frozen=True, slots=True)
class Sum:
    """A total over the lookups that reported it: `n` of `of`. value is None when none did."""

    value: float | None
    n: int
    of: int


@dataclass(frozen=True, slots=True)
class Health:
    """One thing that must work. state: ok | warn | failed | unknown; never told by colour alone."""

    name: str
    state: str
    detail: str


@dataclass(frozen=True, slots=True)
class Traffic(rates.Compared):
    """The window's numbers, and those of the window that it is compared with."""

    counts: Counts
    before: Counts
    buckets: tuple[rates.Bucket, ...]
    latency: rates.LatencyView
    spent_usd: Sum
    saved_tokens: Sum
    movers: tuple[Mover, ...]
    extent: Extent
    sources: tuple[SourceStatus, ...]
    saved: worth.Saved = worth.Saved()  # noqa: RUF009 - frozen
    earlier: tuple[rates.Bucket, ...] = ()  # of the window that it is compared with
    fall: fell.Fall | None = None  # before the window, and as low since


@dataclass(frozen=True, slots=True)
class Overview:
    window: Window
    now_ms: int
    sentence: str
    bad: bool
    traffic: Traffic | None
    marks: tuple[Mark, ...]
    health: tuple[Health, ...]
    failures: tuple[Failure, ...]


def load(
    telemetry: Callable[[], Store],
    ops: Callable[[], Store],
    engine: Callable[[], EngineAdapter],
    asked: Question,
    answer: why.Why | None = None,
    *,
    drifted: bool = False,
) -> Overview:
    """Return the page. Each source may fail on its own; what fails is named.

    answer: why the hit rate changed, told below its head. drifted: the page Drift has bad news of the same lookups.
    """
    hides = "hit rates, entropy, drift, requests, durations and savings"
    read = attempt(TELEMETRY, lambda: _traffic(telemetry(), asked), hides=hides)
    marked, unmarked = marks.load(telemetry, ops, asked.window, asked.scope)
    state = attempt(GATEWAY, lambda: (engine().state(), tuple(engine().gateways())), hides="whether gateways follow the policy in force")
    unread = [Health(ACTS, "failed", "does not answer")] if unmarked and not unmarked.missing else []
    senders = read.value.sources if read.value else ()
    health = (*_engine_health(state, asked.now_ms), *unread, *_source_health(senders, asked.now_ms))
    sentence, bad = _sentence(read.value, marked, health, asked, answer, drifted=drifted)
    if read.failure:
        unknown = "The telemetry database does not answer: what the cache did is not known here"
        trouble = _trouble(health)
        sentence, bad = (f"No telemetry has been stored yet{trouble}", bool(trouble)) if read.failure.missing else (unknown + trouble, True)
    failures = tuple(failure for failure in (read.failure, unmarked, state.failure) if failure)
    return Overview(asked.window, asked.now_ms, sentence, bad, read.value, marked, health, failures)


def _traffic(store: Store, asked: Question) -> Traffic:
    shown, compared, scope, now_ms = asked.window, asked.compared, asked.scope, asked.now_ms
    with store.read() as conn:
        cells = hit_rate.cells(conn, shown, scope, by=("cache_kind", "outcome"))
        mine, before = (
            {name: Counts(counts) for name, counts in hit_rate.by_namespace(conn, one, scope).items()} for one in (shown, compared)
        )
        series = hit_rate.series(conn, shown, scope, savings=True)
        earlier_series = hit_rate.series(conn, compared, scope)
        latencies = overview.latencies(conn, shown, scope)
        extent = window.extent(conn, now_ms)
        senders = sources.sources(conn, senders=_MOST_HEALTH)
        counts = rates.weighed(conn, shown, scope, rates.totals(cells))
        earlier = count((outcome, n) for side in before.values() for outcome, n in side.by_outcome.items())
        earlier = rates.weighed(conn, compared, scope, earlier)
        fall = fell.last(conn, shown, scope) if shown.end_ms >= now_ms and not counts.untold else None
        saved = worth.Saved(sampled=True)
        if not counts.sampled:
            saved = worth.front(conn, asked, cells, series, on_record=extent)
    response = [cell for cell in cells if cell.cache_kind == rates.RESPONSE]
    hits = [cell for cell in response if cell.outcome in HITS]
    found = Traffic(
        counts=counts,
        before=earlier,
        buckets=rates.buckets(series, shown, cache_kind=rates.RESPONSE, now_ms=now_ms, whole=counts),
        latency=rates.latency(latencies),
        spent_usd=_sum([cell for cell in response if cell.outcome not in HITS], "cost_nusd", "cost_n", 1e-9),
        saved_tokens=_tokens(hits),
        movers=() if counts.skewed or earlier.skewed else tuple(movers(mine, before)),
        extent=extent,
        sources=tuple(senders),
        saved=saved,
        earlier=rates.buckets(earlier_series, compared, cache_kind=rates.RESPONSE, now_ms=now_ms, whole=earlier),
        fall=fall,
    )
    if fall is None or fell.stayed(fall, counts, rates.received(found.buckets), found.change):
        return found
    return replace(found, fall=None)


def _sum(cells: Sequence[Cell], total: str, n: str, scale: float) -> Sum:
    reported = sum(getattr(cell, n) for cell in cells)
    value = sum(getattr(cell, total) for cell in cells) * scale
    return Sum(value if reported else None, reported, sum(cell.lookups for cell in cells))


def _tokens(cells: Sequence[Cell]) -> Sum:
    reported = sum(cell.input_tokens_n for cell in cells)
    value = sum(cell.input_tokens + cell.output_tokens for cell in cells)
    return Sum(value if reported else None, reported, sum(cell.lookups for cell in cells))


def _engine_health(read: Part[tuple[EngineState, tuple[GatewayInfo, ...]]], now_ms: int) -> list[Health]:
    if read.value is None:
        return [Health("Gateway", "failed", "does not answer")]
    state, gateways = read.value
    if state.via == "store":
        found = [Health("Gateway", "failed", "no gateway answers, the shared store does (start one: cachescope gateway)")]
    else:
        late = [gateway for gateway in gateways if not gateway.current]
        detail = f"{len(gateways)} live, all follow the policy in force" if gateways else "answers"
        if late:
            detail = f"{len(late)} of {len(gateways)} do not follow the policy in force yet: they bypass every tier"
        found = [Health("Gateway", "warn" if late else "ok", detail)]
    found.append(_component("Cache store", state.store, "error"))
    if state.via != "store":
        found.append(_component("Embedder", state.embedder, "reason", absent="no semantic hits"))
        found.append(_upstream(state.upstream))
    return found


def _upstream(told: Mapping[str, Any]) -> Health:
    if not told.get("configured"):
        return Health("Upstream", "warn", "not configured")
    host, failing = str(told.get("host", "")), len(told.get("failing") or ())
    if not failing:
        return Health("Upstream", "ok", host)
    return Health("Upstream", "warn", f"{host}: calls to {words.many(failing, 'model', 'models')} fail")


def _component(name: str, told: object, why: str, *, absent: str = "") -> Health:
    values = told if isinstance(told, dict) else dict(told) if hasattr(told, "keys") else {}  # type: ignore[call-overload]
    label = str(values.get("id") or values.get("url_scheme") or "")
    if values.get("ok"):
        return Health(name, "ok", label)
    reason = str(values.get(why) or "does not answer")
    return Health(name, "warn" if absent else "failed", f"{reason}{': ' + absent if absent else ''}")


def _source_health(senders: Sequence[SourceStatus], now_ms: int) -> list[Health]:
    # A restarted sender comes back as another instance: the old one is silent for good, and that is no fault.
    heard = {(source.kind, source.service) for source in senders if now_ms - source.last_seen_ms <= SILENT_AFTER_MS}
    found = []
    for source in senders[:_MOST_HEALTH]:
        quiet = now_ms - source.last_seen_ms
        silent = (source.kind, source.service) not in heard
        name = f"{words.name(source.service, 40)} ({source.kind.replace('otlp_', 'OTLP ').replace('_', ' ')})"
        detail = f"last seen {words.age(quiet)} ago"
        if source.last_error and source.last_error_ms and source.last_error_ms >= source.last_seen_ms:
            found.append(Health(name, "failed", f"{words.one_line(source.last_error)}; {detail}"))
        else:
            rejected = f"; {words.count(source.rejected)} rejected" if source.rejected else ""
            found.append(Health(name, "warn" if silent or source.rejected else "ok", detail + rejected))
    return found


def quiet_ms(extent: Extent, asked: Question) -> int:
    """Return for how long nothing has come, where that is long and the window reaches up to now; else 0."""
    last_ms = extent.last_ms if asked.window.end_ms >= asked.now_ms else None
    quiet = 0 if last_ms is None else asked.now_ms - last_ms
    return quiet if quiet > SILENT_AFTER_MS else 0


def _sentence(
    traffic: Traffic | None, marks: Sequence[Mark], health: Sequence[Health], asked: Question, answer: why.Why | None, *, drifted: bool
) -> tuple[str, bool]:
    """Return the page's answer in words, and whether it is bad news: that nothing has come for long is, whatever came before."""
    if traffic is None:
        return "Nothing is known", True
    trouble = _trouble(health).removeprefix(".")
    broken = bool(trouble)
    share, window_name = traffic.counts.hit_rate, asked.window_name
    if share is None:
        if traffic.counts.untold:
            return f"No hit rate can be told for {window_name}: {rates.refusal(traffic.counts)}.{trouble}", True
        if traffic.counts.total:
            n = words.count(traffic.counts.total)
            return f"No lookup could hit in {window_name}: all {n} were bypassed or failed.{trouble}", True
        return f"No lookups in {window_name}: there is no hit rate to show.{trouble}", broken
    told = rates.limits(traffic.over(), share)
    head = f"Hit rate {words.percent(share)} ({told}, {rates.told_n(traffic.counts, share)}) in {window_name}"
    told, bad = _change(traffic, marks, asked.before_name)
    turned, dropped = why_rows.turn(answer, traffic.change)
    told, bad = told + turned, bad or dropped
    if traffic.fall and not bad:
        told += f" {fell.told(traffic.fall)}."
    errors = traffic.counts.of("error")
    if errors * 100 > traffic.counts.total:
        told += f" {words.count(errors)} of {words.count(traffic.counts.total)} requests failed upstream or were given up."
        bad = True
    if quiet := quiet_ms(traffic.extent, asked):
        told += f" Nothing has come for {words.age(quiet)}."
        bad = True
    if not bad and not broken and not traffic.fall:
        odd = [*(["Drift"] if drifted else []), *(item.name for item in health if item.state == "warn")]
        told += f" Nothing has failed; worth a look: {words.listed(odd, most=3)}." if odd else " Nothing is wrong."
    return f"{head}{told}{trouble}", bad or broken


def _trouble(health: Sequence[Health]) -> str:
    """Return `. Gateway: does not answer.`, '' when nothing has failed."""
    broken = [item for item in health if item.state == "failed"]
    return f". {words.listed(f'{item.name}: {item.detail}' for item in broken[:2])}." if broken else ""


def _change(traffic: Traffic, marks: Sequence[Mark], before_name: str) -> tuple[str, bool]:
    change, before = traffic.change, traffic.before.hit_rate
    if change is None or before is None or change.few:
        return f", with too little in {before_name} to compare.", False
    if not change.clear:
        return f", steady against {before_name} ({words.percent(before)}).", False
    way = "up" if change.ratio > 0 else "down"
    told = f", {way} {abs(change.ratio) * 100:.1f} points on {before_name} ({words.percent(before)})"
    if doubt := causes.doubt(change):
        return f"{told}, {doubt}.", False
    worst = next((mover for mover in traffic.movers if (mover.effect_ratio > 0) == (change.ratio > 0)), None)
    if worst and len(traffic.movers) > 1:
        reason = "its own hit rate" if abs(worst.rate_ratio) >= abs(worst.mix_ratio) else "its share of the traffic"
        told += f": {words.name(worst.name)} explains {words.points(worst.effect_ratio)}, by {reason}"
    acted = [mark for mark in marks if mark.event == "done"]
    if change.ratio < 0 and acted:
        last = acted[-1]
        told += f"; last act: {last.kind} of {words.name(last.namespace)} at {words.clock(last.at_ms)}"
    return told + ".", change.ratio < 0
