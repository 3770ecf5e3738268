"""What the stores' constructors receive."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """telemetry_url: sqlite:///…; ops_url: sqlite:///….

    synchronous: FULL survives a power cut; NORMAL may lose the last commits then, never at a process crash.
    keep_…: what retention leaves in telemetry.db; 0 = for ever, and no limit of bytes. raw: spans, lookups, samples, rollups of 10 s,
    snapshots of sources; hours: rollups, and what was rejected.
    """

    telemetry_url: str
    ops_url: str
    synchronous: str = "FULL"
    busy_timeout_s: float = 5.0
    keep_raw_days: float = 30.0
    keep_minutes_days: float = 180.0
    keep_hours_days: float = 1_095.0
    keep_bytes: int = 20 * 1024**3
