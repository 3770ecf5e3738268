"""The only place that constructs things: stores, the engine's adapter, the context of acts."""

from __future__ import annotations

import contextlib
import gc
import threading
import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from app.adapters.native import NativeAdapter
from app.adapters.store import SharedStore
from app.admin.context import AdminContext
from app.admin.roles import Actor
from app.config import Config
from engine.types import Policy
from storage.errors import StoreBusy
from storage.store import Store, open_ops, open_telemetry

if TYPE_CHECKING:
    from engine.embedders.base import Embedder


def now_ms() -> int:
    """Unix time in whole milliseconds."""
    return time.time_ns() // 1_000_000


@cache
def settle() -> None:
    """Leave what is loaded by now out of every later collection of garbage, and collect less often. Once a process, of those that stay.

    A page reads some thousands of rows, each an object: at the default thresholds every few pages a full collection walked all that is
    loaded, 0.1 s and more in the middle of one.
    """
    gc.freeze()
    gc.set_threshold(50_000)


class Wiring:
    """Opens each thing once, when it is first asked for; safe to share between threads. A failure to open is not kept."""

    def __init__(self, config: Config, *, wait_s: float | None = None) -> None:
        """wait_s: how long the opening of a locked database may take, for all readers together: after a wait in vain nobody waits again
        until it could be opened. None: each opening waits as long as a write does.
        """
        self.config = config
        self._wait_s = wait_s
        self._locked: set[str] = set()
        self.clock = now_ms
        self._lock = threading.Lock()
        self._open = contextlib.ExitStack()
        self._telemetry: Store | None = None
        self._ops: Store | None = None
        self._engine: NativeAdapter | None = None

    def telemetry(self) -> Store:
        """Return the telemetry store, read-only. Raises storage.errors.StoreMissing while no collector has ever run."""
        with self._lock:
            if self._telemetry is None:
                settings = self.config.storage_settings()
                self._telemetry = self._waiting("telemetry", lambda wait_s: open_telemetry(settings, write=False, wait_s=wait_s))
                self._open.callback(self._telemetry.close)
            return self._telemetry

    def ops(self) -> Store:
        """Return the store of acts, jobs and labels; made when there is none."""
        with self._lock:
            if self._ops is None:
                self.config.prepare()
                settings = self.config.storage_settings()
                self._ops = self._waiting("ops", lambda wait_s: open_ops(settings, wait_s=wait_s))
                self._open.callback(self._ops.close)
            return self._ops

    def _waiting(self, line: str, opened: Callable[[float | None], Store]) -> Store:
        """Return what `opened` returns, given how long it may wait. What is open needs no such care: nobody can lock its readers out."""
        try:
            store = opened(self._wait_s if line not in self._locked or self._wait_s is None else 0.0)
        except StoreBusy:
            self._locked.add(line)
            raise
        self._locked.discard(line)
        return store

    def engine(self) -> NativeAdapter:
        with self._lock:
            if self._engine is None:
                defaults = Policy(ttl_s=self.config.ttl_s)
                store = SharedStore(self.config.shared_cache_url, clock=self.clock, defaults=defaults)
                self._engine = NativeAdapter(self.config.control_url, self.config.control_token(), store=store)
                self._open.callback(self._engine.close)
            return self._engine

    def embedder(self) -> tuple[Embedder | None, str]:
        """Return a new embedder on this machine, which the caller closes, or None and why there is none."""
        from engine import embedders  # noqa: PLC0415 - its HTTP client is nothing that a page should wait for

        return embedders.build_local(self.config.engine_settings())

    def admin(self, actor: Actor, origin: str) -> AdminContext:
        """Return the context in which this actor's acts are done. origin: console | cli | worker."""
        return AdminContext(
            ops=self.ops(),
            telemetry=self.telemetry,
            engine=self.engine(),
            actor=actor,
            origin=origin,
            clock=self.clock,
            secret=self.config.installation_secret(),
            undo_window_s=self.config.undo_window_s,
            warmup_rate_per_s=self.config.warmup_rate_per_s,
            embedder=self.embedder,
        )

    def close(self) -> None:
        """Close what was opened. The next call opens again."""
        with self._lock:
            self._open.close()
            self._telemetry = self._ops = self._engine = None
