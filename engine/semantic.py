"""The semantic lookup: embed the last turn, find its neighbours inside the partition, verify each, name the best."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.admission import is_whole
from engine.breaker import Breaker
from engine.embedders.base import Embedder
from engine.embedders.simhash import simhash
from engine.errors import EmbedderMismatch, EmbedderUnavailable, TierUnavailable
from engine.judge import SPOKEN, Judge, Opinion, Word
from engine.settings import MOST_SEMANTIC_CHARS
from engine.tiers.base import Neighbour, StoreTier, Tier, VectorTier
from engine.types import Candidate, Entry, Judging, Other, Policy, ServingKey, Verdict
from engine.verify import may_go_on, parse, score, verify

Faults = Callable[[str, str], None]
Visible = Callable[[Entry], bool]
Timed = Callable[[str], None]
"""Called with a step's name when the step ends."""

# The second sees past neighbours whose entries turned out to be gone.
_SEARCHES = 2


_MOST_OTHERS = 5


class _Refused(EmbedderUnavailable):
    """The breaker's refusal: no fault of its own."""


@dataclass(slots=True)
class Considered:
    """What a semantic lookup found. skipped: why it ended early, '' = it did not. entry: the candidate's, when it may serve."""

    vector: bytes = b""
    simhash: str = ""
    parse: str = ""
    candidates: int | None = None
    others: tuple[Other, ...] = ()
    candidate: Candidate | None = None
    entry: Entry | None = None
    judged: Opinion | None = None
    skipped: str = ""


class Semantic:
    """Needs an embedder and a vector tier; without either every lookup says `no_embedder`."""

    def __init__(
        self,
        *,
        store: StoreTier,
        memory: Tier,
        vector: VectorTier | None,
        embedder: Embedder | None,
        judge: Judge | None,
        max_chars: int,
        candidates: int,
        timeout_s: float,
        faults: Faults,
        breaker: Breaker,
    ) -> None:
        self._store = store
        self._memory = memory
        self._vector = vector
        self.embedder = embedder if vector is not None else None
        self.judge = judge
        self._max_chars = min(max_chars, MOST_SEMANTIC_CHARS)
        self._candidates = candidates
        self._timeout_s = timeout_s
        self._faults = faults
        self._breaker = breaker

    def embed_with(self, embedder: Embedder, vector: VectorTier) -> None:
        """Use this embedder from now on, where there was none."""
        self.embedder, self._vector = embedder, vector

    def skip(self, prompt: str) -> str:
        """Return why this prompt is looked up exactly only, '' = nothing speaks against it."""
        if self.embedder is None:
            return "no_embedder"
        # Long texts embed slowly and look alike: two questions about one document have a cosine of .9998.
        return "too_long" if len(prompt) > self._max_chars else ""

    async def consider(
        self,
        prompt: str,
        *,
        partition: str,
        live: frozenset[str],
        policy: Policy,
        threshold: float | None,
        visible: Visible,
        timed: Timed,
    ) -> Considered:
        """Return the best candidate for this prompt; what failed on the way is counted and named in `skipped`.

        threshold: the cosine in force; None = nothing may serve, and no judge is asked.
        """
        found = Considered(skipped=self.skip(prompt))
        if found.skipped or self.embedder is None or self._vector is None:
            return found
        vector = await self._embed(self.embedder, prompt)
        timed("embed")
        if vector is None:
            found.skipped = "embedder_fault"
            return found
        found.vector, found.simhash, found.parse = vector.astype("<f4").tobytes(), simhash(vector), parse(prompt)
        timed("parse")
        pairs = await self._neighbours(self._vector, vector, partition, live, visible, floor=self.embedder.candidate_floor)
        timed("search")
        if pairs is None:
            found.skipped = "tier_fault"
            return found
        found.candidates = len(pairs)
        if pairs:
            found.candidate, entry, found.others = _best(found.parse, pairs, policy)
            timed("verify")
            if entry is not None and threshold is not None and found.candidate.similarity >= threshold:
                found.entry = entry
                if policy.judge is not Judging.OFF:
                    await self._hear(found, prompt, entry, policy.judge)
                    timed("judge")
        return found

    async def _hear(self, found: Considered, prompt: str, entry: Entry, judging: Judging) -> None:
        """Ask the judge about what would serve; its veto is one more verdict on the candidate."""
        # The parse is of the whole prompt, whatever was kept of it then: that of a cut one is another.
        stored = entry.prompt if parse(entry.prompt) == entry.parse else ""
        given = await self.judge.opinion(prompt, stored, partition=entry.partition) if self.judge else Opinion(Word.MISSING)
        lenient = given.word not in SPOKEN and judging is Judging.ELSE_SERVE
        verdict = Verdict("judge", given.word is not Word.SAME and not lenient, given.word.value)
        found.judged = given
        if found.candidate is not None:
            verdicts = (*found.candidate.verdicts, verdict)
            found.candidate = found.candidate._replace(passed=not verdict.veto, verdicts=verdicts)
        if verdict.veto:
            found.entry = None

    async def _embed(self, embedder: Embedder, prompt: str) -> NDArray[np.float32] | None:
        async def ask() -> NDArray[np.float32]:
            async with asyncio.timeout(self._timeout_s):
                return await embedder.embed([prompt])

        failures = (EmbedderUnavailable, EmbedderMismatch, TimeoutError)
        refusal = _Refused("the embedder failed a moment ago; it is asked again soon")
        try:
            vectors = await self._breaker.call(ask, refusal=refusal, failures=failures, slow_s=self._timeout_s)
        except failures as error:
            if not isinstance(error, _Refused):
                self._faults("embedder", "embed")
            return None
        if vectors.shape != (1, embedder.dimension) or not np.isfinite(vectors).all():
            self._faults("embedder", "shape")
            return None
        vector: NDArray[np.float32] = vectors[0]
        return vector

    async def _neighbours(
        self,
        tier: VectorTier,
        vector: NDArray[np.float32],
        partition: str,
        live: frozenset[str],
        visible: Visible,
        *,
        floor: float,
    ) -> list[tuple[Neighbour, Entry]] | None:
        """Return the neighbours worth a look with their entries, None when a tier did not answer."""
        found: list[tuple[Neighbour, Entry]] = []
        for _ in range(_SEARCHES):
            try:
                near = await tier.search(partition, vector, k=self._candidates, live=live, floor=floor)
            except (TierUnavailable, EmbedderMismatch):
                self._faults("vector", "search")
                return None
            try:
                entries = await self._fetch(near, visible)
            except TierUnavailable:
                self._faults("store", "get")
                return None
            pairs = list(zip(near, entries, strict=True))
            # An entry may have been replaced since its vector was read, even by one that cannot be compared.
            there = [(one, entry) for one, entry in pairs if entry is not None and entry.partition == partition and entry.comparable]
            found = [(one, entry) for one, entry in there if visible(entry)]
            if len(there) == len(pairs):
                break
            # Expired early, evicted or deleted: what has no entry must not take the place of what has one.
            known = {one.key for one, _ in there}
            tier.gone(partition, [one for one in near if one.key not in known])
        return found

    async def _fetch(self, near: Sequence[Neighbour], visible: Visible) -> list[Entry | None]:
        """Return the neighbours' entries as far as they are there, in their order. Raises TierUnavailable."""
        entries: list[Entry | None] = [await self._from_memory(neighbour.key, visible) for neighbour in near]
        missing = [place for place, entry in enumerate(entries) if entry is None]
        asked = [self._store.get(near[place].key) for place in missing]
        # One alone, the usual case, needs no task of its own.
        found = [await asked[0]] if len(asked) == 1 else await asyncio.gather(*asked)
        for place, entry in zip(missing, found, strict=True):
            if entry is not None and not is_whole(entry.body):
                self._faults("store", "broken_entry")
            else:
                entries[place] = entry
        return entries

    async def _from_memory(self, key: ServingKey, visible: Visible) -> Entry | None:
        try:
            entry = await self._memory.get(key)
        except TierUnavailable:
            self._faults("memory", "get")
            return None
        return entry if entry is not None and visible(entry) else None


