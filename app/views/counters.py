"""Counter-only sources: hit rates of systems that send no lookups, from what their counters grew by.

Never mixed with the lookups of a response cache, and never across units: a rate is a sum of hits over a sum of queries of one source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from app.analysis.intervals import Share, wilson
from app.views import words
from app.views.origins import Origin, origins_of
from app.views.parts import Failure, attempt
from collectors.errors import BadFamilies
from collectors.prometheus.families import OVERFLOW, Count, Families, Gauge, Pair, Ratio, Seen, System
from collectors.prometheus.families import Series as Named
from storage.metrics import Series
from storage.reads import counters, sources
from storage.reads.counters import Exemplar, Increase, Snapshot
from storage.reads.window import Window
from storage.store import Store

TELEMETRY, FAMILIES = SOURCES = ("Telemetry database", "Table of what counters mean")
_HIDES = "what sources that only count have counted"
KINDS = {
    "response": "response cache",
    "provider_prompt": "provider's prompt cache",
    "kv_prefix": "KV prefix cache",
    "embedding": "embedding cache",
    "store": "key-value store",
    "inference": "inference response cache",
}
RESTART, FELL = "restart", "contradiction"
_MOST_GROUPS = 20
_SLACK = 1e-9  # of a share: sums of floating-point increases


@dataclass(frozen=True, slots=True)
class Rate:
    """Hits and queries of one source and one cache; group: a value of the label `by`, None = all.

    buckets: (start, hits, queries) where something was read. resets: restarts; anomalies: values that contradict their start;
    marks: (start of the bucket, RESTART or FELL). left_aside:
    counters of the same thing under other names.
    """

    source: str
    system: str
    cache: Ratio
    group: str | None
    hits: float
    queries: float
    buckets: tuple[tuple[int, float, float], ...]
    resets: int
    anomalies: int
    overflow: bool
    marks: tuple[tuple[int, str], ...]
    names: tuple[str, ...]
    left_aside: tuple[str, ...]

    @property
    def contradicts(self) -> bool:
        """More hits than queries: the counters do not belong together, and no rate is shown."""
        return self.hits > self.queries * (1 + _SLACK)

    @property
    def ratio(self) -> float | None:
        """0…1; None when nothing was asked (idle is no data), or when the counters contradict each other."""
        return None if self.queries <= 0 or self.contradicts else min(1.0, self.hits / self.queries)

    @property
    def share(self) -> Share | None:
        """With an interval, where requests were counted one by one. Tokens of one request come and go together: no interval."""
        if self.ratio is None or self.cache.unit != "requests" or self.cache.mean:
            return None
        return wilson(round(self.hits), max(round(self.hits), round(self.queries)))


@dataclass(frozen=True, slots=True)
class Counted:
    """A counter that makes no rate."""

    source: str
    system: str
    count: Count
    group: str | None
    increase: float
    resets: int
    anomalies: int


@dataclass(frozen=True, slots=True)
class Level:
    """The newest value of a gauge."""

    source: str
    system: str
    gauge: Gauge
    series: Series


@dataclass(frozen=True, slots=True)
class Counters:
    window: Window
    now_ms: int
    rates: tuple[Rate, ...] = ()
    counts: tuple[Counted, ...] = ()
    levels: tuple[Level, ...] = ()
    snapshots: tuple[tuple[str, Snapshot], ...] = ()  # with the source's name
    exemplars: tuple[tuple[str, Exemplar], ...] = ()  # likewise
    failures: tuple[Failure, ...] = ()


def load(telemetry: Callable[[], Store], families: Callable[[], Families], *, window: Window, now_ms: int) -> Counters:
    """Return what counter-only sources counted in the window."""
    try:
        table = families()
    except BadFamilies as error:
        return Counters(window, now_ms, failures=(Failure(FAMILIES, str(error), _HIDES),))
    read = attempt(TELEMETRY, lambda: _read(telemetry(), table, window, now_ms), hides=_HIDES)
    return read.value or Counters(window, now_ms, failures=(read.failure,) if read.failure else ())


def _read(store: Store, families: Families, window: Window, now_ms: int) -> Counters:
    with store.read() as conn:
        origins = origins_of(sources.sources(conn))
        grown = counters.increases(conn, window)
        known: dict[int, list[tuple[str, Mapping[str, str]]]] = {}
        for source_id, named in counters.known(conn, window).items():
            known.setdefault(origins[source_id].id, []).extend(named)
        levels = counters.gauges(conn, families.gauges)
        shots = counters.snapshots(conn)
        behind = counters.exemplars(conn, window)
    by_source = _merged(grown, families, origins)
    rates: list[Rate] = []
    counts: list[Counted] = []
    for one in dict.fromkeys(origins.values()):
        mine = by_source.get(one.id, [])
        for system in families.system if one.id in known else ():
            for ratio in system.ratio:
                rates += _Cache(one.name, system, ratio, known[one.id]).rates(mine)
            counts += [counted for count in system.count for counted in _counts(one.name, system, count, mine)]
    shown = [
        Level(origins[source_id].name, system.title, gauge, series)
        for source_id, several in levels.items()
        for system in families.system
        for gauge in system.gauge
        for series in several
        if series.name in gauge.names
    ]
    named_shots = tuple((origins[shot.source_id].name, shot) for shot in shots)
    named_exemplars = tuple((origins[one.source_id].name, one) for one in behind)
    return Counters(window, now_ms, tuple(rates), tuple(counts), tuple(shown), named_shots, named_exemplars)


def _merged(grown: Iterable[Increase], families: Families, origins: Mapping[int, Origin]) -> dict[int, list[Increase]]:
    """Return the increases by origin, those summed that no rate tells apart: thousands of users' series are a handful then."""
    kept: dict[tuple[str, int], tuple[tuple[str, str], ...]] = {}  # labels are shared objects: one reduction a series
    found: dict[tuple[int, str, tuple[tuple[str, str], ...], int], list[float]] = {}
    for one in grown:
        place = (one.name, id(one.labels))
        if (labels := kept.get(place)) is None:
            apart = families.told_apart.get(one.name, frozenset())
            labels = kept[place] = tuple(sorted((label, value) for label, value in one.labels.items() if label in apart))
        sums = found.setdefault((origins[one.source_id].id, one.name, labels, one.at_ms), [0.0, 0, 0, 0])
        sums[0] += one.increase
        sums[1] = max(sums[1], one.covered_ms)
        sums[2] = max(sums[2], one.resets)
        sums[3] += one.anomalies
    by_source: dict[int, list[Increase]] = {}
    for (source_id, name, labels, at_ms), (increase, covered_ms, resets, anomalies) in found.items():
        merged = Increase(source_id, name, dict(labels), at_ms, increase, int(covered_ms), int(resets), int(anomalies))
        by_source.setdefault(source_id, []).append(merged)
    return by_source


