"""Lookups of a window of which each one read stands for as many, whatever a sampler kept."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from sqlalchemy import Connection

from app.analysis.hit_rate import Counts, count
from app.views import rates, words
from storage.reads import drift as reads
from storage.reads import hit_rate, sampling
from storage.reads.drift import Mix
from storage.reads.window import Scope, Window

_NOTHING = Mix((), 1)


@dataclass(frozen=True, slots=True)
class Even:
    """A window's lookups and the counts of all that came. refused: why shares of them say nothing of all; '' = they do."""

    mix: Mix
    counts: Counts

    @property
    def refused(self) -> str:
        return rates.refusal(self.counts)

    @property
    def fair(self) -> Mix:
        """The lookups, none where shares of them say nothing of all."""
        return _NOTHING if self.refused else self.mix


def read(conn: Connection, window: Window, scope: Scope, *, thorough: bool) -> Even:
    """Return the window's mix, as `reads.mix` does. Where lookups were kept with several known probabilities, thinned to the least of them.

    Each lookup kept with p stays with the chance least / p: all that stay were then kept with one probability, so every statistic of
    them is one of all lookups, at the price of n. The draw is the same for the same lookups.
    """
    counts = count((row.outcome, row.lookups) for row in hit_rate.totals(conn, window, scope) if row.cache_kind == rates.RESPONSE)
    counts = rates.weighed(conn, window, scope, counts)
    found = reads.mix(conn, window, scope, count=counts.total, thorough=thorough)
    if counts.untold or not counts.skewed:
        return Even(found, counts)
    least = min(one.ratio for one in counts.sampled if one.ratio)
    told = sampling.ratios(conn, [row.id for row in found.rows])
    chances = np.array([least / told.get(row.id, 1.0) for row in found.rows])
    stay = np.random.default_rng(0).random(len(chances)) < chances
    kept, left_out = (tuple(row for row, stays in zip(found.rows, stay, strict=True) if bool(stays) is side) for side in (True, False))
    return Even(replace(found, rows=kept, left_out=left_out), counts)


def note(*sides: Even) -> str:
    """Return what sampling means for a comparison of these windows, '' where nobody samples or nothing can be told."""
    told = [one.counts for one in sides if one.counts.sampled and not one.refused]
    if not told:
        return ""
    n, of = (words.count(sum(values)) for values in ([part.lookups for one in told for part in one.sampled], [one.total for one in told]))
    head = f"Telemetry is sampled: {n} of {of} lookups were kept with a known probability"
    fair = "as many of those kept more often are left out, at random, as make all stand for as many" if any(c.skewed for c in told) else ""
    return f"{head}; {fair or 'the same for all of a window'}. New and gone is what is among those kept on one side alone"
