"""What the hits are worth: rates weighted by requests, tokens and money, over all time, and net of what the cache costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from app.analysis.hit_rate import ELIGIBLE, HITS, count
from app.analysis.intervals import FEWEST_BATCHES, MIN_CLUSTERS, Ratio, Share, batched, wilson
from app.analysis.savings import ENOUGH, Savings, savings
from app.views import rates, words
from app.views.dial import Dial
from app.views.question import Question
from storage.reads import hit_rate, window
from storage.reads.hit_rate import Cell, Count, Scale, Step
from storage.reads.places import MOST_MODELS, Place, Priced, priced
from storage.reads.window import Extent, Scope, Window

HELD_OUT = "holdout"  # the reason of a miss that would have been a hit, and was sent upstream to learn the truth
NO_NEGATIVE = " (a negative number is none)"
SAMPLED = "telemetry is sampled, and sums of what came are no sums of all"
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Weighted:
    """A share by another weight. known and of: eligible lookups that it stands for, of all. refused: why there is none, '' = there is.

    reported: of the known, those that told their weight themselves; None = all.
    """

    ratio: Ratio | None
    known: int
    of: int
    refused: str = ""
    reported: int | None = None


@dataclass(frozen=True, slots=True)
class Worth:
    """requests: the hit rate over batches of time. without_holdout: had nothing been held out. lifetime: since `since_ms`, same filters."""

    requests: Ratio | None
    tokens: Weighted
    money: Weighted
    without_holdout: Share | None
    lifetime: Share | None
    since_ms: int | None
    usd: Savings
    ms: Savings
    sampled: bool = False
    usd_each: Ratio | None = None  # what a hit saves, in shares of the dearest step's: for the interval of the sum
    no_lifetime: str = ""  # why there is none


@dataclass(frozen=True, slots=True)
class Saved:
    """What the window's hits saved. each: what a hit saves in money, as in Worth. sampled: sums of what came are no sums of all."""

    usd: Savings = Savings(None, None, None, None)  # noqa: RUF009 - frozen
    ms: Savings = Savings(None, None, None, None)  # noqa: RUF009 - frozen
    each: Ratio | None = None
    sampled: bool = False


NOTHING = Worth(
    None, Weighted(None, 0, 0), Weighted(None, 0, 0), None, None, None, Savings(None, None, None, None), Savings(None, None, None, None)
)


def load(
    conn: Connection, asked: Question, cells: Sequence[Cell], *, sampled: bool = False, every_place: Sequence[Place] | None = None
) -> Worth:
    """Return it for the window. cells: the window's, of the same scope.

    every_place: all of the window's places, where they are known. sampled: a sampler kept some of them; sums of what came are then no
    sums of all, and there is nothing but the rate itself.
    """
    if sampled:
        refused = Weighted(None, 0, 0, SAMPLED)
        return replace(NOTHING, tokens=refused, money=refused, sampled=True)
    shown, scope = asked.window, asked.scope
    mine = [cell for cell in cells if cell.cache_kind == rates.RESPONSE and cell.outcome in ELIGIBLE]
    models = priced(conn, shown, scope, every_place=every_place)
    scales = _scales(models)
    alike = _alike(models, scales)
    found = hit_rate.steps(conn, shown, scope, scales=scales if alike is None else alike)
    counts = rates.totals(cells)
    lifetime, since_ms, no_lifetime = _lifetime(conn, shown, scope)
    held = sum(cell.lookups for cell in mine if cell.outcome == "miss" and cell.reason == HELD_OUT)
    first_ms = _first(conn, since_ms, shown.start_ms, window.extent(conn, asked.now_ms))
    each = _each([one.saved_nusd for one in found], [one.hits for one in found])
    kept = _saved(cells, each, asked, first_ms=first_ms)
    return Worth(
        requests=_requests(found),
        tokens=_tokens(mine, found),
        money=_money(models, scales, found),
        without_holdout=wilson(counts.hits + held, counts.eligible) if held else None,
        lifetime=lifetime,
        since_ms=since_ms,
        no_lifetime=no_lifetime,
        usd=kept.usd,
        ms=kept.ms,
        usd_each=kept.each,
    )


