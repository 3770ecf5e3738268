"""Drift: is the traffic changing under the cache?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from sqlalchemy import Connection

from app.analysis.clusters import Finding, Served, findings
from app.analysis.entropy import Entropy, entropy, rarefied
from app.analysis.hit_rate import HITS
from app.views import evenly, why, words
from app.views.drift_panels import FEW, NAMES, Panel, against_season, enough, judge
from app.views.evenly import Even
from app.views.likeness import NO_VECTORS, Embed, Vectors, grouping, thinned
from app.views.news import news
from app.views.parts import Failure, attempt
from storage.reads import drift as reads
from storage.reads.drift import Mix, PromptSample
from storage.reads.window import MINUTE_MS, Scope, Window
from storage.store import Store

TELEMETRY = "Telemetry database"
SOURCES = (TELEMETRY,)
MOST_RANKS = 100
_MOST_BLOCKS = 150  # in which the rate is looked at: of a day, of ten minutes. When it changed is told elsewhere, in finer ones
_SEASONS_MS = (86_400_000, 604_800_000, 1_209_600_000)  # a day, a week, two weeks


@dataclass(frozen=True, slots=True)
class Side:
    """One window's mix, from one lookup in `stride`. largest: counts of its 100 most frequent prompts. clusters: None where none are.

    prompts: the hashes of these, in the same order; none in what an earlier version computed ahead.
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
    prompts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Kind:
    """A cluster of like prompts (or one prompt) that is new or gone. samples: its most frequent prompts."""

    lookups: int
    prompts: int
    samples: tuple[PromptSample, ...]


@dataclass(frozen=True, slots=True)
class NewShare:
    """lookups: of the sample, those whose prompt the other window has not. of: the sample's."""

    lookups: int
    of: int


@dataclass(frozen=True, slots=True)
class Found:
    """A finding with its sample prompts."""

    finding: Finding
    samples: tuple[PromptSample, ...]


