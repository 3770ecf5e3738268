"""A namespace's recorded lookups replayed under other settings: what each would have saved. Imported by the worker alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import replace as changed
from typing import Final

import numpy as np

from app.analysis import miss_ratio, optimum, regret, ttl
from app.analysis.compiled import Flags, Floats, Ints
from app.analysis.key_sample import CERTAIN, KeySample
from app.analysis.policies import NO_LIMIT, POLICIES, Stream, replay
from app.analysis.regret import Amount, Bounds, Contestant, CurvePoint, Event, Findings, Knob, Known, Sampled, Semantic

SHARES: Final = (1.0, 0.5, 0.25, 0.1)  # of the space that today's lifetime takes
POINTS: Final = 16
EXACT_MOST: Final = 40_000  # keys above which LRU's curve is drawn from a sample of them
SAMPLED_KEYS: Final = 32_768  # of that sample: four times what an error of 0.01 asks for where sizes are equal
LP_MOST: Final = 2_000  # intervals: a program of these takes about a second
SHORTEST_MS: Final = 60_000
_MOST: Final = 1e12  # bytes, ms or US dollars of one key: what says more is a fault, and would drown all others in a sum


@dataclass(frozen=True, slots=True)
class _Worth:
    """What a hit on each key saves, in what is known. counts: (n,) lookups that a request stands for, 0 for those put before them.

    parts: (n,) of the sample of keys.
    """

    ids: np.ndarray[tuple[int], np.dtype[np.int64]]
    counts: Floats
    ms: Floats | None  # (m,)
    usd: Floats | None
    parts: Ints
    sample: KeySample | None = None

    def values(self) -> dict[str, Floats]:
        found = {"hits": self.counts}
        for name, by_key in (("ms", self.ms), ("usd", self.usd)):
            if by_key is not None:
                found[name] = by_key[self.ids] * self.counts
        return found

    def of(self, hit: Flags) -> Amount:
        return _amount({name: float(value[hit].sum()) for name, value in self.values().items()})

    def error(self, more: Flags | Mapping[str, Floats], less: Flags) -> Amount:
        """Return half the widths of the 95 % intervals of what the one saves beyond the other. more: flags, or amounts by request."""
        if self.sample is None:
            raise ValueError("no key was left out: nothing errs")
        found = {}
        for name, value in self.values().items():
            gained = more[name] if isinstance(more, Mapping) else value * more
            found[name] = self.sample.error(gained - value * less, self.parts)
        return _amount(found)


def _amount(sums: Mapping[str, float]) -> Amount:
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
    sample: KeySample | None = None,
    left_out: Mapping[str, int] | None = None,
    groups: Mapping[str, str] | None = None,
    why_no_groups: str = "",
    step: Callable[[], None] = lambda: None,
) -> Findings | None:
    """Return the findings, or None when there is no exact lookup at all.

    events: in order of time. ttl_ms: today's lifetime. sample: which keys the events are of; None = of all.
    groups: key -> the group it belongs to, of keys that are linked; None = not computed, why_no_groups says why.
    step: called between the parts, each of which takes a few seconds at most.
    """
    exact = [event for event in events if not event.semantic]
    if not exact:
        return None
    recorded = _stream(exact, sample)
    requests, worth = recorded.requests, recorded.worth
    space = ttl.space(requests, ttl_ms)
    capacity = max(1, space.most)
    kept = ttl.unlimited(requests, ttl_ms=ttl_ms)
    step()
    at_lifetime, _ = _bounds(requests, worth, capacity, ttl_ms, step)
    any_lifetime, high_by = _bounds(requests, worth, capacity, NO_LIMIT, step)
    best = worth.usd if worth.usd is not None else np.ones(requests.keys)
    fixed = worth.of(optimum.best_fixed(requests, best[requests.ids] * worth.counts, capacity, ttl_ms=ttl_ms))
    tournament = tuple(_tournament(requests, worth, capacity, ttl_ms, step))
    semantic_hits, semantic = _semantic(events, recorded, kept, groups=groups, ttl_ms=ttl_ms, why_not=why_no_groups)
    step()
    lru, method = _lru(requests, worth)
    lifetimes = _lifetimes(requests, worth, ttl_ms)
    sampled = None
    if sample is not None:
        sampled = Sampled(
            1 / sample.keys_each,
            sample.certain,
            sample.certain_lookups / (sample.certain_lookups + sample.other_lookups),
            sample.burst_ms,
            worth.error(recorded.hit, np.zeros(requests.n, np.bool_)),
            worth.error(kept, recorded.hit),  # all that lives at today's lifetime fits into today's space, so that no optimum has more
            worth.error(high_by, recorded.hit),
        )
    found = Findings(
        lookups=sum(event.count for event in events),
        keys=len({event.key for event in exact}),
        of=float(worth.counts.sum()) + semantic_hits.hits,
        sampled=sampled,
        left_out=dict(left_out or {}),
        known=recorded.known,
        ttl_ms=float(ttl_ms),
        capacity=float(space.most),
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
    return changed(found, knobs=tuple(_knobs(found, recorded, kept)))


def _stream(events: Sequence[Event], sample: KeySample | None, groups: Mapping[str, str] | None = None) -> _Recorded:
    """Return the stream with an entry's store put before its first hit where it was stored earlier, and what its hits save.

    A key of a sample stands for several: it takes their space, and they come and go with it. groups: key -> what it is one with; each
    of its keys has an entry of its own before its first hit.
    """
    joined = groups or {}
    refused = 0
    sizes, ms, usd = (dict[str, list[float]]() for _ in range(3))  # by key: the sum and the number of what was told
    seen: set[str] = set()
    parts: dict[str, int] = {}
    earlier: list[tuple[int, str]] = []
    for event in events:
        key = joined.get(event.key, event.key)
        own = key not in parts or not event.semantic  # else another key's entry served it, which is there already
        parts.setdefault(key, event.part)
        if event.key not in seen:
            seen.add(event.key)
            if event.hit and own:
                age_ms = event.age_ms or 0.0
                earlier.append((event.at_ms - (int(age_ms) if 0 <= age_ms <= _MOST else 0), key))
        for values, value, least in ((sizes, event.size_bytes, 1.0), (ms, event.ms, 0.0), (usd, event.usd, 0.0)):
            if value is None:
                continue
            if least <= value <= _MOST:
                told = values.setdefault(key, [0.0, 0.0])
                told[0] += value * event.count
                told[1] += event.count
            else:
                refused += event.count
    place = {key: number for number, key in enumerate(parts)}
    rows = [(at, place[key], False, 0) for at, key in earlier]
    for event in events:
        number = place[joined.get(event.key, event.key)]
        rows.append((event.at_ms, number, event.hit, 1))
        if event.count > 1:  # the rest of a burst comes at once: only its first may find that the entry has expired
            rows.append((event.at_ms, number, event.hit, event.count - 1))
    rows.sort(key=_when)
    ids = np.array([row[1] for row in rows], dtype=np.int64)
    size = np.maximum(1, np.round(_by_key(sizes, place))).astype(np.int64) if sizes else np.ones(len(place), np.int64)
    counts = np.array([row[3] for row in rows], np.float64)
    part_of = np.array(list(parts.values()), np.int64)
    if sample is not None:
        size = np.where(part_of == CERTAIN, size, size * sample.keys_each)
        counts *= np.where(part_of == CERTAIN, 1.0, sample.lift)[ids]
    requests = Stream(ids, np.array([row[0] for row in rows], dtype=np.int64), size)
    worth = _Worth(ids, counts, _by_key(ms, place) if ms else None, _by_key(usd, place) if usd else None, part_of[ids], sample)
    shares = [len(one) / len(place) for one in (sizes, ms, usd)]
    known = Known("bytes" if sizes else "entries", shares[0], shares[1], shares[2], refused)
    return _Recorded(requests, worth, np.array([row[2] for row in rows], dtype=np.bool_), known, place)


def _when(row: tuple[int, int, bool, int]) -> int:
    return row[0]


def _by_key(values: Mapping[str, Sequence[float]], place: Mapping[str, int]) -> Floats:
    """Return (m,) each key's mean; a key that never told has the median of those that did."""
    means = {key: total / n for key, (total, n) in values.items()}
    result = np.full(len(place), float(np.median(list(means.values()))))
    for key, mean in means.items():
        result[place[key]] = mean
    return result


