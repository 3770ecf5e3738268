"""Hours by model and by tenant alone, and outcomes by model, summed from the rows of more dimensions."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from storage.sketch import Sketch

revision = "telemetry_0002"
down_revision = "telemetry_0001"
branch_labels = None
depends_on = None

_SUMS = (
    *("lookups", "duration_us", "input_tokens", "input_tokens_n", "output_tokens", "cost_nusd", "cost_n", "saved_nusd", "saved_usd_n"),
    *("saved_us", "saved_us_n", "lookup_us", "lookup_us_n", "cached_tokens", "cached_of_tokens", "cached_n", "judged_n", "vetoed_n"),
)
_OUTCOMES = (
    *("exact_hit", "semantic_hit", "partial_hit", "stale_hit", "coalesced", "miss", "bypass", "error"),
    *("hit_tokens", "tokens", "saved_nusd", "spent_nusd", "hits_priced", "misses_priced"),
)
_DAY_MS = 86_400_000


class _Merged:
    """The union of sketches, as an aggregate function of SQLite."""

    def __init__(self) -> None:
        self._sketch = Sketch()

    def step(self, data: bytes) -> None:
        self._sketch.merge_bytes(data)

    def finalize(self) -> bytes:
        return self._sketch.to_bytes()


def upgrade() -> None:
    for side in ("model", "tenant"):
        op.create_table(
            f"{side}s_1h",
            sa.Column("at_ms", sa.BigInteger(), nullable=False),
            sa.Column("cache_kind", sa.String(), nullable=False),
            sa.Column("source_id", sa.Integer(), nullable=False),
            sa.Column("purpose", sa.String(), nullable=False),
            sa.Column(side, sa.String(), nullable=False),
            sa.Column("tier", sa.String(), nullable=False),
            sa.Column("outcome", sa.String(), nullable=False),
            sa.Column("reason", sa.String(), nullable=False),
            *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _SUMS),
            sa.Column("duration_sketch", sa.LargeBinary(), nullable=False),
            sa.PrimaryKeyConstraint("at_ms", "cache_kind", "source_id", "purpose", side, "tier", "outcome", "reason"),
            sqlite_with_rowid=False,
        )
    op.create_table(
        "prices_10m",
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("cache_kind", sa.String(), nullable=False),
        sa.Column("purpose", sa.String(), nullable=False),
        sa.Column("model", sa.String(), nullable=False),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _OUTCOMES),
        sa.PrimaryKeyConstraint("at_ms", "cache_kind", "purpose", "model"),
        sqlite_with_rowid=False,
    )
    connection = op.get_bind()
    _from_places(connection)
    _from_hours(connection)


def _from_places(connection: sa.Connection) -> None:
    key = "at_ms, cache_kind, purpose, model"
    summed = ", ".join(f"sum({name})" for name in _OUTCOMES)
    connection.exec_driver_sql(
        f"INSERT INTO prices_10m ({key}, {', '.join(_OUTCOMES)}) SELECT {key}, {summed} FROM places_10m GROUP BY {key}"  # noqa: S608
    )


def _from_hours(connection: sa.Connection) -> None:
    first_ms, last_ms = connection.exec_driver_sql("SELECT min(at_ms), max(at_ms) FROM rollups_1h").one()
    if first_ms is None:
        return
    connection.connection.driver_connection.create_aggregate("sketch_union", 1, _Merged)  # type: ignore[union-attr]
    sums, summed = ", ".join(_SUMS), ", ".join(f"sum({name})" for name in _SUMS)
    for start_ms in range(first_ms, last_ms + 1, _DAY_MS):  # a day is sorted in memory
        for side in ("model", "tenant"):
            key = f"at_ms, cache_kind, source_id, purpose, {side}, tier, outcome, reason"
            connection.exec_driver_sql(
                f"INSERT INTO {side}s_1h ({key}, {sums}, duration_sketch) SELECT {key}, {summed}, sketch_union(duration_sketch)"  # noqa: S608
                f" FROM rollups_1h WHERE at_ms >= ? AND at_ms < ? GROUP BY {key}",
                (start_ms, start_ms + _DAY_MS),
            )
