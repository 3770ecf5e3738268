"""Six hours by every dimension, summed from the hours, and an index of lookups with a rare outcome."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from storage.sketch import Sketch

revision = "telemetry_0003"
down_revision = "telemetry_0002"
branch_labels = None
depends_on = None

_SUMS = (
    *("lookups", "duration_us", "input_tokens", "input_tokens_n", "output_tokens", "cost_nusd", "cost_n", "saved_nusd", "saved_usd_n"),
    *("saved_us", "saved_us_n", "lookup_us", "lookup_us_n", "cached_tokens", "cached_of_tokens", "cached_n", "judged_n", "vetoed_n"),
)
_NAMES = ("namespace", "tenant", "model", "tier", "outcome", "reason")
_SIX_HOURS_MS = 21_600_000


class _Merged:
    """The union of sketches, as an aggregate function of SQLite."""

    def __init__(self) -> None:
        self._sketch = Sketch()

    def step(self, data: bytes) -> None:
        self._sketch.merge_bytes(data)

    def finalize(self) -> bytes:
        return self._sketch.to_bytes()


def upgrade() -> None:
    op.create_table(
        "rollups_6h",
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("cache_kind", sa.String(), nullable=False),
        sa.Column("source_id", sa.Integer(), nullable=False),
        sa.Column("purpose", sa.String(), nullable=False),
        *(sa.Column(name, sa.String(), nullable=False) for name in _NAMES),
        *(sa.Column(name, sa.BigInteger(), nullable=False) for name in _SUMS),
        sa.Column("duration_sketch", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("at_ms", "cache_kind", "source_id", "purpose", *_NAMES),
        sqlite_with_rowid=False,
    )
    rare = sa.text("outcome NOT IN ('exact_hit', 'semantic_hit', 'miss')")
    columns = ["outcome", "at_ms", "purpose", "namespace", "tenant", "model", "tier", "reason"]
    op.create_index("ix_lookups_rare", "lookups", columns, unique=False, sqlite_where=rare, postgresql_where=rare)
    connection = op.get_bind()
    first_ms, last_ms = connection.exec_driver_sql("SELECT min(at_ms), max(at_ms) FROM rollups_1h").one()
    if first_ms is None:
        return
    connection.connection.driver_connection.create_aggregate("sketch_union", 1, _Merged)  # type: ignore[union-attr]
    names = ", ".join(("cache_kind", "source_id", "purpose", *_NAMES))
    sums, summed = ", ".join(_SUMS), ", ".join(f"sum({name})" for name in _SUMS)
    for start_ms in range(first_ms // _SIX_HOURS_MS * _SIX_HOURS_MS, last_ms + 1, _SIX_HOURS_MS):  # six hours are sorted in memory
        connection.exec_driver_sql(
            f"INSERT INTO rollups_6h (at_ms, {names}, {sums}, duration_sketch)"  # noqa: S608 - names from above
            f" SELECT ?, {names}, {summed}, sketch_union(duration_sketch) FROM rollups_1h WHERE at_ms >= ? AND at_ms < ? GROUP BY {names}",
            (start_ms, start_ms, start_ms + _SIX_HOURS_MS),
        )
