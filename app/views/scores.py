"""A namespace's scores: what they are worth on pairs that they were not fitted on, and what one would have done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.admin.verification import ScoreTry
from app.analysis.intervals import Share
from app.analysis.score import LEAST, LEAST_OF_A_KIND, Fitted, Quality, from_json
from app.views import words
from storage.analyses import Analysis

NOTE = (
    "Worth is measured out of fold: on pairs of prompts that the weights were not fitted on, with a cut chosen on the others. It is worth "
    "that of your labels: pairs picked for being doubtful tell of doubtful pairs."
)


def fitted(analysis: Analysis) -> Fitted | None:
    """Return the score's figures, None for a record of another shape."""
    try:
        return None if analysis.result is None else from_json(analysis.result)
    except (KeyError, TypeError):
        return None


def rows(found: Sequence[Analysis], *, in_force: int | None) -> list[dict[str, Any]]:
    """Return the scores' table, the newest first."""
    told = []
    for one in found:
        score = fitted(one)
        if score is None:
            continue
        told.append(
            {
                "version": one.horizon,
                "state": "decides" if one.horizon == str(in_force) else "kept" if score.cut is not None else "separates nothing",
                "labelled pairs": f"{words.count(score.n)} ({words.count(score.right)} right, {words.count(score.wrong)} wrong)",
                "keeps": _share(score.by_score.kept if score.by_score else None),
                "wrong": _share(score.by_score.wrong if score.by_score else None),
                "similarity alone": _quality(score.by_similarity),
                "log loss (chance)": f"{score.loss:.3f} ({score.chance_loss:.3f})",
                "fitted (UTC)": words.instant(one.at_ms),
            }
        )
    return told


def _share(share: Share | None) -> str:
    return "no cut does" if share is None else f"{words.percent(share)} ({words.interval(share)}, n = {words.count(share.n)})"


def _quality(found: Quality | None) -> str:
    if found is None:
        return "no threshold does"
    wrong = "" if found.wrong is None else f", {words.percent(found.wrong)} wrong"
    return f"keeps {words.percent(found.kept)}{wrong}"


def calibration_rows(score: Fitted) -> list[dict[str, Any]]:
    """Return fifths of the pairs: the probability that the score gave them out of fold, and how many serve."""
    return [
        {
            "score says": f"{one.mean:.3f}",
            "labels say": words.percent(one.observed),
            "95 %": words.interval(one.observed),
            "n": one.observed.n,
        }
        for one in score.bins
    ]


def tried(found: ScoreTry) -> list[str]:
    """Return what this score would have done to the recorded hits, and what it is worth. Plain text."""
    seen = found.hits - found.unknown
    lines = [
        f"Score {found.score.version} of {words.name(found.namespace)}, cut {found.score.cut:.3f}: of the "
        f"{words.many(found.hits, 'newest semantic hit', 'newest semantic hits')} of the last 7 days it would have kept "
        f"{words.count(found.vetoed)} from serving{'' if seen else ': none of them can be tried'}."
    ]
    if found.unknown:
        lines.append(f"{words.count(found.unknown)} could not be tried: their prompts are not recorded.")
    quality = found.fitted.by_score
    if quality and quality.wrong:
        lines.append(
            f"Of {words.many(found.fitted.n, 'labelled pair', 'labelled pairs')} it keeps {_share(quality.kept)} of the right ones; of "
            f"what it lets serve {_share(quality.wrong)} is wrong, out of fold. Similarity alone {_quality(found.fitted.by_similarity)}."
        )
    lines.append("It can only veto: rules, threshold and switch stay as they are, and no less similar candidate serves instead.")
    return lines


def needs(labels: int) -> str:
    """Return what a score needs, and how many labels there are."""
    return (
        f"A score needs {LEAST} labelled pairs that the rules let through, {LEAST_OF_A_KIND} of each kind; {words.count(labels)} "
        f"{'word is' if labels == 1 else 'words are'} recorded. Label lookups on Traces, or with cachescope label."
    )
