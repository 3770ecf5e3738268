"""Values that several pages show: buckets over time, tiers, latencies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from app.analysis.hit_rate import HITS, Counts, Sampled, count
from app.analysis.intervals import Difference, Ratio, Share, batched, difference, widened, wilson
from app.views import words
from storage.reads import sampling
from storage.reads.hit_rate import Cell, Count
from storage.reads.overview import Latencies
from storage.reads.window import MINUTE_MS, Scope, Window, horizons
from storage.sketch import Sketch

RESPONSE = "response"
LATE_MS = MINUTE_MS  # exporters send every few seconds and retry; a bucket that ended longer ago is taken as complete
BY = ("cache_kind", "tier", "outcome", "reason")  # what a page's totals are read by: without what there may be very many of
TIERS = ("memory", "store", "vector")
FEW = 30  # eligible lookups of a window below which no change is a finding, and nothing is decomposed
NONE = Counts()


@dataclass(frozen=True, slots=True)
class Bucket:
    """Lookups that began in one bucket. provisional: more may still come."""

    at_ms: int
    counts: Counts
    provisional: bool


def worst_ms(buckets: Sequence[Bucket]) -> int | None:
    """Return the start of the bucket whose hit rate is surely the lowest, by its interval's upper end; None where none has a rate."""
    known = [(share.high_ratio, bucket.at_ms) for bucket in buckets if (share := bucket.counts.hit_rate) is not None]
    return min(known)[1] if known else None


def part_of(whole: Counts, part: Counts) -> Counts:
    """Return a part's counts, of which no share is told where what came of the whole is skewed: how it was kept is known of all alone."""
    return replace(part, sampled=(Sampled(None, "", part.total),)) if whole.skewed else part


def buckets(rows: Iterable[Count], window: Window, *, cache_kind: str, now_ms: int, whole: Counts = NONE) -> tuple[Bucket, ...]:
    """Return every bucket of the window, those without lookups too: a gap is a gap. whole: the window's counts, weighed."""
    by_time: dict[int, list[tuple[str, int]]] = {at: [] for at in window.buckets}
    for row in rows:
        if row.cache_kind == cache_kind and row.at_ms in by_time:
            by_time[row.at_ms].append((row.outcome, row.lookups))
    return tuple(Bucket(at, part_of(whole, count(pairs)), at + window.bucket_ms + LATE_MS > now_ms) for at, pairs in by_time.items())


def beside(earlier: Iterable[Bucket], window: Window, compared: Window) -> dict[int, Bucket]:
    """Return the compared window's buckets, of the same length, by the start of those that they stand beside, to the nearest step."""
    step, shown = window.bucket_ms, set(window.buckets)
    by = round((window.start_ms - compared.start_ms) / step) * step
    return {at: bucket for bucket in earlier if (at := bucket.at_ms + by) in shown}


def totals(cells: Iterable[Cell], *, cache_kind: str = RESPONSE) -> Counts:
    return count((cell.outcome, cell.lookups) for cell in cells if cell.cache_kind == cache_kind)


def weighed(conn: Connection, window: Window, scope: Scope, counts: Counts, *, kind: str = RESPONSE) -> Counts:
    """Return the counts of one kind of cache with what of them a sampler kept, so that every share of them is weighed, or refused.

    Refused too where raw rows of the window are removed and somebody samples: with them went how many were kept.
    """
    if counts.total and window.start_ms < horizons(conn).raw_ms and sampling.any_kept(conn, scope, kind=kind):
        return replace(counts, sampled=(Sampled(None, "", counts.total),))
    found = sampling.kept(conn, window, scope, kind=kind)
    return replace(counts, sampled=tuple(Sampled(one.ratio, one.outcome, one.lookups) for one in found)) if found else counts


def over(shown: Sequence[Bucket], outcomes: Sequence[str] = HITS, *, whole: Counts = NONE) -> Ratio | None:
    """Return the share of these outcomes over batches of time; None where not all lookups were kept alike, or none is eligible.

    whole: the window's counts, weighed.
    """
    return None if whole.skewed else received(shown, outcomes)


def received(shown: Sequence[Bucket], outcomes: Sequence[str] = HITS) -> Ratio | None:
    """Return the share of these outcomes in what came, over batches of time: an estimate of all lookups' only where all were kept alike.

    How much they come in bursts it tells anyway.
    """
    return batched([bucket.counts.of(*outcomes) for bucket in shown], [bucket.counts.eligible for bucket in shown])


def change(now: Share | None, before: Share | None, mine: Ratio | None, earlier: Ratio | None) -> Difference | None:
    """Return the change of a share, both sides as unsure as their batches together make it; one with too few of them tells nothing.

    Had nothing changed, both would come in bursts alike, so a lookup is worth as much on either: the mean of 1 / design. A side that
    fell or rose halfway looks like one long burst, which would hide it; its 1 / design is near 0, and the other side's tells. mine,
    earlier: the shares of what was received, over their buckets.
    """
    worth = [1 / max(1.0, one.design) for one in (mine, earlier) if one is not None and one.design is not None]
    design = len(worth) / sum(worth) if worth else None
    return difference(widened(now, design), widened(before, design))


