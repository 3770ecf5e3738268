"""Why did the hit rate change? Two windows decomposed, joined with what changed in that time, and told in a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from app.analysis.adwin import Cut, adwin
from app.analysis.attribution import Cells, Dimension, Segment, by_dimension, explain, tabulate
from app.analysis.hit_rate import ELIGIBLE, HITS, Counts, count
from app.analysis.intervals import Difference, Ratio, Share
from app.views import causes, marks, rates, words
from app.views.causes import MIN_CHANGE, Became, Event, Lookups, Verdict, doubt
from app.views.parts import Failure, attempt
from storage.reads import changes, hit_rate
from storage.reads.acts import Mark
from storage.reads.changes import DIMENSIONS, Example, Segments
from storage.reads.hit_rate import Cell, Count
from storage.reads.window import HOUR_MS, MINUTE_MS, Scope, Window, coarse, extent, horizons
from storage.store import Store

TELEMETRY = "Telemetry database"
_MOST_BLOCKS = 360
_EVICTIONS_MS = 6 * HOUR_MS  # of counters this much is read on each side of the change: a surge is near it, or explains nothing


@dataclass(frozen=True, slots=True)
class Sides:
    """The two windows. found: the second begins where the rate was found to change. name: of the first, in words.

    step_ms: how closely the start of the second is known to be that of the change, found or picked; None = it is only a window.
    """

    now: Window
    before: Window
    name: str
    found: bool = False
    step_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Decomposed:
    """What of a side was decomposed: one lookup in `stride`, n eligible ones. Sides of unlike size have unlike strides.

    gone: retention has removed lookups of it, which only sums still count.
    """

    stride: int = 1
    n: int = 0
    gone: bool = False


@dataclass(frozen=True, slots=True)
class Why:
    """part_now, part_before: what the segments and dimensions count; rates are of all lookups."""

    sides: Sides
    rate_now: Share | None
    rate_before: Share | None
    counts_now: Counts
    counts_before: Counts
    segments: tuple[Segment, ...]
    dimensions: tuple[Dimension, ...]
    became: tuple[Became, ...]
    events: tuple[Event, ...]
    examples: tuple[Example, ...]
    verdict: Verdict
    failures: tuple[Failure, ...]
    part_now: Decomposed = Decomposed()
    part_before: Decomposed = Decomposed()
    over_now: Ratio | None = None  # the rates over batches of time; None where not all lookups were kept alike
    over_before: Ratio | None = None
    lookups: Lookups = Lookups()  # noqa: RUF009 - frozen
    change: Difference | None = None


def cut_of(rows: Sequence[Count], window: Window, step_ms: int) -> tuple[int, Cut] | None:
    """Return when the rate last changed within the window (ms), and how; None when it did not, or by less than two points."""
    blocks: dict[int, list[int]] = {}
    for row in rows:
        if row.cache_kind == rates.RESPONSE and row.outcome in ELIGIBLE:
            held = blocks.setdefault(row.at_ms, [0, 0])
            held[0] += row.lookups if row.outcome in HITS else 0
            held[1] += row.lookups
    times = sorted(at for at in blocks if window.start_ms <= at < window.end_ms)
    cuts = adwin([blocks[at][0] for at in times], [blocks[at][1] for at in times])
    worth = [cut for cut in cuts if abs(cut.now_ratio - cut.before_ratio) >= MIN_CHANGE]
    return (times[worth[-1].at], worth[-1]) if worth else None


def cut_in(conn: Connection, window: Window, scope: Scope, *, most_blocks: int = _MOST_BLOCKS) -> tuple[int, Cut] | None:
    """Return when the rate last changed within the window, in so many blocks, as `cut_of` does; None where none can be told."""
    step = coarse(window, most_blocks)
    rows = hit_rate.series(conn, window, scope, step_ms=step)
    return None if counted(conn, window, scope, rows).skewed else cut_of(rows, window, step)


def counted(conn: Connection, window: Window, scope: Scope, rows: Sequence[Count]) -> Counts:
    """Return what came by outcome, of the response cache, with how a sampler kept it."""
    return rates.weighed(conn, window, scope, count((row.outcome, row.lookups) for row in rows if row.cache_kind == rates.RESPONSE))


def sides_of(
    conn: Connection, window: Window, before: Window, scope: Scope, *, before_name: str, since_ms: int | None = None, find: bool = True
) -> Sides:
    """Return what to compare: from `since_ms` on when it is given, from where the rate was found to change, else the windows given."""
    if since_ms is not None and window.start_ms < since_ms < window.end_ms:
        at = since_ms // MINUTE_MS * MINUTE_MS
        now = Window(at, window.end_ms)
        return Sides(now, now.previous, "as long before it", step_ms=window.bucket_ms)
    if find:
        found = cut_in(conn, window, scope)
        if found:
            at = found[0]
            start = max(window.start_ms, at - max(window.end_ms - at, 15 * MINUTE_MS))
            return Sides(
                Window(at, window.end_ms), Window(start, at), "the time before it", found=True, step_ms=coarse(window, _MOST_BLOCKS)
            )
    return Sides(window, before, before_name)


def load(
    telemetry: Callable[[], Store],
    ops: Callable[[], Store],
    *,
    window: Window,
    before: Window,
    before_name: str,
    scope: Scope,
    since_ms: int | None = None,
    find: bool = True,
) -> Why:
    """Return the answer. since_ms: split there. find: else split where the rate was found to change, when that is beyond doubt."""

    def read() -> Why:
        with telemetry().read() as conn:
            sides = sides_of(conn, window, before, scope, before_name=before_name, since_ms=since_ms, find=find)
            told = _read(conn, sides, scope)
            if sides.found and (told.change is None or doubt(told.change)):  # of bursts: what the page's head compares is asked then
                told = _read(conn, Sides(window, before, before_name), scope)
            return told

    part = attempt(TELEMETRY, read, hides="why the hit rate changed")
    if part.value is None:
        failures = (part.failure,) if part.failure else ()
        return Why(Sides(window, before, before_name), None, None, Counts(), Counts(), (), (), (), (), (), causes.UNKNOWN, failures)
    told = part.value
    whole = Window(min(told.sides.before.start_ms, told.sides.now.start_ms), told.sides.now.end_ms)
    seen, failure = marks.load(telemetry, ops, whole, scope)
    return _joined(told, seen, failure)


def _read(conn: Connection, sides: Sides, scope: Scope) -> Why:
    cells_now, cells_before = (hit_rate.cells(conn, side, scope, by=rates.BY) for side in (sides.now, sides.before))
    now = rates.weighed(conn, sides.now, scope, rates.totals(cells_now))
    before = rates.weighed(conn, sides.before, scope, rates.totals(cells_before))
    refused = rates.refusal(now) or rates.refusal(before)
    if refused:
        return Why(sides, None, None, now, before, (), (), (), (), (), Verdict("none", refused), ())
    buckets_now, buckets_before = (_buckets(conn, side, scope) for side in (sides.now, sides.before))
    change = rates.moved(now, before, buckets_now, buckets_before)
    if change is None or change.few or now.skewed or before.skewed:
        return Why(sides, now.hit_rate, before.hit_rate, now, before, (), (), (), (), (), causes.UNKNOWN, (), change=change)
    mine, earlier = (changes.segments(conn, side, scope) for side in (sides.now, sides.before))
    cells: Cells = tabulate(DIMENSIONS, earlier.counts, mine.counts)
    clear = bool(change and not doubt(change))
    raw_ms = horizons(conn).raw_ms
    part_now = Decomposed(mine.stride, int(cells.n_now.sum()), sides.now.start_ms < raw_ms)
    part_before = Decomposed(earlier.stride, int(cells.n_before.sum()), sides.before.start_ms < raw_ms)
    segments = causes.told_apart(explain(cells, most=6), part_before.n, part_now.n) if clear else ()
    fell = bool(change and change.ratio < 0)
    return Why(
        sides=sides,
        rate_now=now.hit_rate,
        rate_before=before.hit_rate,
        counts_now=now,
        counts_before=before,
        segments=segments,
        dimensions=tuple(by_dimension(cells)),
        became=_became(cells_now, cells_before, now.eligible, before.eligible),
        events=tuple(_versions(conn, sides, scope, (earlier, mine), (cells_before, cells_now))),
        examples=tuple(_examples(conn, sides, scope, segments[0], fell=fell)) if segments else (),
        verdict=causes.UNKNOWN,
        failures=(),
        part_now=part_now,
        part_before=part_before,
        over_now=rates.over(buckets_now, whole=now),
        over_before=rates.over(buckets_before, whole=before),
        lookups=Lookups(
            namespaces=frozenset(name for side in (sides.now, sides.before) for name in hit_rate.by_namespace(conn, side, scope)),
            first_ms=None if raw_ms else extent(conn, sides.now.end_ms).first_ms,
        ),
        change=change,
    )


def _buckets(conn: Connection, side: Window, scope: Scope) -> tuple[rates.Bucket, ...]:
    return rates.buckets(hit_rate.series(conn, side, scope), side, cache_kind=rates.RESPONSE, now_ms=side.end_ms)


def _versions(
    conn: Connection, sides: Sides, scope: Scope, segments: tuple[Segments, Segments], cells: tuple[Sequence[Cell], Sequence[Cell]]
) -> list[Event]:
    """Return what changed with versions. segments, cells: of the window before and of this one."""
    # Of a tier that embeds nothing, all lookups would be passed over to find none.
    embedders = [
        changes.embedder(conn, side, scope) if any(one.outcome in changes.EMBEDDED for one in counted) else ""
        for side, counted in zip((sides.before, sides.now), cells, strict=True)
    ]
    earlier, mine = segments
    found = causes.versions_changed(earlier.versions, mine.versions, embedders[0], embedders[1], sides.now)
    length = min(sides.now.length_ms, sides.before.length_ms, _EVICTIONS_MS)
    return [*found, *causes.surges(changes.evictions(conn, sides.now.start_ms, length), length)]


def _examples(conn: Connection, sides: Sides, scope: Scope, first: Segment, *, fell: bool) -> list[Example]:
    """Return lookups of the best explanation: those that missed after a fall, those that hit after a rise."""
    side = sides.before if first.kind == "vanished" else sides.now
    outcomes = ("miss", "coalesced") if fell and first.kind != "vanished" else HITS
    return changes.examples(conn, side, scope, first.literals, outcomes=outcomes)


def _became(now: Sequence[Cell], before: Sequence[Cell], now_of: int, before_of: int) -> tuple[Became, ...]:
    def counted(cells: Sequence[Cell]) -> Mapping[tuple[str, str], int]:
        found: dict[tuple[str, str], int] = {}
        for cell in cells:
            if cell.cache_kind == rates.RESPONSE and cell.outcome in ELIGIBLE:
                key = (cell.outcome, cell.tier if cell.outcome in HITS else cell.reason)
                found[key] = found.get(key, 0) + cell.lookups
        return found

    mine, earlier = counted(now), counted(before)
    found = [
        Became(outcome, detail, earlier.get((outcome, detail), 0), mine.get((outcome, detail), 0), before_of, now_of)
        for outcome, detail in sorted(mine.keys() | earlier.keys())
    ]
    return tuple(sorted(found, key=lambda one: -abs(one.effect_ratio)))


def _unnamed(told: Why) -> str:
    """Return what it means that no segment is named."""
    gone = [name for name, part in ((told.sides.name, told.part_before), ("this time", told.part_now)) if part.gone]
    if not gone:
        return "all segments alike"
    if told.part_before.n and told.part_now.n:
        return f"all segments alike, among the lookups of {words.listed(gone)} that are not removed yet"
    return f"which segments is not known, for lookups of {words.listed(gone)} are removed"


def _joined(told: Why, seen: Sequence[Mark], failure: Failure | None) -> Why:
    if told.counts_now.untold or told.counts_before.untold:
        return replace(told, failures=(failure,) if failure else ())
    events = tuple(sorted([*told.events, *(causes.of_mark(mark) for mark in seen)], key=lambda event: event.at_ms))
    sides = told.sides
    verdict = causes.verdict(
        told.change,
        told.segments,
        told.became,
        events,
        sides=(sides.before, sides.now),
        lookups=told.lookups,
        step_ms=sides.step_ms,
        unnamed=_unnamed(told),
    )
    if verdict.whose != "none" and (told.counts_now.skewed or told.counts_before.skewed):
        verdict = Verdict("open", f"telemetry is sampled: {rates.NO_PARTS}")
    return replace(told, events=events, verdict=verdict, failures=(failure,) if failure else ())