def _saved(cells: Sequence[Cell], each: Ratio | None, asked: Question, *, first_ms: int) -> Saved:
    """Return what the hits saved, less what the cache costs. first_ms: when what is on record begins; the hours before it cost nothing."""
    counts = rates.totals(cells)
    mine = [cell for cell in cells if cell.cache_kind == rates.RESPONSE and cell.outcome in ELIGIBLE]
    hits = [cell for cell in mine if cell.outcome in HITS]
    timed = [cell for cell in mine if cell.outcome not in HITS]
    timed_n, others = sum(cell.lookup_us_n for cell in timed), counts.eligible - counts.hits
    mean_ms = sum(cell.lookup_us for cell in timed) / 1e3 / timed_n if timed_n else None
    hours = max(0, min(asked.window.end_ms, asked.now_ms) - max(asked.window.start_ms, first_ms)) / _HOUR_MS
    return Saved(
        usd=savings(
            gross=sum(cell.saved_nusd for cell in hits) / 1e9,
            hits_known=sum(cell.saved_usd_n for cell in hits),
            hits=counts.hits,
            cost=asked.usd_per_hour * hours if asked.usd_per_hour is not None and _whole(asked.scope) else None,
            eligible=counts.eligible,
        ),
        # A hit's saved time is already less its own time in the cache: what is left to pay is the misses' time in it.
        ms=savings(
            gross=sum(cell.saved_us for cell in hits) / 1e3,
            hits_known=sum(cell.saved_us_n for cell in hits),
            hits=counts.hits,
            cost=0.0 if not others else None if mean_ms is None else mean_ms * others,  # where all hit, there is nothing to pay
            eligible=counts.eligible,
            misses_pay=True,
        ),
        each=each,
    )


def _whole(scope: Scope) -> bool:
    """Return whether nothing was filtered: what the cache costs is not split over parts of the traffic."""
    return scope == Scope(purpose=scope.purpose)


def front(conn: Connection, asked: Question, cells: Sequence[Cell], series: Sequence[Count], *, on_record: Extent) -> Saved:
    """Return what the window's hits saved, from what its page has read. cells, series: the window's, the series with its savings."""
    by_step: dict[int, tuple[int, int]] = {}
    for row in series:
        if row.cache_kind == rates.RESPONSE and row.outcome in HITS:
            money, hits = by_step.get(row.at_ms, (0, 0))
            by_step[row.at_ms] = money + row.saved_nusd, hits + row.lookups
    each = _each([money for money, _ in by_step.values()], [hits for _, hits in by_step.values()])
    shown, scope = asked.window, asked.scope
    since_ms, first_ms = None, shown.start_ms
    if asked.usd_per_hour is not None and _whole(scope) and (on_record.first_ms is None or on_record.first_ms > shown.start_ms):
        rows = hit_rate.totals(conn, Window(0, shown.end_ms), scope)
        since_ms = min((row.at_ms for row in rows if row.cache_kind == rates.RESPONSE), default=None)
        first_ms = _first(conn, since_ms, shown.start_ms, on_record)
    return _saved(cells, each, asked, first_ms=first_ms)


def _first(conn: Connection, since_ms: int | None, otherwise_ms: int, on_record: Extent) -> int:
    """Return when what is on record begins: with the raw rows, or with the rollups where older raw rows were removed."""
    first_ms = on_record.first_ms
    if first_ms is None or (window.horizons(conn).raw_ms and since_ms is not None and since_ms < first_ms):
        first_ms = since_ms
    return otherwise_ms if first_ms is None else first_ms


def _each(saved: Sequence[float], hits: Sequence[int]) -> Ratio | None:
    """Return the money that a hit saves, over the dearest step's, with its interval: how sure the mean is, for hits without a price.

    saved, hits: of each step, in the order of time.
    """
    top = max((money / n for money, n in zip(saved, hits, strict=True) if n), default=0.0)
    if top <= 0:
        return None
    return batched([money / top for money in saved], hits)


def _requests(found: Sequence[Step]) -> Ratio | None:
    return batched([one.hits for one in found], [one.eligible for one in found])


def _lifetime(conn: Connection, shown: Window, scope: Scope) -> tuple[Share | None, int | None, str]:
    """Return the hit rate of all that rollups still hold, since when, and why there is none."""
    whole = Window(0, shown.end_ms)
    rows = [row for row in hit_rate.totals(conn, whole, scope) if row.cache_kind == rates.RESPONSE]
    counts = rates.weighed(conn, whole, scope, count((row.outcome, row.lookups) for row in rows))
    since_ms = min((row.at_ms for row in rows), default=None)
    raw_ms = window.horizons(conn).raw_ms
    if counts.sampled and since_ms is not None and since_ms < raw_ms:
        return None, since_ms, f"telemetry is sampled: how much of what came before {words.instant(raw_ms)[:10]} was kept is known no more"
    return counts.hit_rate, since_ms, rates.nothing(counts) if counts.hit_rate is None else ""