def moved(
    now: Counts, before: Counts, shown: Sequence[Bucket], earlier: Sequence[Bucket], outcomes: Sequence[str] = HITS
) -> Difference | None:
    """Return the change of the share of these outcomes; of fewer than 30 eligible lookups on a side it is no finding."""
    found = change(now.share(*outcomes), before.share(*outcomes), received(shown, outcomes), received(earlier, outcomes))
    return found and replace(found, few=min(now.eligible, before.eligible) < FEW)


class Compared:
    """A window's counts, whole and by buckets, and those of the window that it is compared with."""

    __slots__ = ()
    counts: Counts
    before: Counts
    buckets: tuple[Bucket, ...]
    earlier: tuple[Bucket, ...]

    def over(self, outcomes: tuple[str, ...] = HITS) -> Ratio | None:
        """Return the share of these outcomes over batches of time."""
        return over(self.buckets, outcomes, whole=self.counts)

    def moved(self, outcomes: tuple[str, ...] = HITS) -> Difference | None:
        """Return the change of the share of these outcomes; of fewer than 30 eligible lookups on a side it is no finding."""
        return moved(self.counts, self.before, self.buckets, self.earlier, outcomes)

    @property
    def change(self) -> Difference | None:
        return self.moved()


def limits(ratio: Ratio | None, share: Share) -> str:
    """Return a share's interval for a sentence: over batches of time, or Wilson's, which it says, where they are too few or all alike.

    ratio: None = the lookups were not all kept alike, and the share is weighed.
    """
    if ratio is None:
        return f"{words.interval(share)} as if independent"
    if ratio.low_ratio is None or ratio.high_ratio is None:
        steps = words.many(ratio.clusters, "step", "steps")
        return f"{words.interval(share)} as if independent, for only {steps} of time"
    if ratio.design is None:
        return f"{words.interval(share)} as if independent"
    return f"{ratio.low_ratio * 100:.1f}–{ratio.high_ratio * 100:.1f} %"


def labelled(ratio: Ratio | None, share: Share) -> str:
    """Return an interval with what it is: over batches of time, or as if lookups were independent."""
    if ratio is None or ratio.design is None:
        return f"95 % as if independent: {words.interval(share)}"
    return f"95 % over batches: {limits(ratio, share)}"


def told_n(counts: Counts, share: Share) -> str:
    """Return `n = 400`: of how many lookups a share is told; those received, where they are weighed to stand for more."""
    return f"n = {words.count(counts.eligible)} received" if counts.skewed else f"n = {words.count(share.n)}"


def refusal(counts: Counts) -> str:
    """Return why no share of these lookups can be told, '' when it can or when there is none."""
    if not counts.untold:
        return ""
    n, of = words.count(counts.untold), words.count(counts.total)
    return f"{n} of {of} lookups came through a sampler that does not tell how many it drops: a share of what is left says nothing of all"


def nothing(counts: Counts) -> str:
    """Return why there is no share: none can be told, or nothing was eligible."""
    return refusal(counts) or "no eligible lookups"


NO_PARTS = "no rate over time or of a part is told, and none explains a change, for not all were kept alike"


def sampled_note(counts: Counts) -> str:
    """Return what sampling means for the page's numbers, '' when nobody samples."""
    if not counts.sampled:
        return ""
    if counts.untold:
        return f"Telemetry is sampled: {refusal(counts)}. Counts and sums are of what came"
    n = words.count(sum(one.lookups for one in counts.sampled))
    head = f"Telemetry is sampled: {n} of {words.count(counts.total)} lookups were kept with a known probability"
    if counts.skewed:
        return (
            f"{head}. Rates of the whole time weigh them by its inverse, and intervals take lookups as independent; {NO_PARTS}. "
            "Charts, tables and sums are of what came"
        )
    return f"{head}, the same for all: rates stand. Charts, tables and sums are of what came"


@dataclass(frozen=True, slots=True)
class Funnel:
    """What answered: a tier, another's miss, or the upstream. outcome: the colour's; '' = neutral.

    share: of all eligible lookups (end to end). asked: of those that came as far as this; None = it asks nobody.
    filters: those of Traces that show its lookups; None = none do.
    """

    name: str
    outcome: str
    share: Share
    asked: Share | None = None
    filters: Mapping[str, str] | None = None


# Misses that were never looked up by similarity: they did not come to the vector tier.
NOT_SEARCHED = ("exact_only", "tier_fault", "no_embedder", "embedder_fault", "no_user_turn", "too_long", "control_stale", "cache_fault")


_MOST_OTHERS = 8
_THE_REST = "any other"


