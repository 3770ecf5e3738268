"""Hit rate: where do hits come from, and where do they go?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from app.analysis.hit_rate import HITS, OUTCOMES, Counts, count
from app.analysis.intervals import wilson
from app.views import causes, marks, rates, why_rows, words
from app.views.decision import reason_in_words
from app.views.dial import Dial
from app.views.overview import quiet_ms
from app.views.parts import Failure, attempt
from app.views.question import Question
from app.views.why import Why
from app.views.worth import NOTHING, Worth, rate_detail
from app.views.worth import load as load_worth
from storage.reads import hit_rate, window
from storage.reads.acts import Mark
from storage.reads.hit_rate import Cell
from storage.reads.places import Place, busiest
from storage.reads.window import Extent, Window
from storage.store import Store

TELEMETRY, ACTS = SOURCES = ("Telemetry database", "Record of acts")
OTHER_KINDS = {
    "provider_prompt": "The provider's own prompt cache: input tokens billed at the cached price. Not ours to purge or tune here.",
    "response_hits": "Response caches whose senders tell of hits and never of misses: there is no rate to show.",
    "kv_prefix": "An inference server's key-value prefix cache: prompt tokens whose attention state was reused.",
}
_MOST_ROWS = 500


@dataclass(frozen=True, slots=True)
class Reason:
    """Lookups of one outcome and reason, as a share of all lookups of that outcome."""

    outcome: str
    reason: str
    lookups: int
    of: int


@dataclass(frozen=True, slots=True)
class CachedTokens:
    """Input tokens of calls that reported both, and how many of them came from a cache. n: calls that did; of: all of the kind."""

    cached: int
    input: int
    n: int
    of: int


@dataclass(frozen=True, slots=True)
class OtherKind:
    """A cache of another kind. Its outcomes are counted apart, and in no total of this page."""

    cache_kind: str
    counts: Counts
    what: str
    tokens: CachedTokens | None = None


@dataclass(frozen=True, slots=True)
class Loaded(rates.Compared):
    """chosen_by: one of so many lookups told which places are the busiest; 1 = all. What each counts is of all lookups."""

    counts: Counts
    buckets: tuple[rates.Bucket, ...]
    funnel: tuple[rates.Funnel, ...]
    places: tuple[Place, ...]
    reasons: tuple[Reason, ...]
    others: tuple[OtherKind, ...]
    extent: Extent
    chosen_by: int = 1
    worth: Worth = NOTHING
    before: Counts = Counts()  # noqa: RUF009 - frozen
    compared: Window | None = None
    earlier: tuple[rates.Bucket, ...] = ()  # of the window that it is compared with
    beside: Mapping[int, rates.Bucket] = field(default_factory=dict)  # the same, by the start of the bucket that each stands beside


@dataclass(frozen=True, slots=True)
class HitRate:
    window: Window
    now_ms: int
    sentence: str
    bad: bool
    loaded: Loaded | None
    marks: tuple[Mark, ...]
    failures: tuple[Failure, ...]


def load(telemetry: Callable[[], Store], ops: Callable[[], Store], asked: Question, answer: Why | None = None) -> HitRate:
    """Return the page. Only traffic is counted; warm-ups and probes are not. answer: why the hit rate changed, told below its head."""
    read = attempt(TELEMETRY, lambda: _read(telemetry(), asked), hides="every number of this page")
    marked, unmarked = marks.load(telemetry, ops, asked.window, asked.scope)
    sentence, bad = _sentence(read.value, asked, answer)
    if read.value and unmarked and not unmarked.missing:
        sentence, bad = f"{sentence} {ACTS}: does not answer.", True
    if read.failure and read.failure.missing:
        sentence, bad = "No telemetry has been stored yet", False
    failures = tuple(failure for failure in (read.failure, unmarked) if failure)
    return HitRate(asked.window, asked.now_ms, sentence, bad, read.value, marked, failures)


def _read(store: Store, asked: Question) -> Loaded:
    shown, compared, scope, now_ms = asked.window, asked.compared, asked.scope, asked.now_ms
    with store.read() as conn:
        cells = hit_rate.cells(conn, shown, scope, by=rates.BY)
        places, chosen_by = busiest(conn, shown, scope, limit=_MOST_ROWS)
        then = hit_rate.series(conn, compared, scope)
        counts = rates.weighed(conn, shown, scope, rates.totals(cells))
        before = count((row.outcome, row.lookups) for row in then if row.cache_kind == rates.RESPONSE)
        before = rates.weighed(conn, compared, scope, before)
        every_place = places if len(places) < _MOST_ROWS and chosen_by == 1 else None
        worth = load_worth(conn, asked, cells, sampled=bool(counts.sampled), every_place=every_place)
        series = hit_rate.series(conn, shown, scope)
        extent = window.extent(conn, now_ms)
        kinds = sorted({cell.cache_kind for cell in cells} - {rates.RESPONSE})
        others = [(kind, rates.weighed(conn, shown, scope, rates.totals(cells, cache_kind=kind), kind=kind)) for kind in kinds]
    earlier = rates.buckets(then, compared, cache_kind=rates.RESPONSE, now_ms=now_ms, whole=before)
    return Loaded(
        counts=counts,
        buckets=rates.buckets(series, shown, cache_kind=rates.RESPONSE, now_ms=now_ms, whole=counts),
        funnel=() if counts.skewed else rates.funnel(cells),
        places=tuple(places),
        chosen_by=chosen_by,
        reasons=_reasons(cells),
        others=tuple(OtherKind(kind, found, OTHER_KINDS.get(kind, ""), _cached(cells, kind)) for kind, found in others),
        extent=extent,
        worth=worth,
        before=before,
        compared=compared,
        earlier=earlier,
        beside=rates.beside(earlier, shown, compared),
    )


def _cached(cells: Sequence[Cell], kind: str) -> CachedTokens:
    mine = [cell for cell in cells if cell.cache_kind == kind]
    sums = [sum(getattr(cell, name) for cell in mine) for name in ("cached_tokens", "cached_of_tokens", "cached_n", "lookups")]
    return CachedTokens(*sums)


def _reasons(cells: Sequence[Cell]) -> tuple[Reason, ...]:
    found: dict[tuple[str, str], int] = {}
    of: dict[str, int] = {}
    for cell in cells:
        if cell.cache_kind == rates.RESPONSE and cell.outcome in {"miss", "bypass", "error"}:
            key = (cell.outcome, cell.reason)
            found[key] = found.get(key, 0) + cell.lookups
            of[cell.outcome] = of.get(cell.outcome, 0) + cell.lookups
    ordered = sorted(found.items(), key=lambda item: (OUTCOMES.index(item[0][0]), -item[1]))
    return tuple(Reason(outcome, reason, lookups, of[outcome]) for (outcome, reason), lookups in ordered)


def _sentence(loaded: Loaded | None, asked: Question, answer: Why | None = None) -> tuple[str, bool]:
    window_name = asked.window_name
    if loaded is None:
        return "The telemetry database does not answer: no hit rate is known here", True
    share = loaded.counts.hit_rate
    if share is None:
        if loaded.counts.untold:
            return f"No hit rate can be told for {window_name}: {rates.refusal(loaded.counts)}.", True
        return f"No eligible lookups in {window_name}: there is no hit rate to show.", False
    parts = [
        f"{words.percent(loaded.counts.share(outcome))} {words.OUTCOME_NAMES[outcome].replace(' hit', '')}"
        for outcome in HITS
        if loaded.counts.of(outcome)
    ]
    change = loaded.change
    moved = change is not None and not causes.doubt(change)
    told = f"Hit rate {words.percent(share)} ({rates.limits(loaded.over(), share)}, {rates.told_n(loaded.counts, share)}) in {window_name}"
    if change is not None and moved:
        told += f", {'up' if change.ratio > 0 else 'down'} {abs(change.ratio) * 100:.1f} points on {asked.before_name}"
    told += f": {words.listed(parts)}." if parts else ": no hits."
    lost = next((reason for reason in sorted(loaded.reasons, key=lambda r: -r.lookups) if reason.outcome == "miss"), None)
    if lost and not loaded.counts.skewed:
        told += f" Most misses: {_miss(lost.reason)} ({words.count(lost.lookups)} of {words.count(lost.of)})."
    turned, fell = why_rows.turn(answer, change)
    quiet = quiet_ms(loaded.extent, asked)
    told += turned + (f" Nothing has come for {words.age(quiet)}." if quiet else "")
    return told, bool(fell or quiet or (change and moved and change.ratio < 0))


def _miss(reason: str) -> str:
    """Return why a lookup missed, in words; a sender other than our engine may name no reason."""
    return reason_in_words(reason) if reason else "nothing stored that matches"


def coverage_dials(loaded: Loaded) -> list[Dial]:
    """Return the hit rate, and beside it what is not in its denominator."""
    counts = loaded.counts
    rows = []
    kinds: list[tuple[str, tuple[str, ...]]] = [("Hit rate", HITS), ("Exact", ("exact_hit",)), ("Semantic", ("semantic_hit",))]
    kinds += [
        (words.OUTCOME_NAMES[one].removesuffix(" hit").capitalize(), (one,)) for one in ("partial_hit", "stale_hit") if counts.of(one)
    ]
    for label, outcomes in (*kinds, ("Coalesced", ("coalesced",))):
        share = counts.share(*outcomes)
        change, requests = loaded.moved(outcomes), loaded.over(outcomes)
        detail = f"{words.count(share.k)} of {words.count(share.n)}, {rates.labelled(requests, share)}" if share else rates.nothing(counts)
        good = None if change is None or causes.doubt(change) or label == "Coalesced" else change.ratio > 0
        if label == "Hit rate" and share:
            detail = rate_detail(requests, share)
        rows.append(Dial(label, words.percent(share), detail, causes.told(change), good))
    held = loaded.worth.without_holdout
    if held and not counts.sampled:
        detail = f"{words.count(held.k)} of {words.count(held.n)}, 95 % as if independent: {words.interval(held)}"
        rows.append(Dial("Without holdout", words.percent(held), detail))
    covered = counts.coverage
    rows.append(
        Dial(
            "Could hit",
            words.percent(covered),
            f"{words.count(counts.eligible)} of {words.count(counts.total)} lookups{' received' if counts.sampled else ''}; "
            f"{words.count(counts.of('bypass'))} bypassed, {words.count(counts.of('error'))} failed; "
            f"95 % as if independent: {words.interval(covered)}",
        )
    )
    return rows


def segments_title(loaded: Loaded) -> str:
    """Return the heading of the table of places, with how they were chosen where there are more."""
    told = f" (the {len(loaded.places)} busiest, told by one lookup in {loaded.chosen_by})" if loaded.chosen_by > 1 else ""
    return f"Hit rate by namespace, tenant and model{told}"


def segment_rows(loaded: Loaded) -> list[dict[str, object]]:
    """Return the 500 busiest of namespace × tenant × model, with n and interval. None where nothing was eligible."""
    rows: list[dict[str, object]] = []
    for place in loaded.places:
        counts = rates.part_of(loaded.counts, Counts(place.by_outcome))
        share = counts.hit_rate
        rows.append(
            {
                "namespace": words.name(place.namespace),
                "tenant": words.name(place.tenant),
                "model": words.name(place.model),
                "hit rate": None if share is None else share.ratio * 100,
                "95 %": words.interval(share),
                "exact": _of(counts, "exact_hit"),
                "semantic": _of(counts, "semantic_hit"),
                "partial": _of(counts, "partial_hit") if counts.of("partial_hit") else None,
                "stale": _of(counts, "stale_hit") if counts.of("stale_hit") else None,
                "n": counts.eligible,
                "bypass": counts.of("bypass"),
                "error": counts.of("error"),
            }
        )
    return sorted(rows, key=lambda row: -int(str(row["n"])))


def _of(counts: Counts, outcome: str) -> float | None:
    share = counts.share(outcome)
    return None if share is None else share.ratio * 100


def bucket_rows(loaded: Loaded) -> list[dict[str, object]]:
    rows = rates.bucket_rows(loaded.buckets, {outcome: words.OUTCOME_NAMES[outcome] for outcome in OUTCOMES})
    for row, bucket in zip(rows, loaded.buckets, strict=True):
        then = loaded.beside.get(bucket.at_ms)
        share = then.counts.hit_rate if then else None
        row["compared with (UTC)"] = words.instant(then.at_ms) if then else ""
        row["hit rate % then"] = None if share is None else round(share.ratio * 100, 1)
        row["n then"] = then.counts.eligible if then else None
    return rows


def funnel_rows(loaded: Loaded) -> list[dict[str, object]]:
    return [
        {
            "answered by": step.name,
            "share": step.share.ratio * 100,
            "lookups": step.share.k,
            "of": step.share.n,
            "95 %": words.interval(step.share),
            "of those that came": None if step.asked is None else step.asked.ratio * 100,
            "came": None if step.asked is None else step.asked.n,
        }
        for step in loaded.funnel
    ]


def reason_rows(loaded: Loaded) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for reason in loaded.reasons:
        share = None if loaded.counts.skewed else wilson(reason.lookups, reason.of)
        rows.append(
            {
                "outcome": words.OUTCOME_NAMES[reason.outcome],
                "reason": _miss(reason.reason) if reason.outcome == "miss" else words.name(reason.reason.replace("_", " ")),
                "lookups": reason.lookups,
                "of": reason.of,
                "share": None if share is None else share.ratio * 100,
            }
        )
    return rows


def _tokens(other: OtherKind) -> str:
    """Return `62.0 % of 1,200 (n = 5 of 7)`: sums divided, never ratios averaged; calls that did not report both are not in it.

    Sums are of what came: where not all calls were kept alike, their ratio says nothing of all.
    """
    found = other.tokens
    if found is None or not found.input:
        return words.NO_DATA
    if other.counts.skewed:
        return f"{words.NO_DATA}: not all calls were kept alike"
    return (
        f"{words.ratio(found.cached / found.input)} of {words.count(found.input)} (n = {words.count(found.n)} of {words.count(found.of)})"
    )


def _with_cached(counts: Counts) -> str:
    """Return the share of calls with a cached part, weighed where calls were sampled, or why there is none."""
    refused = rates.refusal(counts)
    if refused:
        return f"{words.NO_DATA}: {refused}"
    share = counts.hit_rate
    return f"{words.percent(share)}, weighed by 1/p" if share and counts.skewed else words.percent(share)


def other_rows(loaded: Loaded) -> list[Mapping[str, object]]:
    return [
        {
            "kind": other.cache_kind.replace("_", " "),
            "lookups": other.counts.total,
            "with a cached part": words.NO_DATA if other.cache_kind == "response_hits" else _with_cached(other.counts),
            "input tokens from it": _tokens(other),
            "what it is": other.what,
        }
        for other in loaded.others
    ]
