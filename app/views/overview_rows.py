"""The Overview's dials and tables, from its view model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import urlencode

from app.analysis.hit_rate import HITS, OUTCOMES
from app.views import causes, rates, words, worth
from app.views.dial import Dial
from app.views.overview import Health, Sum, Traffic

_STATES = {"ok": "OK", "warn": "look", "failed": "failed", "unknown": "unknown"}


def rate_dial(traffic: Traffic) -> Dial:
    """Return the first of the four dials: the hit rate, its change and its course."""
    made, share = _share(traffic, "Hit rate", HITS, up_is_good=True), traffic.counts.hit_rate
    return replace(made, detail=worth.rate_detail(traffic.over(), share)) if share else made


def share_dials(traffic: Traffic) -> list[Dial]:
    """Return each kind's share of the hit rate's denominator."""
    kinds: list[tuple[str, str, bool | None]] = [
        ("Exact hits", "exact_hit", True),
        ("Semantic hits", "semantic_hit", True),
        ("Coalesced", "coalesced", None),
        ("Misses", "miss", False),
    ]
    rest = [outcome for outcome in ("partial_hit", "stale_hit") if traffic.counts.of(outcome)]
    kinds[2:2] = [(words.OUTCOME_NAMES[outcome].capitalize() + "s", outcome, True) for outcome in rest]
    return [_share(traffic, label, (outcome,), up_is_good=good) for label, outcome, good in kinds]


def _share(traffic: Traffic, label: str, outcomes: tuple[str, ...], *, up_is_good: bool | None) -> Dial:
    share, change = traffic.counts.share(*outcomes), traffic.moved(outcomes)
    detail = rates.nothing(traffic.counts)
    if share:
        detail = f"{words.count(share.k)} of {words.count(share.n)}, {rates.labelled(traffic.over(outcomes), share)}"
    good = None if change is None or causes.doubt(change) or up_is_good is None else (change.ratio > 0) == up_is_good
    course = [bucket.counts.share(*outcomes) for bucket in traffic.buckets]
    ratios, sizes = [None if part is None else part.ratio for part in course], [0 if part is None else part.n for part in course]
    spark = "" if traffic.counts.skewed else words.spark(ratios, top=1.0, weights=sizes)
    return Dial(label, words.percent(share), detail, causes.told(change), good, spark=spark)


def other_dials(traffic: Traffic) -> list[Dial]:
    """Requests, latency with and without a hit, money and tokens saved."""
    counts, latency = traffic.counts, traffic.latency
    beside = ", ".join(f"{words.count(counts.of(o))} {words.OUTCOME_NAMES[o]}" for o in ("bypass", "error") if counts.of(o))
    part = f", 1 {latency.unit} of {latency.stride} read" if latency.stride > 1 else ""
    return [
        Dial("Requests", words.count(counts.total), beside or "none bypassed, none failed"),
        *(
            Dial(
                f"Duration, {name}",
                words.duration_ms(side.p50_ms),
                f"median; 95 % within {words.duration_ms(side.p95_ms)}, n = {words.count(side.n)}{part}" if side.n else NONE,
            )
            for name, side in (("hit", latency.hit), ("no hit", latency.no_hit))
        ),
        *saved_dials(traffic),
        Dial(
            "Tokens saved",
            words.NO_DATA if traffic.saved_tokens.value is None else words.count(int(traffic.saved_tokens.value)),
            f"{_known(traffic.saved_tokens, what='known counts')}",
        ),
    ]


NONE = "no requests of this kind"


def saved_dials(traffic: Traffic) -> list[Dial]:
    """Return money and time saved, net, as on Hit rate; beside the money what the misses cost."""
    money, time = worth.saved_dials(traffic.saved)
    spent = f"spent {words.money(traffic.spent_usd.value)} ({_known(traffic.spent_usd)})"
    return [replace(money, detail=f"{money.detail}; {spent}"), time]


def _known(total: Sum, *, what: str = "a known price") -> str:
    if not total.of:
        return "no lookups of this kind"
    return f"{words.count(total.n)} of {words.count(total.of)} with {what}{'' if total.n else worth.NO_NEGATIVE}"


def outcome_rows(traffic: Traffic) -> list[dict[str, object]]:
    return rates.bucket_rows(traffic.buckets, {outcome: words.OUTCOME_NAMES[outcome] for outcome in OUTCOMES})


def late_ms(traffic: Traffic) -> int | None:
    """Return from when on late data may still come; None when all of the time shown is complete."""
    return min((bucket.at_ms for bucket in traffic.buckets if bucket.provisional), default=None)


def latency_rows(traffic: Traffic) -> list[dict[str, object]]:
    late = late_ms(traffic)
    return [
        {
            "time (UTC)": words.instant(bucket.at_ms),
            "requests": bucket.side,
            "median ms": None if bucket.p50_ms is None else round(bucket.p50_ms, 2),
            "p95 ms": None if bucket.p95_ms is None else round(bucket.p95_ms, 2),
            "n": bucket.n,
            "provisional": "yes" if late is not None and bucket.at_ms + traffic.latency.step_ms > late else "",
        }
        for bucket in traffic.latency.buckets
    ]


def _link(namespace: str, query: Mapping[str, str]) -> str:
    """Return the bar's part of a URL for this namespace; '' for the unnamed one."""
    return urlencode({**query, "namespace": namespace}) if namespace else ""


def mover_rows(
    traffic: Traffic, query: Mapping[str, str], *, rate_query: Mapping[str, str] | None = None, limit: int = 8
) -> list[dict[str, object]]:
    """Return the namespaces that moved the total most, in percentage points.

    query: the bar's part of the URL, for the links; rate_query: that of Hit rate, where it has more than Traces.
    """
    return [
        {
            "namespace": words.name(mover.name),
            "effect on total": words.points(mover.effect_ratio),
            "own hit rate": words.percent(mover.now.hit_rate),
            "before": words.percent(mover.before.hit_rate),
            "95 %": words.interval(mover.now.hit_rate),
            "n": mover.now.eligible,
            "n before": mover.before.eligible,
            "rate": f"/hit_rate?{link}" if (link := _link(mover.name, query if rate_query is None else rate_query)) else None,
            "traces": f"/traces?{link}" if (link := _link(mover.name, query)) else None,
        }
        for mover in traffic.movers[:limit]
    ]


def health_rows(health: Sequence[Health]) -> list[dict[str, object]]:
    return [{"what": item.name, "state": _STATES[item.state], "detail": item.detail} for item in health]
