from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.exc import DBAPIError

from storage.errors import (
    InvalidStoreUrl,
    SchemaTooNew,
    SchemaTooOld,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreMissing,
    StoreReadOnly,
)
from storage.settings import StorageSettings
from storage.store import Store, open_ops, open_telemetry, path_of
from tests.storage.support import settings

SPAWN = multiprocessing.get_context("spawn")


def count_tables(store: Store) -> int:
    with store.read() as connection:
        return int(connection.exec_driver_sql("SELECT count(*) FROM sqlite_master WHERE type = 'table'").scalar_one())


def test_opening_for_writing_creates_private_files_with_wal(tmp_path: Path) -> None:
    store = open_telemetry(settings(tmp_path / "new" / "folder"), write=True)
    with store.write() as connection:
        connection.exec_driver_sql("INSERT INTO rejects VALUES (1, 'x', 1, 1)")
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA auto_vacuum").scalar() == 2
    files = list((tmp_path / "new" / "folder").iterdir())
    assert {file.name for file in files} == {"telemetry.db", "telemetry.db-wal", "telemetry.db-shm"}
    assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
    assert (tmp_path / "new" / "folder").stat().st_mode & 0o777 == 0o700
    store.close()


def test_a_reader_of_nothing_creates_nothing_and_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing, match="cachescope collect"):
        open_telemetry(settings(tmp_path), write=False)
    with pytest.raises(StoreMissing, match="cachescope console"):
        open_ops(settings(tmp_path), write=False)
    assert list(tmp_path.iterdir()) == []


def test_a_reader_of_an_empty_file_waits_for_its_writer(tmp_path: Path) -> None:
    (tmp_path / "telemetry.db").touch()
    with pytest.raises(StoreMissing, match="is empty"):
        open_telemetry(settings(tmp_path), write=False)


def test_a_snapshot_does_not_move_while_others_write(tmp_path: Path) -> None:
    writer = open_telemetry(settings(tmp_path), write=True)
    reader = open_telemetry(settings(tmp_path), write=False)
    query = "SELECT count(*) FROM rejects"
    with reader.read() as snapshot:
        assert snapshot.exec_driver_sql(query).scalar() == 0
        with writer.write() as connection:
            connection.exec_driver_sql("INSERT INTO rejects VALUES (1, 'x', 1, 1)")
        assert snapshot.exec_driver_sql(query).scalar() == 0
    with reader.read() as connection:
        assert connection.exec_driver_sql(query).scalar() == 1
    reader.close()
    writer.close()


def test_readers_cannot_write(tmp_path: Path) -> None:
    writer = open_telemetry(settings(tmp_path), write=True)
    reader = open_telemetry(settings(tmp_path), write=False)
    with pytest.raises(StoreReadOnly, match="opened for reading"), reader.write():
        pass
    for store in (reader, writer):
        with pytest.raises(StoreReadOnly), store.read() as connection:
            connection.exec_driver_sql("INSERT INTO rejects VALUES (1, 'x', 1, 1)")
        store.close()


def test_an_exception_rolls_back(telemetry: Store) -> None:
    with pytest.raises(RuntimeError), telemetry.write() as connection:  # noqa: PT012 - what came before the raise is the point
        connection.exec_driver_sql("INSERT INTO rejects VALUES (1, 'x', 1, 1)")
        raise RuntimeError
    with telemetry.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM rejects").scalar() == 0