def funnel(cells: Sequence[Cell], *, cache_kind: str = RESPONSE) -> tuple[Funnel, ...]:
    """Return, in the order of the lookup, what answered which share of the eligible lookups; the shares sum to one."""
    mine = [cell for cell in cells if cell.cache_kind == cache_kind]
    eligible = count((cell.outcome, cell.lookups) for cell in mine).eligible
    hits: dict[str, int] = {}
    for cell in mine:
        if cell.outcome in HITS:
            hits[cell.tier] = hits.get(cell.tier, 0) + cell.lookups
    others = sorted(hits.keys() - set(TIERS), key=lambda tier: (-hits[tier], tier))
    if len(others) > _MOST_OTHERS:  # a sender's names of tiers are as many as it likes
        hits[_THE_REST] = hits.get(_THE_REST, 0) + sum(hits.pop(tier) for tier in others[_MOST_OTHERS:] if tier != _THE_REST)
        others = [*(tier for tier in others[:_MOST_OTHERS] if tier != _THE_REST), _THE_REST]
    skipped = sum(cell.lookups for cell in mine if cell.outcome in {"miss", "coalesced"} and cell.reason in NOT_SEARCHED)
    steps = []
    left = eligible
    for tier in (*TIERS, *others):
        k = hits.get(tier, 0)
        share = wilson(k, eligible)
        came = max(k, left - skipped) if tier == "vector" else left
        if share and (share.k or tier in TIERS):
            asked = wilson(k, came) if tier in TIERS else None
            name = f"{words.one_line(tier, 48) or 'unnamed'} tier"
            filters = None if tier == _THE_REST else {"tier": tier or words.UNNAMED}
            steps.append(Funnel(name, "semantic_hit" if tier == "vector" else "exact_hit", share, asked, filters))
        left -= k
    for name, outcome in (("another's miss (coalesced)", "coalesced"), ("upstream (miss)", "miss")):
        share = wilson(sum(cell.lookups for cell in mine if cell.outcome == outcome), eligible)
        if share:
            steps.append(Funnel(name, outcome, share, filters={"outcome": words.OUTCOME_NAMES[outcome]}))
    return tuple(steps)


@dataclass(frozen=True, slots=True)
class LatencyBucket:
    """Durations of requests with (`hit`) or without (`no hit`) an answer from the cache, in one bucket."""

    at_ms: int
    side: str
    n: int
    p50_ms: float | None
    p95_ms: float | None


@dataclass(frozen=True, slots=True)
class LatencySide:
    """Durations of the whole window. n: how many were read."""

    n: int
    p50_ms: float | None
    p95_ms: float | None


@dataclass(frozen=True, slots=True)
class LatencyView:
    """step_ms: of the buckets. stride > 1: of so many units one was read, to keep a wide window fast. unit: minute or hour."""

    hit: LatencySide
    no_hit: LatencySide
    buckets: tuple[LatencyBucket, ...]
    step_ms: int
    stride: int
    unit: str = "minute"

    @property
    def worst_ms(self) -> int | None:
        """The start of the bucket in which requests took longest, by the 95th percentile."""
        known = [(bucket.p95_ms, bucket.at_ms) for bucket in self.buckets if bucket.p95_ms is not None]
        return max(known)[1] if known else None


_NO_HIT = ("coalesced", "miss", "bypass")  # errors end early or late for their own reasons, and are left out


def latency(read: Latencies) -> LatencyView:
    """Return quantiles by side from merged sketches: percentiles are never averaged."""
    sides: dict[str, Sketch] = {"hit": Sketch(), "no hit": Sketch()}
    per_bucket: dict[tuple[int, str], Sketch] = {}
    for row in read.rows:
        side = "hit" if row.outcome in HITS else "no hit" if row.outcome in _NO_HIT else ""
        if side:
            sides[side].merge(row.sketch)
            per_bucket.setdefault((row.at_ms, side), Sketch()).merge(row.sketch)
    found = tuple(
        LatencyBucket(at, side, sketch.count, sketch.quantile(0.5), sketch.quantile(0.95))
        for (at, side), sketch in sorted(per_bucket.items(), key=lambda item: item[0])
    )
    whole = {name: LatencySide(sketch.count, sketch.quantile(0.5), sketch.quantile(0.95)) for name, sketch in sides.items()}
    return LatencyView(whole["hit"], whole["no hit"], found, read.step_ms, read.stride, "hour" if read.unit_ms > MINUTE_MS else "minute")


def bucket_rows(shown: Sequence[Bucket], columns: Mapping[str, str]) -> list[dict[str, object]]:
    """Return the table twin of a chart over time. columns: outcome -> label. None, not 0, where there is no hit rate."""
    rows: list[dict[str, object]] = []
    for bucket in shown:
        share = bucket.counts.hit_rate
        rows.append(
            {
                "time (UTC)": words.instant(bucket.at_ms),
                **{name: bucket.counts.of(outcome) for outcome, name in columns.items()},
                "hit rate %": None if share is None else round(share.ratio * 100, 1),
                "interval": words.interval(share),
                "n": bucket.counts.eligible,
                "provisional": "yes" if bucket.provisional else "",
            }
        )
    return rows