def _tokens(cells: Sequence[Cell], found: Sequence[Step]) -> Weighted:
    """Return the hits' share of all tokens, each side scaled to all of its lookups; a side that told too few is no side of 0."""
    of, known = sum(cell.lookups for cell in cells), sum(cell.input_tokens_n for cell in cells)
    if not known:
        return Weighted(None, 0, of, f"no lookup reported its tokens{NO_NEGATIVE}")
    sides = [[cell for cell in cells if (cell.outcome in HITS) is hit] for hit in (True, False)]
    counted = [(sum(cell.input_tokens_n for cell in side), sum(cell.lookups for cell in side)) for side in sides]
    if any(n < min(ENOUGH, all_ / 2) for n, all_ in counted):
        (hits, all_hits), (others, all_others) = counted
        told = f"{words.count(hits)} of {words.count(all_hits)} hits and {words.count(others)} of {words.count(all_others)} other lookups"
        return Weighted(None, known, of, f"too few tokens to compare: {told} reported theirs")
    hit, other = (all_ / n if n else 0.0 for n, all_ in counted)
    return Weighted(
        batched([one.hit_tokens * hit for one in found], [one.hit_tokens * hit + (one.tokens - one.hit_tokens) * other for one in found]),
        known,
        of,
    )


_LEAST_PRICED = 0.5  # of the lookups that must be in models with prices


def _scales(models: Sequence[Priced]) -> dict[str, Scale]:
    """Return what stands for a model's hits and misses without a price: both sides scaled to all of theirs, or the model left out.

    Weighing what has a price alone would make the rate too high where misses lack prices, and too low where hits do.
    """
    return {
        one.model: (one.hits / max(1, one.hits_priced), one.misses / max(1, one.misses_priced))
        for one in models
        if all(n >= min(ENOUGH, of / 2) for n, of in ((one.hits_priced, one.hits), (one.misses_priced, one.misses)))
    }


def _alike(models: Sequence[Priced], scales: Mapping[str, Scale]) -> Scale | None:
    """Return the scale of every model that has a price at all, None where there are several: without a price there is nothing to scale.

    Beyond MOST_MODELS others may have prices, and count nothing.
    """
    if len(models) >= MOST_MODELS:
        return None
    nothing = (0.0, 0.0)
    saved = {scales.get(one.model, nothing)[0] for one in models if one.hits_priced}
    spent = {scales.get(one.model, nothing)[1] for one in models if one.misses_priced}
    return (max(saved, default=0.0), max(spent, default=0.0)) if len(saved) < 2 and len(spent) < 2 else None


def _money(models: Sequence[Priced], scales: Mapping[str, Scale], found: Sequence[Step]) -> Weighted:
    """Return what the hits saved of what all would have cost without the cache; coalesced lookups have no price of their own."""
    mine = [one for one in models if one.model in scales]
    of, known = sum(one.hits + one.misses for one in models), sum(one.hits + one.misses for one in mine)
    reported = sum(one.hits_priced + one.misses_priced for one in mine)
    if not sum(one.hits_priced + one.misses_priced for one in models):
        return Weighted(None, 0, of, f"no lookup has a known price{NO_NEGATIVE}")
    if known < _LEAST_PRICED * of:
        hits = f"{words.count(sum(one.hits_priced for one in models))} of {words.count(sum(one.hits for one in models))} hits"
        misses = f"{words.count(sum(one.misses_priced for one in models))} of {words.count(sum(one.misses for one in models))} misses"
        why = f"too few prices to compare: {hits} and {misses} have one, and a model is weighed only when both its hits and its misses do"
        return Weighted(None, known, of, why)
    ratio = batched([one.saved_nusd for one in found], [one.saved_nusd + one.spent_nusd for one in found])
    return Weighted(ratio, known, of, "" if ratio else "every known price is 0", reported)


def rate_detail(ratio: Ratio | None, share: Share) -> str:
    """Return what stands under the hit rate: numerator, denominator, the interval over batches, and the one as if independent.

    ratio: None = the lookups were not all kept alike, and both counts are estimates.
    """
    counted = f"{words.count(share.k)} of {words.count(share.n)}"
    if ratio is None:
        return f"about {counted}, weighed by 1/p; 95 % as if independent: {words.interval(share)}"
    over = "" if ratio.low_ratio is not None and ratio.design is None else f"95 % by request: {interval(ratio)}; "
    return f"{counted}; {over}{'as' if over else '95 % as'} if independent: {words.interval(share)}"


