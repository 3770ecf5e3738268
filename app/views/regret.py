"""Regret & capacity: is tuning worth it, and which knob?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from app.analysis.regret import FEW, Amount, Ends, Findings, Knob, ends, from_json, whole
from app.views import regret_past, words
from app.views.dial import Dial
from app.views.parts import Failure, attempt
from app.views.regret_past import Point
from storage import analyses, jobs
from storage.analyses import Analysis
from storage.jobs import Job
from storage.reads.window import Scope
from storage.store import Store

OPS = "Record of acts"
SOURCES = (OPS,)
KIND: Final = "regret"
HORIZONS: Final = {"24h": "the last 24 hours", "7d": "the last 7 days"}
MOST_TOLD: Final = 5
LEAST_ROOM_BYTES: Final = 1024**2  # below that the record's log cannot grow by an analysis
LATE: Final = 3  # times that, after which an analysis is called old
_SILENT_MS = 60_000  # it beats each second
POLICY_NAMES: Final = {
    "fifo": "FIFO",
    "lru": "LRU",
    "lfu": "LFU",
    "sieve": "SIEVE",
    "s3fifo": "S3-FIFO",
    "wtinylfu": "W-TinyLFU",
    "gdsf": "GDSF",
    "belady": "Belady, offline",
}
KNOB_NAMES: Final = {"keep": "keeping entries until they expire", "lifetime": "a longer lifetime", "semantic": "more semantic hits"}


@dataclass(frozen=True, slots=True)
class Row:
    """A namespace's newest analysis. findings: None = refused, too little data, or written by another version (unreadable)."""

    analysis: Analysis
    findings: Findings | None
    unreadable: bool = False

    @property
    def namespace(self) -> str:
        return self.analysis.namespace

    @property
    def usable(self) -> int:
        """Lookups that could be replayed, of the sample."""
        return int(self.analysis.parameters.get("usable") or 0)

    @property
    def refused(self) -> str:
        """Why its lookups were not replayed, '' = they were, or are too few."""
        return str(self.analysis.parameters.get("refused") or "")


@dataclass(frozen=True, slots=True)
class Regret:
    """rows: of the namespaces shown; past: of those whose newest analysis ended too long ago to be one of this time with the others.

    chosen: the namespace whose curves are drawn: the one picked, else the one with the most to win. room_bytes: on the disk of ops.db.
    """

    horizon: str
    now_ms: int
    sentence: str
    bad: bool
    rows: tuple[Row, ...]
    past: tuple[Row, ...]
    chosen: Row | None
    job: Job | None
    worker_age_ms: int | None
    room_bytes: int | None
    failures: tuple[Failure, ...]

    @property
    def computed_ms(self) -> int | None:
        """When the oldest of the analyses shown was computed."""
        return min((row.analysis.at_ms for row in self.rows), default=None)

    @property
    def old(self) -> bool:
        at = self.computed_ms
        return at is not None and self.now_ms - at > LATE * regret_past.EVERY_MS[self.horizon]

    @property
    def silent(self) -> bool:
        """True when the worker, which computes all of this, gave no sign of life for a minute."""
        return self.worker_age_ms is None or self.worker_age_ms > _SILENT_MS

    @property
    def failing(self) -> bool:
        """True when nothing new comes: what the page says of the numbers is no good news then, whatever they are."""
        return bool(self.failures or self.no_room) or self.silent or self.old or (self.job is not None and self.job.state == "failed")

    @property
    def no_room(self) -> str:
        """What a full disk keeps the worker from; '' while there is room."""
        if self.room_bytes is None or self.room_bytes >= LEAST_ROOM_BYTES:
            return ""
        return (
            f"The worker cannot store what it computes: {words.size(self.room_bytes)} are left. What is shown stays as it was, and grows "
            "old. Make room; the worker goes on by itself."
        )

    @property
    def refused(self) -> tuple[Row, ...]:
        """The namespaces shown of which nothing can be told, though they have lookups."""
        return tuple(row for row in self.rows if row.refused)


