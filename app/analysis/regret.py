"""What a cache lost against the best it could have done, and which knob would win it back: the findings, and what to conclude.

Plain values only: the worker computes findings (`what_if`), stores them, and the page reads them back.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

FEW: Final = 200  # lookups below which nothing is concluded
WORTH_RATIO: Final = 0.01  # of the lookups: a knob that wins fewer hits than this is not worth anyone's time


@dataclass(frozen=True, slots=True)
class Event:
    """A lookup that an exact key could have answered. key: what must be equal for a hit, a purge's generation included.

    hit: it was one. semantic: another key's entry served it. age_ms: of the entry that served. None = not recorded.
    count: such lookups in one burst, the first at at_ms; ms and usd are their means. part: of its key in a sample of keys (key_sample).
    """

    at_ms: int
    key: str
    hit: bool
    semantic: bool = False
    age_ms: float | None = None
    size_bytes: float | None = None
    ms: float | None = None
    usd: float | None = None
    count: int = 1
    part: int = -1


@dataclass(frozen=True, slots=True)
class Amount:
    """hits, and what they save. ms, usd: None where no lookup of the stream says what one saves."""

    hits: float
    ms: float | None = None
    usd: float | None = None

    def less(self, other: Amount) -> Amount:
        """Return this less the other, not below 0: what is not there cannot be won."""
        return Amount(
            _above(self.hits, other.hits),
            None if self.ms is None or other.ms is None else _above(self.ms, other.ms),
            None if self.usd is None or other.usd is None else _above(self.usd, other.usd),
        )


@dataclass(frozen=True, slots=True)
class Bounds:
    """An optimum's amounts at least and at most. method: what gave the upper end: FOO, PFOO, or `exact`."""

    low: Amount
    high: Amount
    method: str


@dataclass(frozen=True, slots=True)
class Contestant:
    """A policy at a share of the space that today's lifetime takes (0…1). miss_ratio: of all lookups of the stream."""

    policy: str
    share: float
    space: float
    miss_ratio: float
    saved: Amount


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """at: a space, or a lifetime in ms. space: the most that live entries take there."""

    at: float
    miss_ratio: float
    saved: Amount
    space: float | None = None


@dataclass(frozen=True, slots=True)
class Knob:
    """A change, and what it would have won over what was recorded. name: keep | lifetime | semantic. to_ms: the new lifetime.

    error: of the gain, where keys were sampled.
    """

    name: str
    gain: Amount
    to_ms: float | None = None
    space: float | None = None
    error: Amount | None = None


@dataclass(frozen=True, slots=True)
class Semantic:
    """The optimum if prompts that one answer served, or that a person labelled so, were one prompt; None where it was not computed.

    had, kept: the hits that were recorded, and those of a cache that keeps entries until they expire with the semantic hits that were
    served. Valued as those of `high` are, a group's hits alike.
    """

    links: int
    merged_keys: int
    high: Amount | None
    had: Amount | None = None
    kept: Amount | None = None
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Known:
    """What the lookups told. unit: bytes, or entries where no size is known. sizes, ms, usd: the share (0…1) of the keys that said what
    they take and save; the others count as the median. refused: values below 0 or infinite, which count as not known.
    """

    unit: str
    sizes: float
    ms: float
    usd: float
    refused: int


@dataclass(frozen=True, slots=True)
class Sampled:
    """How keys were sampled, and what that may be wrong by: half the widths of 95 % intervals.

    rate: the part (0…1) that was read of all keys but the `certain` ones, which have certain_ratio (0…1) of the lookups. burst_ms: lookups
    of one key within it were replayed as one burst. recorded, low, high: the errors of the hits recorded and of the ends of the regret.
    """

    rate: float
    certain: int
    certain_ratio: float
    burst_ms: int
    recorded: Amount
    low: Amount
    high: Amount


