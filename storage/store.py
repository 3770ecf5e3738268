"""Opening the databases: one writer a file, any number of snapshot readers, WAL.

`open_telemetry` and `open_ops` return a Store or raise one of storage.errors with the next step. Opening for writing creates and
migrates; opening for reading never creates anything.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, create_engine, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from storage import migrations
from storage.connections import bind_quickly, engine_of
from storage.errors import (
    InvalidStoreUrl,
    SchemaTooNew,
    SchemaTooOld,
    StorageError,
    StoreBusy,
    StoreCorrupt,
    StoreFull,
    StoreGone,
    StoreMissing,
    StoreReadOnly,
)
from storage.settings import StorageSettings

_CREATED_BY: Final = {
    "telemetry": "start the collector, which creates it: `cachescope up` or `cachescope collect`",
    "ops": "start the console or the worker, which create it: `cachescope up`, `cachescope console` or `cachescope worker`",
}
_CHECK_S: Final = 1.0  # a check of a large file is cut off here: a start must not wait for it
_UNREADABLE: Final = (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS)
_DAMAGED: Final = "is damaged, or no database; move it away, or put a copy back (cachescope restore), and start again"
_NOT_WRITABLE: Final = "or its folder cannot be written by this user; the log lies beside the file"
_KINDS: Final[dict[int, tuple[type[StorageError], str]]] = {
    sqlite3.SQLITE_BUSY: (StoreBusy, "is locked by another process; end that one (lsof on the file names it), or try again"),
    sqlite3.SQLITE_LOCKED: (StoreBusy, "is locked by another connection; try again"),
    sqlite3.SQLITE_FULL: (StoreFull, "cannot grow; make room on its disk"),
    sqlite3.SQLITE_IOERR: (StoreFull, "cannot be written; make room on its disk, or check it"),
    sqlite3.SQLITE_CORRUPT: (StoreCorrupt, _DAMAGED),
    sqlite3.SQLITE_NOTADB: (StoreCorrupt, _DAMAGED),
    sqlite3.SQLITE_READONLY: (StoreReadOnly, _NOT_WRITABLE),
    sqlite3.SQLITE_PERM: (StoreReadOnly, _NOT_WRITABLE),
    sqlite3.SQLITE_CANTOPEN: (StoreReadOnly, _NOT_WRITABLE),
}


class Store:
    """An open database. Safe to share between threads; close it when done."""

    def __init__(self, path: Path, line: str, settings: StorageSettings, *, write: bool) -> None:
        self.path = path
        self.line = line
        self._timeout_s = settings.busy_timeout_s
        # Readers open the file read-only even in the writing process: a stray write in a page is an error, not a surprise.
        self._reader = engine_of(path, "ro", settings, begin="BEGIN")
        self._writer = engine_of(path, "rw", settings, begin="BEGIN IMMEDIATE") if write else None
        # Threads of one process queue here, fairly; SQLite's own waiting is polling and can starve one of them.
        self._turn = threading.Lock()
        self._file = _identity(path)

    @property
    def writable(self) -> bool:
        return self._writer is not None

    @contextlib.contextmanager
    def read(self) -> Iterator[Connection]:
        """A snapshot: every query inside sees the same state, whatever is committed meanwhile."""
        self._follow_file()
        with _errors(self.path, self.line), self._reader.connect() as connection, connection.begin():
            yield connection

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that holds the write lock from its first moment; committed at the end, rolled back by an exception.

        Raises StoreBusy when the lock is not free within the timeout. Does not nest.
        """
        if self._writer is None:
            raise StoreReadOnly(f"{self.path} was opened for reading; only its writer may change it")
        if not self._turn.acquire(timeout=self._timeout_s):
            raise StoreBusy(f"{self.path}: another thread has been writing for {self._timeout_s} s; try again")
        try:
            self._follow_file()
            with _errors(self.path, self.line), self._writer.connect() as connection, connection.begin():
                yield connection
            self._follow_file()  # what was committed to a file that is gone must not be acknowledged
        finally:
            self._turn.release()

    def room_bytes(self) -> int:
        """Return how many bytes are left on the disk of the file. Raises StoreGone when its folder is gone."""
        try:
            return shutil.disk_usage(self.path.parent).free
        except OSError as error:
            raise StoreGone(f"the folder {self.path.parent} is gone; {_CREATED_BY[self.line]}") from error

    def _follow_file(self) -> None:
        """Return when the path still names the file that is open. A reader goes over to a new one; a writer raises StoreGone.

        Without this a writer would go on into a deleted file, and acknowledge what nobody will ever read.
        """
        found = _identity(self.path)
        if found == self._file:
            return
        if found is None or self.writable:
            raise StoreGone(f"{self.path} was deleted or replaced while it was open; restart the process that writes it")
        self._reader.dispose()
        self._file = found

    def close(self) -> None:
        """Close all idle connections. The last one to leave folds the log into the file."""
        self._reader.dispose()
        if self._writer is not None:
            self._writer.dispose()


