"""What may have changed between two windows of prompts, panel by panel, judged against chance and the clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.analysis import adwin, drift
from app.analysis.clusters import parse
from app.analysis.drift import Change
from app.views import causes
from app.views.likeness import NO_VECTORS, Vectors, grouping, thinned
from storage.reads.drift import Asked, Mix
from storage.reads.window import Window

FEW = 100  # lookups in a window below which its mix is not worth comparing
FALSE_SHARE = 0.05  # of the panels that are called changed, at most so many wrongly
_NEAR = 0.8  # of the lookups compared: as many as that tell as much
# The least effect worth acting on, by panel, each in its own unit.
LEAST = {"mix": 0.02, "vectors": 0.005, "entropy": 0.3, "similarity": 0.1, "length": 0.1, "hit_rate": causes.MIN_CHANGE}
NAMES = {
    "mix": "mix of prompts",
    "vectors": "prompts as vectors",
    "entropy": "entropy",
    "similarity": "similarity of candidates",
    "length": "length of prompts",
    "hit_rate": "hit rate",
}


@dataclass(frozen=True, slots=True)
class Panel:
    """One thing that may have changed. change: None = too little to tell. p_value: adjusted for the number of panels.

    seasonal: against the same time a day or more before, where that is on record and the first comparison raised an alarm.
    equal: the first comparison once more, of no more lookups than that one has.
    """

    key: str
    change: Change | None
    p_value: float | None
    seasonal: Change | None = None
    psi: Change | None = None
    equal: Change | None = None

    @property
    def large(self) -> bool:
        """True when the effect is worth acting on: that of a mix above what chance gives, others as they are."""
        if self.change is None:
            return False
        beyond = self.change.null if self.key in {"mix", "vectors"} else 0.0
        return self.change.effect - beyond >= LEAST[self.key]

    @property
    def certain(self) -> bool:
        """True when chance is ruled out over the whole window and in both halves of it."""
        return self.change is not None and self.p_value is not None and self.p_value <= FALSE_SHARE and self.change.halves

    @property
    def rhythm(self) -> bool:
        """True when the same time before was alike: the change is the clock's.

        That chance is not ruled out says so only where what was seen is nearer to chance than to the change, and, of fewer lookups, where
        so few would show the change: it is then twice as far from chance's median as 95 of 100 deals.
        """
        if self.change is None or self.seasonal is None or self.equal is None or self.seasonal.p_value <= FALSE_SHARE:
            return False
        reach = self.equal.effect - self.equal.median
        if self.seasonal.effect - self.equal.median >= reach / 2:
            return False
        return self.seasonal.n >= _NEAR * self.change.n or reach >= 2 * (self.equal.null - self.equal.median)

    @property
    def unsure(self) -> bool:
        """True when the same time before has too few lookups to tell whether it was alike."""
        return self.seasonal is not None and self.seasonal.p_value > FALSE_SHARE and not self.rhythm

    @property
    def alarm(self) -> bool:
        return self.certain and self.large and not self.rhythm


def enough(vectors: Vectors, *mixes: Mix) -> bool:
    """Return whether each of the windows has vectors enough to be compared by them."""
    return all(sum(row.prompt_hash in vectors.of for row in thinned(mix)) >= FEW for mix in mixes)


def _changes(
    mine: Mix, earlier: Mix, group: Mapping[str, str], keys: Sequence[str], vectors: Vectors = NO_VECTORS
) -> dict[str, Change | None]:
    """Return the change of each panel asked for. `psi` is the mix's other measure."""

    def codes(name: Callable[[Asked], str]) -> tuple[drift.Ints, drift.Ints]:
        """Return the kinds numbered by name, not by who came first: of equally rare ones the lower numbers keep a place of their own."""
        named = [[name(row) for row in mix.rows] for mix in (earlier, mine)]
        number = {one: place for place, one in enumerate(sorted({*named[0], *named[1]}))}
        sides = [np.array([number[one] for one in side], dtype=np.int64) for side in named]
        return sides[0], sides[1]

    grouped = codes(lambda row: group[row.prompt_hash]) if {"mix", "psi"} & set(keys) else None

    def kinds(statistic: drift.Statistic) -> Change | None:
        return None if grouped is None else drift.of_kinds(*grouped, statistic)

    def prompts() -> Change | None:
        before, now = codes(lambda row: row.prompt_hash)
        return drift.of_kinds(before, now, drift.ENTROPY)

    def numbers(of: Callable[[Asked], float | None]) -> list[drift.Floats]:
        return [np.array([value for row in mix.rows if (value := of(row)) is not None], dtype=np.float64) for mix in (earlier, mine)]

    def compared(sides: list[drift.Floats]) -> Change | None:
        return drift.of_numbers(sides[0], sides[1]) if min(map(len, sides)) >= FEW else None

    def as_vectors() -> Change | None:
        if vectors.of:
            told = [[vectors.of[row.prompt_hash] for row in thinned(mix) if row.prompt_hash in vectors.of] for mix in (earlier, mine)]
            return drift.of_vectors(np.stack(told[0]), np.stack(told[1]))
        hashes = [[row.prompt_simhash for row in mix.rows if len(row.prompt_simhash) == 16] for mix in (earlier, mine)]
        n = min(drift.MOST_HASHED, *map(len, hashes))
        sides = [parse([side[at] for at in drift.thinned(len(side), n)]) for side in hashes]
        return drift.of_hashes(*sides) if n >= FEW else None

    asked: dict[str, Callable[[], Change | None]] = {
        "mix": lambda: kinds(drift.JS),
        "psi": lambda: kinds(drift.PSI),
        "vectors": as_vectors,
        "entropy": prompts,
        "similarity": lambda: compared(numbers(lambda row: row.similarity)),
        "length": lambda: compared(numbers(lambda row: row.tokens)),
    }
    return {key: asked[key]() for key in keys}


