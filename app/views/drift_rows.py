"""The Drift page's dials and tables, from its view model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from app.analysis.clusters import LEAST_COSINE, RADIUS
from app.analysis.drift import Change
from app.analysis.entropy import Entropy
from app.analysis.intervals import wilson
from app.views import words
from app.views.dial import Dial
from app.views.drift import Drift, Found, Kind
from app.views.drift_panels import FALSE_SHARE, FEW, LEAST, NAMES, Panel
from app.views.news import MOST
from storage.reads.drift import PromptSample

_MEASURES = {
    "mix": ("Jensen-Shannon divergence", "bits"),
    "vectors": ("MMD² of SimHashes, Hamming kernel", ""),
    "entropy": ("change, Miller-Madow, at equal n", "bits"),
    "similarity": ("Kolmogorov-Smirnov distance", ""),
    "length": ("Kolmogorov-Smirnov distance, input tokens", ""),
    "hit_rate": ("adaptive windowing (ADWIN) within this time", "points"),
}


PANELS_HELP = (
    "Each panel compares as many lookups of both windows. Chance: both are cut into 12 parts, which are dealt anew 499 times; a burst "
    "moves as one. A panel is changed when its p-value, adjusted for the number of panels, is at most 0.05, both halves of this time say "
    "so, the effect is worth acting on, and the same time a day or more before, with lookups enough to tell, was not alike."
)


def dials(view: Drift) -> list[Dial]:
    """Return entropy of prompts and of clusters, the effective number, the change of the mix, and what was never seen before."""
    if view.now is None or view.now.entropy is None:
        return []
    mix, before = view.now.entropy, view.before.entropy if view.before else None
    found = [
        Dial(
            "Entropy",
            f"{mix.bits:.2f} bits",
            f"of exact prompts, {_interval(mix)}, of those seen at most {_most_bits(mix)}{_normalised(mix)}; n = {words.count(mix.n)}",
            _moved(view.now.rarefied_bits, view.before.rarefied_bits if view.before else None),
            help=f"Estimated by {_estimator(mix)}; plug-in {mix.plug_in_bits:.2f} bits.",
        ),
        Dial(
            "Effective prompts",
            f"{mix.effective:,.0f}",
            f"as varied as so many equal ones; {words.count(mix.kinds)} seen, {words.count(mix.singletons)} of them once; "
            f"n = {words.count(mix.n)}{_effective(mix)}",
        ),
    ]
    if view.now.clusters:
        grouped = view.now.clusters
        equal = words.many(round(grouped.effective), "equal one", "equal ones")
        detail = f"{words.many(grouped.kinds, 'cluster', 'clusters')}, as varied as {equal}; n = {words.count(grouped.n)}"
        moved = _moved(view.now.rarefied_cluster_bits, view.before.rarefied_cluster_bits if view.before else None)
        found.append(Dial("Entropy of clusters", f"{grouped.bits:.2f} bits", detail, moved, help=_alike(view)))
    if before:
        found += _compared(view, min(mix.n, before.n) >= FEW)
    return found


def _alike(view: Drift) -> str:
    """Return which prompts are one cluster."""
    hashed = f"whose 64-bit SimHashes differ in {RADIUS} bits at most, a cosine of about 0.94"
    if not view.embedder:
        return f"Alike are prompts {hashed}."
    made = words.one_line(view.embedder, 40)
    return f"Alike are prompts of the sample whose vectors of {made} have a cosine of {LEAST_COSINE} or more, and others {hashed}."


def grouped_by(view: Drift) -> str:
    """Return what likeness of prompts is judged by."""
    if view.embedder:
        rest = ", the others' SimHashes" if view.clustered else ""
        return f"likeness is by vectors of {words.one_line(view.embedder, 40)} of a sample of the prompts{rest}"
    told = "clusters are of SimHashes" if view.clustered else "too few SimHashes are recorded: exact prompts only"
    return f"{told}; no vectors: {words.one_line(view.why_no_vectors, 120)}" if view.why_no_vectors else told


def made(view: Drift, now_ms: int) -> str:
    """Return how old the comparison is."""
    if view.computed_ms is None:
        return f"Read at {words.clock(now_ms)} UTC"
    return f"Computed by the worker {words.age(now_ms - view.computed_ms)} ago, at {words.clock(view.computed_ms)} UTC"


def _compared(view: Drift, judged: bool) -> list[Dial]:
    panel = next((panel for panel in view.panels if panel.key == "mix"), None)
    fresh = _fresh(view)
    if not judged or panel is None or panel.change is None:
        return [Dial("Change of the mix", words.NO_DATA, f"too few to judge: {FEW} needed in each"), fresh]
    detail = f"{_verdict(panel)}: chance alone gives up to {panel.change.null:.3f}"
    return [Dial("Change of the mix", f"{panel.change.effect:.3f} bits", detail, good=False if panel.alarm else None), fresh]


def _fresh(view: Drift) -> Dial:
    """Return the dial of new prompts: at most so many where not all of the other window was looked through."""
    new, total = view.new_share.lookups, view.new_share.of
    if not total:
        return Dial("New prompts", words.NO_DATA, "nothing to compare with")
    share = words.ratio(new / total)
    counted, told = f"{words.count(new)} of {words.count(total)} lookups", f"95 %: {words.interval(wilson(new, total))} as if independent"
    if view.looked[0] == 1 or not new:
        return Dial("New prompts", share, f"{counted}; {told}")
    return Dial("New prompts", f"at most {share}", f"{counted}, not found in {_part(view.looked[0])} before; {told}")


def _part(number: int) -> str:
    return f"one lookup in {words.count(number)}"


def _estimator(mix: Entropy) -> str:
    return "Chao-Shen, for many were seen once" if mix.bits == mix.chao_shen_bits else "Miller-Madow"


def _interval(mix: Entropy) -> str:
    """Return `95 %: 5.01–5.20`, or why there is none."""
    found = mix.interval_bits
    return "too many seen once for an interval" if found is None else f"95 %: {found[0]:.2f}–{found[1]:.2f}"


def _normalised(mix: Entropy) -> str:
    return "" if mix.normalised_ratio is None else f", normalised {mix.normalised_ratio:.2f} of 1"


def _effective(mix: Entropy) -> str:
    found = mix.interval_bits
    return "" if found is None else f", 95 %: {2 ** found[0]:,.0f}–{2 ** found[1]:,.0f}"


def _most_bits(mix: Entropy) -> str:
    return f"{mix.plug_in_bits / mix.normalised_ratio:.2f}" if mix.normalised_ratio else "0.00"


def _moved(now: float | None, before: float | None) -> str:
    return "" if now is None or before is None else f"{now - before:+.2f} bits at equal n".replace("-", "−")


def front(view: Drift, now_ms: int) -> list[Dial]:
    """Return the Overview's dials of entropy and of drift: those of this page, with what changed beside them, and their age."""
    age = "" if view.computed_ms is None else f"computed {words.age(now_ms - view.computed_ms)} ago"
    return [replace(dial, age=age if dial.value != words.NO_DATA else "") for dial in _front(view)]


