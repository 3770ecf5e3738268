"""What a gateway is and how it does: its parts, its readiness, its heartbeat, its own account of itself."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from engine import embedders
from engine.breaker import Breakers
from engine.cache import Cache
from engine.embedders.base import Embedder
from engine.errors import EngineError
from engine.gateway.hits import HitShare
from engine.gateway.lanes import Lanes
from engine.gateway.siblings import Figures, Siblings, counters
from engine.gateway.upstream import Upstream
from engine.leases import Leases
from engine.records import GatewayInfo
from engine.settings import GatewaySettings
from engine.telemetry import Telemetry
from engine.tiers import wall_clock_ms
from engine.tiers.base import StoreTier, VectorTier

HEARTBEAT_S = 1.0
UPSTREAM = ("upstream", "call")  # how its breakers are counted and shown, all models as one
FORGET_EVERY_S = 3_600.0
_WARM_TEXT = "warm"
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 60.0


class GatewayState:
    """The parts of one running gateway process. embedder_reason: why there are no semantic lookups, '' = there are.

    vectors_of: makes the vector tier of an embedder that is found later.
    store: past its breakers, for what operators ask. siblings: the processes on the same address, None = this is the only one.
    """

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        gateway_id: str,
        store: StoreTier,
        cache: Cache,
        telemetry: Telemetry,
        upstream: Upstream,
        breakers: Breakers,
        lanes: Lanes,
        hits: HitShare,
        leases: Leases,
        embedder: Embedder | None,
        embedder_reason: str,
        siblings: Siblings | None = None,
        vectors_of: Callable[[Embedder], VectorTier],
    ) -> None:
        self.settings = settings
        self.gateway_id = gateway_id
        self.store = store
        self.cache = cache
        self.telemetry = telemetry
        self.upstream = upstream
        self.breakers = breakers
        self.lanes = lanes
        self.hits = hits
        self.leases = leases
        self.embedder = embedder
        self.embedder_reason = embedder_reason
        self.siblings = siblings
        self._vectors_of = vectors_of
        self.started_ms = wall_clock_ms()
        self._warmed = embedder is None
        self._tasks: list[asyncio.Task[None]] = []
        self._closing = False
        self._next_forget_s = 0.0

    async def start(self) -> None:
        """Start the cache's view and the background work; return at once, ready or not."""
        await self.cache.start()
        if self.siblings is not None:
            await self.siblings.start()
        self._tasks = [asyncio.create_task(self._warm()), asyncio.create_task(self._beat())]

    async def close(self) -> None:
        """Stop the background work, say goodbye, flush the telemetry and close every part."""
        self._closing = True  # a client library may swallow the cancellation in the middle of a write
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            async with asyncio.timeout(self.settings.engine.store_timeout_s):
                await self.cache.control.leave(self.gateway_id)
        except (EngineError, TimeoutError):
            self.telemetry.fault("store", "heartbeat")
        await self.leases.close()
        await self.telemetry.close()
        if self.siblings is not None:
            await self.siblings.close()
        await self.cache.close()
        await self.upstream.close()

    @property
    def not_ready(self) -> str:
        """Why the gateway is not ready yet, '' = it is. Once ready it stays so: a store that is gone later costs hits only."""
        if not self.cache.view.loaded:
            return "the policies and generations have not been read from the store yet"
        return "" if self._warmed else "the embedder is loading"

    async def _warm(self) -> None:
        if self.embedder is None:
            await self._await_embedder()
            return
        try:
            await self.embedder.embed([_WARM_TEXT])
        except EngineError as error:
            # Lookups go on without candidates and say so; a gateway that only hits exactly is ready all the same.
            self.embedder_reason = str(error)
        self._warmed = True

    async def _await_embedder(self) -> None:
        """Ask an embeddings API that did not tell its dimension again, ever less often, until it does."""
        pause_s = _FIRST_PAUSE_S
        while embedders.may_come(self.settings.engine):
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
            found, self.embedder_reason = await asyncio.to_thread(embedders.build, self.settings.engine)
            if found is not None:
                self.embedder = found
                self.cache.embed_with(found, self._vectors_of(found))
                return

    async def _beat(self) -> None:
        while not self._closing:
            info = GatewayInfo(
                id=self.gateway_id,
                url=f"http://{self.settings.bind}",
                pid=os.getpid(),
                started_ms=self.started_ms,
                last_ms=wall_clock_ms(),
                token=self.cache.view.token,
            )
            try:
                await self.cache.control.heartbeat(info)
                await self._forget_purges()
            except Exception:  # noqa: BLE001 - the process's loop: the next beat is in a second, and the fault is counted
                self.telemetry.fault("store", "heartbeat")
            await asyncio.sleep(HEARTBEAT_S)

    async def _forget_purges(self) -> None:
        """Now and then, remove the records of purges that are long done with."""
        if time.monotonic() < self._next_forget_s:
            return
        self._next_forget_s = time.monotonic() + FORGET_EVERY_S
        try:
            await self.cache.control.forget()
        except EngineError:
            self.telemetry.fault("store", "forget")

    async def describe(self) -> dict[str, Any]:
        """Return the body of GET /state."""
        ok, error = True, ""
        try:
            async with asyncio.timeout(self.settings.engine.store_timeout_s):
                await self.store.ping()
        except (EngineError, TimeoutError) as fault:
            ok, error = False, str(fault) or "no answer in time"
        embedder = self.embedder
        engine = self.settings.engine
        own = Figures(0, self.gateway_id, os.getpid(), self.telemetry.metrics.families())
        processes = [own] if self.siblings is None else await self.siblings.all()
        return {
            "gateway_id": self.gateway_id,
            "started_ms": self.started_ms,
            "control_token": self.cache.view.token,
            "control_age_ms": round(self.cache.view.age_s * 1000) if self.cache.view.loaded else None,
            "store": {"url_scheme": urlsplit(engine.cache_url).scheme, "ok": ok, "error": error},
            "embedder": {
                "id": embedder.id if embedder else "",
                "dimension": embedder.dimension if embedder else 0,
                "default_threshold": embedder.default_threshold if embedder else None,
                "candidate_floor": embedder.candidate_floor if embedder else None,
                "ok": embedder is not None and self._warmed and not self.embedder_reason,
                "reason": self.embedder_reason,
            },
            "judge": {"configured": bool(engine.judge_url)},
            "upstream": {
                "configured": self.upstream.configured,
                "host": self.upstream.host,
                "failing": [
                    {
                        "model": model,
                        "state": lane.breaker.state,
                        "opened": lane.breaker.opened,
                        "in_flight": lane.throttle.in_flight,
                        "waiting": lane.throttle.waiting,
                    }
                    for model, lane in self.lanes.failing.items()
                ],
            },
            "breakers": [
                {"dependency": dependency, "operation": operation, "state": held.state, "opened": held.opened, "refused": held.refused}
                for (dependency, operation), held in {**self.breakers.named(), UPSTREAM: self.lanes}.items()
            ],
            "keys": len(self.cache.view.keys),
            "processes": [
                {"process": one.process, "gateway_id": one.gateway_id, "pid": one.pid, "up": one.families is not None} for one in processes
            ],
            "counters": counters(processes),
            "prompts_recorded": engine.record_prompts,
            "demo": self.settings.demo,
        }


def new_gateway_id() -> str:
    """Return an id that no other gateway has had: two on one store must never share a heartbeat."""
    return secrets.token_hex(8)
