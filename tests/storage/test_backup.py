"""Back-up, check and restore of real databases, with writers at work."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from storage import backup, spans
from storage.backup import Database
from storage.errors import BackupInvalid, InUse, SchemaTooNew, StorageError, StoreCorrupt, StoreFull, StoreMissing
from storage.store import open_ops, open_telemetry, path_of, schema_of
from tests.storage.support import Made, batch, settings
from tests.storage.test_spans import one
from tests.support.servers import wait_for


def databases(folder: Path) -> list[Database]:
    given = settings(folder)
    return [
        Database("telemetry.db", path_of(given.telemetry_url), lambda path: schema_of(path, "telemetry")),
        Database("ops.db", path_of(given.ops_url), lambda path: schema_of(path, "ops")),
    ]


def fill(folder: Path, count: int = 20) -> None:
    store = open_telemetry(settings(folder), write=True)
    spans.write(store, [batch(*(Made(number, trace=number) for number in range(count)))], now_ms=1)
    store.close()
    open_ops(settings(folder)).close()


def take(folder: Path, target: Path) -> backup.Manifest:
    return backup.take(databases(folder), target, program="1.0", now_ms=1_775_000_000_000)


def lookups(folder: Path) -> int:
    store = open_telemetry(settings(folder), write=False)
    found: int = one(store, "SELECT count(*) FROM lookups")
    store.close()
    return found


WRITER = """
import sys
from pathlib import Path
from storage import spans
from storage.store import open_telemetry
from tests.storage.support import Made, batch, settings
store = open_telemetry(settings(Path(sys.argv[1])), write=True)
number = 1_000_000
while True:
    spans.write(store, [batch(*(Made(number + k, trace=number + k) for k in range(50)))], now_ms=1)
    number += 50
    print(number - 1_000_000, flush=True)