def _bounds(requests: Stream, worth: _Worth, capacity: int, ttl_ms: int, step: Callable[[], None]) -> tuple[Bounds, dict[str, Floats]]:
    """Return the optimum's ends, and the upper one's amounts by request."""
    low, high, by, methods = {}, {}, {}, set()
    for name, values in worth.values().items():
        found = optimum.bracket(requests, values, capacity, ttl_ms=ttl_ms, lp_most=LP_MOST)
        low[name], high[name], by[name] = found.low, found.high, found.high_by
        methods.add("exact" if found.low >= found.high * (1 - 1e-9) else found.method)
        step()
    return Bounds(_amount(low), _amount(high), " and ".join(sorted(methods))), by


def _tournament(requests: Stream, worth: _Worth, capacity: int, ttl_ms: int, step: Callable[[], None]) -> Iterable[Contestant]:
    n = max(1.0, float(worth.counts.sum()))
    for share in SHARES:
        space = max(1, round(capacity * share))
        for policy in POLICIES:
            hit = replay(policy, requests, space, ttl_ms=ttl_ms, costs=worth.usd)
            yield Contestant(policy, share, float(space), 1 - float(worth.counts[hit].sum()) / n, worth.of(hit))
        hit = optimum.belady(requests, space, bypass=True, ttl_ms=ttl_ms)
        yield Contestant("belady", share, float(space), 1 - float(worth.counts[hit].sum()) / n, worth.of(hit))
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
        yield CurvePoint(float(space), 1 - float(worth.counts[hit].sum()) / n, worth.of(hit))