def _sum(series: Sequence[Named], grown: Iterable[Increase]) -> float:
    return sum(one.increase for one in grown if any(named.name == one.name and named.matches(one.labels) for named in series))


@dataclass(frozen=True, slots=True)
class _Cache:
    """One cache of one source, while its rates are made. known: all counters that the source ever had."""

    source: str
    system: System
    ratio: Ratio
    known: Seen

    def rates(self, grown: Sequence[Increase]) -> list[Rate]:
        """Return the rate over all labels, then one for each value of the label `by` when there are several."""
        if not self.ratio.told_by(self.known):
            return []
        wanted = {name for pair in self.ratio.pairs for name in pair.names}
        buckets: dict[int, list[Increase]] = {}
        for one in grown:
            if one.name in wanted:
                buckets.setdefault(one.at_ms, []).append(one)
        # Names change with an upgrade: each bucket has the newest names that it knows, and never two generations at once.
        parts: list[tuple[int, Pair, list[Increase]]] = []
        for at_ms, mine in sorted(buckets.items()):
            if pair := self.ratio.pair([(one.name, one.labels) for one in mine]):
                parts.append((at_ms, pair, [one for one in mine if one.name in pair.names]))
        total = self.rate(None, parts)
        if not self.ratio.by:
            return [total]
        groups: dict[str, dict[int, tuple[Pair, list[Increase]]]] = {}
        for at_ms, pair, mine in parts:
            for one in mine:
                groups.setdefault(_group(self.ratio.by, one), {}).setdefault(at_ms, (pair, []))[1].append(one)
        if len(groups) < 2:
            return [total]
        split = [self.rate(group, [(at_ms, pair, mine) for at_ms, (pair, mine) in its.items()]) for group, its in groups.items()]
        return [total, *sorted(split, key=lambda rate: -rate.queries)[:_MOST_GROUPS]]

    def rate(self, group: str | None, parts: Sequence[tuple[int, Pair, Sequence[Increase]]]) -> Rate:
        """Return the rate of a group: hits and queries summed over its series, bucket by bucket."""
        buckets = []
        for at_ms, pair, mine in parts:
            hits, asked = _sum(pair.hits, mine), _sum(pair.asked, mine)
            buckets.append((at_ms, hits, asked if pair.queries else hits + asked))
        grown = [one for _, _, mine in parts for one in mine]
        newest = self.ratio.pair(self.known)
        names = tuple(dict.fromkeys(name for _, pair, _ in parts for name in pair.names)) or (newest.names if newest else ())
        others = {name for pair in self.ratio.pairs for name in pair.names} & {name for name, _ in self.known} - set(names)
        return Rate(
            self.source,
            self.system.title,
            self.ratio,
            group,
            hits=sum(hits for _, hits, _ in buckets),
            queries=sum(queries for _, _, queries in buckets),
            buckets=tuple(buckets),
            resets=_restarts(grown),
            anomalies=sum(one.anomalies for one in grown),
            marks=_marks(grown),
            overflow=any(OVERFLOW in one.labels for one in grown),
            names=names,
            left_aside=tuple(sorted(others)),
        )


