"""A namespace's recorded lookups replayed under other settings: what each would have saved. Imported by the worker alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from typing import Final

import numpy as np

from app.analysis import miss_ratio, optimum, regret, ttl
from app.analysis.compiled import Flags, Floats
from app.analysis.policies import NO_LIMIT, POLICIES, Stream, replay
from app.analysis.regret import Amount, Bounds, Contestant, CurvePoint, Event, Findings, Knob, Known, Semantic

SHARES: Final = (1.0, 0.5, 0.25, 0.1)  # of the space that today's lifetime takes
POINTS: Final = 16
EXACT_MOST: Final = 40_000  # keys above which LRU's curve is drawn from a sample of them
SAMPLED_KEYS: Final = 32_768  # of that sample: four times what an error of 0.01 asks for where sizes are equal
LP_MOST: Final = 2_000  # intervals: a program of these takes about a second
SHORTEST_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class _Worth:
    """What a hit on each key saves, in what is known. counts: (n,) 1 for requests that were recorded, 0 for those put before them."""

    ids: np.ndarray[tuple[int], np.dtype[np.int64]]
    counts: Floats
    ms: Floats | None  # (m,)
    usd: Floats | None
    scale: float

    def values(self) -> dict[str, Floats]:
        found = {"hits": self.counts}
        for name, by_key in (("ms", self.ms), ("usd", self.usd)):
            if by_key is not None:
                found[name] = by_key[self.ids] * self.counts
        return found

    def of(self, hit: Flags) -> Amount:
        sums = {name: float(value[hit].sum()) * self.scale for name, value in self.values().items()}
        return Amount(sums["hits"], sums.get("ms"), sums.get("usd"))


@dataclass(frozen=True, slots=True)
class _Recorded:
    """A stream as it was recorded. hit: (n,) of its requests. place: key -> its number, 0…m-1."""

    requests: Stream
    worth: _Worth
    hit: Flags
    known: Known
    place: Mapping[str, int]


def analyse(
    events: Sequence[Event],
    *,
    ttl_ms: int,
    rate: float = 1.0,
    left_out: Mapping[str, int] | None = None,
    groups: Mapping[str, str] | None = None,
    why_no_groups: str = "",
    step: Callable[[], None] = lambda: None,
) -> Findings | None:
    """Return the findings, or None when there is no exact lookup at all.

    events: in order of time. ttl_ms: today's lifetime. rate: the share of keys that the events are a sample of, 0 < rate <= 1.
    groups: key -> the group it belongs to, of keys that are linked; None = not computed, why_no_groups says why.
    step: called between the parts, each of which takes a few seconds at most.
    """
    exact = [event for event in events if not event.semantic]
    if not exact:
        return None
    recorded = _stream(exact, rate)
    requests, worth = recorded.requests, recorded.worth
    space = ttl.space(requests, ttl_ms)
    capacity = max(1, space.most)
    kept = optimum.unlimited(requests, ttl_ms=ttl_ms)
    step()
    at_lifetime = _bounds(requests, worth, capacity, ttl_ms, step)
    any_lifetime = _bounds(requests, worth, capacity, NO_LIMIT, step)
    best = worth.usd if worth.usd is not None else np.ones(requests.keys)
    fixed = worth.of(optimum.best_fixed(requests, best[requests.ids] * worth.counts, capacity, ttl_ms=ttl_ms))
    tournament = tuple(_tournament(requests, worth, capacity, ttl_ms, step))
    semantic_hits, semantic = _semantic(events, recorded, kept, groups=groups, ttl_ms=ttl_ms, why_not=why_no_groups)
    step()
    lru, method = _lru(requests, worth)
    lifetimes = _lifetimes(requests, worth, ttl_ms)
    found = Findings(
        lookups=len(events),
        keys=len({event.key for event in exact}),
        rate=rate,
        left_out=dict(left_out or {}),
        known=recorded.known,
        ttl_ms=float(ttl_ms),
        capacity=space.most / rate,
        recorded=worth.of(recorded.hit),
        served_semantic=semantic_hits,
        replayed=worth.of(kept),
        at_lifetime=at_lifetime,
        any_lifetime=any_lifetime,
        fixed=fixed,
        semantic=semantic,
        tournament=tournament,
        space_curve=tuple(_spaces(requests, worth, ttl_ms)),
        lru_curve=lru,
        lru_method=method,
        ttl_curve=lifetimes,
        knobs=(),
    )
    return _with_knobs(found)


def _stream(events: Sequence[Event], rate: float) -> _Recorded:
    """Return the stream with an entry's store put before its first hit where it was stored earlier, and what its hits save."""
    refused = 0
    sizes, ms, usd = (dict[str, list[float]]() for _ in range(3))
    seen: dict[str, None] = {}
    earlier: list[tuple[int, str]] = []
    for event in events:
        if event.key not in seen:
            seen[event.key] = None
            if event.hit:
                earlier.append((event.at_ms - int(event.age_ms or 0), event.key))
        for values, value, least in ((sizes, event.size_bytes, 1.0), (ms, event.ms, 0.0), (usd, event.usd, 0.0)):
            if value is None:
                continue
            if math.isfinite(value) and value >= least:
                values.setdefault(event.key, []).append(value)
            else:
                refused += 1
    place = {key: number for number, key in enumerate(seen)}
    rows = sorted([(at, place[key], False, 0.0) for at, key in earlier] + [(e.at_ms, place[e.key], e.hit, 1.0) for e in events], key=_when)
    size = np.maximum(1, np.round(_by_key(sizes, place))).astype(np.int64) if sizes else np.ones(len(place), np.int64)
    ids = np.array([row[1] for row in rows], dtype=np.int64)
    requests = Stream(ids, np.array([row[0] for row in rows], dtype=np.int64), size)
    worth = _Worth(
        ids,
        np.array([row[3] for row in rows]),
        _by_key(ms, place) if ms else None,
        _by_key(usd, place) if usd else None,
        1 / rate,
    )
    told = [len(one) / len(place) for one in (sizes, ms, usd)]
    known = Known("bytes" if sizes else "entries", told[0], told[1], told[2], refused)
    return _Recorded(requests, worth, np.array([row[2] for row in rows], dtype=np.bool_), known, place)