def _identity(path: Path) -> tuple[int, int] | None:
    """Return which file a path names, None when there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def open_telemetry(settings: StorageSettings, *, write: bool, wait_s: float | None = None) -> Store:
    """Open telemetry.db. write: create and migrate it (the collector); else read what is there.

    wait_s: how long a locked file is waited for while it is opened, no longer than the settings' timeout, which later writes have.
    Raises StoreMissing, SchemaTooOld (reading), StoreReadOnly (writing), SchemaTooNew, StoreCorrupt, StoreBusy, InvalidStoreUrl.
    """
    return _open(settings.telemetry_url, "telemetry", settings, write=write, wait_s=wait_s)


def open_ops(settings: StorageSettings, *, write: bool = True, wait_s: float | None = None) -> Store:
    """Open ops.db: created and migrated unless write is off. Waits and raises as open_telemetry does."""
    return _open(settings.ops_url, "ops", settings, write=write, wait_s=wait_s)


def schema_of(path: Path, line: str) -> str:
    """Return the revision of a database file of this line. Raises SchemaTooNew, StoreCorrupt (also for another line), StoreMissing."""
    if not path.exists():
        raise StoreMissing(f"there is no {line} database at {path}")
    engine = create_engine("sqlite+pysqlite://", creator=lambda: sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True))
    try:
        with _errors(path, line), engine.connect() as connection:
            version = _version(connection, path, line)
    finally:
        engine.dispose()
    if version is None:
        raise StoreCorrupt(f"{path} is empty; expected the {line} database")
    _check_version(version, path, line, write=True)
    return version


def path_of(url: str) -> Path:
    """Return the file that a sqlite:///… URL names. Raises InvalidStoreUrl, without the URL's password in its message."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise InvalidStoreUrl("the store's URL cannot be read; expected sqlite:///path/to/file.db") from error
    if parsed.get_backend_name() != "sqlite" or not parsed.database or parsed.database == ":memory:" or parsed.host:
        shown = parsed.render_as_string(hide_password=True)
        raise InvalidStoreUrl(f"{shown} is no store; expected sqlite:///path/to/file.db (four slashes for an absolute path)")
    return Path(parsed.database).expanduser().absolute()


def _open(url: str, line: str, settings: StorageSettings, *, write: bool, wait_s: float | None) -> Store:
    path = path_of(url)
    opening = settings if wait_s is None else replace(settings, busy_timeout_s=min(wait_s, settings.busy_timeout_s))
    if write:
        bind_quickly()
        _prepare(path, line, opening)
    elif not path.exists():
        raise StoreMissing(f"there is no {line} database at {path} yet; {_CREATED_BY[line]}")
    _look(path, line, opening, write=write)  # it waits no longer than that; the store's own connections do
    store = Store(path, line, settings, write=write)
    try:
        with store.read() as connection:  # kept open from now on: nobody can lock readers out of it any more
            _check_version(_version(connection, path, line), path, line, write=write)
    except BaseException:
        store.close()
        raise
    return store


def _look(path: Path, line: str, settings: StorageSettings, *, write: bool) -> str | None:
    """Return the schema's version, None for an empty database, read without the lock for writing. Raises as _check_version does."""
    engine = engine_of(path, "ro", settings, begin="BEGIN")
    try:
        with _errors(path, line), engine.connect() as connection, connection.begin():
            version = _version(connection, path, line)
    finally:
        engine.dispose()
    _check_version(version, path, line, write=write)
    return version


