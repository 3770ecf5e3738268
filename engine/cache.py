"""Exact, then semantic, then miss: the one orchestrator. A fault of a tier is a counted miss, never a failed request."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable, Sequence
from functools import partial

from engine.admission import is_whole, refused, unstorable
from engine.breaker import Breaker
from engine.control import Control
from engine.copies import Copies, hashed
from engine.embedders.base import Embedder
from engine.errors import TierUnavailable
from engine.generations import WriteGenerations
from engine.judge import Judge
from engine.keys import Canonical, canonicalise
from engine.lookup import NO_USAGE, CacheRequest, Lookup
from engine.normalise.aside import Aside
from engine.semantic import Semantic, why_missed
from engine.settings import EngineSettings
from engine.singleflight import SingleFlight
from engine.tiers import wall_clock_ms
from engine.tiers.base import StoreTier, VectorTier
from engine.tiers.memory import MemoryTier
from engine.tiers.null import NullTier
from engine.types import TOO_MANY_NAMESPACES, Candidate, Entry, Normaliser, Outcome, Policy, Purpose, Switch, Usage
from engine.verify import is_current, parse
from engine.view import ControlView, Faults

# Stored by a clock so far ahead, an entry would outlive its lifetime by as much. Gateways' clocks differ by less.
_AHEAD_MS = 3_600_000


class Cache:
    """The cache of one gateway.

    faults: called with (tier, operation) for each fault that was answered without. clock: Unix milliseconds.
    may_hold_out: whether the upstream would answer what is held out, by model.
    `lookup` and `store` never raise for a fault of the cache; `lookup` raises InvalidRequest for a malformed body.
    """

    def __init__(
        self,
        *,
        settings: EngineSettings,
        store: StoreTier,
        memory: MemoryTier | NullTier,
        vector: VectorTier | None = None,
        embedder: Embedder | None = None,
        judge: Judge | None = None,
        faults: Faults,
        embedder_breaker: Breaker | None = None,
        clock: Callable[[], int] = wall_clock_ms,
        monotonic: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
        may_hold_out: Callable[[str], bool] = lambda model: True,
    ) -> None:
        self._may_hold_out = may_hold_out
        self._settings = settings
        self._store = store
        self._memory = Copies(memory, ttl_s=settings.memory_ttl_s, clock=clock)
        self._vector = vector
        self._embedder = embedder
        self._faults = faults
        self._clock = clock
        self._rng = rng or random.Random()  # noqa: S311 - jitter and holdout, no secrets
        defaults = Policy(ttl_s=settings.ttl_s)
        self.view = ControlView(
            store,
            poll_s=settings.control_poll_s,
            max_age_s=settings.control_max_age_s,
            defaults=defaults,
            faults=faults,
            monotonic=monotonic,
            hidden=memory.discard,  # the store has them still, should the purge be undone
        )
        self.control = Control(store, clock=clock, defaults=defaults, changed=self.view.refresh)
        self.flights = SingleFlight()
        self._aside = Aside()
        self._writes = WriteGenerations(store, self.view, clock=clock, max_namespaces=settings.max_namespaces)
        self._semantic = Semantic(
            store=store,
            memory=self._memory,
            vector=vector,
            embedder=embedder,
            judge=judge,
            max_chars=settings.semantic_max_chars,
            candidates=settings.candidates,
            timeout_s=settings.embedder_timeout_s,
            faults=faults,
            breaker=embedder_breaker or Breaker(),
        )

    async def start(self) -> None:
        """Read the control records and follow them. A store that does not answer is no error: nothing is served until it does."""
        await self.view.start()

    def embed_with(self, embedder: Embedder, vector: VectorTier) -> None:
        """Begin with semantic lookups: the embedder, which did not answer at the start, is there now."""
        self._embedder, self._vector = embedder, vector
        self._semantic.embed_with(embedder, vector)

    async def close(self) -> None:
        await self.view.close()
        self._aside.close()
        for part in (self._vector, self._memory, self._store, self._embedder, self._semantic.judge):
            if part is not None:
                await part.close()

    # Lookup

    async def lookup(self, request: CacheRequest) -> Lookup:
        """Return what the cache has for this request. Raises InvalidRequest."""
        started_ns, started = time.time_ns(), time.perf_counter()
        space = self.view.space(request.namespace)
        canonical = await self._canonical(request, space.policy.normaliser)
        lookup = Lookup(
            request,
            started_ns,
            started,
            space,
            model=canonical.model,
            key=canonical.key,
            partition=canonical.partition,
            fingerprint=canonical.fingerprint,
            normaliser=canonical.normaliser,
            normalised=canonical.normalised,
            prompt=canonical.prompt,
            prompt_hash=canonical.prompt_hash,
            at_ms=self._clock(),
        )
        lookup.step("canonicalise", started)
        try:
            await self._decide(lookup, canonical)
        except Exception:  # noqa: BLE001 - the cache's boundary: whatever fails behind it, the request goes on as a miss
            self._faults("cache", "lookup")
            lookup.outcome, lookup.reason, lookup.entry, lookup.tier = Outcome.MISS, "cache_fault", None, ""
        if not lookup.storable and not lookup.hit and not lookup.store_reason:
            lookup.store_reason = unstorable(lookup)
        lookup.lookup_ms = (time.perf_counter() - started) * 1000
        return lookup

    async def _canonical(self, request: CacheRequest, normaliser: Normaliser) -> Canonical:
        by = (request.namespace, request.tenant, request.model_version, normaliser, request.keyed)
        if request.known is not None and (known := request.known.forms.get(by)) is not None:
            return known
        canonicalised = partial(
            canonicalise,
            request.body,
            namespace=request.namespace,
            tenant=request.tenant,
            model_version=request.model_version,
            secret=self._settings.secret,
            normaliser=normaliser,
            keyed=request.keyed,
        )
        canonical = canonicalised() if normaliser is Normaliser.NONE else await self._aside.run(normaliser, canonicalised)
        if request.known is not None:
            request.known.keep(request.known.forms, by, canonical)
        return canonical

    async def _decide(self, lookup: Lookup, canonical: Canonical) -> None:
        request = lookup.request
        current = await self.view.current()
        lookup.space = self.view.space(request.namespace)
        policy = lookup.space.policy
        if self._semantic.embedder is not None:
            lookup.embedder = self._semantic.embedder.id
            lookup.threshold = self._semantic.embedder.default_threshold if policy.threshold is None else policy.threshold
        if bypass := request.bypass or canonical.bypass:
            lookup.outcome, lookup.reason = Outcome.BYPASS, bypass
            return
        if not current:
            lookup.reason = "control_stale"
            return
        if self._writes.is_one_too_many(request.namespace):
            lookup.outcome, lookup.reason = Outcome.BYPASS, TOO_MANY_NAMESPACES
            return
        if policy.switch is Switch.OFF:
            lookup.outcome, lookup.reason = Outcome.BYPASS, "switch_off"
            return
        lookup.storable = not request.no_store
        if request.refresh:
            lookup.reason = "request"
        elif await self._exact(lookup):
            return
        if lookup.reason == "tier_fault":
            # It has waited for the store once. Whatever else it asked of it, it would wait again.
            lookup.semantic_skipped, lookup.storable = "tier_fault", False
            return
        await self._similar(lookup, canonical)
        if lookup.outcome is Outcome.MISS and not lookup.reason:
            lookup.reason = why_missed(lookup.semantic_skipped, lookup.candidate) if self.view.usable() else "control_stale"

    def _visible(self, lookup: Lookup, entry: Entry) -> bool:
        # By what is known now as well: an embedding or a wait for another gateway may outlast the second in which a purge must hide.
        now_live = self.view.space(lookup.request.namespace).generations.live
        is_live = entry.generation in lookup.space.generations.live and entry.generation in now_live
        now_ms = self._clock()
        return is_live and self.view.usable() and entry.created_ms - _AHEAD_MS <= now_ms < entry.expires_ms

    async def _exact(self, lookup: Lookup) -> bool:
        """Return whether an entry of this very key was found, served or held out."""
        started = time.perf_counter()
        entry, tier = await self._find(lookup)
        lookup.step("exact", started)
        if entry is None:
            return False
        # What another embedder or another version of the parser made would be stored again as today's.
        if self._embedder is not None and entry.embedder == self._embedder.id:
            lookup.parse, lookup.simhash = entry.parse if is_current(entry.parse) else "", entry.simhash
        candidate = Candidate(entry.entry_id, entry.key, 1.0, passed=True, prompt=entry.prompt)
        taken = self._serve(lookup, entry, Outcome.EXACT_HIT, tier, candidate)
        if lookup.held_out and entry.comparable:
            await self._stay_comparable(lookup, entry)
        return taken

    async def _stay_comparable(self, lookup: Lookup, entry: Entry) -> None:
        """Give a held-out lookup its entry's own vector: what is stored in the entry's place must be found by it as well."""
        if not entry.vector:
            try:
                stored = await self._store.get(lookup.key)
            except TierUnavailable:
                self._faults("store", "get")
                lookup.storable, lookup.store_reason = False, "tier_fault"  # the comparable entry stays
                return
            if stored is None:
                return
            entry = stored
        if self._embedder is not None and entry.embedder == self._embedder.id:
            lookup.vector = entry.vector

    async def _find(self, lookup: Lookup) -> tuple[Entry | None, str]:
        try:
            entry = await self._memory.get(lookup.key)
        except TierUnavailable:
            self._faults("memory", "get")
            entry = None
        if entry is not None and self._visible(lookup, entry):
            return entry, "memory"
        try:
            entry = await self._store.get(lookup.key)
        except TierUnavailable:
            self._faults("store", "get")
            lookup.reason = "tier_fault"
            return None, ""
        if entry is None or not self._visible(lookup, entry):
            return None, ""
        # Once, as it comes: copies in memory are of what was found whole, or was stored from here.
        if not is_whole(entry.body):
            self._faults("store", "broken_entry")
            return None, ""
        entry = hashed(entry)
        await self._remember(entry)
        return entry, "store"

    async def _remember(self, entry: Entry) -> None:
        try:
            await self._memory.put(entry)
        except TierUnavailable:
            self._faults("memory", "put")

    async def _similar(self, lookup: Lookup, canonical: Canonical) -> None:
        policy = lookup.space.policy
        if policy.switch is Switch.EXACT_ONLY:
            lookup.semantic_skipped = "exact_only"
            return
        if canonical.semantic_skip:
            lookup.semantic_skipped = canonical.semantic_skip
            return
        at = [time.perf_counter()]

        def timed(name: str) -> None:
            at[0] = lookup.step(name, at[0])

        found = await self._semantic.consider(
            lookup.prompt,
            partition=lookup.partition,
            live=lookup.space.generations.live,
            policy=policy,
            threshold=None if lookup.request.refresh else lookup.threshold,
            visible=lambda entry: self._visible(lookup, entry),
            timed=timed,
        )
        lookup.vector, lookup.simhash, lookup.parse, lookup.judged = found.vector, found.simhash, found.parse, found.judged
        lookup.others = found.others
        lookup.candidate, lookup.candidates, lookup.semantic_skipped = found.candidate, found.candidates, found.skipped
        if found.entry is not None and found.candidate is not None:
            self._serve(lookup, found.entry, Outcome.SEMANTIC_HIT, "vector", found.candidate)

    def _serve(self, lookup: Lookup, entry: Entry, outcome: Outcome, tier: str, candidate: Candidate) -> bool:
        """Serve the entry, or hold it out: a share of would-be hits goes upstream at random, to learn what it would have said.

        Return False when it was purged, or may have been, since it was found.
        """
        if not self._visible(lookup, entry):
            lookup.candidate = None
            return False
        ratio = self._settings.holdout_ratio if (own := lookup.space.policy.holdout_ratio) is None else own
        if ratio > 0 and lookup.request.purpose is Purpose.TRAFFIC and self._may_hold_out(lookup.model):
            lookup.holdout_propensity = 1.0 - ratio
            if self._rng.random() < ratio:
                lookup.held_out, lookup.reason, lookup.candidate, lookup.answers = True, "holdout", candidate, (entry.body,)
                lookup.held = outcome, entry, tier
                return True
        lookup.outcome, lookup.entry, lookup.tier, lookup.reason = outcome, entry, tier, ""
        return True

    def unhold(self, lookup: Lookup) -> bool:
        """Serve what was held out, for the upstream failed; return whether it may still be seen.

        It is in no comparison then, and its propensity is 1: with such an upstream it is served either way.
        """
        if lookup.held is None or not self._visible(lookup, lookup.held[1]):
            return False
        lookup.outcome, lookup.entry, lookup.tier = lookup.held
        lookup.held_out, lookup.holdout_propensity, lookup.answers, lookup.held = False, 1.0, (), None
        lookup.reason, lookup.error_type, lookup.status = "holdout_failed", "", 200
        return True

    async def again(self, lookup: Lookup) -> Entry | None:
        """Return the entry that has come under this lookup's key since it missed. A fault is none."""
        reason = lookup.reason
        entry, _ = await self._find(lookup)
        lookup.reason = reason  # why it found nothing itself
        return entry if entry is not None and self._visible(lookup, entry) else None

    # Store

    async def store(
        self,
        lookup: Lookup,
        *,
        body: bytes,
        usage: Usage = NO_USAGE,
        upstream_ms: float = 0.0,
        finish_reasons: Sequence[str] = (),
    ) -> bool:
        """Keep the upstream's complete answer; return whether it was kept. The lookup then says so, or why not."""
        started = time.perf_counter()
        reason = refused(lookup, body, finish_reasons)
        if not reason:
            try:
                reason = await self._keep(lookup, body, usage, upstream_ms)
            except Exception:  # noqa: BLE001 - the cache's boundary: the answer is there, that it could not be kept is counted
                self._faults("cache", "store")
                reason = "cache_fault"
            lookup.step("store", started)
        lookup.stored, lookup.store_reason = not reason, reason
        return lookup.stored

    async def _keep(self, lookup: Lookup, body: bytes, usage: Usage, upstream_ms: float) -> str:
        """Return '' when the entry is in the store, else why it is not."""
        if not await self.view.current():
            return "control_stale"
        try:
            generation = await self._writes.of(lookup.space)
            if not generation:
                return TOO_MANY_NAMESPACES if self._writes.is_one_too_many(lookup.request.namespace) else "purged_meanwhile"
            entry = self._entry(lookup, generation, body, usage, upstream_ms)
            await self._store.put(entry)
            if entry.vector and self._vector is not None:
                self._vector.written(entry.partition)
        except TierUnavailable:
            self._faults("store", "put")
            return "tier_fault"
        lookup.stored_entry_id = entry.entry_id
        await self._remember(entry)
        return ""

    def _entry(self, lookup: Lookup, generation: str, body: bytes, usage: Usage, upstream_ms: float) -> Entry:
        settings, request, now_ms = self._settings, lookup.request, self._clock()
        jitter = self._rng.uniform(1 - settings.ttl_jitter_ratio, 1 + settings.ttl_jitter_ratio)
        return Entry(
            entry_id=secrets.token_hex(16),
            key=lookup.key,
            partition=lookup.partition,
            namespace=request.namespace,
            tenant=request.tenant,
            model=lookup.model,
            model_version=request.model_version,
            generation=generation,
            created_ms=now_ms,
            expires_ms=now_ms + max(1, int(lookup.space.policy.ttl_s * jitter * 1000)),
            body=body,
            prompt=lookup.prompt[: settings.record_prompt_chars] if settings.record_prompts else "",
            parse=(lookup.parse or parse(lookup.prompt)) if lookup.vector else "",
            vector=lookup.vector,
            embedder=self._embedder.id if lookup.vector and self._embedder is not None else "",
            usage=usage,
            upstream_ms=upstream_ms,
            simhash=lookup.simhash if lookup.vector else "",
        )