def _best(query_parse: str, pairs: Sequence[tuple[Neighbour, Entry]], policy: Policy) -> tuple[Candidate, Entry | None, tuple[Other, ...]]:
    """Return the most similar candidate that neither a rule nor the score vetoes, with its entry; the most similar one when there is none.

    Last come the others.

    Where one is vetoed for more than a value, those after it are not looked at.
    """
    ordered = sorted(pairs, key=lambda pair: pair[0].similarity, reverse=True)
    first: Candidate | None = None
    seen: list[Other] = []
    served: Entry | None = None
    for neighbour, entry in ordered:
        known = entry.parse or parse(entry.prompt)
        verdicts, chance = verify(query_parse, known, mode=policy.verify_mode), None
        passed = not any(verdict.veto for verdict in verdicts)
        if passed and policy.score is not None:
            verdict, chance = score.weigh(policy.score, query_parse, known, neighbour.similarity, verdicts)
            verdicts, passed = (*verdicts, verdict), not verdict.veto
        candidate = Candidate(entry.entry_id, entry.key, neighbour.similarity, passed, verdicts, entry.prompt, chance)
        seen.append(Other(entry.entry_id, neighbour.similarity, next((verdict.rule for verdict in verdicts if verdict.veto), "")))
        if passed:
            first, served = candidate, entry
            break
        first = first or candidate
        if not may_go_on(verdicts):
            break
    assert first is not None  # noqa: S101 - `pairs` is never empty
    seen += [Other(entry.entry_id, neighbour.similarity) for neighbour, entry in ordered[len(seen) :]]
    return first, served, tuple(other for other in seen if other.entry_id != first.entry_id)[:_MOST_OTHERS]


def why_missed(skipped: str, candidate: Candidate | None) -> str:
    """Return why nothing stored could serve: one of a bounded set, so that misses can be counted by it."""
    if skipped:
        return skipped
    if candidate is None:
        return "no_candidate"
    return "below_threshold" if candidate.passed else "vetoed"
