"""How long requests took, with and without a hit, from the rollups' sketches."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from storage.reads.window import HOUR_MS, MINUTE_MS, Scope, Window, rollups
from storage.sketch import Sketch

_MOST_SKETCHES = 20_000  # about 0.1 s to merge; of a wider window an even part is read


@dataclass(frozen=True, slots=True)
class Latency:
    """Durations of the requests of one outcome in one bucket."""

    at_ms: int
    outcome: str
    sketch: Sketch


@dataclass(frozen=True, slots=True)
class Latencies:
    """stride: of so many minutes (or hours: unit_ms) one was read; 1 = all."""

    rows: tuple[Latency, ...]
    stride: int
    unit_ms: int = MINUTE_MS


def latencies(conn: Connection, window: Window, scope: Scope, *, cache_kind: str = "response") -> Latencies:
    """Return merged duration sketches by bucket and outcome."""
    step = window.bucket_ms
    found = rollups(conn, window, scope, ("outcome", "duration_sketch"), step_ms=step, kind=cache_kind)
    size = conn.execute(select(func.count()).select_from(found)).scalar() or 0
    stride = -(-size // _MOST_SKETCHES) or 1
    unit_ms = HOUR_MS if step % HOUR_MS == 0 else MINUTE_MS
    query = select(found.c.at_ms, found.c.outcome, found.c.duration_sketch)
    if stride > 1:
        query = query.where(func.floor(found.c.at_ms / unit_ms) % stride == 0)
    merged: dict[tuple[int, str], Sketch] = {}
    for at_ms, outcome, data in conn.execute(query):
        key = (at_ms - at_ms % step, outcome)
        sketch = merged.get(key)
        if sketch is None:
            sketch = merged[key] = Sketch()
        sketch.merge_bytes(data)
    rows = tuple(Latency(at, outcome, sketch) for (at, outcome), sketch in sorted(merged.items(), key=lambda item: item[0]))
    return Latencies(rows, stride, unit_ms)
