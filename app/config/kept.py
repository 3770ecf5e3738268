"""The settings of what is kept, and how long."""

from __future__ import annotations

from pydantic import Field, ValidationInfo, field_validator
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
        description="Days that rollups of a minute are kept, at least keep_raw_days; then hours alone. 0: for ever.",
    )
    keep_hours_days: float = Field(
        default=1_095.0,
        ge=0,
        allow_inf_nan=False,
        description="Days that rollups of an hour are kept, at least keep_minutes_days. 0: for ever.",
    )
    keep_bytes: int = Field(
        default=20 * 1024**3,
        ge=0,
        description="Bytes of the telemetry database above which the oldest raw rows are removed, and when none are left minutes; "
        "never hours, nor the last hour. 0: no limit.",
    )

    @field_validator("keep_minutes_days", "keep_hours_days")
    @classmethod
    def _no_shorter(cls, value: float, info: ValidationInfo) -> float:
        """Refuse a coarser rollup that goes before what it sums: a call that is taken back could then not be taken out of it."""
        finer = "keep_raw_days" if info.field_name == "keep_minutes_days" else "keep_minutes_days"
        days = info.data.get(finer)
        if days is not None and value > 0 and (days == 0 or value < days):
            least = f"0 (for ever), as {finer} is" if days == 0 else f"0 (for ever), or at least {finer}, which is {days:g}"
            raise ValueError(f"expected {least}")
        return value