def load(ops: Callable[[], Store], *, horizon: str, namespace: str | None, now_ms: int) -> Regret:
    """Return what the worker computed last. Nothing is computed here."""
    part = attempt(OPS, lambda: _read(ops(), horizon), hides="every number of this page")
    if part.value is None:
        failures = (part.failure,) if part.failure else ()
        return Regret(horizon, now_ms, "The analyses cannot be read", True, (), (), None, None, None, None, failures)
    rows, job, beat_ms, room_bytes = part.value
    wanted = [row for row in rows if namespace is None or row.namespace == namespace]
    shown = tuple(row for row in wanted if now_ms - row.analysis.end_ms <= regret_past.NEAR_MS[horizon])
    past = tuple(row for row in wanted if row not in shown)
    chosen = max(shown, key=by_prize, default=None)
    if chosen is None and past:
        newest = max(past, key=lambda row: row.analysis.end_ms)
        age = words.age(now_ms - newest.analysis.end_ms)
        sentence, bad = (
            f"No analysis of {HORIZONS[horizon]}: the newest, of namespace {words.name(newest.namespace)}, ended {age} ago",
            False,
        )
    else:
        sentence, bad = _sentence(shown, chosen, _time(horizon, chosen, now_ms))
    worker_age_ms = None if beat_ms is None else now_ms - beat_ms
    return Regret(horizon, now_ms, sentence, bad, shown, past, chosen, job, worker_age_ms, room_bytes, ())


def _time(horizon: str, row: Row | None, now_ms: int) -> str:
    """Return what the analysis is of, in words: the time up to now only as long as it is not old."""
    if row is None or now_ms - row.analysis.end_ms <= LATE * regret_past.EVERY_MS[horizon]:
        return HORIZONS[horizon]
    return f"the {HORIZONS[horizon].removeprefix('the last ')} to {words.instant(row.analysis.end_ms)[5:16]} UTC"


def names(ops: Callable[[], Store], horizon: str) -> tuple[str, ...]:
    """Return the namespaces that have an analysis."""
    part = attempt(OPS, lambda: _read(ops(), horizon)[0])
    return tuple(row.namespace for row in part.value or ())


def _read(store: Store, horizon: str) -> tuple[tuple[Row, ...], Job | None, int | None, int]:
    with store.read() as conn:
        rows = tuple(_row(one) for one in analyses.newest(conn, kind=KIND, horizon=horizon))
        job = next(iter(jobs.list_recent(conn, limit=1, kind=KIND)), None)
        return rows, job, max((beat.last_ms for beat in jobs.beats(conn)), default=None), store.room_bytes()


def _row(analysis: Analysis) -> Row:
    if analysis.result is None:
        return Row(analysis, None)
    try:
        return Row(analysis, from_json(analysis.result))
    except (KeyError, TypeError, ValueError):
        return Row(analysis, None, unreadable=True)


def by_prize(row: Row) -> tuple[bool, bool, float, float, bool, int]:
    """Order namespaces by whether tuning is worth it, by what their best knob wins, then by their traffic."""
    best = row.findings.best_knob if row.findings else None
    gain = best.gain if best else Amount(0.0)
    told = row.findings is not None or bool(row.refused)  # a refusal is to be seen before what has too little data
    return row.findings is not None, bool(row.findings and row.findings.worth_it), gain.usd or 0.0, gain.hits, told, row.analysis.lookups


def _sentence(rows: Sequence[Row], chosen: Row | None, time: str) -> tuple[str, bool]:
    if chosen is None:
        return f"No analysis of {time} has been computed yet", False
    found = chosen.findings
    if found is None:
        if chosen.unreadable:
            return "The analyses are of another version: the worker computes them anew within minutes", False
        if chosen.refused:
            return (
                f"Whether tuning is worth it cannot be told for namespace {words.name(chosen.namespace)} in {time}: {chosen.refused}",
                True,
            )
        return f"Too little in {time} to judge tuning: {words.count(chosen.usable)} usable lookups, {FEW} needed in a namespace", False
    name, best = words.name(chosen.namespace), found.best_knob
    if best is None or not found.worth_it:
        most = "nothing" if best is None else f"at most {gain_words(best, found)}"
        judged = [row.findings for row in rows if row.findings is not None]
        where = f"in namespace {name}"
        if len(judged) > 1 and not any(one.worth_it for one in judged):
            where = "anywhere" if len(judged) == len(rows) else f"in any of the {len(judged)} namespaces judged"
        return f"Tuning is not worth anyone's time: in {time} the best knob would have won {most} {where}", False
    told = f"Worth a look in namespace {name}: {knob_words(best, found)} would have won up to {gain_words(best, found)} in {time}"
    if best.space is not None and found.known.unit == "bytes":
        told += f", in {space_words(best.space, found)} instead of {space_words(found.capacity, found)}"
    return told, True


