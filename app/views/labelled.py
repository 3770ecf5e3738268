"""What people's labels say of a namespace's threshold, and the labelled pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.analysis.thresholds import Advice, Labelled, advise, review_order
from app.views import words
from app.views.thresholds import FEW, PAIRS, Thresholds
from storage import labels
from storage.labels import Label


def advice(view: Thresholds) -> list[str]:
    """Return what people's labels say of a threshold; nothing when none of either kind is there. One pair counts once, by its majority."""
    words_of = view.pairs()
    decided = [Labelled(said[0].similarity, serves) for said in words_of if (serves := labels.majority(said)) is not None]
    found = advise(decided, view.effective.value if view.effective else None)
    told = _advised(found) if found else []
    if told and len(decided) < len(words_of):
        left = words.many(len(words_of) - len(decided), "pair is left out, on which", "pairs are left out, on which")
        told.append(f"{left} people are evenly divided.")
    return told


def _advised(found: Advice) -> list[str]:
    kinds = words.many(found.n, "labelled pair", "labelled pairs")
    kinds += f" ({words.count(found.right)} right, {words.count(found.wrong_pairs)} wrong)"
    if found.threshold is None or found.kept is None or found.wrong is None:
        lines = [
            f"Not separable: of {kinds}, no threshold keeps half of the right ones with at most 5 % wrong hits. Similarity cannot tell "
            "them apart here: leave it to verification, its strict mode, or exact hits alone."
        ]
    else:
        lines = [
            f"By {kinds}, similarity ≥ {found.threshold:.4f} keeps {words.count(found.kept.k)} of the right ones; of its "
            f"{words.many(found.wrong.n, 'hit', 'hits')} {words.count(found.wrong.k)} would be wrong ({words.interval(found.wrong)})."
        ]
    if found.false_hits:
        share = found.false_hits
        lines.append(
            f"At the threshold in force {words.count(share.k)} of {words.many(share.n, 'labelled hit is', 'labelled hits are')} wrong "
            f"({words.interval(share)}), verification aside."
        )
    if found.n < FEW:
        lines.append(f"Too few labels to set a threshold by (n = {words.count(found.n)}, {FEW} needed).")
    return lines


def _said(said: Sequence[Label], serves: bool | None) -> str:
    if serves is None:
        return "evenly divided"
    agreed = sum(one.serves is serves for one in said)
    return ("serves" if serves else "does not serve") + (f" ({agreed} of {len(said)})" if len(said) > 1 else "")


def label_rows(view: Thresholds) -> list[dict[str, Any]]:
    """Return the labelled pairs, one row each: those on which people are divided, then the most similar wrong one first; at most 50."""
    texts = {(row.prompt_hash, row.candidate_id): row for row in view.candidates}
    found = []
    judged = [(said, labels.majority(said)) for said in view.pairs()]
    divided = [(said, None) for said, serves in judged if serves is None]
    decided = [(said, serves) for said, serves in judged if serves is not None]
    worst = review_order([Labelled(said[0].similarity, serves) for said, serves in decided])
    for said, serves in [*divided, *(decided[place] for place in worst)][:PAIRS]:
        label = said[0]
        row = texts.get((label.prompt_hash, label.candidate_id))
        found.append(
            {
                "similarity": label.similarity,
                "distance": 1 - label.similarity,
                "label": _said(said, serves),
                "asked": words.one_line(row.prompt, 160) if row and row.prompt else words.UNNAMED,
                "candidate": words.one_line(row.candidate_prompt, 160) if row and row.candidate_prompt else words.UNNAMED,
                "by": words.one_line(", ".join(one.actor for one in said), 40),
                "at (UTC)": words.instant(label.at_ms),
            }
        )
    return found