@dataclass(frozen=True, slots=True)
class Drift:
    """clustered: the mix is of clusters of like prompts; else of exact prompts.

    embedder: whose vectors a sample of the prompts was compared and grouped by; '' = SimHashes alone, and why_no_vectors says why where
    vectors were asked for. computed_ms: when the worker did; None = now. sampled: what sampling means for the comparison, '' = nothing.
    looked: of so many lookups of the window before, and of this one, one was looked through for what is new, and what vanished; 1 = all.
    refused: why nothing of this time is told, or, where something is, why it is compared with nothing: '' = neither.
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
    new_share: NewShare = NewShare(0, 0)
    looked: tuple[int, int] = (1, 1)
    findings: tuple[Found, ...] = ()
    clustered: bool = False
    prompts_recorded: bool = True
    embedder: str = ""
    why_no_vectors: str = ""
    computed_ms: int | None = None
    sampled: str = ""
    refused: str = ""
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
    thorough: bool = False,
) -> Drift:
    """Compare the window with another one of its length; None = the one before it. embed: makes vectors of texts, off the page.

    thorough: by the worker, of more lookups; else within what a page has.
    """
    compared = before or window.previous

    def read() -> Drift:
        with telemetry().read() as conn:
            sides = tuple(evenly.read(conn, one, scope, thorough=thorough) for one in (window, compared))
            mine, earlier = (one.fair for one in sides)
            equal = min(len(mine.rows), len(earlier.rows))
            texts = _to_embed(conn, mine, earlier) if embed and equal >= FEW else {}
            cut = why.cut_in(conn, window, scope, most_blocks=_MOST_BLOCKS) if equal >= FEW else None
            moved = 0.0 if cut is None else abs(cut[1].now_ratio - cut[1].before_ratio)
        vectors = NO_VECTORS
        if embed and texts:  # outside the snapshot: it may take seconds, and would keep the log from being folded in
            vectors = embed(texts)
            if not vectors.why_not and not enough(vectors, mine, earlier):
                vectors = replace(NO_VECTORS, why_not=f"too few texts: {FEW} are needed in each window")
        alike = grouping(mine, earlier, vectors=vectors)
        panels: tuple[Panel, ...] = ()
        season = None
        if equal >= FEW:
            panels = judge(mine, earlier, alike[0], vectors, None if sides[0].counts.skewed else moved)
        # The hit rate is judged within this time: the clock has no say in it.
        if compared == window.previous and any(panel.certain and panel.large and panel.key != "hit_rate" for panel in panels):
            season = season_of(window)
        if season is not None:
            with telemetry().read() as conn:
                other = evenly.read(conn, season, scope, thorough=thorough).fair
                texts = _to_embed(conn, other) if vectors.of else {}
            more = embed(texts) if embed and texts else NO_VECTORS
            both = replace(vectors, of={**vectors.of, **more.of})
            panels, season = against_season(panels, season, (mine, earlier), other, both, alike=alike)
        told = _Compared(sides[0], sides[1], *alike, vectors, panels, season)
        with telemetry().read() as conn:
            return _drawn(conn, window, compared, told, scope, window_name=window_name, before_name=before_name)

    part = attempt(TELEMETRY, read, hides="the mix of prompts and its change")
    if part.value is not None:
        return part.value
    failures = (part.failure,) if part.failure else ()
    missing = bool(part.failure and part.failure.missing)
    told = "No telemetry has been stored yet" if missing else "The telemetry database does not answer: there is no mix to show"
    return Drift(told, not missing, None, None, failures=failures)


def season_of(window: Window) -> Window | None:
    """Return the same time a day, a week or two weeks before: the nearest that shares no lookup with the window before, else None.

    A moving range holds the minute that has begun as well, which counts for nothing here.
    """
    length_ms = window.length_ms - MINUTE_MS
    return next((window.shifted(back_ms) for back_ms in _SEASONS_MS if back_ms >= 2 * length_ms), None)


def named(view: Drift, *, window_name: str, before_name: str) -> Drift:
    """Return the same comparison with its windows called by these names."""
    if view.now is None or view.before is None:
        return view
    sentence, bad = _sentence(view, view.now, view.before, window_name=window_name, before_name=before_name)
    return replace(view, sentence=sentence, bad=bad, before_name=before_name)


class _Compared(NamedTuple):
    now: Even
    before: Even
    group: Mapping[str, str]
    clustered: bool
    vectors: Vectors
    panels: tuple[Panel, ...]
    season: Window | None


def _to_embed(conn: Connection, *mixes: Mix) -> dict[str, str]:
    return reads.texts(conn, [row.id for mix in mixes for row in thinned(mix)])


def _drawn(
    conn: Connection, window: Window, compared: Window, told: _Compared, scope: Scope, *, window_name: str, before_name: str
) -> Drift:
    group, clustered, vectors = told.group, told.clustered, told.vectors
    mine, earlier = told.now.fair, told.before.fair
    equal = min(len(mine.rows), len(earlier.rows))
    now, before = (_side(one, found, group, equal) for one, found in ((window, mine), (compared, earlier)))
    new = news(conn, mine, earlier, group, of=compared, scope=scope, clustered=clustered)
    vanished = news(conn, earlier, mine, group, of=window, scope=scope, clustered=clustered)
    fresh, gone = new.kinds, vanished.kinds
    found = findings([Served(row.prompt_hash, group[row.prompt_hash], row.entry_id, row.outcome in HITS) for row in mine.rows])
    if not clustered:
        found = [one for one in found if one.kind == "collapse"]
    texts = _sampled(conn, earlier, [name for _, _, names in gone for name in names])
    texts |= _sampled(conn, mine, [*(n for _, _, names in fresh for n in names), *(n for one in found for n in one.samples)])
    shown = tuple(Found(one, _texts(texts, one.samples)) for one in found)
    view = Drift(
        sentence="",
        bad=False,
        now=now,
        before=before,
        panels=told.panels,
        season=told.season,
        new=tuple(Kind(n, prompts, _texts(texts, names)) for n, prompts, names in fresh),
        vanished=tuple(Kind(n, prompts, _texts(texts, names)) for n, prompts, names in gone),
        new_share=NewShare(new.lookups, len(mine.rows) if earlier.rows else 0),
        looked=(new.looked, vanished.looked),
        findings=shown,
        clustered=clustered,
        prompts_recorded=not texts or any(sample.prompt is not None for sample in texts.values()),
        embedder=vectors.embedder,
        why_no_vectors=vectors.why_not,
        sampled=evenly.note(told.now, told.before),
        refused=told.now.refused or told.before.refused,
    )
    return named(view, window_name=window_name, before_name=before_name)


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
    largest = counts.most_common(MOST_RANKS)
    return Side(
        window,
        tuple(n for _, n in largest),
        entropy(one),
        entropy(many) if clustered else None,
        rarefied(one, equal) if equal else None,
        rarefied(many, equal) if equal and clustered else None,
        tuple(row.similarity for row in mix.rows if row.similarity is not None),
        mix.stride,
        tuple(name for name, _ in largest),
    )


def _sentence(view: Drift, now: Side, before: Side, *, window_name: str, before_name: str) -> tuple[str, bool]:
    if now.entropy is None:
        told = f"No mix of prompts can be told for {window_name}: {view.refused}"
        return (told, True) if view.refused else (f"No prompts in {window_name}: there is no mix to show", False)
    kinds = words.many(now.entropy.kinds, "different prompt", "different prompts")
    read = f" (1 in {now.stride} read)" if now.stride > 1 else ""
    first = {one.finding.kind: one.finding for one in reversed(view.findings)}
    least = "at least " if now.stride > 1 else ""
    told = ""
    if (one := first.get("collapse")) is not None:
        told += f"; one entry answers {least}{words.count(one.prompts)} different prompts"
    if (one := first.get("scatter")) is not None:
        told += f"; {least}{words.count(one.prompts)} like prompts have {words.many(one.entries, 'entry', 'entries')}"
    head = f"{kinds} in {words.many(now.entropy.n, 'lookup', 'lookups')}{read} in {window_name}"
    verdict, bad = _compared(view, now.entropy, before.entropy, before_name)
    return f"{head}; {verdict}{told}", bad or bool(told)


def _compared(view: Drift, now: Entropy, before: Entropy | None, before_name: str) -> tuple[str, bool]:
    """Return what the comparison says, and whether it is bad news."""
    if before is None:
        told = f"{before_name} is not compared: {view.refused}" if view.refused else f"nothing in {before_name} to compare with"
        return told, bool(view.refused)
    if min(now.n, before.n) < FEW:
        return f"too few to compare (n = {words.count(before.n)} in {before_name}, {FEW} needed in each)", False
    # The hit rate is judged within this time alone.
    alarms = [NAMES[panel.key] for panel in view.panels if panel.alarm and panel.key != "hit_rate"]
    within = "the hit rate changed within this time" if any(panel.alarm and panel.key == "hit_rate" for panel in view.panels) else ""
    if alarms:
        return f"drift against {before_name}: {words.listed(alarms)} changed{'; ' if within else ''}{within}", True
    if within:
        return f"{within}; nothing else against {before_name}", True
    usual = [NAMES[panel.key] for panel in view.panels if panel.certain and panel.large and panel.rhythm]
    if usual and view.season:
        return f"{words.listed(usual)} changed as at the same time on {words.instant(view.season.start_ms)[:10]}", False
    return f"no drift against {before_name}", False
