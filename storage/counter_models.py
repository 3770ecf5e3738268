"""The tables of sources that only count, of `telemetry.db`."""

from __future__ import annotations

from sqlalchemy import BigInteger, Index
from sqlmodel import Field, SQLModel

from storage.metadata import big, telemetry_metadata


class CounterSeries(SQLModel, table=True):
    """A counter of a source: one name with one set of labels, and the last value seen. Increases are counted from it.

    Of a source that pushes totals, each start of its counting has a row.
    """

    __tablename__ = "counter_series"
    metadata = telemetry_metadata
    __table_args__ = (Index("ix_counter_series", "source_id", "name", "labels"), Index("ix_counter_series_at", "source_id", "at_ms"))

    id: int | None = Field(default=None, primary_key=True)
    source_id: int
    name: str
    labels: str  # canonical JSON
    first_ms: int = Field(sa_column=big(nullable=False))
    at_ms: int = Field(sa_column=big(nullable=False))
    value: float
    start_ms: int | None = Field(default=None, sa_column=big())  # when its counting began; NULL = not known


class _Grown(SQLModel):
    """What a counter grew by, by the time in which the later of two readings lies. Exact increments, never rates."""

    series_id: int = Field(primary_key=True)
    at_ms: int = Field(sa_type=BigInteger, primary_key=True)  # start of the minute or hour
    increase: float
    steps: int  # pairs of readings
    covered_ms: int = Field(sa_type=BigInteger)  # the time between those readings
    resets: int  # restarts of the counted process
    anomalies: int  # values that fell although nothing restarted


class CounterMinute(_Grown, table=True):
    __tablename__ = "counter_minutes"
    metadata = telemetry_metadata
    __table_args__ = (Index("ix_counter_minute_at", "at_ms"),)


class CounterHour(_Grown, table=True):
    __tablename__ = "counter_hours"
    metadata = telemetry_metadata
    __table_args__ = (Index("ix_counter_hour_at", "at_ms"),)


class SourceSnapshot(SQLModel, table=True):
    """The newest state of a source that is no counter: JSON by topic."""

    __tablename__ = "source_snapshots"
    metadata = telemetry_metadata

    source_id: int = Field(primary_key=True)
    topic: str = Field(primary_key=True)  # server | slowlog | keyspace
    at_ms: int = Field(sa_column=big(nullable=False))
    body: str
