"""A score over what the rules let through: a logistic regression whose weights a namespace's own labels gave.

The rules say what must not serve; a score weighs what is left. Its features are numbers about a pair, never words of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import orjson

from engine.types import Score, Verdict
from engine.verify.compare import middles

VERSION = 1  # of the features: weights of another version are never applied
FEATURES = ("similarity", "shared", "covered", "extra", "length", "order", "doubts")


def features(query_parse: str, candidate_parse: str, similarity: float, verdicts: Sequence[Verdict]) -> tuple[float, ...] | None:
    """Return the features of a pair in the order of FEATURES, None when a parse cannot be read.

    similarity: cosine. shared: content words in common, of all (Jaccard). covered: in common, of the shorter side's. extra: natural
    logarithm of 1 + the content words on one side alone. length: |natural logarithm of the ratio of the tokens|. order: tokens in
    common at both ends, of the longer side's. doubts: rules that spoke without a veto. In Chinese a character is a word.
    """
    try:
        left, right = orjson.loads(query_parse), orjson.loads(candidate_parse)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(left, dict) or not isinstance(right, dict):
        return None
    mine, theirs = (set(_text(side, "w").split()) for side in (left, right))
    both, every, least = len(mine & theirs), len(mine | theirs), min(len(mine), len(theirs))
    tokens, tokens2 = (len(_text(side, "s").split()) for side in (left, right))
    _, _, common = middles(_text(left, "s"), _text(right, "s"))
    return (
        similarity,
        both / every if every else 1.0,
        both / least if least else float(not every),
        math.log1p(every - both),
        abs(math.log((tokens + 1) / (tokens2 + 1))),
        common / max(tokens, tokens2, 1),
        float(sum(not verdict.veto for verdict in verdicts)),
    )


def _text(side: dict[str, Any], name: str) -> str:
    value = side.get(name, "")
    return value if isinstance(value, str) else ""


def weigh(
    score: Score, query_parse: str, candidate_parse: str, similarity: float, verdicts: Sequence[Verdict]
) -> tuple[Verdict, float | None]:
    """Return the score's word on a pair that no rule vetoed, with its probability. Weights of other features are a veto."""
    values = features(query_parse, candidate_parse, similarity, verdicts) if fits(score) else None
    if values is None:
        return Verdict("score", veto=True, detail="other features"), None
    chance = probability(score, values)
    veto = chance < score.cut
    return Verdict("score", veto, f"{chance:.3f} {'<' if veto else '>='} {score.cut:.3f}"), chance


def probability(score: Score, values: Sequence[float]) -> float:
    """Return the probability in 0..1 that one answer serves both."""
    logit = score.bias + sum(weight * value for weight, value in zip(score.weights, values, strict=True))
    return 1.0 / (1.0 + math.exp(-max(-500.0, min(500.0, logit))))


def fits(score: Score) -> bool:
    """Return whether the weights belong to the features that this version computes."""
    return score.features == VERSION and len(score.weights) == len(FEATURES)