def _when(row: tuple[int, int, bool, float]) -> int:
    return row[0]


def _by_key(values: Mapping[str, Sequence[float]], place: Mapping[str, int]) -> Floats:
    """Return (m,) each key's mean; a key that never told has the median of those that did."""
    means = {key: float(np.mean(found)) for key, found in values.items()}
    result = np.full(len(place), float(np.median(list(means.values()))))
    for key, mean in means.items():
        result[place[key]] = mean
    return result


def _bounds(requests: Stream, worth: _Worth, capacity: int, ttl_ms: int, step: Callable[[], None]) -> Bounds:
    low, high, methods = {}, {}, set()
    for name, values in worth.values().items():
        found = optimum.bracket(requests, values, capacity, ttl_ms=ttl_ms, lp_most=LP_MOST)
        low[name], high[name] = found.low * worth.scale, found.high * worth.scale
        methods.add("exact" if found.low >= found.high * (1 - 1e-9) else found.method)
        step()
    least, most = (Amount(end["hits"], end.get("ms"), end.get("usd")) for end in (low, high))
    return Bounds(least, most, " and ".join(sorted(methods)))


def _tournament(requests: Stream, worth: _Worth, capacity: int, ttl_ms: int, step: Callable[[], None]) -> Iterable[Contestant]:
    n = max(1.0, float(worth.counts.sum()))
    for share in SHARES:
        space = max(1, round(capacity * share))
        for policy in POLICIES:
            hit = replay(policy, requests, space, ttl_ms=ttl_ms, costs=worth.usd)
            yield Contestant(policy, share, space * worth.scale, 1 - float(worth.counts[hit].sum()) / n, worth.of(hit))
        hit = optimum.belady(requests, space, bypass=True, ttl_ms=ttl_ms)
        yield Contestant("belady", share, space * worth.scale, 1 - float(worth.counts[hit].sum()) / n, worth.of(hit))
        step()


def _grid(low: float, high: float, *, more: Sequence[float] = ()) -> list[int]:
    if high <= low:
        return sorted({max(1, round(high)), *(round(one) for one in more)})
    return sorted({*(round(one) for one in np.geomspace(low, high, POINTS)), *(round(one) for one in more)})


def _spaces(requests: Stream, worth: _Worth, ttl_ms: int) -> Iterable[CurvePoint]:
    """Yield LRU with today's lifetime at spaces from a hundredth of what all keys take."""
    total = float(requests.sizes.sum())
    n = max(1.0, float(worth.counts.sum()))
    for space in _grid(max(1.0, total / 100), total):
        hit = replay("lru", requests, space, ttl_ms=ttl_ms)
        yield CurvePoint(space * worth.scale, 1 - float(worth.counts[hit].sum()) / n, worth.of(hit))


