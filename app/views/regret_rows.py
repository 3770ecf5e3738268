"""The tables of *Regret & capacity*, and what its numbers rest on, in words."""

from __future__ import annotations

import math
from typing import Any, Literal

from app.analysis.regret import CurvePoint, Findings, Knob
from app.views import words
from app.views.regret import POLICY_NAMES, Regret, Row, by_prize, gain_words, hits_words, knob_words, range_words, space_words


def namespace_rows(view: Regret) -> list[dict[str, Any]]:
    rows = []
    for row in sorted(view.rows, key=by_prize, reverse=True):
        found = row.findings
        shown: dict[str, Any] = {"namespace": words.name(row.namespace), "lookups": row.analysis.lookups}
        if found is None:
            why = "written by another version" if row.unreadable else row.refused or f"too little data ({words.count(row.usable)} usable)"
            rows.append({**shown, "best knob": why, "age": words.age(view.now_ms - row.analysis.at_ms)})
            continue
        low, high = found.regret
        best = found.best_knob
        rows.append(
            {
                **shown,
                "regret": range_words(low.usd, high.usd, words.money),
                "regret, hits": range_words(low.hits, high.hits, hits_words),
                "best knob": knob_words(best, found) if best else "none wins a hit",
                "wins": gain_words(best, found) if best else "",
                "worth it": "yes" if found.worth_it else "no",
                "best fixed set": words.money(found.fixed.usd) if found.fixed.usd is not None else hits_words(found.fixed.hits),
                "recorded": words.money(found.recorded.usd) if found.recorded.usd is not None else hits_words(found.recorded.hits),
                "method": f"{found.at_lifetime.method}; any lifetime: {found.any_lifetime.method}",
                "age": words.age(view.now_ms - row.analysis.at_ms),
            }
        )
    return rows


def past_rows(view: Regret) -> list[dict[str, Any]]:
    """Return the namespaces that are in no sum, for their newest analysis is of another time than the others'."""
    return [
        {
            "namespace": words.name(row.namespace),
            "lookups": row.analysis.lookups,
            "analysed until (UTC)": words.instant(row.analysis.end_ms),
            "age": words.age(view.now_ms - row.analysis.end_ms),
        }
        for row in sorted(view.past, key=lambda row: -row.analysis.end_ms)
    ]


Curve = Literal["space", "lifetime"]
_WHERE = {
    "keep": "store_bytes, or maxmemory of Redis",
    "lifetime": "ttl_s, or the namespace's policy",
    "semantic": "the threshold, on Thresholds",
}


def _off(knob: Knob) -> str:
    return "" if knob.error is None or not knob.error.hits else f"± {words.count(round(knob.error.hits))}"


def knob_rows(found: Findings) -> list[dict[str, Any]]:
    return [
        {
            "knob": knob_words(knob, found),
            "hits": round(knob.gain.hits),
            "of its lookups": min(100.0, knob.gain.hits / max(1.0, found.of) * 100),
            **({"hits, 95 %": _off(knob)} if found.sampled else {}),
            "money": words.money(knob.gain.usd),
            "time": words.duration_ms(knob.gain.ms),
            "space it takes": "" if knob.space is None else space_words(knob.space, found),
            "where it is set": _WHERE[knob.name],
        }
        for knob in found.knobs
    ]


def tournament_rows(found: Findings) -> list[dict[str, Any]]:
    """Return each policy's miss ratio at each share of today's space, what saves most at a quarter of it first, Belady's as the limit."""
    shares = sorted({one.share for one in found.tournament}, reverse=True)
    ratio = {(one.policy, one.share): one for one in found.tournament}
    rows = []
    for policy in sorted(
        POLICY_NAMES, key=lambda name: (name == "belady", -(ratio[name, 0.25].saved.usd or 0.0), ratio[name, 0.25].miss_ratio)
    ):
        row: dict[str, Any] = {"policy": POLICY_NAMES[policy]}
        for share in shares:
            row[f"missed at {share * 100:.0f} %"] = ratio[policy, share].miss_ratio * 100
        rows.append({**row, "saved at 25 %": words.money(ratio[policy, 0.25].saved.usd)})
    return rows


def space_rows(found: Findings) -> list[dict[str, Any]]:
    plain = dict(found.lru_curve)
    return [
        {
            "space": space_words(point.at, found),
            "missed, today's lifetime": point.miss_ratio * 100,
            "missed, no expiry": plain[point.at] * 100 if point.at in plain else None,
            "hits": round(point.saved.hits),
            "n": found.lookups,
            "saved": words.money(point.saved.usd),
            "time saved": words.duration_ms(point.saved.ms),
        }
        for point in found.space_curve
    ]


