"""How long requests took, with and without a hit, from the rollups' sketches."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from storage.reads.window import MINUTE_MS, Scope, Window, rollups, within
from storage.sketch import Sketch

_MOST_SKETCHES = 20_000  # about 0.2 s to merge; a wider window reads whole minutes at an even stride


@dataclass(frozen=True, slots=True)
class Latency:
    """Durations of the requests of one outcome in one bucket."""

    at_ms: int
    outcome: str
    sketch: Sketch


@dataclass(frozen=True, slots=True)
class Latencies:
    """stride: every stride-th minute was read; 1 = all."""

    rows: tuple[Latency, ...]
    stride: int


def latencies(conn: Connection, window: Window, scope: Scope, *, cache_kind: str = "response") -> Latencies:
    """Return merged duration sketches by bucket and outcome."""
    condition = within(rollups, window, scope) & (rollups.c.cache_kind == cache_kind)
    size = conn.execute(select(func.count()).select_from(rollups).where(condition)).scalar() or 0
    stride = -(-size // _MOST_SKETCHES) or 1
    if stride > 1:
        condition &= func.floor(rollups.c.at_ms / MINUTE_MS) % stride == 0
    step = window.bucket_ms
    merged: dict[tuple[int, str], Sketch] = {}
    query = select(rollups.c.at_ms, rollups.c.outcome, rollups.c.duration_sketch).where(condition)
    for at_ms, outcome, data in conn.execute(query):
        merged.setdefault((at_ms - at_ms % step, outcome), Sketch()).merge(Sketch.from_bytes(data))
    return Latencies(tuple(Latency(at, outcome, sketch) for (at, outcome), sketch in sorted(merged.items(), key=lambda i: i[0])), stride)
