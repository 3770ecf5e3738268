"""Copies of databases while others write, a check that they are whole, and the way back.

A back-up is a folder: one self-contained file a database, and `manifest.json`, which is written last: a folder without it is none.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from storage.errors import BackupInvalid, InUse, StorageError, StoreCorrupt, StoreFull, StoreMissing

MANIFEST: Final = "manifest.json"
_FORMAT: Final = 1
_PAGES: Final = 256  # 1 MiB a step: between two of them Ctrl-C is heard
_CHUNK: Final = 1 << 20
_FAULTS_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Copied:
    """One file of a back-up. schema: the revision or version that it was found in."""

    name: str
    bytes: int
    sha256: str
    schema: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a back-up holds. taken_ms: when it began; each file is a snapshot of a moment soon after."""

    taken_ms: int
    program: str
    files: tuple[Copied, ...]


@dataclass(frozen=True, slots=True)
class Database:
    """name: of its file in a back-up. schema: returns the schema of a file, or raises StorageError when it is not to be used."""

    name: str
    path: Path
    schema: Callable[[Path], str]


def take(databases: Sequence[Database], folder: Path, *, program: str, now_ms: int) -> Manifest:
    """Copy the databases that exist into a new folder, check the copies, and return what was written.

    Nobody waits: the copy is of one snapshot, and writers go on. The folder appears whole or not at all.
    Raises StoreMissing (none of them exists), BackupInvalid (the folder is there already), StoreCorrupt, StoreFull, SchemaTooNew.
    """
    present = [database for database in databases if database.path.exists()]
    if not present:
        raise StoreMissing(f"there is nothing to back up: {', '.join(str(database.path) for database in databases)} do not exist")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BackupInvalid(f"{folder} exists and is not empty; name a new folder")
    partial = folder.with_name(f".{folder.name}.partial-{os.getpid()}")
    try:
        with _disk(folder):
            partial.mkdir(mode=0o700, parents=True)
            files = tuple(_copy(database, partial / database.name) for database in present)
            manifest = Manifest(now_ms, program, files)
            _write(partial / MANIFEST, json.dumps({"format": _FORMAT, **asdict(manifest)}, indent=2).encode())
            _sync(partial)
            if folder.exists():
                folder.rmdir()
            partial.rename(folder)
            _sync(folder.parent)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return manifest