def judge(mine: Mix, earlier: Mix, group: Mapping[str, str], vectors: Vectors, cut: float | None) -> tuple[Panel, ...]:
    """Return every panel, judged. cut: by how much the hit rate changed within this time, 0 = not, None = it cannot be told."""
    keys = ("mix", "vectors", "entropy", "similarity", "length")
    found = _changes(mine, earlier, group, [*keys, "psi"], vectors)
    n = min(len(mine.rows), len(earlier.rows))
    # Adaptive windowing gives no p-value: a cut is as unlikely as its delta says.
    rate = None if cut is None else Change(cut, 0.0, adwin.DELTA if cut else 1.0, n, cut > 0)
    every = {**{key: found[key] for key in keys}, "hit_rate": rate}
    told = [(key, change) for key, change in every.items() if change is not None]
    adjusted = dict(zip([key for key, _ in told], drift.adjusted([change.p_value for _, change in told]), strict=True))
    return tuple(Panel(key, every[key], adjusted.get(key), psi=found["psi"] if key == "mix" else None) for key in (*keys, "hit_rate"))


def against_season(
    panels: tuple[Panel, ...],
    season: Window,
    compared: tuple[Mix, Mix],
    other: Mix,
    vectors: Vectors,
    *,
    alike: tuple[Mapping[str, str], bool],
) -> tuple[tuple[Panel, ...], Window | None]:
    """Return the panels, those in alarm compared with the same time a day or more before, where it is recorded.

    compared: the window and the one before it. alike: how these were grouped. The measure is the alarm's own: vectors where it was of
    vectors, clusters where it was of clusters; else there is no verdict.
    """
    mine, earlier = compared
    if min(len(other.rows), len(mine.rows)) < FEW:
        return panels, None
    joint, joined = grouping(mine, other, vectors=vectors)
    measured = not vectors.of or enough(vectors, mine, other)
    unlike = {"mix": not measured or joined != alike[1], "vectors": not measured, "hit_rate": True}
    keys = [panel.key for panel in panels if panel.certain and panel.large and not unlike.get(panel.key)]
    found = _changes(mine, other, joint, keys, vectors)
    n = len(other.rows)
    few = n < min(len(mine.rows), len(earlier.rows))
    again = _changes(_few(mine, n), _few(earlier, n), alike[0], keys, vectors) if few else {one.key: one.change for one in panels}
    return tuple(Panel(one.key, one.change, one.p_value, found.get(one.key), one.psi, again.get(one.key)) for one in panels), season


def _few(mix: Mix, n: int) -> Mix:
    """Return n of the lookups, evenly spread."""
    return replace(mix, rows=tuple(mix.rows[at] for at in drift.thinned(len(mix.rows), min(n, len(mix.rows)))))
