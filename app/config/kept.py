"""The settings of what is kept, and how long."""

from __future__ import annotations

from pydantic import Field
from pydantic_settings import BaseSettings


class KeptSettings(BaseSettings):
    """Retention of the telemetry database. 0 = for ever, or no limit."""

    keep_raw_days: float = Field(
        default=30.0, ge=0, allow_inf_nan=False, description="Days that spans, lookups, samples and rollups of 10 s are kept. 0: for ever."
    )
    keep_minutes_days: float = Field(
        default=180.0,
        ge=0,
        allow_inf_nan=False,
        description="Days that rollups of a minute are kept; then hours alone. 0: for ever.",
    )
    keep_hours_days: float = Field(
        default=1_095.0, ge=0, allow_inf_nan=False, description="Days that rollups of an hour are kept. 0: for ever."
    )
    keep_bytes: int = Field(
        default=20 * 1024**3,
        ge=0,
        description="Bytes of the telemetry database above which the oldest raw rows are removed, and when none are left minutes; "
        "never hours, nor the last hour. 0: no limit.",
    )
