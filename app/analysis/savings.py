"""What hits save, less what the cache costs, and the hit rate from which it pays."""

from __future__ import annotations

from dataclasses import dataclass, replace

ENOUGH = 30  # of the hits, from which their mean stands for the others; or half of them


@dataclass(frozen=True, slots=True)
class Savings:
    """Of one window. gross: what the hits saved. cost: what the cache cost; None = not known. Both in US dollars, or both in ms.

    net: gross - cost. break_even_ratio: the hit rate at which net is 0, at today's saving a hit and today's cost; above 1 = never.
    known, of: hits that reported a saving, of all hits.
    """

    gross: float | None
    cost: float | None
    net: float | None
    break_even_ratio: float | None
    known: int = 0
    of: int = 0

    @property
    def enough(self) -> bool:
        """True when those that reported stand for the others: 30 of them, or half."""
        return self.known >= min(ENOUGH, self.of / 2)


def savings(*, gross: float | None, hits_known: int, hits: int, cost: float | None, eligible: int, misses_pay: bool = False) -> Savings:
    """Return what `hits` hits of `eligible` lookups saved, when `hits_known` of them reported `gross` in all.

    The saving of those that did not report is taken as that of those that did; nothing is, where too few did. cost: of all lookups, or
    with misses_pay of those that did not hit, which are then fewer at a higher hit rate. break-even: h U = c where all lookups pay c each
    and a hit saves U; h U = (1 - h) c where the misses do. Wrong answers cost nothing here: they are judged on Thresholds. A saving
    below 0 in all has no break-even. Without a hit nothing was saved, and all of the cost is lost.
    """
    if eligible and not hits:
        return Savings(0.0, cost, None if cost is None else -cost, None)
    if gross is None or not hits_known or not eligible:
        return Savings(gross if hits_known else None, cost, None, None, hits_known, hits)
    each = gross / hits_known
    whole = Savings(each * hits, cost, None, None, hits_known, hits)
    if not whole.enough or cost is None:
        return whole
    net = each * hits - cost
    if each <= 0 or (misses_pay and eligible == hits):
        return replace(whole, net=net)
    paid = cost / (eligible - hits) if misses_pay else cost / eligible
    return replace(whole, net=net, break_even_ratio=paid / (each + paid) if misses_pay else paid / each)
