"""The tables of rollups: lookups by time and dimensions, and over all of them. Part of `telemetry.db` (storage.models)."""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import BigInteger, LargeBinary
from sqlmodel import Field, SQLModel

from storage.metadata import telemetry_metadata


def _sum() -> Any:
    return Field(default=0, sa_type=BigInteger, nullable=False)


class _Sums(SQLModel):
    """Counts and sums of lookups, never ratios. Of integers: the order of arrival cannot matter.

    `_n`: how many lookups reported the sum beside it.
    """

    lookups: int = _sum()
    duration_us: int = _sum()
    input_tokens: int = _sum()
    input_tokens_n: int = _sum()
    output_tokens: int = _sum()
    cost_nusd: int = _sum()  # billionths of a US dollar
    cost_n: int = _sum()
    saved_nusd: int = _sum()
    saved_usd_n: int = _sum()
    saved_us: int = _sum()
    saved_us_n: int = _sum()
    duration_sketch: bytes = Field(default=b"", sa_type=LargeBinary, nullable=False)  # mergeable, 1 % relative


class _ByEverything(SQLModel):
    """Time and every dimension."""

    at_ms: int = Field(sa_type=BigInteger, primary_key=True)  # start of the 10 s, minute or hour
    cache_kind: str = Field(primary_key=True)
    source_id: int = Field(primary_key=True)
    purpose: str = Field(primary_key=True)
    namespace: str = Field(primary_key=True)
    tenant: str = Field(primary_key=True)
    model: str = Field(primary_key=True)
    tier: str = Field(primary_key=True)
    outcome: str = Field(primary_key=True)
    reason: str = Field(primary_key=True)


class _ByOutcome(SQLModel):
    """Time and outcome, over all namespaces, tenants, models, tiers, sources and reasons: a handful of rows a minute."""

    at_ms: int = Field(sa_type=BigInteger, primary_key=True)
    cache_kind: str = Field(primary_key=True)
    purpose: str = Field(primary_key=True)
    outcome: str = Field(primary_key=True)


# The rows are the primary key's tree itself, in order of time: one tree to write instead of three, and a window is one range of it.
# The key's columns stand first (a field of the last base comes first): SQLite 3.40's quick_check misreads such a table otherwise.
_CLUSTERED: Final = {"sqlite_with_rowid": False}


class Rollup10s(_Sums, _ByEverything, table=True):
    """Ten seconds a row: for windows of minutes. Kept as long as the raw rows."""

    __tablename__ = "rollups_10s"
    metadata = telemetry_metadata
    __table_args__ = _CLUSTERED


class Rollup1m(_Sums, _ByEverything, table=True):
    """A minute a row. Outlives the raw rows."""

    __tablename__ = "rollups_1m"
    metadata = telemetry_metadata
    __table_args__ = _CLUSTERED


class Rollup1h(_Sums, _ByEverything, table=True):
    """An hour a row. Outlives the minutes."""

    __tablename__ = "rollups_1h"
    metadata = telemetry_metadata
    __table_args__ = _CLUSTERED


class Total1m(_Sums, _ByOutcome, table=True):
    """A minute a row, over all dimensions. Kept as long as the minutes."""

    __tablename__ = "totals_1m"
    metadata = telemetry_metadata
    __table_args__ = _CLUSTERED


class Total1h(_Sums, _ByOutcome, table=True):
    """An hour a row, over all dimensions. Kept as long as the hours."""

    __tablename__ = "totals_1h"
    metadata = telemetry_metadata
    __table_args__ = _CLUSTERED
