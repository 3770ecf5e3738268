"""What every act is given: the stores, the engine, who acts, from where, and what time it is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.adapters.base import EngineAdapter, NamespaceInfo
from app.admin.roles import Actor
from storage.store import Store

if TYPE_CHECKING:
    from engine.embedders.base import Embedder


@dataclass(frozen=True, slots=True)
class AdminContext:
    """telemetry: how to open the telemetry store, which only planning a warm-up needs. clock: Unix milliseconds.

    secret: signs preview tokens. pause: waits between two looks at what an act did. embedder: makes the installation's embedder, for
    analyses alone; None with the reason where there is none, or where texts would leave the machine.
    """

    ops: Store
    telemetry: Callable[[], Store]
    engine: EngineAdapter
    actor: Actor
    origin: str  # console | cli | worker
    clock: Callable[[], int]
    secret: bytes = field(repr=False)
    undo_window_s: float = 600.0
    warmup_rate_per_s: float = 5.0
    pause: Callable[[float], None] = time.sleep
    embedder: Callable[[], tuple[Embedder | None, str]] = lambda: (None, "none is configured here")


def find_namespace(ctx: AdminContext, namespace: str) -> NamespaceInfo | None:
    """Return what the engine knows of this namespace, None when it has never heard of it."""
    return next((row for row in ctx.engine.namespaces() if row.name == namespace), None)