def _prepare(path: Path, line: str, settings: StorageSettings) -> None:
    """Create the file when there is none, check it when there is one, and bring its schema up to date."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise StoreReadOnly(f"the folder {path.parent} cannot be used for the {line} database: {error.strerror}") from error
    try:
        # One process at a time: changing a new file to WAL fails at once, without waiting, while another has it open.
        # The folder is locked, not the file: closing any descriptor of the file would drop SQLite's own locks on it.
        _lock(folder, path, settings.busy_timeout_s)
        _create(path, line)
        preparing = engine_of(path, "rw", settings, begin="BEGIN IMMEDIATE")
        try:
            with _errors(path, line):
                _prepare_file(preparing, path)
            # Another process may hold the lock for writing, and as a rule there is nothing to change.
            if _look(path, line, settings, write=True) != migrations.REVISIONS[line][-1]:
                _migrate(preparing, path, line)
        finally:
            preparing.dispose()
    finally:
        os.close(folder)


def _lock(folder: int, path: Path, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise StoreBusy(f"another process has been preparing a database in {path.parent} for {timeout_s} s") from None
            time.sleep(0.01)
        else:
            return


def _create(path: Path, line: str) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        if not path.is_file():
            raise StoreCorrupt(f"{path} is not a file; expected the {line} database") from None
        effective = os.access in os.supports_effective_ids
        if not all(os.access(place, os.W_OK, effective_ids=effective) for place in (path, path.parent)):
            raise StoreReadOnly(f"{path} {_NOT_WRITABLE}") from None
    except OSError as error:
        raise StoreReadOnly(f"the {line} database {path} cannot be created: {error.strerror}") from error


def _migrate(engine: Engine, path: Path, line: str) -> None:
    known = migrations.REVISIONS[line]
    with _errors(path, line), engine.connect() as connection, connection.begin():
        version = _version(connection, path, line)
        _check_version(version, path, line, write=True)
        if version != known[-1]:
            migrations.upgrade(connection, line)


def _prepare_file(engine: Engine, path: Path) -> None:
    with contextlib.closing(engine.raw_connection()) as pooled:
        raw: Any = pooled.driver_connection
        if raw.execute("PRAGMA page_count").fetchone()[0] == 0:
            raw.execute("PRAGMA auto_vacuum=INCREMENTAL")  # can be chosen only while the file is empty
        elif (damage := _damage(raw)) is not None:
            raise StoreCorrupt(f"{path} is damaged ({damage}); move it away, or restore a copy, and start again")
        if raw.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
            raise StoreReadOnly(f"{path}: this file system cannot hold a write-ahead log; choose a local folder")


def _damage(raw: sqlite3.Connection) -> str | None:
    """Return what SQLite's quick check finds within a second, None when it finds nothing."""
    alarm = threading.Timer(_CHECK_S, raw.interrupt)
    alarm.start()
    try:
        found = str(raw.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
            raise
        return None
    finally:
        alarm.cancel()
        alarm.join()
    return None if found == "ok" else found.splitlines()[-1]


def _version(connection: Connection, path: Path, line: str) -> str | None:
    """Return the schema's version, None for an empty database."""
    tables = set(connection.exec_driver_sql("SELECT name FROM sqlite_master WHERE type = 'table'").scalars())
    if not tables:
        return None
    found = None
    if "alembic_version" in tables:
        found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar()
    other = next((name for name, revisions in migrations.REVISIONS.items() if name != line and found in revisions), None)
    if found is None or other is not None:
        raise StoreCorrupt(f"{path} is {other or 'some other program'}'s database, not the {line} database; choose another file")
    return str(found)


def _check_version(version: str | None, path: Path, line: str, *, write: bool) -> None:
    known = migrations.REVISIONS[line]
    if version is not None and version not in known:
        raise SchemaTooNew(
            f"{path} has schema {version}, written by a newer program; this one knows up to {known[-1]}: use the newer program"
        )
    if write or version == known[-1]:
        return
    if version is None:
        raise StoreMissing(f"the {line} database {path} is empty; {_CREATED_BY[line]}")
    raise SchemaTooOld(f"{path} has schema {version} and needs {known[-1]}; {_CREATED_BY[line].replace('creates', 'migrates')}")


@contextlib.contextmanager
def _errors(path: Path, line: str) -> Iterator[None]:
    """Turn SQLite's errors into this package's. Those that mean a mistake in a statement pass as they are."""
    try:
        yield
    except (DBAPIError, sqlite3.Error) as error:
        raw = error.orig if isinstance(error, DBAPIError) else error
        known = _known(raw, path, line) or _another_schema(raw, path, line)
        if known is None:
            raise
        raise known from error


def _another_schema(error: Any, path: Path, line: str) -> StorageError | None:
    """Return what is wrong with a file that lacks a table or a column of ours; None when something else failed.

    A file is checked when it is opened. Under a program that runs, an empty one or an old copy may take its place.
    """
    if not str(error).startswith(("no such table", "no such column")):
        return None
    try:
        _check_version(schema_of(path, line), path, line, write=False)
    except StorageError as found:
        return found
    return StoreCorrupt(f"{path} has the schema's version and not its tables ({error}); move it away, or restore a copy, and start again")


def _known(error: Any, path: Path, line: str) -> StorageError | None:
    """Return the error of this package that an SQLite error means; None for a mistake in a statement."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        return None
    if code in _UNREADABLE:
        return StoreCorrupt(f"{path} cannot be read ({error}); check the disk")
    if code & 0xFF == sqlite3.SQLITE_CANTOPEN and not path.exists():
        return StoreGone(f"there is no {line} database at {path} any more; {_CREATED_BY[line]}")
    kind, advice = _KINDS.get(code & 0xFF, (None, ""))
    return kind(f"{path} {advice} ({error})") if kind else None