def lifetime_rows(found: Findings) -> list[dict[str, Any]]:
    return [
        {
            "lifetime": words.age(point.at) + (" (today)" if point.at == found.ttl_ms else ""),
            "missed": point.miss_ratio * 100,
            "hits": round(point.saved.hits),
            "n": found.lookups,
            "saved": words.money(point.saved.usd),
            "time saved": words.duration_ms(point.saved.ms),
            "space it takes": "" if point.space is None else space_words(point.space, found),
        }
        for point in found.ttl_curve
    ]


def what_if(found: Findings, curve: Curve, held: str) -> str:
    """Return in words what the replay says of the point of a curve that is nearest to what the URL holds; '' where it holds no number."""
    points = found.space_curve if curve == "space" else found.ttl_curve
    try:
        wanted = float(held)
    except ValueError:
        return ""
    if not points or not 0 < wanted < math.inf:
        return ""

    def nearest(to: float) -> CurvePoint:
        return min(points, key=lambda point: abs(math.log(max(point.at, 1e-9) / to)))

    def called(point: CurvePoint) -> str:
        return f"a {curve} of {value_words(found, curve, point)}"

    point, today = nearest(wanted), nearest(max(found.capacity if curve == "space" else found.ttl_ms, 1e-9))
    missed = f"With {called(point)}, {words.ratio(point.miss_ratio)} would be missed"
    where = f"It is set by {_WHERE['keep' if curve == 'space' else 'lifetime']}"
    where += ", for all namespaces together." if curve == "space" else f": ttl_s = {point.at / 1000:.0f}."
    if point is today:
        return f"{missed} in the replay: that is where it stands today. {where}"
    hits = point.saved.hits - today.saved.hits
    usd = None if point.saved.usd is None or today.saved.usd is None else point.saved.usd - today.saved.usd
    more = f"{words.count(round(abs(hits)))} hits {'more' if hits >= 0 else 'fewer'}"
    money = "" if usd is None else f", {words.money(abs(usd))} {'more' if usd >= 0 else 'less'} saved"
    space = "" if point.space is None or curve == "space" else f", in {space_words(point.space, found)}"
    return f"{missed} instead of {words.ratio(today.miss_ratio)} with {called(today)}: {more}{money}{space}. {where}"


def value_words(found: Findings, curve: Curve, point: CurvePoint) -> str:
    return space_words(point.at, found) if curve == "space" else words.age(point.at)


def best(found: Findings, curve: Curve) -> CurvePoint | None:
    """Return the least of the points of a curve that miss no more than a hundredth of the lookups beyond its best one."""
    points = found.space_curve if curve == "space" else found.ttl_curve
    least = min((point.miss_ratio for point in points), default=0.0)
    return min((point for point in points if point.miss_ratio <= least + 0.01), key=lambda point: point.at, default=None)


def notes(row: Row) -> list[str]:
    """Return what the numbers rest on, in words: sample, sizes, prices, lookups left out, semantic matches."""
    found = row.findings
    if found is None:
        return []
    told = [f"{words.span(row.analysis.start_ms, row.analysis.end_ms)}, computed at {words.instant(row.analysis.at_ms)} UTC"]
    if (sample := found.sampled) is not None:
        others = f"{words.ratio(sample.rate)} of them by their hash"
        if sample.certain:
            busiest = f"the busiest {words.count(sample.certain)}, which have {words.ratio(sample.certain_ratio)} of the lookups"
            others = f"{busiest}, and {words.ratio(sample.rate)} of the others by their hash"
        told.append(f"a sample of the keys: {others}; amounts are scaled up to all lookups")
        told.append(f"lookups of one key within {words.age(sample.burst_ms)} count as one burst")
        told.append("policies, curves and spaces are of the same sample, without an interval")
    keys = words.count(found.keys)
    told.append(f"sizes known for {words.ratio(found.known.sizes)} of {keys} keys, prices for {words.ratio(found.known.usd)}")
    if found.known.sizes and (found.known.sizes < 1 or found.known.usd < 1):
        told.append("the others count as the median")
    if not found.known.sizes:
        told.append("no size is known, so space is counted in entries")
    if found.known.refused:
        told.append(f"{words.count(found.known.refused)} sizes, times or prices below 0 or beyond all measure were not used")
    told += (f"left out: {words.count(n)} {reason}" for reason, n in sorted(found.left_out.items()) if n)
    told.append(
        f"semantic matches: {found.semantic.why_not}"
        if found.semantic.high is None
        else f"semantic matches: {words.count(found.semantic.links)} prompts linked, so the upper end takes linked prompts as one"
    )
    told.append(f"lifetime from the {row.analysis.parameters.get('ttl_from', 'default')}")
    told.append(f"curve without expiry: {found.lru_method}")
    return told