@dataclass(frozen=True, slots=True)
class Findings:
    """A namespace over a time. lookups, keys: those replayed; of: all lookups that they stand for, as amounts and spaces do.

    sampled: None = every key was read. left_out: reason -> lookups that no setting of the cache could have changed. capacity: the
    space that today's lifetime takes at most.
    """

    lookups: int
    keys: int
    of: float
    sampled: Sampled | None
    left_out: Mapping[str, int]
    known: Known
    ttl_ms: float
    capacity: float
    recorded: Amount
    served_semantic: Amount
    replayed: Amount
    at_lifetime: Bounds
    any_lifetime: Bounds
    fixed: Amount
    semantic: Semantic
    tournament: tuple[Contestant, ...]
    space_curve: tuple[CurvePoint, ...]
    lru_curve: tuple[tuple[float, float], ...]  # (space, miss ratio) of LRU without expiry; () = not known
    lru_method: str
    ttl_curve: tuple[CurvePoint, ...]
    knobs: tuple[Knob, ...]

    @property
    def enough(self) -> bool:
        return self.lookups >= FEW

    @property
    def regret(self) -> tuple[Amount, Amount]:
        """What a perfect cache would have saved beyond what was recorded: at least, with today's lifetime and exact keys; at most, with
        any lifetime, or with semantic matches if those were computed and reach further."""
        low = self.at_lifetime.low.less(self.recorded)
        high = self.any_lifetime.high.less(self.recorded)
        if self.semantic.high is not None and self.semantic.had is not None:
            wider = self.semantic.high.less(self.semantic.had)
            high = greater(high, wider) if wider.hits else high
        return low, greater(high, low)

    @property
    def exact_lookups(self) -> float:
        """Lookups that no other key's entry served, of all keys: what miss ratios are of."""
        return max(1.0, self.of - self.served_semantic.hits)

    @property
    def miss_ratio(self) -> float:
        """The recorded miss ratio of those, 0…1."""
        return min(1.0, max(0.0, 1 - self.recorded.hits / self.exact_lookups))

    @property
    def best_knob(self) -> Knob | None:
        """The knob that wins most: in money where that is known, else in hits. None when none wins a hit."""
        winning = [knob for knob in self.knobs if knob.gain.hits > 0]
        return max(winning, key=lambda knob: (knob.gain.usd or 0.0, knob.gain.hits), default=None)

    @property
    def worth_it(self) -> bool:
        """Whether the best knob wins enough, by the lower end of its interval where keys were sampled."""
        best = self.best_knob
        sure = 0.0 if best is None else best.gain.hits - (best.error.hits if best.error else 0.0)
        return best is not None and self.enough and sure >= WORTH_RATIO * self.of


def _above(a: float, b: float) -> float:
    """Return a - b where that is more than the rounding of their sums, else 0."""
    return a - b if a - b > 1e-9 * abs(a) else 0.0


def total(a: Amount, b: Amount) -> Amount:
    """Return both together; what one does not know, the sum does not know."""
    return Amount(
        a.hits + b.hits,
        None if a.ms is None or b.ms is None else a.ms + b.ms,
        None if a.usd is None or b.usd is None else a.usd + b.usd,
    )


@dataclass(frozen=True, slots=True)
class Ends:
    """The least and the most regret, and of how many lookups: those replayed, and all that they stand for.

    low_error, high_error: half the widths of their 95 % intervals; None = no key was left out.
    """

    low: Amount
    high: Amount
    replayed: int
    lookups: float
    low_error: Amount | None = None
    high_error: Amount | None = None

    @property
    def ratios(self) -> tuple[float, float]:
        """Both as parts of the lookups (0…1)."""
        low, high = (min(1.0, end.hits / self.lookups) if self.lookups else 0.0 for end in (self.low, self.high))
        return low, high

    @property
    def limits(self) -> tuple[float, float]:
        """As `ratios`, from the lower limit of the least to the upper limit of the most."""
        low, high = self.ratios
        if self.low_error is None or self.high_error is None or not self.lookups:
            return low, high
        return max(0.0, low - self.low_error.hits / self.lookups), min(1.0, high + self.high_error.hits / self.lookups)


