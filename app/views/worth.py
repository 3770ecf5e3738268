"""What the hits are worth: rates weighted by requests, tokens and money, over all time, and net of what the cache costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import Connection

from app.analysis.hit_rate import ELIGIBLE, HITS, count
from app.analysis.intervals import MIN_CLUSTERS, Ratio, Share, clustered, wilson
from app.analysis.savings import Savings, savings
from app.views import rates, words
from app.views.dial import Dial
from storage.reads import hit_rate, window
from storage.reads.hit_rate import Cell, Cluster
from storage.reads.window import Scope, Window

HELD_OUT = "holdout"  # the reason of a miss that would have been a hit, and was sent upstream to learn the truth
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Weighted:
    """A share by another weight. known and of: eligible lookups that reported it, of all. refused: why there is none, '' = there is."""

    ratio: Ratio | None
    known: int
    of: int
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Worth:
    """requests: the hit rate over clusters. without_holdout: had nothing been held out. lifetime: since `since_ms`, same filters."""

    requests: Ratio | None
    tokens: Weighted
    money: Weighted
    without_holdout: Share | None
    lifetime: Share | None
    since_ms: int | None
    usd: Savings
    ms: Savings


NOTHING = Worth(
    None, Weighted(None, 0, 0), Weighted(None, 0, 0), None, None, None, Savings(None, None, None, None), Savings(None, None, None, None)
)


def load(conn: Connection, shown: Window, scope: Scope, cells: Sequence[Cell], *, usd_per_hour: float | None) -> Worth:
    """Return it for the window. cells: the window's, of the same scope. usd_per_hour: what running the cache costs, None = unknown."""
    mine = [cell for cell in cells if cell.cache_kind == rates.RESPONSE and cell.outcome in ELIGIBLE]
    found = hit_rate.clusters(conn, shown, scope)
    first_ms = window.extent(conn).first_ms
    counts = rates.totals(cells)
    lifetime, since_ms = _lifetime(conn, shown, scope)
    timed = [cell for cell in mine if cell.outcome not in HITS]
    timed_n = sum(cell.lookup_us_n for cell in timed)
    held = sum(cell.lookups for cell in mine if cell.outcome == "miss" and cell.reason == HELD_OUT)
    hits = [cell for cell in mine if cell.outcome in HITS]
    hours = (shown.end_ms - max(shown.start_ms, first_ms or shown.start_ms)) / _HOUR_MS
    whole_scope = scope == Scope(purpose=scope.purpose)
    return Worth(
        requests=clustered([one.hits for one in found], [one.eligible for one in found]),
        tokens=_tokens(mine, found),
        money=_money(mine, found),
        without_holdout=wilson(counts.hits + held, counts.eligible) if held else None,
        lifetime=lifetime,
        since_ms=since_ms,
        usd=savings(
            gross=sum(cell.saved_nusd for cell in hits) / 1e9,
            hits_known=sum(cell.saved_usd_n for cell in hits),
            hits=counts.hits,
            cost=usd_per_hour * hours if usd_per_hour is not None and whole_scope else None,
            eligible=counts.eligible,
        ),
        # A hit's saved time is already less its own time in the cache: what is left to pay is the misses' time in it.
        ms=savings(
            gross=sum(cell.saved_us for cell in hits) / 1e3,
            hits_known=sum(cell.saved_us_n for cell in hits),
            hits=counts.hits,
            cost=sum(cell.lookup_us for cell in timed) / 1e3 / timed_n * (counts.eligible - counts.hits) if timed_n else None,
            eligible=counts.eligible,
        ),
    )


def _lifetime(conn: Connection, shown: Window, scope: Scope) -> tuple[Share | None, int | None]:
    """Return the hit rate of all that rollups still hold, and since when."""
    rows = [row for row in hit_rate.totals(conn, Window(0, shown.end_ms), scope) if row.cache_kind == rates.RESPONSE]
    return count((row.outcome, row.lookups) for row in rows).hit_rate, min((row.at_ms for row in rows), default=None)


def _tokens(cells: Sequence[Cell], found: Sequence[Cluster]) -> Weighted:
    of = sum(cell.lookups for cell in cells)
    known = sum(cell.input_tokens_n for cell in cells)
    if not known:
        return Weighted(None, 0, of, "no lookup reported its tokens")
    if any(one.tokens < 0 or one.hit_tokens < 0 for one in found):
        return Weighted(None, known, of, "a negative number of tokens was reported")
    return Weighted(clustered([one.hit_tokens for one in found], [one.tokens for one in found]), known, of)


