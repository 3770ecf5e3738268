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
    lookup_us: int = _sum()  # in the cache itself, upstream left out
    lookup_us_n: int = _sum()
    cached_tokens: int = _sum()  # input tokens that came from a cache, of the lookups that told both and no more than all
    cached_of_tokens: int = _sum()
    cached_n: int = _sum()
    judged_n: int = _sum()  # with a candidate that a threshold decided on
    vetoed_n: int = _sum()  # of these: similar enough, and refused by verification
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


class _ByPart(SQLModel):
    """Time and every dimension but tenant and model, of which there may be very many."""

    at_ms: int = Field(sa_type=BigInteger, primary_key=True)
    cache_kind: str = Field(primary_key=True)
    source_id: int = Field(primary_key=True)
    purpose: str = Field(primary_key=True)
    namespace: str = Field(primary_key=True)
    tier: str = Field(primary_key=True)
    outcome: str = Field(primary_key=True)
    reason: str = Field(primary_key=True)


class _ByModel(SQLModel):
    """Time and every dimension but namespace and tenant."""

    at_ms: int = Field(sa_type=BigInteger, primary_key=True)
    cache_kind: str = Field(primary_key=True)
    source_id: int = Field(primary_key=True)
    purpose: str = Field(primary_key=True)
    model: str = Field(primary_key=True)
    tier: str = Field(primary_key=True)
    outcome: str = Field(primary_key=True)
    reason: str = Field(primary_key=True)


class _ByTenant(SQLModel):
    """Time and every dimension but namespace and model."""

    at_ms: int = Field(sa_type=BigInteger, primary_key=True)
    cache_kind: str = Field(primary_key=True)
    source_id: int = Field(primary_key=True)
    purpose: str = Field(primary_key=True)
    tenant: str = Field(primary_key=True)
    tier: str = Field(primary_key=True)
    outcome: str = Field(primary_key=True)
    reason: str = Field(primary_key=True)


class _ByOutcome(SQLModel):
    """Time, sender and outcome, over all namespaces, tenants, models, tiers and reasons: a handful of rows a minute."""

    at_ms: int = Field(sa_type=BigInteger, primary_key=True)
    cache_kind: str = Field(primary_key=True)
    source_id: int = Field(primary_key=True)
    purpose: str = Field(primary_key=True)
    outcome: str = Field(primary_key=True)


class _ByPlace(SQLModel):
    """Time and place, with the outcomes side by side: one row where the others have one for each outcome, tier and reason.

    exact_hit … error: lookups of each outcome. hit_tokens, tokens: input and output, of hits and of all eligible lookups. saved_nusd:
    what the hits' calls would have cost. spent_nusd: what those of the other eligible lookups did. hits_priced, misses_priced: those
    with a price.
    """

    at_ms: int = Field(sa_type=BigInteger, primary_key=True)
    cache_kind: str = Field(primary_key=True)
    purpose: str = Field(primary_key=True)
    namespace: str = Field(primary_key=True)
    tenant: str = Field(primary_key=True)
    model: str = Field(primary_key=True)


class _ByPrice(SQLModel):
    """Time and model, with the outcomes side by side as those of a place."""

    at_ms: int = Field(sa_type=BigInteger, primary_key=True)
    cache_kind: str = Field(primary_key=True)
    purpose: str = Field(primary_key=True)
    model: str = Field(primary_key=True)


class _OfPlace(SQLModel):
    exact_hit: int = _sum()
    semantic_hit: int = _sum()
    partial_hit: int = _sum()
    stale_hit: int = _sum()
    coalesced: int = _sum()
    miss: int = _sum()
    bypass: int = _sum()
    error: int = _sum()
    hit_tokens: int = _sum()
    tokens: int = _sum()
    saved_nusd: int = _sum()
    spent_nusd: int = _sum()
    hits_priced: int = _sum()
    misses_priced: int = _sum()


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


class Total6h(_Sums, _ByOutcome, table=True):
    """Six hours a row, over all dimensions but the sender. Kept as long as the hours."""

    __tablename__ = "totals_6h"
    metadata = telemetry_metadata
    __table_args__ = _CLUSTERED


class Part1m(_Sums, _ByPart, table=True):
    """A minute a row, over all tenants and models. Kept as long as the minutes."""

    __tablename__ = "parts_1m"
    metadata = telemetry_metadata
    __table_args__ = _CLUSTERED


class Part1h(_Sums, _ByPart, table=True):
    """An hour a row, over all tenants and models. Kept as long as the hours."""

    __tablename__ = "parts_1h"
    metadata = telemetry_metadata
    __table_args__ = _CLUSTERED


class Part6h(_Sums, _ByPart, table=True):
    """Six hours a row, over all tenants and models. Kept as long as the hours."""

    __tablename__ = "parts_6h"
    metadata = telemetry_metadata
    __table_args__ = _CLUSTERED


class Rollup6h(_Sums, _ByEverything, table=True):
    """Six hours a row, by every dimension: weeks of two filters at once. Kept as long as the hours."""

    __tablename__ = "rollups_6h"
    metadata = telemetry_metadata
    __table_args__ = _CLUSTERED


class Model1h(_Sums, _ByModel, table=True):
    """An hour a row, over all namespaces and tenants. Kept as long as the hours."""

    __tablename__ = "models_1h"
    metadata = telemetry_metadata
    __table_args__ = _CLUSTERED


class Tenant1h(_Sums, _ByTenant, table=True):
    """An hour a row, over all namespaces and models. Kept as long as the hours."""

    __tablename__ = "tenants_1h"
    metadata = telemetry_metadata
    __table_args__ = _CLUSTERED


class Price10m(_OfPlace, _ByPrice, table=True):
    """Ten minutes a row, over all namespaces and tenants: what the rates of tokens and money need. Kept as long as the minutes."""

    __tablename__ = "prices_10m"
    metadata = telemetry_metadata
    __table_args__ = _CLUSTERED


class Place10m(_OfPlace, _ByPlace, table=True):
    """Ten minutes a row. Kept as long as the minutes."""

    __tablename__ = "places_10m"
    metadata = telemetry_metadata
    __table_args__ = _CLUSTERED


class Place1h(_OfPlace, _ByPlace, table=True):
    """An hour a row. Kept as long as the hours."""

    __tablename__ = "places_1h"
    metadata = telemetry_metadata
    __table_args__ = _CLUSTERED


class Place6h(_OfPlace, _ByPlace, table=True):
    """Six hours a row. Kept as long as the hours."""

    __tablename__ = "places_6h"
    metadata = telemetry_metadata
    __table_args__ = _CLUSTERED
