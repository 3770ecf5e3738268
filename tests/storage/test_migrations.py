from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import MetaData, create_engine

from storage import migrations, spans
from storage.models import telemetry_metadata
from storage.ops_models import ops_metadata
from storage.store import open_ops, open_telemetry
from tests.storage.support import MINUTE_NS, START_NS, Made, batch, settings

LINES = {"telemetry": telemetry_metadata, "ops": ops_metadata}


@pytest.mark.parametrize("line", LINES)
def test_the_list_of_revisions_equals_the_files(line: str) -> None:
    found = [revision.revision for revision in migrations.script(line).walk_revisions()]
    assert tuple(reversed(found)) == migrations.REVISIONS[line]


def shape(path: Path) -> dict[str, object]:
    """Columns, indexes and their columns, as SQLite itself tells them."""
    database = sqlite3.connect(path)
    tables = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")]
    found: dict[str, object] = {}
    for table in sorted(set(tables) - {"alembic_version"}):
        indexes = database.execute(f"PRAGMA index_list({table})").fetchall()
        columns = {(row[2], row[3]): database.execute(f"PRAGMA index_info({row[1]})").fetchall() for row in indexes if row[3] != "c"}
        named = {row[1]: database.execute(f"PRAGMA index_info({row[1]})").fetchall() for row in indexes if row[3] == "c"}
        text = database.execute("SELECT sql FROM sqlite_master WHERE name = ?", (table,)).fetchone()[0]
        found[table] = (
            database.execute(f"PRAGMA table_info({table})").fetchall(),
            columns,
            named,
            "AUTOINCREMENT" in text,
            "WITHOUT ROWID" in text,
        )
    database.close()
    return found


@pytest.mark.parametrize("line", LINES)
def test_the_migrated_schema_equals_the_models(tmp_path: Path, line: str) -> None:
    metadata: MetaData = LINES[line]
    store = open_telemetry(settings(tmp_path), write=True) if line == "telemetry" else open_ops(settings(tmp_path))
    with store.read() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, metadata) == []
    store.close()
    declared = tmp_path / "declared.db"
    engine = create_engine(f"sqlite:///{declared}")
    metadata.create_all(engine)
    engine.dispose()
    assert shape(store.path) == shape(declared)


def test_later_sums_are_carried_over_as_the_writer_makes_them(tmp_path: Path) -> None:
    made = [
        Made(
            number,
            start_ns=START_NS + number * 7 * MINUTE_NS,
            duration_ms=1.5**number,
            outcome=("miss", "exact_hit", "error")[number % 3],
            extra={"namespace": f"n{number % 5}", "tenant": f"t{number % 3}", "model": f"m{number % 2}", "input_tokens": number},
        )
        for number in range(40)
    ]
    store = open_telemetry(settings(tmp_path), write=True)
    spans.write(store, [batch(*made)], now_ms=1)
    store.close()
    tables = ("models_1h", "tenants_1h", "prices_10m", "rollups_6h")
    queries = [f"SELECT * FROM {table} ORDER BY {', '.join(map(str, range(1, 11)))}" for table in tables]
    with contextlib.closing(sqlite3.connect(store.path)) as older:
        written = [older.execute(query).fetchall() for query in queries]
        for table in tables:
            older.execute(f"DROP TABLE {table}")
        older.execute("DROP INDEX ix_lookups_rare")
        older.execute("UPDATE alembic_version SET version_num = 'telemetry_0001'")
        older.commit()
    open_telemetry(settings(tmp_path), write=True).close()
    with contextlib.closing(sqlite3.connect(store.path)) as migrated:
        assert [migrated.execute(query).fetchall() for query in queries] == written
    assert [sum(row[8] for row in found) for found in written[:2]] == [40, 40]
    assert sum(sum(row[4:12]) for row in written[2]) == sum(row[10] for row in written[3]) == 40


@pytest.mark.parametrize("line", LINES)
def test_a_migration_that_fails_leaves_nothing_behind(tmp_path: Path, line: str) -> None:
    engine = create_engine(f"sqlite:///{tmp_path}/half.db")
    last = sorted(LINES[line].tables)[-1]
    with pytest.raises(Exception, match="already exists"), engine.connect() as connection:  # noqa: PT012
        connection.exec_driver_sql("BEGIN")
        connection.exec_driver_sql(f"CREATE TABLE {last} (x)")
        migrations.upgrade(connection, line)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar() == 0
    engine.dispose()