def gain_words(knob: Knob, found: Findings) -> str:
    """Return `$1.20 and 340 hits (3.4 % of its lookups)`, with the interval where keys were sampled."""
    gain, of, error = knob.gain, found.of, knob.error
    share = words.ratio(min(1.0, gain.hits / of)) if of else words.NO_DATA
    told = f"{words.many(round(gain.hits), 'hit', 'hits')} ({share} of its lookups{limits_words(gain.hits, error, of)})"
    return f"{words.money(gain.usd)} and {told}" if gain.usd is not None else told


def limits_words(hits: float, error: Amount | None, of: float) -> str:
    """Return `; 95 % 3.1 to 3.7 %, for keys are sampled`; '' where nothing errs."""
    if error is None or not error.hits or not of:
        return ""
    low, high = (min(1.0, max(0.0, one / of)) for one in (hits - error.hits, hits + error.hits))
    return f"; 95 % {words.ratio(low)} to {words.ratio(high)}, for keys are sampled"


def error_words(
    low: float | None, high: float | None, errors: tuple[float | None, float | None], told: Callable[[float | None], str]
) -> str:
    """Return `; 95 % a to b, for keys are sampled`, from the lower limit of the least to the upper one of the most; '' where none errs."""
    if low is None or high is None or errors[0] is None or errors[1] is None or not any(errors):
        return ""
    return f"; 95 % {told(max(0.0, low - errors[0]))} to {told(high + errors[1])}, for keys are sampled"


def knob_words(knob: Knob, found: Findings) -> str:
    if knob.name != "lifetime" or knob.to_ms is None:
        return KNOB_NAMES[knob.name]
    longest = knob.to_ms >= found.ttl_curve[-1].at and knob.to_ms > 4 * found.ttl_ms
    return f"a lifetime of {words.age(knob.to_ms)}{' or more' if longest else ''} instead of {words.age(found.ttl_ms)}"


def space_words(space: float, found: Findings) -> str:
    return words.size(round(space)) if found.known.unit == "bytes" else words.many(round(space), "entry", "entries")


def held(at: float) -> str:
    """Return a space or a lifetime as the URL has it."""
    return f"{at:.0f}"


def range_words(low: float | None, high: float | None, told: Callable[[float | None], str]) -> str:
    """Return `a to b`, `up to b` where a is nothing, or one of them when both read the same; `no data` where neither is known."""
    ends = list(dict.fromkeys((told(low), told(high))))
    return ends[0] if len(ends) == 1 else f"up to {ends[1]}" if not low else " to ".join(ends)


def hits_words(value: float | None) -> str:
    return words.NO_DATA if value is None else words.count(round(value))


def dials(row: Row, view: Regret) -> list[Dial]:
    """Return the regret in money, hits and time, the hits recorded, and the space of today."""
    found = row.findings
    if found is None:
        return []
    low, high = found.regret
    n = f"n = {words.count(found.lookups)} of {words.count(round(found.of))} lookups"
    of = ends(found)

    def wide(name: str, told: Callable[[float | None], str]) -> str:
        errors = getattr(of.low_error, name, None), getattr(of.high_error, name, None)
        return error_words(getattr(low, name), getattr(high, name), errors, told)

    saved = found.recorded.usd
    return [
        Dial(
            "Regret, money",
            range_words(low.usd, high.usd, words.money),
            f"in {_time(view.horizon, row, view.now_ms)}{wide('usd', words.money)}; {words.money(saved)} was saved"
            if saved is not None
            else "no lookup has a price",
        ),
        Dial("Regret, hits", range_words(low.hits, high.hits, hits_words), n + wide("hits", hits_words)),
        Dial(
            "Regret, time",
            range_words(low.ms, high.ms, words.duration_ms),
            f"waiting that hits would have saved{wide('ms', words.duration_ms)}",
        ),
        Dial(
            "Missed today",
            words.ratio(found.miss_ratio),
            f"of {words.count(round(found.exact_lookups))} lookups that had to hit by exact key"
            + limits_words(
                found.exact_lookups - found.recorded.hits, None if found.sampled is None else found.sampled.recorded, found.exact_lookups
            ),
        ),
        Dial(
            "Space today",
            space_words(found.capacity, found),
            f"the most that entries of {words.age(found.ttl_ms)} take together",
        ),
    ]