def ends(found: Findings) -> Ends:
    low, high = found.regret
    sampled = found.sampled
    return Ends(low, high, found.lookups, found.of, *((None, None) if sampled is None else (sampled.low, sampled.high)))


def whole(found: Iterable[Ends]) -> Ends | None:
    """Return the regret of several namespaces together; each has its space to itself, so the ends sum. None = none."""
    several = list(found)
    if not several:
        return None
    summed = several[0]
    for other in several[1:]:
        summed = Ends(
            total(summed.low, other.low),
            total(summed.high, other.high),
            summed.replayed + other.replayed,
            summed.lookups + other.lookups,
            _together(summed.low_error, other.low_error),
            _together(summed.high_error, other.high_error),
        )
    return summed


def _together(a: Amount | None, b: Amount | None) -> Amount | None:
    """Return the error of a sum whose parts err apart from each other."""
    if a is None or b is None:
        return b if a is None else a
    ms = None if a.ms is None or b.ms is None else math.hypot(a.ms, b.ms)
    return Amount(math.hypot(a.hits, b.hits), ms, None if a.usd is None or b.usd is None else math.hypot(a.usd, b.usd))


def ends_from_json(stored: Mapping[str, Any]) -> Ends:
    """Return what `asdict` made of it. Raises KeyError or TypeError when another version wrote it."""
    errors = (None if (one := stored.get(name)) is None else Amount(**one) for name in ("low_error", "high_error"))
    return Ends(Amount(**stored["low"]), Amount(**stored["high"]), int(stored["replayed"]), float(stored["lookups"]), *errors)


def greater(a: Amount, b: Amount) -> Amount:
    """Return the greater of each; what only one knows is its."""
    return Amount(
        max(a.hits, b.hits),
        b.ms if a.ms is None else a.ms if b.ms is None else max(a.ms, b.ms),
        b.usd if a.usd is None else a.usd if b.usd is None else max(a.usd, b.usd),
    )


def groups(links: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return key -> its group's least key, for all keys that a chain of links joins."""
    parent: dict[str, str] = {}

    def root(x: str) -> str:
        parent.setdefault(x, x)
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x

    for one, other in links:
        a, b = sorted((root(one), root(other)))
        parent[b] = a
    return {x: root(x) for x in list(parent)}


def as_json(findings: Findings) -> dict[str, Any]:
    """Return what `from_json` reads."""
    return asdict(findings)


def from_json(stored: Mapping[str, Any]) -> Findings:
    """Return findings as they were stored. Raises KeyError or TypeError when another version wrote them."""
    values = dict(stored)
    for name in ("recorded", "served_semantic", "replayed", "fixed"):
        values[name] = Amount(**values[name])
    for name in ("at_lifetime", "any_lifetime"):
        one = values[name]
        values[name] = Bounds(Amount(**one["low"]), Amount(**one["high"]), one["method"])
    values["known"] = Known(**values["known"])
    semantic = values["semantic"]
    merged = {name: None if semantic[name] is None else Amount(**semantic[name]) for name in ("high", "had", "kept")}
    values["semantic"] = Semantic(**{**semantic, **merged})
    values["tournament"] = tuple(Contestant(**{**one, "saved": Amount(**one["saved"])}) for one in values["tournament"])
    for name in ("space_curve", "ttl_curve"):
        values[name] = tuple(CurvePoint(**{**one, "saved": Amount(**one["saved"])}) for one in values[name])
    values["lru_curve"] = tuple((float(at), float(ratio)) for at, ratio in values["lru_curve"])
    if (sampled := values["sampled"]) is not None:
        values["sampled"] = Sampled(**{**sampled, **{name: Amount(**sampled[name]) for name in ("recorded", "low", "high")}})
    values["knobs"] = tuple(
        Knob(**{**one, "gain": Amount(**one["gain"]), "error": None if one["error"] is None else Amount(**one["error"])})
        for one in values["knobs"]
    )
    return Findings(**values)