def _restarts(grown: Iterable[Increase]) -> int:
    """Return how often the source restarted: a restart resets every series of it, and is one."""
    by_bucket: dict[int, int] = {}
    for one in grown:
        by_bucket[one.at_ms] = max(by_bucket.get(one.at_ms, 0), one.resets)
    return sum(by_bucket.values())


def _marks(grown: Iterable[Increase]) -> tuple[tuple[int, str], ...]:
    found = {(one.at_ms, RESTART) for one in grown if one.resets} | {(one.at_ms, FELL) for one in grown if one.anomalies}
    return tuple(sorted(found))


def _group(by: str, one: Increase) -> str:
    return "(overflow)" if OVERFLOW in one.labels else one.labels.get(by, "")


def _counts(source: str, system: System, count: Count, grown: Sequence[Increase]) -> list[Counted]:
    wanted = {named.name for several in count.series for named in several}
    named_so = [one for one in grown if one.name in wanted]
    series = count.chosen([(one.name, one.labels) for one in named_so])
    groups: dict[str | None, list[Increase]] = {}
    for one in named_so:
        if any(named.name == one.name and named.matches(one.labels) for named in series):
            groups.setdefault(_group(count.by, one) if count.by else None, []).append(one)
    found = [
        Counted(source, system.title, count, group, sum(one.increase for one in mine), _restarts(mine), sum(one.anomalies for one in mine))
        for group, mine in groups.items()
    ]
    return sorted(found, key=lambda one: -one.increase)[:_MOST_GROUPS]


def totals(view: Counters) -> list[Rate]:
    """Return the rates over all labels: those that are drawn."""
    return [rate for rate in view.rates if rate.group is None]


def sentence(view: Counters) -> str:
    """Return what there is, in words; '' when no source has such counters."""
    found = totals(view)
    if not found:
        return ""
    idle = sum(rate.queries <= 0 for rate in found)
    several = words.many(len({rate.source for rate in found}), "source", "sources")
    told = f"{words.many(len(found), 'hit rate', 'hit rates')} of {several} that only count"
    told += f"; {idle} without a query in this range, which is no data" if idle else ""
    fell = sum(rate.anomalies for rate in found)
    told += f"; {words.many(fell, 'value', 'values')} fell, or came from another process, although nothing restarted" if fell else ""
    return f"{told}."


def named(view: Counters, *, most: int = 3) -> str:
    """Return the busiest rates by name, for a page without a lookup; '' when nothing was asked of any."""
    told = sorted((rate for rate in totals(view) if rate.ratio is not None), key=lambda rate: -rate.queries)
    if not told:
        return ""
    return f"Sources that only count tell: {words.listed(map(_named, told), most=most)}."


