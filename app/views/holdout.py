"""Holdout: what the upstream said where the cache would have answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.analysis.holdout import Agreement, agreement
from app.analysis.intervals import Ratio
from app.views import words
from app.views.parts import Failure, attempt
from storage.reads import holdout as reads
from storage.reads.holdout import HeldRow
from storage.reads.window import Scope, Window
from storage.store import Store

TELEMETRY = "Telemetry database"
WORST = 20
NOTE = (
    "Words in common (Dice) of the answer held out and the upstream's: a measure of difference, not of being right, for one word may turn "
    "an answer round. Where an exact hit was held out both answers are to the same request: that row tells how much the upstream varies "
    "by itself."
)


@dataclass(frozen=True, slots=True)
class Holdout:
    """held: the newest held-out lookups. exact, semantic: their agreement. more: there are older ones that were not read."""

    held: tuple[HeldRow, ...]
    exact: Agreement
    semantic: Agreement
    more: bool
    failures: tuple[Failure, ...]


def load(telemetry: Callable[[], Store], *, window: Window, scope: Scope) -> Holdout:
    """Return what was held out in the window."""

    def read() -> list[HeldRow]:
        with telemetry().read() as conn:
            return reads.held_out(conn, window, scope)

    found = attempt(TELEMETRY, read, hides="what was held out")
    rows = tuple(found.value or ())
    return Holdout(
        held=rows,
        exact=agreement([row.agreement_ratio for row in rows if _exact(row)]),
        semantic=agreement([row.agreement_ratio for row in rows if not _exact(row)]),
        more=len(rows) == reads.MAX_ROWS,
        failures=(found.failure,) if found.failure else (),
    )


def _exact(row: HeldRow) -> bool:
    return row.candidates is None


def sentence(view: Holdout) -> str:
    """Return how many were held out, and what that cost."""
    if not view.held:
        return "Nothing was held out in this time. Set a holdout with cachescope verification NAMESPACE --holdout 0.01."
    costs = [row.cost_usd for row in view.held if row.cost_usd is not None]
    waits = [row.upstream_ms for row in view.held if row.upstream_ms is not None]
    told = f"{words.many(len(view.held), 'would-be hit', 'would-be hits')} went upstream instead"
    told += " (the newest are shown)" if view.more else ""
    if costs:
        told += f"; that cost {words.money(sum(costs))} (n = {words.count(len(costs))})"
    if waits:
        told += f" and {words.duration_ms(sum(waits) / len(waits))} each on average (n = {words.count(len(waits))})"
    return f"{told}."


def rows(view: Holdout) -> list[dict[str, Any]]:
    """Return one row for each kind of hit that was held out."""
    return [
        {
            "held out": name,
            "compared": found.compared,
            "not compared": found.not_compared,
            "words in common, mean": _mean(found.mean),
            "median": "no data" if found.median is None else words.ratio(found.median),
            "less than half in common": words.percent(found.far),
            "95 %": words.interval(found.far),
        }
        for name, found in (("semantic hits", view.semantic), ("exact hits", view.exact))
        if found.compared or found.not_compared
    ]


def _mean(mean: Ratio | None) -> str:
    if mean is None:
        return "no data"
    if mean.low_ratio is None or mean.high_ratio is None:
        return f"{words.ratio(mean.ratio)} (too few for an interval)"
    return f"{words.ratio(mean.ratio)} (95 %: {mean.low_ratio * 100:.1f}–{mean.high_ratio * 100:.1f} %)"


def worst_rows(view: Holdout) -> list[dict[str, Any]]:
    """Return the semantic hits whose answers agree least, with a way to their traces, where they can be labelled."""
    known = [row for row in view.held if row.agreement_ratio is not None and not _exact(row)]
    return [
        {
            "words in common": words.ratio(row.agreement_ratio or 0.0),
            "similarity": row.similarity,
            "asked": words.one_line(row.prompt, 160) if row.prompt else words.UNNAMED,
            "candidate": words.one_line(row.candidate_prompt, 160) if row.candidate_prompt else words.UNNAMED,
            "tenant": words.name(row.tenant),
            "at (UTC)": words.instant(row.at_ms),
            "trace": f"traces?trace={row.trace_id.hex()}",
        }
        for row in sorted(known, key=lambda row: row.agreement_ratio or 0.0)[:WORST]
    ]