def front(day: Regret, past: Sequence[Point] = ()) -> Dial:
    """Return the Overview's dial: what a perfect cache would have won in all the namespaces shown, from the newest analyses.

    past: the figures kept of earlier ones, to compare with.
    """
    found = [row.findings for row in day.rows if row.findings is not None]
    now = whole(ends(one) for one in found)
    if now is None:
        lookups = sum(row.usable for row in day.rows)
        why = f"too little data: {words.count(lookups)} usable lookups, {FEW} needed in a namespace"
        if not day.rows:
            why = "no analysis of the last 24 hours" if day.past else "not computed yet"
        if day.refused:
            first = day.refused[0]
            why = f"not told of {words.name(first.namespace, 24)}: {first.refused}"
        return Dial("Regret", words.NO_DATA, "it cannot be read" if day.failures else why)
    low, high = now.low, now.high
    worst = f"; most in {words.name(day.chosen.namespace, 24)}" if day.chosen and len(found) > 1 else ""
    if day.refused:
        worst += f"; without {words.many(len(day.refused), 'namespace', 'namespaces')} whose telemetry is sampled"
    if day.past:
        worst += f"; without {words.many(len(day.past), 'namespace', 'namespaces')} not analysed of late"
    if len(day.rows) >= regret_past.MOST_NAMESPACES:
        worst += f"; of the {regret_past.MOST_NAMESPACES} busiest namespaces"
    hits = f"{range_words(low.hits, high.hits, hits_words)} hits, {_parts(now)} of lookups"
    detail = f"{hits if high.usd is not None else _parts(now) + ' of lookups'}; n = {words.count(now.replayed)} in 24 h{_sure(now)}{worst}"
    value = range_words(low.usd, high.usd, words.money) if high.usd is not None else f"{range_words(low.hits, high.hits, hits_words)} hits"
    end_ms = max(row.analysis.end_ms for row in day.rows if row.findings is not None)
    told, good = _against(now, past, end_ms)
    age = f"computed {words.age(day.now_ms - (day.computed_ms or day.now_ms))} ago{', old' if day.old else ''}"
    return Dial("Regret", value, detail, told, good, spark=regret_past.spark(past, day.horizon), age=age)


def whole_note(scope: Scope) -> str:
    """Return that the regret is of more than the lookups that the bar chose: it is computed for whole namespaces. '' when it is not."""
    chosen = [name for name, value in (("tenant", scope.tenant), ("model", scope.model), ("sender", scope.source)) if value is not None]
    if not chosen:
        return ""
    return f"of {'all namespaces' if scope.namespace is None else 'the whole namespace'}, not of this {words.listed(chosen)} alone"


def _against(now: Ends, past: Sequence[Point], end_ms: int) -> tuple[str, bool | None]:
    """Return the regret beside that of the 24 hours before, and whether the change is welcome: None while the two ranges overlap."""
    then = regret_past.before(past, horizon="24h", end_ms=end_ms)
    if then is None:
        since = f"; the first is of {words.instant(past[0].end_ms)[5:16]}" if past else ""
        return f"no analysis of the 24 h before yet{since}", None
    most, most_then = now.ratios[1], then.ends.ratios[1]
    told = f"{words.points(most - most_then)} at most on the 24 h to {words.instant(then.end_ms)[5:16]} ({_parts(then.ends)} of lookups)"
    (lowest, highest), (lowest_then, highest_then) = now.limits, then.ends.limits
    return told, True if highest < lowest_then else False if lowest > highest_then else None


def _sure(of: Ends) -> str:
    if of.limits == of.ratios:
        return ""
    low, high = of.limits
    return f"; 95 % {words.ratio(low)} to {words.ratio(high)}, for keys are sampled"


def _parts(of: Ends) -> str:
    return range_words(*of.ratios, lambda value: words.ratio(value or 0.0))


def left_out(view: Regret) -> str:
    """Return which of the namespaces shown no number is of, and why; '' where there is none."""
    told = [f"{words.name(row.namespace, 40)}: {row.refused}" for row in sorted(view.refused, key=lambda row: -row.analysis.lookups)]
    more = f"; and {words.many(len(told) - MOST_TOLD, 'namespace', 'namespaces')} more" if len(told) > MOST_TOLD else ""
    return f"Not judged, for telemetry is sampled: {'; '.join(told[:MOST_TOLD])}{more}" if told else ""
