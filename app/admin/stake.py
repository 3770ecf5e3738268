"""What a namespace's entries earn a minute: what its requests would lose at once, were they not served."""

from __future__ import annotations

from dataclasses import dataclass

from app.admin.context import AdminContext
from engine.types import HITS
from storage.errors import StorageError
from storage.reads import hit_rate, sampling
from storage.reads.window import MINUTE_MS, Scope, Window, extent

STAKE_MS = 60 * MINUTE_MS


@dataclass(frozen=True, slots=True)
class Stake:
    """Means over the recorded traffic of `minutes`: the last hour, or less where recording began within it.

    saved_usd_per_minute: None = there were hits, and no price is known for any. partial: some hits have no price.
    sampled: a sampler dropped some lookups, so there were more hits, and they saved more.
    """

    hits_per_minute: float
    saved_usd_per_minute: float | None
    partial: bool
    minutes: int
    sampled: bool = False


def at_stake(ctx: AdminContext, namespace: str) -> tuple[Stake | None, str]:
    """Return what is at stake, or None and why it is not known."""
    now = ctx.clock()
    window = Window.of(now - STAKE_MS, now)
    try:
        with ctx.telemetry().read() as conn:
            cells = hit_rate.cells(conn, window, Scope(namespace=namespace), by=("cache_kind", "outcome"))
            first_ms = extent(conn, now).first_ms
            sampled = bool(sampling.kept(conn, window, Scope(namespace=namespace)))
    except StorageError as error:
        return None, str(error)
    if not cells:
        return None, "no lookup of this namespace was recorded in the last hour"
    served = [cell for cell in cells if cell.cache_kind == "response" and cell.outcome in HITS]
    hits, priced = sum(cell.lookups for cell in served), sum(cell.saved_usd_n for cell in served)
    begun = max(window.start_ms, (first_ms or window.start_ms) // MINUTE_MS * MINUTE_MS)
    minutes = max(1, (window.end_ms - begun) // MINUTE_MS)
    saved = sum(cell.saved_nusd for cell in served) / 1e9 / minutes
    return Stake(hits / minutes, saved if priced or not hits else None, priced < hits, minutes, sampled), ""
