"""Hit rate: where do hits come from, and where do they go?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from app.analysis.hit_rate import HITS, OUTCOMES, Counts, count
from app.analysis.intervals import wilson
from app.views import marks, rates, words
from app.views.decision import reason_in_words
from app.views.dial import Dial
from app.views.parts import Failure, attempt
from storage.reads import hit_rate, window
from storage.reads.acts import Mark
from storage.reads.hit_rate import Cell
from storage.reads.window import Extent, Scope, Window
from storage.store import Store

TELEMETRY, ACTS = SOURCES = ("Telemetry database", "Record of acts")
OTHER_KINDS = {
    "provider_prompt": "The provider's own prompt cache: input tokens billed at the cached price. Not ours to purge or tune here.",
    "kv_prefix": "An inference server's key-value prefix cache: prompt tokens whose attention state was reused.",
}
_MOST_ROWS = 500


@dataclass(frozen=True, slots=True)
class Reason:
    """Lookups of one outcome and reason, as a share of all lookups of that outcome."""

    outcome: str
    reason: str
    lookups: int
    of: int


@dataclass(frozen=True, slots=True)
class OtherKind:
    """A cache of another kind. Its outcomes are counted apart, and in no total of this page."""

    cache_kind: str
    counts: Counts
    what: str


@dataclass(frozen=True, slots=True)
class Loaded:
    counts: Counts
    buckets: tuple[rates.Bucket, ...]
    funnel: tuple[rates.Funnel, ...]
    cells: tuple[Cell, ...]
    reasons: tuple[Reason, ...]
    others: tuple[OtherKind, ...]
    extent: Extent


@dataclass(frozen=True, slots=True)
class HitRate:
    window: Window
    now_ms: int
    sentence: str
    bad: bool
    loaded: Loaded | None
    marks: tuple[Mark, ...]
    failures: tuple[Failure, ...]


def load(
    telemetry: Callable[[], Store], ops: Callable[[], Store], *, window: Window, scope: Scope, window_name: str, now_ms: int
) -> HitRate:
    """Return the page. Only traffic is counted; warm-ups and probes are not."""
    read = attempt(TELEMETRY, lambda: _read(telemetry(), window, scope, now_ms), hides="every number of this page")
    marked, unmarked = marks.load(telemetry, ops, window, scope)
    sentence, bad = _sentence(read.value, window_name)
    if read.failure and read.failure.missing:
        sentence, bad = "No telemetry has been stored yet", False
    failures = tuple(failure for failure in (read.failure, unmarked) if failure)
    return HitRate(window, now_ms, sentence, bad, read.value, marked, failures)


def _read(store: Store, shown: Window, scope: Scope, now_ms: int) -> Loaded:
    with store.read() as conn:
        cells = hit_rate.cells(conn, shown, scope)
        series = hit_rate.series(conn, shown, scope)
        extent = window.extent(conn)
    kinds = {cell.cache_kind for cell in cells} - {rates.RESPONSE}
    return Loaded(
        counts=rates.totals(cells),
        buckets=rates.buckets(series, shown, cache_kind=rates.RESPONSE, now_ms=now_ms),
        funnel=rates.funnel(cells),
        cells=tuple(cell for cell in cells if cell.cache_kind == rates.RESPONSE),
        reasons=_reasons(cells),
        others=tuple(OtherKind(kind, rates.totals(cells, cache_kind=kind), OTHER_KINDS.get(kind, "")) for kind in sorted(kinds)),
        extent=extent,
    )


def _reasons(cells: Sequence[Cell]) -> tuple[Reason, ...]:
    found: dict[tuple[str, str], int] = {}
    of: dict[str, int] = {}
    for cell in cells:
        if cell.cache_kind == rates.RESPONSE and cell.outcome in {"miss", "bypass", "error"}:
            key = (cell.outcome, cell.reason)
            found[key] = found.get(key, 0) + cell.lookups
            of[cell.outcome] = of.get(cell.outcome, 0) + cell.lookups
    ordered = sorted(found.items(), key=lambda item: (OUTCOMES.index(item[0][0]), -item[1]))
    return tuple(Reason(outcome, reason, lookups, of[outcome]) for (outcome, reason), lookups in ordered)


def _sentence(loaded: Loaded | None, window_name: str) -> tuple[str, bool]:
    if loaded is None:
        return "The telemetry database does not answer: no hit rate is known here", True
    share = loaded.counts.hit_rate
    if share is None:
        return f"No eligible lookups in {window_name}: there is no hit rate to show.", False
    parts = [
        f"{words.percent(loaded.counts.share(outcome))} {words.OUTCOME_NAMES[outcome].replace(' hit', '')}"
        for outcome in HITS
        if loaded.counts.of(outcome)
    ]
    told = f"Hit rate {words.percent(share)} ({words.interval(share)}, n = {words.count(share.n)}) in {window_name}"
    told += f": {words.listed(parts)}." if parts else ": no hits."
    lost = next((reason for reason in sorted(loaded.reasons, key=lambda r: -r.lookups) if reason.outcome == "miss"), None)
    if lost:
        told += f" Most misses: {_miss(lost.reason)} ({words.count(lost.lookups)} of {words.count(lost.of)})."
    return told, False


def _miss(reason: str) -> str:
    """Return why a lookup missed, in words; a sender other than our engine may name no reason."""
    return reason_in_words(reason) if reason else "nothing stored that matches"


def coverage_dials(loaded: Loaded) -> list[Dial]:
    """Return the hit rate, and beside it what is not in its denominator."""
    counts = loaded.counts
    rows = []
    for label, outcomes in (
        ("Hit rate", HITS),
        ("Exact", ("exact_hit",)),
        ("Semantic", ("semantic_hit",)),
        ("Coalesced", ("coalesced",)),
    ):
        share = counts.share(*outcomes)
        detail = f"{words.count(share.k)} of {words.count(share.n)}, 95 %: {words.interval(share)}" if share else "no eligible lookups"
        rows.append(Dial(label, words.percent(share), detail))
    covered = counts.coverage
    rows.append(
        Dial(
            "Could hit",
            words.percent(covered),
            f"{words.count(counts.eligible)} of {words.count(counts.total)} lookups; "
            f"{words.count(counts.of('bypass'))} bypassed, {words.count(counts.of('error'))} failed",
            help="Lookups in the hit rate's denominator, of all. Bypasses and errors are outside it.",
        )
    )
    return rows


def segment_rows(loaded: Loaded) -> list[dict[str, object]]:
    """Return namespace × tenant × model with n and interval, the largest first. None where nothing was eligible."""
    groups: dict[tuple[str, str, str], list[tuple[str, int]]] = {}
    for cell in loaded.cells:
        groups.setdefault((cell.namespace, cell.tenant, cell.model), []).append((cell.outcome, cell.lookups))
    rows: list[dict[str, object]] = []
    for (namespace, tenant, model), pairs in groups.items():
        counts = count(pairs)
        share = counts.hit_rate
        rows.append(
            {
                "namespace": words.name(namespace),
                "tenant": words.name(tenant),
                "model": words.name(model),
                "hit rate": None if share is None else share.ratio * 100,
                "95 %": words.interval(share),
                "exact": _of(counts, "exact_hit"),
                "semantic": _of(counts, "semantic_hit"),
                "n": counts.eligible,
                "bypass": counts.of("bypass"),
                "error": counts.of("error"),
            }
        )
    return sorted(rows, key=lambda row: -int(str(row["n"])))[:_MOST_ROWS]


def _of(counts: Counts, outcome: str) -> float | None:
    share = counts.share(outcome)
    return None if share is None else share.ratio * 100


def bucket_rows(loaded: Loaded) -> list[dict[str, object]]:
    return rates.bucket_rows(loaded.buckets, {outcome: words.OUTCOME_NAMES[outcome] for outcome in OUTCOMES})


def funnel_rows(loaded: Loaded) -> list[dict[str, object]]:
    return [
        {
            "answered by": step.name,
            "share": step.share.ratio * 100,
            "lookups": step.share.k,
            "of": step.share.n,
            "95 %": words.interval(step.share),
        }
        for step in loaded.funnel
    ]


def reason_rows(loaded: Loaded) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for reason in loaded.reasons:
        share = wilson(reason.lookups, reason.of)
        rows.append(
            {
                "outcome": words.OUTCOME_NAMES[reason.outcome],
                "reason": _miss(reason.reason) if reason.outcome == "miss" else words.name(reason.reason.replace("_", " ")),
                "lookups": reason.lookups,
                "of": reason.of,
                "share": None if share is None else share.ratio * 100,
            }
        )
    return rows


def other_rows(loaded: Loaded) -> list[Mapping[str, object]]:
    return [
        {
            "kind": other.cache_kind.replace("_", " "),
            "lookups": other.counts.total,
            "with a cached part": words.percent(wilson(other.counts.hits, other.counts.eligible)),
            "what it is": other.what,
        }
        for other in loaded.others
    ]