def test_a_locked_file_is_busy_and_retryable(tmp_path: Path) -> None:
    store = open_ops(settings(tmp_path, busy_timeout_s=0.05))
    other = sqlite3.connect(tmp_path / "ops.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreBusy) as caught, store.write():
        pass
    assert caught.value.retryable
    other.execute("ROLLBACK")
    other.close()
    with store.write():
        pass
    store.close()


def test_threads_take_turns_and_a_stuck_one_is_busy(tmp_path: Path) -> None:
    store = open_ops(settings(tmp_path, busy_timeout_s=0.05))
    inside, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with store.write():
            inside.set()
            leave.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    assert inside.wait(60)
    with pytest.raises(StoreBusy, match="another thread"), store.write():
        pass
    leave.set()
    holder.join()
    store.close()


def test_no_room_left_is_full_and_retryable(tmp_path: Path) -> None:
    store = open_telemetry(settings(tmp_path), write=True)
    with pytest.raises(StoreFull) as caught, store.write() as connection:  # noqa: PT012 - the limit holds for one connection
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
        connection.exec_driver_sql("INSERT INTO span_payloads VALUES (1, zeroblob(1000000))")
    assert caught.value.retryable
    assert count_tables(store) > 5
    store.close()


@pytest.mark.parametrize("content", [b"this is no database, whatever its name says " * 50, b"SQLite format 3\0" + b"\x10" * 5000])
def test_a_file_that_is_no_database_is_refused_and_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "telemetry.db"
    path.write_bytes(content)
    for write in (True, False):
        with pytest.raises(StoreCorrupt, match="move it away"):
            open_telemetry(settings(tmp_path), write=write)
    assert path.read_bytes() == content


def test_damage_inside_is_found_when_opening_for_writing(tmp_path: Path) -> None:
    store = open_telemetry(settings(tmp_path), write=True)
    with store.write() as connection:
        connection.exec_driver_sql(
            "INSERT INTO rejects WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
            " SELECT i, 'reason', 1, 1 FROM n"
        )
    store.close()
    path = tmp_path / "telemetry.db"
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(size // 2 // 4096 * 4096)
        file.write(b"\xff" * 4096 * 4)
    with pytest.raises(StoreCorrupt, match="damaged"):
        open_telemetry(settings(tmp_path), write=True)


def test_a_folder_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "telemetry.db").mkdir()
    with pytest.raises(StoreCorrupt, match="not a file"):
        open_telemetry(settings(tmp_path), write=True)


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").touch()
    with pytest.raises(StoreReadOnly):
        open_telemetry(settings(tmp_path / "data"), write=True)


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "telemetry.db")
    other.execute("CREATE TABLE bookmarks (url)")
    other.commit()
    other.close()
    with pytest.raises(StoreCorrupt, match="some other program's"):
        open_telemetry(settings(tmp_path), write=True)


def test_the_two_databases_are_not_taken_for_each_other(tmp_path: Path) -> None:
    open_ops(settings(tmp_path)).close()
    url = f"sqlite:///{tmp_path}/ops.db"
    for write in (True, False):
        with pytest.raises(StoreCorrupt, match="is ops's database"):
            open_telemetry(StorageSettings(url, url), write=write)


def test_a_newer_schema_is_refused_by_readers_and_writers(tmp_path: Path) -> None:
    open_telemetry(settings(tmp_path), write=True).close()
    other = sqlite3.connect(tmp_path / "telemetry.db")
    other.execute("UPDATE alembic_version SET version_num = 'telemetry_9999'")
    other.commit()
    other.close()
    for write in (True, False):
        with pytest.raises(SchemaTooNew, match="newer program"):
            open_telemetry(settings(tmp_path), write=write)


def test_an_older_schema_waits_for_its_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_telemetry(settings(tmp_path), write=True).close()
    from storage import migrations

    newer = (*migrations.REVISIONS["telemetry"], "telemetry_9999")  # as a newer program would have it
    monkeypatch.setitem(migrations.REVISIONS, "telemetry", newer)
    with pytest.raises(SchemaTooOld, match="migrates it"):
        open_telemetry(settings(tmp_path), write=False)


@pytest.mark.parametrize("url", ["", "nonsense", "sqlite://", "sqlite:///:memory:", "postgresql://me:secret@host/db", "mysql:///x"])
def test_urls_of_other_kinds_are_refused_without_their_password(url: str) -> None:
    with pytest.raises(InvalidStoreUrl) as caught:
        path_of(url)
    assert "secret" not in str(caught.value)


def test_paths_with_odd_characters_work(tmp_path: Path) -> None:
    folder = tmp_path / "a b #d 中文"
    store = open_telemetry(settings(folder), write=True)
    assert count_tables(store) > 5
    assert (folder / "telemetry.db").exists()
    store.close()