def _named(rate: Rate) -> str:
    what = f"{words.one_line(f'{rate.system}, {rate.cache.title}', 80)} at {words.name(rate.source, 40)}"
    if rate.cache.mean:
        return f"{what} {words.ratio(rate.ratio or 0.0)} (a mean of {words.count(round(rate.queries))} ratios)"
    sure = f"; 95 %: {words.interval(rate.share)}" if rate.share else ""
    of = f"{words.count(round(rate.hits))} of {words.count(round(rate.queries))} {rate.cache.unit}"
    return f"{what} {words.ratio(rate.ratio or 0.0)} ({of}{sure})"


def rate_rows(view: Counters) -> list[dict[str, object]]:
    return [_rate_row(rate) for rate in view.rates]


def _rate_row(rate: Rate) -> dict[str, object]:
    notes = [
        "more hits than queries: these counters do not belong together" if rate.contradicts else "",
        "no queries in this range: no data" if rate.queries <= 0 else "",
        _fell(rate.anomalies),
        "some series summed in the overflow series" if rate.overflow else "",
        f"left aside, the same thing: {', '.join(rate.left_aside)}" if rate.left_aside else "",
        rate.cache.note,
    ]
    return {
        "cache": words.one_line(f"{rate.system}: {rate.cache.title}", 80),
        "hit rate": None if rate.ratio is None else rate.ratio * 100,
        "95 %": words.interval(rate.share) if rate.share else "",
        "hits": None if rate.cache.mean else round(rate.hits),
        "queries": round(rate.queries),
        "unit": f"{rate.cache.unit}, mean of ratios" if rate.cache.mean else rate.cache.unit,
        "of": _of(rate.cache.by, rate.group),
        "source": words.name(rate.source, 60),
        "kind": KINDS[rate.cache.kind],
        "restarts": rate.resets,
        "notes": words.one_line("; ".join(note for note in notes if note), 300),
        "counters": words.one_line(", ".join(rate.names), 200),
    }


def count_rows(view: Counters) -> list[dict[str, object]]:
    return [
        {
            "source": words.name(one.source, 60),
            "system": words.one_line(one.system, 40),
            "what": words.one_line(one.count.title, 80),
            "of": _of(one.count.by, one.group),
            "grew by": round(one.increase, 6),
            "unit": one.count.unit,
            "restarts": one.resets,
            "notes": words.one_line("; ".join(part for part in (_fell(one.anomalies), one.count.note) if part), 300),
        }
        for one in view.counts
    ]


def _of(by: str, group: str | None) -> str:
    return "all" if group is None else words.one_line(f"{by} = {words.name(group)}", 60)


def _fell(anomalies: int) -> str:
    return f"fell, or came from another process, without a restart: {anomalies} ×, nothing counted then" if anomalies else ""


def level_rows(view: Counters) -> list[dict[str, object]]:
    return [
        {
            "source": words.name(one.source, 60),
            "what": words.one_line(one.gauge.title, 80),
            "value": one.series.values[-1],
            "read": f"{words.age(view.now_ms - one.series.at_ms[-1])} ago",
            "misleads": words.one_line(one.gauge.misleads, 200),
            "labels": words.one_line(", ".join(f"{name}={value}" for name, value in sorted(one.series.labels.items())), 120),
            "name": words.one_line(one.series.name, 80),
        }
        for one in view.levels
    ]


def bucket_rows(rates: Sequence[Rate]) -> list[dict[str, object]]:
    """Return the chart's twin: a row for each rate and bucket that had a query."""
    rows: list[dict[str, object]] = []
    for rate in rates:
        for at_ms, hits, queries in rate.buckets:
            part = replace(rate, hits=hits, queries=queries)
            rows.append(
                {
                    "start (UTC)": words.instant(at_ms),
                    "source": words.name(rate.source, 60),
                    "cache": words.one_line(f"{rate.system}: {rate.cache.title}", 80),
                    "hit rate": None if part.ratio is None else part.ratio * 100,
                    "hits": round(hits, 3),
                    "queries": round(queries, 3),
                    "unit": rate.cache.unit,
                }
            )
    return rows