def _lru(requests: Stream, worth: _Worth) -> tuple[tuple[tuple[float, float], ...], str]:
    """Return LRU's curve without expiry, and how it was got. What was put before the recorded requests is not counted."""
    total = float(requests.sizes.sum())
    spaces = _grid(max(1.0, total / 100), total)
    if requests.keys > EXACT_MOST:
        rate = SAMPLED_KEYS / requests.keys
        ratios = miss_ratio.byte_shards(requests, worth.counts, spaces, rate)
        return tuple((at * worth.scale, float(one)) for at, one in zip(spaces, ratios, strict=True)), f"SHARDS, {rate:.1%} of the keys"
    distances = miss_ratio.byte_distances(requests)
    n = max(1.0, float(worth.counts.sum()))
    hits = ((float(worth.counts[(distances >= 0) & (distances <= space)].sum())) for space in spaces)
    return tuple((at * worth.scale, 1 - one / n) for at, one in zip(spaces, hits, strict=True)), "exact"


def _lifetimes(requests: Stream, worth: _Worth, ttl_ms: int) -> tuple[CurvePoint, ...]:
    """Return lifetimes from a minute to the stream's whole length, and today's, without a limit of space."""
    length = int(requests.times[-1] - requests.times[0]) + 1
    n = max(1.0, float(worth.counts.sum()))
    found = []
    for life in _grid(min(SHORTEST_MS, length), length, more=[ttl_ms, 2 * ttl_ms, 4 * ttl_ms]):
        hit = optimum.unlimited(requests, ttl_ms=life)
        space = ttl.space(requests, life).most * worth.scale
        found.append(CurvePoint(float(life), 1 - float(worth.counts[hit].sum()) / n, worth.of(hit), space))
    return tuple(found)


def _semantic(
    events: Sequence[Event], exact: _Recorded, kept: Flags, *, groups: Mapping[str, str] | None, ttl_ms: int, why_not: str
) -> tuple[Amount, Semantic]:
    """Return what semantic hits saved, and the most that a cache saves to which each group of keys is one prompt.

    exact, kept: the lookups without semantic hits, and which of them would hit in a cache that loses nothing. What any hit saves is told by
    its group here: with a price of its own, one whose sender told none would be worth less than the hit that is to be won in its place.
    """
    served = [event for event in events if event.semantic]
    joined = groups or {}
    merged = [Event(e.at_ms, joined.get(e.key, e.key), e.hit or e.semantic, False, e.age_ms, e.size_bytes, e.ms, e.usd) for e in events]
    whole = _stream(merged, 1 / exact.worth.scale)
    of_key = np.array([whole.place[joined.get(key, key)] for key in exact.place], np.int64)
    of_served = np.array([whole.place[joined.get(event.key, event.key)] for event in served], np.int64)

    def amount(hit: Flags | None) -> Amount:
        """Return what these hits save with the semantic ones that were served."""
        ids, counts = of_served, np.ones(of_served.size)
        if hit is not None:
            ids, counts = np.concatenate((ids, of_key[exact.requests.ids[hit]])), np.concatenate((counts, exact.worth.counts[hit]))
        return changed(whole.worth, ids=ids, counts=counts).of(np.ones(ids.size, np.bool_))

    if groups is None:
        return amount(None), Semantic(0, 0, None, why_not=why_not)
    high = whole.worth.of(optimum.unlimited(whole.requests, ttl_ms=ttl_ms))
    return amount(None), Semantic(len(groups), len(whole.place), high, amount(exact.hit), amount(kept))


def _with_knobs(found: Findings) -> Findings:
    knobs = [Knob("keep", found.replayed.less(found.recorded))]
    # The replay does not know of entries that were made anew before they expired: what it misses and the record has was won already.
    had = regret.greater(found.replayed, found.recorded)
    longest = max(found.ttl_curve[-1].at, 4 * found.ttl_ms)
    longer = (point for point in found.ttl_curve if point.at in {2 * found.ttl_ms, 4 * found.ttl_ms, longest})
    knobs += (Knob("lifetime", point.saved.less(had), point.at, point.space) for point in longer)
    if found.semantic.high is not None and found.semantic.kept is not None and found.semantic.had is not None:
        knobs.append(Knob("semantic", found.semantic.high.less(regret.greater(found.semantic.kept, found.semantic.had))))
    return changed(found, knobs=tuple(knobs))
