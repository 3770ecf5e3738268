"""How long requests took, with and without a hit, from the rollups' sketches."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from storage.reads import sketches
from storage.reads.window import HOUR_MS, MINUTE_MS, TEN_MINUTES_MS, Scope, Window, rollups
from storage.sketch import Sketch

_MOST_SKETCHES = 40_000  # some 0.1 s to merge; of a wider window an even part is read


@dataclass(frozen=True, slots=True)
class Latency:
    """Durations of the requests of one outcome in one bucket."""

    at_ms: int
    outcome: str
    sketch: Sketch


@dataclass(frozen=True, slots=True)
class Latencies:
    """step_ms: of the buckets. stride: of so many minutes (or hours: unit_ms) one was read; 1 = all."""

    rows: tuple[Latency, ...]
    stride: int
    step_ms: int
    unit_ms: int = MINUTE_MS


def step_of(window: Window) -> int:
    """Return the width of the buckets: the chart's, but hours where it would be a part of one above ten minutes, of which many are read."""
    step = window.bucket_ms
    return HOUR_MS if TEN_MINUTES_MS < step < HOUR_MS else step


def latencies(conn: Connection, window: Window, scope: Scope, *, cache_kind: str = "response") -> Latencies:
    """Return merged duration sketches by bucket and outcome."""
    step = step_of(window)
    found = rollups(conn, window, scope, ("outcome", "duration_sketch"), step_ms=step, kind=cache_kind)
    unit_ms = HOUR_MS if step % HOUR_MS == 0 else MINUTE_MS
    query = select(found.c.at_ms, found.c.outcome, found.c.duration_sketch)
    rows = conn.execute(query.limit(_MOST_SKETCHES + 1)).all()
    stride = 1
    if len(rows) > _MOST_SKETCHES:
        size = conn.execute(select(func.count()).select_from(found)).scalar_one()
        stride = -(-size // _MOST_SKETCHES)
        rows = conn.execute(query.where(func.floor(found.c.at_ms / unit_ms) % stride == 0)).all()
    merged = sketches.merged([((at_ms - at_ms % step, outcome), data) for at_ms, outcome, data in rows])
    told = tuple(Latency(at, outcome, sketch) for (at, outcome), sketch in sorted(merged.items(), key=lambda item: item[0]))
    return Latencies(told, stride, step, unit_ms)