def _front(view: Drift) -> list[Dial]:
    found = {dial.label: dial for dial in dials(view)}
    entropy = found.get("Entropy") or Dial(
        "Entropy", words.NO_DATA, (view.refused or "no prompts in this time") if view.now else "it cannot be read"
    )
    mix = found.get("Change of the mix")
    if mix is None:
        why = (view.refused or "nothing to compare with") if view.now else "it cannot be read"
        return [entropy, Dial("Drift", words.NO_DATA, why)]
    if not view.panels or mix.value == words.NO_DATA:
        return [entropy, replace(mix, label="Drift")]
    changed = [NAMES[panel.key] for panel in view.panels if panel.alarm]
    judged = sum(panel.change is not None for panel in view.panels)
    told = f"changed: {words.listed(changed)}" if changed else f"none of {judged} panels changed"
    n = next((panel.change.n for panel in view.panels if panel.key == "mix" and panel.change), 0)
    return [entropy, replace(mix, label="Drift", change=told, detail=f"mix {mix.detail}; n = {words.count(n)} in each")]


def _verdict(panel: Panel) -> str:
    if panel.change is None:
        return "not told: lookups were not all kept alike" if panel.key == "hit_rate" else "not recorded, or too few"
    if panel.alarm:
        return "changed"
    if panel.certain and panel.large:
        return "as at the same time before"
    if panel.certain:
        return "changed, too little to act on"
    return "within chance" if panel.p_value is None or panel.p_value > FALSE_SHARE else "not in both halves"


def panel_rows(view: Drift) -> list[dict[str, object]]:
    """Return one row a panel: what was measured, what chance gives, the adjusted p-value and the verdict.

    The same time before has a column where it decided something: without it the others fit a laptop.
    """
    seasons = {panel.key: _season(panel) for panel in view.panels}
    return [
        {
            "what": NAMES[panel.key],
            "verdict": _verdict(panel),
            "seen": _value(panel.key, panel.change.effect if panel.change else None),
            "chance gives up to": "–" if panel.key == "hit_rate" else _value(panel.key, panel.change.null if panel.change else None),
            "p, adjusted": None if panel.p_value is None or panel.key == "hit_rate" else round(panel.p_value, 4),
            "least worth acting on": _value(panel.key, LEAST[panel.key]),
            "n in each": panel.change.n if panel.change else None,
            "measure": _measure(panel.key, view) + _beside(panel.psi),
            **({"same time before": seasons[panel.key]} if any(seasons.values()) else {}),
        }
        for panel in view.panels
    ]