def read_manifest(folder: Path) -> Manifest:
    """Return what a back-up says of itself. Raises BackupInvalid when the folder is none."""
    try:
        given = json.loads((folder / MANIFEST).read_bytes())
        if given["format"] != _FORMAT:
            raise BackupInvalid(f"{folder} is a back-up of format {given['format']}; this program reads format {_FORMAT}")
        files = tuple(Copied(str(one["name"]), int(one["bytes"]), str(one["sha256"]), str(one["schema"])) for one in given["files"])
        if not files or any(Path(one.name).name != one.name or one.name in {MANIFEST, "", "."} for one in files):
            raise BackupInvalid(f"{folder / MANIFEST} names no files, or files outside its folder")
        return Manifest(int(given["taken_ms"]), str(given["program"]), files)
    except FileNotFoundError as error:
        raise BackupInvalid(f"{folder} is no back-up: it has no {MANIFEST}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BackupInvalid(f"{folder / MANIFEST} cannot be read ({type(error).__name__}: {error})") from error


def verify(folder: Path) -> Manifest:
    """Return the manifest when every file is what was written, and a sound database. Raises BackupInvalid, StoreCorrupt."""
    manifest = read_manifest(folder)
    for one in manifest.files:
        file = folder / one.name
        try:
            size, digest = file.stat().st_size, _digest(file)
        except OSError as error:
            raise BackupInvalid(f"{file} cannot be read: {error.strerror}; the back-up is not complete") from error
        if (size, digest) != (one.bytes, one.sha256):
            raise BackupInvalid(f"{file} is not what was backed up ({size} bytes, then {one.bytes}; or other content): use another back-up")
        require_sound(file)
    return manifest


def require_sound(path: Path) -> None:
    """Read the whole database, with all its indexes. Raises StoreCorrupt with what is wrong, StoreMissing."""
    if not path.exists():
        raise StoreMissing(f"there is no database at {path}")
    with _reading(path) as connection:
        faults = [str(row[0]) for row in connection.execute(f"PRAGMA integrity_check({_FAULTS_SHOWN})")]
    if faults != ["ok"]:
        raise StoreCorrupt(f"{path} is damaged ({'; '.join(faults)}); restore a back-up")


def restore(folder: Path, databases: Sequence[Database], *, replaced: str) -> Manifest:
    """Put a back-up's files in the places of the databases; what was there is kept beside it, in a folder of the name `replaced`.

    Everything is checked and copied beside its place first; each file then changes by one rename. Only databases that the back-up holds
    are touched. Raises BackupInvalid, StoreCorrupt, SchemaTooNew (before anything is changed), InUse (a process has one of them open).
    """
    manifest = verify(folder)
    held = {one.name for one in manifest.files}
    wanted = [database for database in databases if database.name in held]
    if not wanted:
        raise BackupInvalid(f"{folder} holds {', '.join(sorted(held))}, and none of what was asked for")
    for database in wanted:
        database.schema(folder / database.name)
    staged: dict[Path, Path] = {}
    try:
        with contextlib.ExitStack() as locks:
            for parent in sorted({database.path.parent for database in wanted}):
                with _disk(parent):
                    parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                    locks.enter_context(_folder_lock(parent))
            for database in wanted:
                _require_unused(database.path)
            for database in wanted:
                place = database.path.with_name(f".{database.path.name}.restoring")
                staged[database.path] = place
                with _disk(place):
                    _copy_file(folder / database.name, place)
            for database in wanted:
                with _disk(database.path):
                    _change(database.path, staged[database.path], replaced)
    finally:
        for place in staged.values():
            place.unlink(missing_ok=True)
    return manifest


# One file


def _copy(database: Database, target: Path) -> Copied:
    schema = database.schema(database.path)
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    try:
        with _reading(database.path) as source, contextlib.closing(sqlite3.connect(target, isolation_level=None)) as copy:
            # An open snapshot: without it the copy would begin anew whenever another process commits, and under load never end.
            source.execute("BEGIN")
            source.execute("SELECT count(*) FROM sqlite_master").fetchone()
            source.backup(copy, pages=_PAGES, sleep=0)
            copy.execute("PRAGMA journal_mode=DELETE")  # one file, without a log beside it
    except sqlite3.Error as error:
        raise _fault(error, database.path) from error
    require_sound(target)
    _sync(target)
    return Copied(database.name, target.stat().st_size, _digest(target), schema)


def _change(path: Path, fresh: Path, replaced: str) -> None:
    kept = path.parent / replaced / path.name
    there = [place for place in (path, *_beside(path)) if place.exists()]
    if there:
        kept.parent.mkdir(mode=0o700, exist_ok=True)
        if kept.exists():
            raise BackupInvalid(f"{kept} exists already; name another folder for what is replaced")
    if path in there:
        # A link first: there is no moment at which the path names nothing.
        os.link(path, kept)
    for log in there:
        # The log of a damaged database holds rows that it lacks; beside the fresh file it would be read as that one's.
        if log != path:
            log.replace(kept.with_name(log.name))
    fresh.replace(path)
    if there:
        _sync(kept.parent)
    _sync(path.parent)


def _beside(path: Path) -> tuple[Path, Path]:
    """Return the paths of a database's log and of the log's index."""
    return path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")


def _require_unused(path: Path) -> None:
    """Raise InUse unless no process has the database open. Folds its log into it; the log of a damaged one stays beside it."""
    if not path.exists():
        return
    log, aside = _beside(path)[0], path.with_name(f".{path.name}-wal.aside")
    aside.unlink(missing_ok=True)
    folded = False
    try:
        # SQLite deletes the log of an empty or damaged file when it opens or closes it.
        if log.exists():
            os.link(log, aside)
        folded = path.stat().st_size > 0 and _folds(path)
    finally:
        if aside.exists():
            if folded or log.exists():
                aside.unlink()
            else:
                aside.rename(log)


def _folds(path: Path) -> bool:
    """Fold a database's log into it; return whether that was possible, False when it is damaged. Raises InUse."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, timeout=0, isolation_level=None)) as connection:
            # Leaving WAL needs the file for oneself: another connection is in the way, even an idle one.
            mode = connection.execute("PRAGMA journal_mode=DELETE").fetchone()[0]
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}:
            raise _fault(error, path) from error
        mode = "wal"
    except sqlite3.DatabaseError:
        return False  # which may be why it is replaced
    if mode == "wal":
        raise InUse(f"{path} is in use: stop gateway, collector, worker and console first, then restore")
    return True


@contextlib.contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that only reads, and changes nothing beside the file either when nobody else has it open."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise _fault(error, path) from error


def _fault(error: sqlite3.Error, path: Path) -> StorageError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}:
        return StoreFull(f"{path} cannot be copied ({error}); make room on the disk")
    return StoreCorrupt(f"{path} cannot be read as a database ({error})")


@contextlib.contextmanager
def _folder_lock(folder: Path) -> Iterator[None]:
    """Keep those who open a database for writing out (storage.store takes the same lock)."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise InUse(f"a database in {folder} is just being opened; try again") from error
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _disk(place: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreFull(f"{place} cannot be written: {error.strerror or error}; make room, or name another folder") from error


def _copy_file(source: Path, target: Path) -> None:
    shutil.copyfile(source, target)
    target.chmod(0o600)
    _sync(target)


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
    _sync(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def folder_name(now_ms: int) -> str:
    """Return `20260414T101500Z`."""
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_ms / 1000))


def as_json(manifest: Manifest) -> Mapping[str, object]:
    """Return the manifest as JSON can show it."""
    return asdict(manifest)