def interval(ratio: Ratio | None) -> str:
    """Return the interval over batches in words, with that they are few; or that they are too few, or too much alike, for one."""
    if ratio is None:
        return words.NO_DATA
    if ratio.low_ratio is None or ratio.high_ratio is None:
        return f"only {words.many(ratio.clusters, 'step', 'steps')} of time with lookups: too few for an interval ({FEWEST_BATCHES} needed)"
    if ratio.low_ratio == ratio.high_ratio:
        return f"no interval, for all {words.count(ratio.clusters)} batches of time have the same share"
    few = f", fewer than {MIN_CLUSTERS}: rough" if ratio.clusters < MIN_CLUSTERS else ""
    return f"{ratio.low_ratio * 100:.1f}–{ratio.high_ratio * 100:.1f} % over {words.count(ratio.clusters)} batches{few}"


def dials(worth: Worth) -> list[Dial]:
    """Return the weighted rates, the lifetime's, and what is saved net."""
    if worth.sampled:
        refused = [Dial(label, words.NO_DATA, SAMPLED) for label in ("By tokens", "By money")]
        return [*refused, *saved_dials(Saved(sampled=True))]
    return [
        _weighted("By tokens", worth.tokens, "with reported tokens"),
        _weighted("By money", worth.money, "in models with prices"),
        Dial(
            "Lifetime",
            words.percent(worth.lifetime),
            _since(worth.lifetime, worth.since_ms) if worth.lifetime else worth.no_lifetime,
        ),
        *saved_dials(Saved(worth.usd, worth.ms, worth.usd_each)),
    ]


def _since(lifetime: Share, since_ms: int | None) -> str:
    counted = f"{words.count(lifetime.k)} of {words.count(lifetime.n)}"
    return f"{counted} since {words.instant(since_ms)[:10]}, 95 %: {words.interval(lifetime)} as if independent"


def saved_dials(found: Saved) -> list[Dial]:
    """Return money and time saved, net of what the cache costs."""
    if found.sampled:
        return [Dial(label, words.NO_DATA, SAMPLED) for label in ("Money saved, net", "Time saved, net")]
    return [_net_money(found.usd, found.each), _net_time(found.ms)]


def _weighted(label: str, found: Weighted, what: str) -> Dial:
    if found.ratio is None:
        return Dial(label, words.NO_DATA, found.refused or "no eligible lookups")
    detail = f"95 %: {interval(found.ratio)}; {words.count(found.known)} of {words.count(found.of)} {what}"
    if found.reported is not None:
        detail += f", {words.count(found.reported)} of them with a price"
    return Dial(label, words.ratio(found.ratio.ratio), detail)


def _net_money(found: Savings, each: Ratio | None) -> Dial:
    if found.gross is None:
        return Dial("Money saved, net", words.NO_DATA, f"no hit has a known price{NO_NEGATIVE}")
    if not found.enough:
        return Dial("Money saved, net", words.NO_DATA, f"too few prices: {_reported(found, 'a price')}")
    known = f"{_reported(found, 'a price')}{_spread(found, each)}"
    if found.net is None:
        unknown = "what the cache costs is not known for this selection (setting cache_usd_per_hour)"
        return Dial("Money saved, gross", words.money(found.gross), f"{unknown}; {known}")
    detail = f"{words.money(found.gross)} less {words.money(found.cost)}; {known}; {_break_even(found)}"
    return Dial("Money saved, net", words.money(found.net), detail, good=found.net >= 0)


def _net_time(found: Savings) -> Dial:
    if found.gross is not None and not found.enough:
        return Dial("Time saved, net", words.NO_DATA, f"too few times: {_reported(found, 'a saved time')}")
    if found.gross is None or found.net is None:
        return Dial("Time saved, net", words.NO_DATA, "no lookup reported its times")
    detail = (
        f"{words.duration_ms(found.gross)} less {words.duration_ms(found.cost)}; {_reported(found, 'a saved time')}; {_break_even(found)}"
    )
    return Dial("Time saved, net", words.duration_ms(found.net), detail)


def _reported(found: Savings, what: str) -> str:
    return f"{words.count(found.known)} of {words.count(found.of)} hits with {what}" if found.of else "there was no hit"


def _spread(found: Savings, each: Ratio | None) -> str:
    """Return the gross sum's interval: of the mean that a hit saves, over batches."""
    if found.gross is None or each is None or not each.ratio or each.low_ratio is None or each.high_ratio is None:
        return ""
    low, high = (found.gross * limit / each.ratio for limit in (each.low_ratio, each.high_ratio))
    return f", 95 % gross: {words.money(low)} to {words.money(high)}"


def _break_even(found: Savings) -> str:
    if found.break_even_ratio is None:
        if not found.of:
            return "no break-even: what a hit would save is not known"
        return "no break-even: every lookup hit" if found.gross else "no break-even: hits save nothing"
    return "never breaks even" if found.break_even_ratio > 1 else f"pays above a hit rate of {words.ratio(found.break_even_ratio)}"
