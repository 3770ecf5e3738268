"""Drift: is the traffic changing under the cache?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from sqlalchemy import Connection

from app.analysis import adwin, drift
from app.analysis.clusters import Finding, Served, findings, parse, top
from app.analysis.drift import Change
from app.analysis.entropy import Entropy, entropy, rarefied
from app.analysis.hit_rate import HITS
from app.views import causes, why, words
from app.views.likeness import NO_VECTORS, Embed, Vectors, grouping, thinned
from app.views.parts import Failure, attempt
from storage.reads import drift as reads
from storage.reads.drift import Asked, Mix, PromptSample
from storage.reads.window import Scope, Window
from storage.store import Store

TELEMETRY = "Telemetry database"
SOURCES = (TELEMETRY,)
MOST = 25
MOST_RANKS = 100
FEW = 100  # lookups in a window below which its mix is not worth comparing
FALSE_SHARE = 0.05  # of the panels that are called changed, at most so many wrongly
_DAY_MS, _WEEK_MS = 86_400_000, 604_800_000
# The least effect worth acting on, by panel, each in its own unit.
LEAST = {"mix": 0.02, "vectors": 0.005, "entropy": 0.3, "similarity": 0.1, "length": 0.1, "hit_rate": causes.MIN_CHANGE}


@dataclass(frozen=True, slots=True)
class Side:
    """One window's mix, from every stride-th lookup. largest: counts of its 100 most frequent prompts. clusters: None where none are.

    rarefied_bits, rarefied_cluster_bits: entropy at the n of the smaller window, so that the two may be compared.
    """

    window: Window
    largest: tuple[int, ...]
    entropy: Entropy | None
    clusters: Entropy | None
    rarefied_bits: float | None
    rarefied_cluster_bits: float | None
    similarities: tuple[float, ...]
    stride: int = 1


@dataclass(frozen=True, slots=True)
class Panel:
    """One thing that may have changed. change: None = too little to tell. p_value: adjusted for the number of panels.

    seasonal: against the same time a day or a week before, where that is on record and the first comparison raised an alarm.
    """

    key: str
    change: Change | None
    p_value: float | None
    seasonal: Change | None = None
    psi: Change | None = None

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
        """True when the same time a day or a week before was alike: the change is the clock's."""
        return self.seasonal is not None and self.seasonal.p_value > FALSE_SHARE

    @property
    def alarm(self) -> bool:
        return self.certain and self.large and not self.rhythm