def _money(cells: Sequence[Cell], found: Sequence[Cluster]) -> Weighted:
    """Return what the hits saved of what all would have cost without the cache; coalesced lookups have no price of their own."""
    priced = [cell for cell in cells if cell.outcome != "coalesced"]
    of = sum(cell.lookups for cell in priced)
    known = sum(cell.saved_usd_n if cell.outcome in HITS else cell.cost_n for cell in priced)
    if not known:
        return Weighted(None, 0, of, "no lookup has a known price")
    if any(one.saved_nusd < 0 or one.spent_nusd < 0 for one in found):
        return Weighted(None, known, of, "a negative cost was reported")
    return Weighted(clustered([one.saved_nusd for one in found], [one.saved_nusd + one.spent_nusd for one in found]), known, of)


def interval(ratio: Ratio | None) -> str:
    """Return the interval over clusters in words, or that there are too few of them for one."""
    if ratio is None:
        return words.NO_DATA
    if ratio.low_ratio is None or ratio.high_ratio is None:
        return f"only {words.many(ratio.clusters, 'cluster', 'clusters')}: too few for an interval ({MIN_CLUSTERS} needed)"
    return f"{ratio.low_ratio * 100:.1f}–{ratio.high_ratio * 100:.1f} % over {words.count(ratio.clusters)} clusters"


def dials(worth: Worth) -> list[Dial]:
    """Return the weighted rates, the lifetime's, and what is saved net."""
    return [
        _weighted("By tokens", worth.tokens, "reported tokens", _TOKENS),
        _weighted("By money", worth.money, "a known price", _MONEY),
        Dial(
            "Lifetime",
            words.percent(worth.lifetime),
            f"since {words.instant(worth.since_ms)[:10]}, n = {words.count(worth.lifetime.n)}" if worth.lifetime else "no eligible lookups",
            help="The hit rate of all lookups on record with these filters. It moves slowly: judge by the window's.",
        ),
        _net_money(worth.usd),
        _net_time(worth.ms),
    ]


_TOKENS = "Input and output tokens of the answers that hits served, of those of all eligible lookups that reported tokens."
_MONEY = "What the hits' calls would have cost, of what all would have cost without the cache. Lookups without a price are left out."


def _weighted(label: str, found: Weighted, what: str, meaning: str) -> Dial:
    if found.ratio is None:
        return Dial(label, words.NO_DATA, found.refused or "no eligible lookups", help=meaning)
    detail = f"95 %: {interval(found.ratio)}; {words.count(found.known)} of {words.count(found.of)} with {what}"
    return Dial(label, words.ratio(found.ratio.ratio), detail, help=meaning)


def _net_money(found: Savings) -> Dial:
    meaning = "What the hits saved, at the mean of those with a known price, less the setting cache_usd_per_hour for the time shown. "
    meaning += "Break-even: the hit rate at which nothing is left. Wrong answers cost nothing here."
    if found.gross is None:
        return Dial("Money saved, net", words.NO_DATA, "no hit has a known price", help=meaning)
    if found.net is None:
        gross = f"gross {words.money(found.gross)}; what the cache costs is not known for this selection"
        return Dial("Money saved, gross", words.money(found.gross), f"{gross} (setting cache_usd_per_hour)", help=meaning)
    detail = f"{words.money(found.gross)} less {words.money(found.cost)}; {_break_even(found)}"
    return Dial("Money saved, net", words.money(found.net), detail, good=found.net >= 0, help=meaning)


def _net_time(found: Savings) -> Dial:
    meaning = "The hits' upstream time, less their own time in the cache, less the time that misses spent in the cache in vain."
    if found.gross is None or found.net is None:
        return Dial("Time saved, net", words.NO_DATA, "no lookup reported its times", help=meaning)
    detail = f"{words.duration_ms(found.gross)} less {words.duration_ms(found.cost)}; {_break_even(found)}"
    return Dial("Time saved, net", words.duration_ms(found.net), detail, help=meaning)


def _break_even(found: Savings) -> str:
    if found.break_even_ratio is None:
        return "no break-even: hits save nothing"
    return "never breaks even" if found.break_even_ratio > 1 else f"pays above a hit rate of {words.ratio(found.break_even_ratio)}"