"""


def test_a_copy_under_write_load_is_one_moment_and_the_writer_goes_on(tmp_path: Path) -> None:
    fill(tmp_path, 5_000)  # more than one step of the copy
    with subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout
            before = int(writer.stdout.readline())
            told = [before]
            reading = threading.Thread(target=lambda: told.extend(int(line) for line in writer.stdout or ()))
            reading.start()
            manifest = take(tmp_path, tmp_path / "copy")
            during = told[-1]
            wait_for(lambda: told[-1] > during, what="the writer goes on after the copy")
        finally:
            writer.kill()
        reading.join()
    assert [one.name for one in manifest.files] == ["telemetry.db", "ops.db"]
    assert backup.verify(tmp_path / "copy") == manifest
    copied = sqlite3.connect(tmp_path / "copy" / "telemetry.db")
    counts = {copied.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("spans", "span_payloads", "lookups")}
    assert len(counts) == 1
    assert copied.execute("SELECT sum(lookups) FROM rollups_1h").fetchone()[0] == counts.pop() >= 5_000 + before
    copied.close()
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == ["manifest.json", "ops.db", "telemetry.db"]
    assert {path.stat().st_mode & 0o077 for path in (tmp_path / "copy").iterdir()} == {0}


def test_there_and_back_and_what_was_there_is_kept(tmp_path: Path) -> None:
    fill(tmp_path, 20)
    manifest = take(tmp_path, tmp_path / "copy")
    store = open_telemetry(settings(tmp_path), write=True)
    spans.write(store, [batch(Made(99, trace=99))], now_ms=1)
    store.close()
    assert lookups(tmp_path) == 21
    assert backup.restore(tmp_path / "copy", databases(tmp_path), replaced="old") == manifest
    assert lookups(tmp_path) == 20
    assert lookups(tmp_path / "old") == 21
    store = open_telemetry(settings(tmp_path), write=True)  # the collector goes on in it
    spans.write(store, [batch(Made(99, trace=99))], now_ms=1)
    store.close()
    assert lookups(tmp_path) == 21
    assert backup.verify(tmp_path / "copy") == manifest


def test_a_restore_into_an_empty_folder_needs_nothing_there(tmp_path: Path) -> None:
    fill(tmp_path / "here")
    take(tmp_path / "here", tmp_path / "copy")
    backup.restore(tmp_path / "copy", databases(tmp_path / "there")[:1], replaced="old")
    assert lookups(tmp_path / "there") == 20
    assert not (tmp_path / "there" / "ops.db").exists()


@pytest.mark.parametrize("write", [True, False])
def test_a_database_in_use_is_not_replaced(tmp_path: Path, *, write: bool) -> None:
    fill(tmp_path)
    take(tmp_path, tmp_path / "copy")
    store = open_telemetry(settings(tmp_path), write=write)
    assert one(store, "SELECT count(*) FROM lookups") == 20  # idle since: it has the file open, nothing more
    with pytest.raises(InUse, match="stop gateway, collector"):
        backup.restore(tmp_path / "copy", databases(tmp_path), replaced="old")
    assert one(store, "SELECT count(*) FROM lookups") == 20
    store.close()
    assert not (tmp_path / "old").exists()
    assert not list(tmp_path.glob(".*"))


def change(path: Path, what: str) -> None:
    if what == "flipped":
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0xFF
        path.write_bytes(content)
    elif what == "cut":
        path.write_bytes(path.read_bytes()[:-4_096])
    else:
        path.unlink()


@pytest.mark.parametrize("what", ["flipped", "cut", "missing"])
def test_a_back_up_that_changed_is_refused_and_nothing_is_touched(tmp_path: Path, what: str) -> None:
    fill(tmp_path)
    take(tmp_path, tmp_path / "copy")
    change(tmp_path / "copy" / "ops.db", what)
    before = (tmp_path / "telemetry.db").read_bytes()
    with pytest.raises(BackupInvalid, match=r"ops\.db"):
        backup.restore(tmp_path / "copy", databases(tmp_path), replaced="old")
    assert (tmp_path / "telemetry.db").read_bytes() == before


def test_a_back_up_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    fill(tmp_path)
    take(tmp_path, tmp_path / "copy")
    copied = sqlite3.connect(tmp_path / "copy" / "telemetry.db")
    copied.execute("UPDATE alembic_version SET version_num = 'telemetry_9999'")
    copied.commit()
    copied.close()
    manifest = json.loads((tmp_path / "copy" / "manifest.json").read_text())
    changed = tmp_path / "copy" / "telemetry.db"
    for file in manifest["files"]:
        if file["name"] == "telemetry.db":
            file |= {"bytes": changed.stat().st_size, "sha256": backup._digest(changed)}
    (tmp_path / "copy" / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(SchemaTooNew, match="newer program"):
        backup.restore(tmp_path / "copy", databases(tmp_path), replaced="old")
    assert lookups(tmp_path) == 20


@pytest.mark.parametrize(
    "manifest", ["", "{}", '{"format": 2}', '{"format": 1, "taken_ms": 1, "program": "", "files": [{"name": "../x"}]}', "[]"]
)
def test_what_is_no_back_up_is_refused(tmp_path: Path, manifest: str) -> None:
    with pytest.raises(BackupInvalid, match="no back-up"):
        backup.verify(tmp_path)
    (tmp_path / "manifest.json").write_text(manifest)
    with pytest.raises(BackupInvalid):
        backup.verify(tmp_path)


def test_a_file_name_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    one = {"name": "../telemetry.db", "bytes": 1, "sha256": "", "schema": ""}
    (tmp_path / "manifest.json").write_text(json.dumps({"format": 1, "taken_ms": 1, "program": "", "files": [one]}))
    with pytest.raises(BackupInvalid, match="outside"):
        backup.verify(tmp_path)


def test_a_damaged_database_is_found_and_a_restore_mends_it(tmp_path: Path) -> None:
    fill(tmp_path, 500)
    take(tmp_path, tmp_path / "copy")
    path = tmp_path / "telemetry.db"
    content = bytearray(path.read_bytes())
    for page in range(20, len(content) // 4_096, 3):
        content[page * 4_096 : page * 4_096 + 200] = b"\xff" * 200
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt, match="damaged"):
        backup.require_sound(path)
    with pytest.raises(StorageError):
        take(tmp_path, tmp_path / "other")
    assert not (tmp_path / "other").exists()
    backup.restore(tmp_path / "copy", databases(tmp_path), replaced="old")
    backup.require_sound(path)
    assert lookups(tmp_path) == 500


def with_a_log(folder: Path, damage: str) -> bytes:
    """Leave telemetry.db as a crash and a bad disk would: damaged, a log with its newest rows beside it. Return the log."""
    store = open_telemetry(settings(folder), write=True)
    spans.write(store, [batch(Made(99, trace=99))], now_ms=1)
    path = folder / "telemetry.db"
    log, content = (folder / "telemetry.db-wal").read_bytes(), bytearray(path.read_bytes())
    store.close()
    assert log
    content[:4_096] = b"\xff" * 4_096
    path.write_bytes(b"" if damage == "empty" else content)
    (folder / "telemetry.db-wal").write_bytes(log)
    return log


@pytest.mark.parametrize("damage", ["empty", "overwritten"])
def test_the_log_of_a_damaged_database_is_kept_with_it(tmp_path: Path, damage: str) -> None:
    fill(tmp_path)
    take(tmp_path, tmp_path / "copy")
    log = with_a_log(tmp_path, damage)
    ops = open_ops(settings(tmp_path))  # the second database is in use: nothing is restored
    with pytest.raises(InUse):
        backup.restore(tmp_path / "copy", databases(tmp_path), replaced="old")
    ops.close()
    assert (tmp_path / "telemetry.db-wal").read_bytes() == log
    backup.restore(tmp_path / "copy", databases(tmp_path), replaced="old")
    assert (tmp_path / "old" / "telemetry.db-wal").read_bytes() == log
    assert not (tmp_path / "telemetry.db-wal").exists()
    assert not list(tmp_path.glob(".*"))
    assert lookups(tmp_path) == 20


def test_a_folder_that_is_taken_or_cannot_be_made_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreMissing, match="nothing to back up"):
        take(tmp_path, tmp_path / "copy")
    fill(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(BackupInvalid, match="not empty"):
        take(tmp_path, tmp_path / "full")
    with pytest.raises(StoreFull, match="cannot be written"):
        take(tmp_path, tmp_path / "full" / "x" / "copy")
