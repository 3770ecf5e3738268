"""What the stores' constructors receive."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """telemetry_url: sqlite:///…; ops_url: sqlite:///….

    synchronous: FULL survives a power cut; NORMAL may lose the last commits then, never at a process crash.
    """

    telemetry_url: str
    ops_url: str
    synchronous: str = "FULL"
    busy_timeout_s: float = 5.0