@pytest.fixture
def nobodys_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="cachescope-store-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@contextlib.contextmanager
def as_nobody() -> Iterator[None]:
    """Root may write anything. Anyone else is stopped by a file's mode as they are."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def test_an_unwritable_folder_is_read_only(nobodys_folder: Path) -> None:
    nobodys_folder.chmod(0o555)
    with as_nobody():
        with pytest.raises(StoreReadOnly, match="cannot be created"):
            open_telemetry(settings(nobodys_folder), write=True)
        with pytest.raises(StoreMissing):
            open_telemetry(settings(nobodys_folder), write=False)
    nobodys_folder.chmod(0o755)


def test_an_unwritable_file_is_read_only(nobodys_folder: Path) -> None:
    open_telemetry(settings(nobodys_folder), write=True).close()
    (nobodys_folder / "telemetry.db").chmod(0o444)
    with as_nobody(), pytest.raises(StoreReadOnly, match="cannot be written"):
        open_telemetry(settings(nobodys_folder), write=True)


def open_and_write(folder: str, number: int) -> None:
    for line in (open_telemetry(settings(Path(folder)), write=True), open_ops(settings(Path(folder)))):
        if line.line == "telemetry":
            with line.write() as connection:
                connection.exec_driver_sql("INSERT INTO rejects VALUES (?, 'x', 1, 1)", (number,))
        line.close()


def test_several_processes_may_be_the_first_to_open(tmp_path: Path) -> None:
    processes = [SPAWN.Process(target=open_and_write, args=(str(tmp_path), number)) for number in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0, 0]
    store = open_telemetry(settings(tmp_path), write=False)
    with store.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM rejects").scalar() == 4
    store.close()


@pytest.mark.parametrize("replaced", [False, True])
def test_a_writer_never_goes_on_into_a_file_that_is_gone(tmp_path: Path, *, replaced: bool) -> None:
    store = open_telemetry(settings(tmp_path), write=True)
    reader = open_telemetry(settings(tmp_path), write=False)
    assert count_tables(reader) > 3
    for file in tmp_path.glob("telemetry.db*"):
        file.unlink()
    if replaced:
        open_telemetry(settings(tmp_path), write=True).close()
    with pytest.raises(StoreMissing, match="deleted or replaced"), store.write() as connection:
        connection.exec_driver_sql("INSERT INTO rejects VALUES (1, 'x', 1, 1)")
    with pytest.raises(StoreMissing), store.read():
        pass
    store.close()
    if replaced:  # a reader goes over to the new file by itself
        assert count_tables(reader) > 3
    else:
        with pytest.raises(StoreMissing), reader.read():
            pass
    reader.close()


def test_a_file_lost_during_a_transaction_is_not_acknowledged(tmp_path: Path) -> None:
    store = open_telemetry(settings(tmp_path), write=True)

    def lose_it() -> None:
        with store.write() as connection:
            connection.exec_driver_sql("INSERT INTO rejects VALUES (1, 'x', 1, 1)")
            (tmp_path / "telemetry.db").unlink()

    with pytest.raises(StoreMissing):
        lose_it()
    store.close()


@pytest.mark.parametrize("line", ["telemetry", "ops"])
def test_a_file_of_another_schema_that_takes_the_place_of_an_open_one_is_told_of(tmp_path: Path, line: str) -> None:
    """Two of them: an empty file, and one that has the version and not the tables."""
    opened = {"telemetry": lambda: open_telemetry(settings(tmp_path), write=True), "ops": lambda: open_ops(settings(tmp_path))}[line]
    table = {"telemetry": "lookups", "ops": "jobs"}[line]
    opened().close()
    reader = open_telemetry(settings(tmp_path), write=False) if line == "telemetry" else open_ops(settings(tmp_path), write=False)

    def read() -> None:
        with reader.read() as connection:
            connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one()

    read()
    path = tmp_path / f"{line}.db"
    kept = path.rename(tmp_path / "kept")
    path.touch()
    with pytest.raises(StoreCorrupt, match="is empty"):
        read()
    path.unlink()
    shutil.copy(kept, path)
    read()
    with contextlib.closing(sqlite3.connect(path)) as raw:
        raw.execute(f"DROP TABLE {table}")
    with pytest.raises(StoreCorrupt, match="the schema's version and not its tables"):
        read()
    with contextlib.closing(sqlite3.connect(path)) as raw:
        raw.execute("UPDATE alembic_version SET version_num = 'of_tomorrow'")
        raw.commit()
    with pytest.raises(SchemaTooNew, match="of_tomorrow"):
        read()
    reader.close()


def test_an_error_s_text_has_none_of_the_statement_s_values(tmp_path: Path) -> None:
    """It ends in a log, and a prompt may be among them."""
    store = open_telemetry(settings(tmp_path), write=True)
    for statement, values in (("INSERT INTO rejects VALUES (?, ?)", [("a secret", 1), ("a secret", 2)]), ("SELECT ? FROM", ("a secret",))):
        with pytest.raises(DBAPIError) as raised, store.write() as connection:
            connection.exec_driver_sql(statement, values)
        assert "a secret" not in str(raised.value)
    store.close()