def _measure(key: str, view: Drift) -> str:
    if key == "vectors" and view.embedder:
        return f"MMD² of vectors of {words.one_line(view.embedder, 40)}, Gaussian kernel"
    return _MEASURES[key][0]


def _beside(psi: Change | None) -> str:
    return "" if psi is None else f"; PSI {psi.effect:.3f} nats, chance gives up to {psi.null:.3f}"


def _season(panel: Panel) -> str:
    if panel.seasonal is None:
        return ""
    told = f"{_value(panel.key, panel.seasonal.effect)}, p = {panel.seasonal.p_value:.3f}, n = {words.count(panel.seasonal.n)}"
    return f"{told}: too few to tell" if panel.unsure else told


def _value(key: str, value: float | None) -> str:
    if value is None:
        return words.NO_DATA
    if key == "hit_rate":
        return f"{value * 100:.1f} points"
    return f"{value:.3f} {_MEASURES[key][1]}".strip().replace("-", "−")


def lists(view: Drift) -> list[tuple[str, tuple[Kind, ...]]]:
    """Return the titled lists of kinds of prompts, the new ones first; none while there is nothing to compare with."""
    if view.before is None or view.before.entropy is None or view.refused:
        return []
    what = "Clusters of prompts" if view.clustered else "Prompts"
    found = ((f"{what} that are new", view.new), (f"{what} that vanished", view.vanished))
    return [(f"{title}, the {len(rows)} most frequent" if len(rows) == MOST else title, rows) for title, rows in found]


def unseen(view: Drift) -> str:
    """Return what the lists of new and vanished prompts, and the findings, are counted in, '' where that is all lookups."""
    if view.now is None or view.before is None:
        return ""
    sides = ((view.now.stride, "this time"), (view.before.stride, "the time before"))
    counted = [f"{_part(stride)} of {name}" for stride, name in sides if stride > 1]
    looked = [
        f"{_part(number)} of {name}" for number, name in zip(view.looked, ("the time before", "this time"), strict=True) if number > 1
    ]
    told = [f"counts of prompts, entries and lookups are of a sample, {words.listed(counted)}, and not scaled up"] if counted else []
    if looked:
        told.append(f"new or vanished is what is not in {words.listed(looked)}: a rare prompt may have been there")
    return "; ".join(told)


def kind_rows(found: Sequence[Kind], stride: int = 1) -> list[dict[str, Any]]:
    """Return a row a kind. stride: of so many lookups one was read."""
    return [
        {
            "prompts": _sampled(kind.samples),
            **_counted(stride),
            "lookups": kind.lookups,
            "different prompts": kind.prompts,
            "namespace": words.listed(sorted({words.name(sample.namespace) for sample in kind.samples})),
            "tenant": words.listed(sorted({words.name(sample.tenant) for sample in kind.samples})),
        }
        for kind in found
    ]


def _sampled(samples: Sequence[PromptSample]) -> str:
    texts = [words.one_line(sample.prompt, 90) for sample in samples if sample.prompt]
    return " · ".join(dict.fromkeys(texts)) if texts else words.UNNAMED


def _counted(stride: int) -> dict[str, str]:
    """Return the column that says of which part of the lookups a row's counts are; none where they are of all."""
    return {"counted in": _part(stride)} if stride > 1 else {}


def finding_rows(found: Sequence[Found], stride: int = 1, query: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """Return what the findings are, in words, with what stands behind them. stride: of so many lookups one was read.

    query: the bar's part of the URL, for the link to the lookups of a finding's busiest entry.
    """
    return [
        {
            "finding": one.finding.kind,
            "what it means": _meaning(one),
            **_counted(stride),
            "prompts": one.finding.prompts,
            "entries": one.finding.entries,
            "lookups": one.finding.lookups,
            "for example": _sampled(one.samples),
            "entry ids": _entries(one),
            "traces": _lookups(one, query or {}),
        }
        for one in found
    ]


def _lookups(one: Found, query: Mapping[str, str]) -> str | None:
    return "/traces?" + urlencode({**query, "q": one.finding.named[0]}) if one.finding.named else None


def _entries(one: Found) -> str:
    named = one.finding.named
    more = one.finding.entries - len(named)
    return ", ".join(words.one_line(entry, 40) for entry in named) + (f" and {words.count(more)} more" if named and more else "")


def _meaning(one: Found) -> str:
    if one.finding.kind == "collapse":
        return f"entry {words.one_line(one.finding.of, 12)} answers many prompts: read them, the threshold may be too low"
    return "like prompts, nearly an entry each: the threshold may be too high, or a rule parts them"