def _lru(requests: Stream, worth: _Worth) -> tuple[tuple[tuple[float, float], ...], str]:
    """Return LRU's curve without expiry, and how it was got; no point where none can be told. What was put before the recorded requests
    is not counted."""
    total = float(requests.sizes.sum())
    spaces = _grid(max(1.0, total / 100), total)
    if requests.keys > EXACT_MOST and worth.sample is None:
        rate = SAMPLED_KEYS / requests.keys
        ratios = miss_ratio.shards(requests, worth.counts, spaces, rate)
        told = tuple((float(at), float(one)) for at, one in zip(spaces, ratios, strict=True) if not np.isnan(one))
        return told, f"SHARDS, {rate:.1%} of the keys"
    distances = miss_ratio.distances(requests)
    if worth.sample is not None:  # a key that stands for several takes their space among others', not its own before itself
        several = worth.parts != CERTAIN
        distances = np.where(
            (distances >= 0) & several, distances - (requests.sizes - requests.sizes // worth.sample.keys_each)[requests.ids], distances
        )
    n = max(1.0, float(worth.counts.sum()))
    hits = miss_ratio.curve(distances, worth.counts, spaces)
    method = "exact" if worth.sample is None else f"SHARDS, one of {worth.sample.keys_each} keys beside the certain ones"
    return tuple((float(at), 1 - float(one) / n) for at, one in zip(spaces, hits, strict=True)), method


def _lifetimes(requests: Stream, worth: _Worth, ttl_ms: int) -> tuple[CurvePoint, ...]:
    """Return lifetimes from a minute to the stream's whole length, and today's, without a limit of space."""
    length = int(requests.times[-1] - requests.times[0]) + 1
    shortest = SHORTEST_MS if worth.sample is None else max(SHORTEST_MS, worth.sample.burst_ms)
    n = max(1.0, float(worth.counts.sum()))
    found = []
    for life in _grid(min(shortest, length), length, more=[ttl_ms, 2 * ttl_ms, 4 * ttl_ms]):
        hit = ttl.unlimited(requests, ttl_ms=life)
        space = ttl.space(requests, life).most
        found.append(CurvePoint(float(life), 1 - float(worth.counts[hit].sum()) / n, worth.of(hit), float(space)))
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
    sample = exact.worth.sample
    whole = _stream([changed(event, hit=event.hit or event.semantic) for event in events], sample, joined)
    of_key = np.array([whole.place[joined.get(key, key)] for key in exact.place], np.int64)
    of_served = np.array([whole.place[joined.get(event.key, event.key)] for event in served], np.int64)

    lifted = np.array(
        [event.count if sample is None or event.part == CERTAIN else event.count * sample.lift for event in served], np.float64
    )

    def amount(hit: Flags | None) -> Amount:
        """Return what these hits save with the semantic ones that were served."""
        ids, counts = of_served, lifted
        if hit is not None:
            ids, counts = np.concatenate((ids, of_key[exact.requests.ids[hit]])), np.concatenate((counts, exact.worth.counts[hit]))
        return changed(whole.worth, ids=ids, counts=counts).of(np.ones(ids.size, np.bool_))

    if groups is None:
        return amount(None), Semantic(0, 0, None, why_not=why_not)
    high = _amount({n: float(v[ttl.richest(whole.requests, v, ttl_ms=ttl_ms)].sum()) for n, v in whole.worth.values().items()})
    return amount(None), Semantic(len(groups), len(whole.place), high, amount(exact.hit), amount(kept))


def _knobs(found: Findings, recorded: _Recorded, kept: Flags) -> Iterable[Knob]:
    worth = recorded.worth

    def error(more: Flags, less: Flags) -> Amount | None:
        return None if worth.sample is None else worth.error(more, less)

    yield Knob("keep", found.replayed.less(found.recorded), error=error(kept, recorded.hit))
    # The replay does not know of entries that were made anew before they expired: what it misses and the record has was won already.
    had = regret.greater(found.replayed, found.recorded)
    had_hits = kept if found.replayed.hits >= found.recorded.hits else recorded.hit
    longest = max(found.ttl_curve[-1].at, 4 * found.ttl_ms)
    for point in found.ttl_curve:
        if point.at in {2 * found.ttl_ms, 4 * found.ttl_ms, longest}:
            hit = ttl.unlimited(recorded.requests, ttl_ms=int(point.at))
            yield Knob("lifetime", point.saved.less(had), point.at, point.space, error(hit, had_hits))
    if found.semantic.high is not None and found.semantic.kept is not None and found.semantic.had is not None:
        yield Knob("semantic", found.semantic.high.less(regret.greater(found.semantic.kept, found.semantic.had)))
