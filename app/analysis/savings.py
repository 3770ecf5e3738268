"""What hits save, less what the cache costs, and the hit rate from which it pays."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Savings:
    """Of one window. gross: what the hits saved. cost: what the cache cost; None = not known. Both in US dollars, or both in ms.

    net: gross - cost. break_even_ratio: the hit rate at which net is 0, at today's saving a hit and cost a lookup; above 1 = never.
    """

    gross: float | None
    cost: float | None
    net: float | None
    break_even_ratio: float | None


def savings(*, gross: float | None, hits_known: int, hits: int, cost: float | None, eligible: int) -> Savings:
    """Return what `hits` hits of `eligible` lookups saved, when `hits_known` of them reported `gross` in all.

    The saving of those that did not report is taken as that of those that did. break-even: h (C_miss - C_hit) = C_lookup. Wrong
    answers cost nothing here: they are judged on Thresholds. A saving below 0 in all has no break-even.
    """
    if gross is None or not hits_known or not hits or not eligible:
        return Savings(gross if hits_known else None, cost, None, None)
    each = gross / hits_known
    whole = each * hits
    if cost is None:
        return Savings(whole, None, None, None)
    return Savings(whole, cost, whole - cost, cost / eligible / each if each > 0 else None)