@dataclass(frozen=True, slots=True)
class Kind:
    """A cluster of like prompts (or one prompt) that is new or gone. samples: its most frequent prompts."""

    lookups: int
    prompts: int
    samples: tuple[PromptSample, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """A finding with its sample prompts."""

    finding: Finding
    samples: tuple[PromptSample, ...]


@dataclass(frozen=True, slots=True)
class Drift:
    """clustered: the mix is of clusters of like prompts; else of exact prompts.

    embedder: whose vectors a sample of the prompts was compared and grouped by; '' = SimHashes alone, and why_no_vectors says why where
    vectors were asked for. computed_ms: when the worker did; None = now.
    """

    sentence: str
    bad: bool
    now: Side | None
    before: Side | None
    before_name: str = ""
    panels: tuple[Panel, ...] = ()
    season: Window | None = None
    new: tuple[Kind, ...] = ()
    vanished: tuple[Kind, ...] = ()
    new_share: tuple[int, int] = (0, 0)
    findings: tuple[Found, ...] = ()
    clustered: bool = False
    prompts_recorded: bool = True
    embedder: str = ""
    why_no_vectors: str = ""
    computed_ms: int | None = None
    failures: tuple[Failure, ...] = ()


def load(
    telemetry: Callable[[], Store],
    *,
    window: Window,
    scope: Scope,
    window_name: str,
    before: Window | None = None,
    before_name: str = "the period before",
    embed: Embed | None = None,
) -> Drift:
    """Compare the window with another one of its length; None = the one before it. embed: makes vectors of texts, off the page."""
    compared = before or window.previous

    def read() -> Drift:
        with telemetry().read() as conn:
            mine, earlier = (reads.mix(conn, one, scope) for one in (window, compared))
            equal = min(len(mine.rows), len(earlier.rows))
            texts = _to_embed(conn, mine, earlier) if embed and equal >= FEW else {}
            cut = why.cut_in(conn, window, scope) if equal >= FEW else None
        vectors = NO_VECTORS
        if embed and texts:  # outside the snapshot: it may take seconds, and would keep the log from being folded in
            vectors = embed(texts)
            if not vectors.why_not and not _enough(vectors, mine, earlier):
                vectors = replace(NO_VECTORS, why_not=f"too few texts: {FEW} are needed in each window")
        alike = grouping(mine, earlier, vectors=vectors)
        panels: tuple[Panel, ...] = ()
        season = None
        if equal >= FEW:
            panels = _panels(mine, earlier, alike[0], vectors, None if cut is None else abs(cut[1].now_ratio - cut[1].before_ratio))
        if compared == window.previous and any(panel.certain and panel.large for panel in panels):
            season = window.shifted(_DAY_MS if window.length_ms <= _DAY_MS else _WEEK_MS)
            with telemetry().read() as conn:
                other = reads.mix(conn, season, scope)
                texts = _to_embed(conn, other) if vectors.of else {}
            more = embed(texts) if embed and texts else NO_VECTORS
            panels, season = _seasonal(panels, season, mine, other, replace(vectors, of={**vectors.of, **more.of}), clustered=alike[1])
        told = _Compared(mine, earlier, *alike, vectors, panels, season)
        with telemetry().read() as conn:
            return _drawn(conn, window, compared, told, window_name=window_name, before_name=before_name)

    part = attempt(TELEMETRY, read, hides="the mix of prompts and its change")
    if part.value is not None:
        return part.value
    failures = (part.failure,) if part.failure else ()
    return Drift("No telemetry can be read: there is no mix to show", True, None, None, failures=failures)


def named(view: Drift, *, window_name: str, before_name: str) -> Drift:
    """Return the same comparison with its windows called by these names."""
    if view.now is None or view.before is None:
        return view
    sentence, bad = _sentence(
        view.now, view.before, view.panels, view.findings, window_name=window_name, before_name=before_name, season=view.season
    )
    return replace(view, sentence=sentence, bad=bad, before_name=before_name)


class _Compared(NamedTuple):
    mine: Mix
    earlier: Mix
    group: Mapping[str, str]
    clustered: bool
    vectors: Vectors
    panels: tuple[Panel, ...]
    season: Window | None


def _to_embed(conn: Connection, *mixes: Mix) -> dict[str, str]:
    return reads.texts(conn, [row.id for mix in mixes for row in thinned(mix)])


def _enough(vectors: Vectors, *mixes: Mix) -> bool:
    """Return whether each of the windows has vectors enough to be compared by them."""
    return all(sum(row.prompt_hash in vectors.of for row in thinned(mix)) >= FEW for mix in mixes)


def _drawn(conn: Connection, window: Window, compared: Window, told: _Compared, *, window_name: str, before_name: str) -> Drift:
    mine, earlier, group, clustered, vectors, panels, season = told
    equal = min(len(mine.rows), len(earlier.rows))
    now, before = (_side(one, found, group, equal) for one, found in ((window, mine), (compared, earlier)))
    fresh, gone = _kinds(mine, earlier, group), _kinds(earlier, mine, group)
    found = findings([Served(row.prompt_hash, group[row.prompt_hash], row.entry_id, row.outcome in HITS) for row in mine.rows])
    if not clustered:
        found = [one for one in found if one.kind == "collapse"]
    texts = _sampled(conn, earlier, [name for _, _, names in gone for name in names])
    texts |= _sampled(conn, mine, [*(n for _, _, names in fresh for n in names), *(n for one in found for n in one.samples)])
    known = {row.prompt_hash for row in earlier.rows}
    shown = tuple(Found(one, _texts(texts, one.samples)) for one in found)
    sentence, bad = _sentence(now, before, panels, shown, window_name=window_name, before_name=before_name, season=season)
    return Drift(
        sentence=sentence,
        bad=bad,
        now=now,
        before=before,
        before_name=before_name,
        panels=panels,
        season=season,
        new=tuple(Kind(n, prompts, _texts(texts, names)) for n, prompts, names in fresh) if earlier.rows else (),
        vanished=tuple(Kind(n, prompts, _texts(texts, names)) for n, prompts, names in gone),
        new_share=(sum(row.prompt_hash not in known for row in mine.rows), len(mine.rows)),
        findings=shown,
        clustered=clustered,
        prompts_recorded=not texts or any(sample.prompt is not None for sample in texts.values()),
        embedder=vectors.embedder,
        why_no_vectors=vectors.why_not,
    )


def _sampled(conn: Connection, mix: Mix, names: Sequence[str]) -> dict[str, PromptSample]:
    """Return the texts of the newest lookups read of these prompts."""
    newest = {row.prompt_hash: row.id for row in mix.rows}
    return reads.samples(conn, [newest[name] for name in names])


def _texts(texts: Mapping[str, PromptSample], names: Sequence[str]) -> tuple[PromptSample, ...]:
    return tuple(texts[name] for name in names if name in texts)


def _side(window: Window, mix: Mix, group: Mapping[str, str], equal: int) -> Side:
    counts = Counter(row.prompt_hash for row in mix.rows)
    grouped = Counter(group[row.prompt_hash] for row in mix.rows)
    one, many = list(counts.values()), list(grouped.values())
    clustered = any(group[name] != name for name in counts)
    return Side(
        window,
        tuple(sorted(one, reverse=True)[:MOST_RANKS]),
        entropy(one),
        entropy(many) if clustered else None,
        rarefied(one, equal) if equal else None,
        rarefied(many, equal) if equal and clustered else None,
        tuple(row.similarity for row in mix.rows if row.similarity is not None),
        mix.stride,
    )


def _changes(
    mine: Mix, earlier: Mix, group: Mapping[str, str], keys: Sequence[str], vectors: Vectors = NO_VECTORS
) -> dict[str, Change | None]:
    """Return the change of each panel asked for. `psi` is the mix's other measure."""

    def codes(name: Callable[[Asked], str]) -> tuple[drift.Ints, drift.Ints]:
        known: dict[str, int] = {}
        sides = [np.array([known.setdefault(name(row), len(known)) for row in mix.rows], dtype=np.int64) for mix in (earlier, mine)]
        return sides[0], sides[1]

    grouped = codes(lambda row: group[row.prompt_hash]) if {"mix", "psi"} & set(keys) else None

    def kinds(statistic: drift.Statistic) -> Change | None:
        return None if grouped is None else drift.of_kinds(*grouped, statistic)

    def prompts() -> Change | None:
        before, now = codes(lambda row: row.prompt_hash)
        return drift.of_kinds(before, now, drift.entropy_rows)

    def numbers(of: Callable[[Asked], float | None]) -> list[drift.Floats]:
        return [np.array([value for row in mix.rows if (value := of(row)) is not None], dtype=np.float64) for mix in (earlier, mine)]

    def compared(sides: list[drift.Floats]) -> Change | None:
        return drift.of_numbers(sides[0], sides[1]) if min(map(len, sides)) >= FEW else None

    def as_vectors() -> Change | None:
        if vectors.of:
            told = [[vectors.of[row.prompt_hash] for row in thinned(mix) if row.prompt_hash in vectors.of] for mix in (earlier, mine)]
            return drift.of_vectors(np.stack(told[0]), np.stack(told[1]))
        sides = [parse([row.prompt_simhash for row in mix.rows if len(row.prompt_simhash) == 16]) for mix in (earlier, mine)]
        return drift.of_hashes(sides[0].astype(np.uint64), sides[1].astype(np.uint64)) if min(map(len, sides)) >= FEW else None

    asked: dict[str, Callable[[], Change | None]] = {
        "mix": lambda: kinds(drift.js_rows),
        "psi": lambda: kinds(drift.psi_rows),
        "vectors": as_vectors,
        "entropy": prompts,
        "similarity": lambda: compared(numbers(lambda row: row.similarity)),
        "length": lambda: compared(numbers(lambda row: row.tokens)),
    }
    return {key: asked[key]() for key in keys}


def _panels(mine: Mix, earlier: Mix, group: Mapping[str, str], vectors: Vectors, cut: float | None) -> tuple[Panel, ...]:
    keys = ("mix", "vectors", "entropy", "similarity", "length")
    found = _changes(mine, earlier, group, [*keys, "psi"], vectors)
    n = min(len(mine.rows), len(earlier.rows))
    # Adaptive windowing gives no p-value: a cut is as unlikely as its delta says.
    rate = Change(cut or 0.0, 0.0, adwin.DELTA if cut is not None else 1.0, n, cut is not None)
    judged: list[tuple[str, Change]] = [(key, change) for key in keys if (change := found[key]) is not None] + [("hit_rate", rate)]
    adjusted = dict(zip([key for key, _ in judged], drift.adjusted([change.p_value for _, change in judged]), strict=True))
    every = {**dict(judged), **{key: found[key] for key in keys}}
    return tuple(Panel(key, every[key], adjusted.get(key), psi=found["psi"] if key == "mix" else None) for key in (*keys, "hit_rate"))


def _seasonal(
    panels: tuple[Panel, ...], season: Window, mine: Mix, other: Mix, vectors: Vectors, *, clustered: bool
) -> tuple[tuple[Panel, ...], Window | None]:
    """Return the panels, those in alarm compared with the same time a day (a wide window: a week) before, where it is recorded.

    The measure is the alarm's own: vectors where it was of vectors, clusters where it was of clusters; else there is no verdict.
    """
    if min(len(other.rows), len(mine.rows)) < FEW:
        return panels, None
    joint, joined = grouping(mine, other, vectors=vectors)
    measured = not vectors.of or _enough(vectors, mine, other)
    unlike = {"mix": not measured or joined != clustered, "vectors": not measured, "hit_rate": True}
    keys = [panel.key for panel in panels if panel.certain and panel.large and not unlike.get(panel.key)]
    found = _changes(mine, other, joint, keys, vectors)
    return tuple(Panel(one.key, one.change, one.p_value, found.get(one.key), one.psi) for one in panels), season


def _kinds(mine: Mix, other: Mix, group: Mapping[str, str]) -> list[tuple[int, int, list[str]]]:
    """Return lookups, different prompts and the three most frequent of each kind that the other window has not, largest first."""
    known = {group[row.prompt_hash] for row in other.rows}
    found: dict[str, dict[str, int]] = {}
    for row in mine.rows:
        kind = group[row.prompt_hash]
        if kind not in known:
            counts = found.setdefault(kind, {})
            counts[row.prompt_hash] = counts.get(row.prompt_hash, 0) + 1
    ranked = sorted(found.values(), key=lambda counts: (-sum(counts.values()), min(counts)))[:MOST]
    return [(sum(counts.values()), len(counts), top(counts, 3)) for counts in ranked]


NAMES = {
    "mix": "mix of prompts",
    "vectors": "prompts as vectors",
    "entropy": "entropy",
    "similarity": "similarity of candidates",
    "length": "length of prompts",
    "hit_rate": "hit rate",
}


def _sentence(
    now: Side,
    before: Side,
    panels: Sequence[Panel],
    found: Sequence[Found],
    *,
    window_name: str,
    before_name: str,
    season: Window | None,
) -> tuple[str, bool]:
    if now.entropy is None:
        return f"No prompts in {window_name}: there is no mix to show", False
    kinds = words.many(now.entropy.kinds, "different prompt", "different prompts")
    read = f" (every {now.stride}th read)" if now.stride > 1 else ""
    head = f"{kinds} in {words.many(now.entropy.n, 'lookup', 'lookups')}{read} in {window_name}"
    alarms = [NAMES[panel.key] for panel in panels if panel.alarm]
    usual = [NAMES[panel.key] for panel in panels if panel.certain and panel.large and panel.rhythm]
    collapsed = [one.finding for one in found if one.finding.kind == "collapse"]
    told = f"; one entry answers {words.count(collapsed[0].prompts)} different prompts" if collapsed else ""
    if before.entropy is None:
        return f"{head}; nothing in {before_name} to compare with{told}", bool(told)
    if min(now.entropy.n, before.entropy.n) < FEW:
        few = f"too few to compare (n = {words.count(before.entropy.n)} in {before_name}, {FEW} needed in each)"
        return f"{head}; {few}{told}", bool(told)
    if alarms:
        return f"{head}; drift against {before_name}: {words.listed(alarms)} changed{told}", True
    if usual:
        return (
            f"{head}; {words.listed(usual)} changed as at the same time on {words.instant(season.start_ms)[:10] if season else ''}{told}",
            False,
        )
    return f"{head}; no drift against {before_name}{told}", bool(told)
