"""What the tables of the two database files hang on."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, MetaData

telemetry_metadata = MetaData()
ops_metadata = MetaData()


def big(**options: object) -> Column[int]:
    """Return a 64-bit column. Each field needs one of its own."""
    return Column(BigInteger, **options)  # type: ignore[arg-type]
