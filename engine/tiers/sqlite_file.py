"""Opening the cache's SQLite file: made when absent, checked, brought to the current schema."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path

from engine.errors import InvalidSetting, StoreCorrupt, TierUnavailable
from engine.tiers.sequence import seq_start, token_start

APPLICATION_ID = 0x43534331  # "CSC1": tells our file from any other SQLite file
SCHEMA_VERSION = 1
# A check reads the whole file: about 0.1 s at this size. In a larger one only the small tables are read, without which nothing
# may be served; damage among its entries is found when it is met, and is a miss.
_CHECKED_BYTES = 64 * 1024 * 1024
_ALWAYS_CHECKED = ("control", "control_token", "known_namespaces")

# Client-given texts are BLOBs of UTF-8: SQLite's text functions stop at a NUL, and half a surrogate pair is no TEXT.
# `body` is last, so that reading any other column never walks its overflow pages.
# AUTOINCREMENT: a seq is never used twice, which `vectors_since` relies on.
_SCHEMA = (
    """CREATE TABLE entries (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        key TEXT NOT NULL UNIQUE,
        entry_id TEXT NOT NULL,
        partition TEXT NOT NULL,
        generation TEXT NOT NULL,
        created_ms INTEGER NOT NULL,
        expires_ms INTEGER NOT NULL,
        size_bytes INTEGER NOT NULL,
        upstream_ms REAL NOT NULL,
        input_tokens INTEGER,
        output_tokens INTEGER,
        cached_input_tokens INTEGER,
        cost_usd REAL,
        namespace BLOB NOT NULL,
        tenant BLOB NOT NULL,
        model BLOB NOT NULL,
        model_version BLOB NOT NULL,
        embedder TEXT NOT NULL,
        prompt BLOB NOT NULL,
        vector BLOB NOT NULL,
        parse BLOB NOT NULL,
        body BLOB NOT NULL
    ) STRICT""",
    "CREATE INDEX entries_partition ON entries (partition, seq) WHERE length(vector) > 0",
    "CREATE INDEX entries_namespace ON entries (namespace, seq)",
    "CREATE INDEX entries_expires ON entries (expires_ms)",
    "CREATE TABLE control (key BLOB PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    "CREATE TABLE control_token (one INTEGER PRIMARY KEY CHECK (one = 1), token INTEGER NOT NULL) STRICT",
    "CREATE TABLE known_namespaces (namespace BLOB PRIMARY KEY) STRICT, WITHOUT ROWID",
)

# Who works on what, for seconds. Made where it is missing: nothing in it needs to be kept.
_LEASES = """CREATE TABLE IF NOT EXISTS leases (
        key BLOB PRIMARY KEY, owner TEXT NOT NULL, state TEXT NOT NULL, until_ms INTEGER NOT NULL
    ) STRICT, WITHOUT ROWID"""


def used_bytes(connection: sqlite3.Connection) -> int:
    """Return the bytes of the pages in use."""
    pages, free, size = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size"))
    return int((pages - free) * size)


def is_busy(error: sqlite3.Error) -> bool:
    """Return whether another connection's lock was in the way."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}


def is_full(error: sqlite3.Error) -> bool:
    """Return whether there was no room: on the disk, or by a quota or a limit of the file's size (which SQLite tells as a failed write)."""
    code = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF == sqlite3.SQLITE_FULL or code == sqlite3.SQLITE_IOERR_WRITE


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether the file's content is not what SQLite expects."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}


def connect(path: Path, *, timeout_s: float) -> sqlite3.Connection:
    """Return a connection in autocommit mode, without a busy timeout: the caller waits without blocking its event loop.

    Raises StoreCorrupt, InvalidSetting (the file cannot be made or opened), TierUnavailable (locked for longer than timeout_s).
    """
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return _connect(path)
        except sqlite3.Error as error:
            if is_damage(error):
                raise damaged(path, error) from error
            if not is_busy(error):
                raise InvalidSetting(f"cannot open the cache file {path}: {error}; check the folder and its rights") from error
            if time.monotonic() >= deadline:
                raise TierUnavailable(f"the cache file {path} stayed locked for {timeout_s:g} s by another process") from error
        time.sleep(0.005)


def damaged(path: Path, error: object) -> StoreCorrupt:
    return StoreCorrupt(
        f"the cache file {path} is damaged ({error}); stop all processes that use it, move it and its -wal and -shm files away "
        "and start again: a new, empty cache is made"
    )


def _connect(path: Path) -> sqlite3.Connection:
    try:
        # Made with these rights before SQLite opens it: the file holds prompts, and -wal and -shm inherit the rights.
        # Only a new file: closing any descriptor of one that SQLite has open would drop this process's locks on it.
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o600))
    except OSError as error:
        raise InvalidSetting(
            f"cannot open the cache file {path}: {error.strerror}; check that its folder exists and is writable"
        ) from error
    # The tier's own lock serialises threads, so the driver need not forbid them.
    connection = sqlite3.connect(path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=64)
    try:
        _prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    _check_owner(connection, path)
    connection.execute("PRAGMA journal_mode = WAL")
    # NORMAL loses the last commits at a power cut, never consistency. Control records are written with FULL.
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("PRAGMA journal_size_limit = 67108864")
    # What is deleted is overwritten: a purged prompt must not stay readable in a free page.
    connection.execute("PRAGMA secure_delete = ON")
    connection.execute("PRAGMA cache_size = -16384")
    _check(connection, path)
    connection.execute("BEGIN IMMEDIATE")
    try:
        if connection.execute("PRAGMA user_version").fetchone()[0] < SCHEMA_VERSION:
            _create(connection)
        connection.execute(_LEASES)
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _check(connection: sqlite3.Connection, path: Path) -> None:
    """Raise StoreCorrupt where the file, or the part of a large one that everything hangs on, is damaged."""
    if path.stat().st_size <= _CHECKED_BYTES:
        checks = ["PRAGMA quick_check(1)"]
    else:
        made = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        checks = [f"PRAGMA quick_check({table})" for table in _ALWAYS_CHECKED if table in made]
    for check in checks:
        found = connection.execute(check).fetchone()[0]
        if found != "ok":
            raise damaged(path, found.splitlines()[-1])


def schema_of(path: Path) -> int:
    """Return the schema of a cache file, changing nothing. Raises StoreCorrupt: damaged, another program's, or a newer schema."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)) as connection:
            _check_owner(connection, path)
            version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    except sqlite3.Error as error:
        raise damaged(path, error) from error
    if not version:
        raise damaged(path, "it is empty")
    return version


def _check_owner(connection: sqlite3.Connection, path: Path) -> None:
    # One snapshot: another process may be making the file at this moment.
    connection.execute("BEGIN")
    owner = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    connection.execute("COMMIT")
    if owner != APPLICATION_ID and (tables or owner or version):
        raise StoreCorrupt(f"{path} is a database of another program; name another file in the cache URL")
    if version > SCHEMA_VERSION:
        raise StoreCorrupt(
            f"the cache file {path} has schema {version}, newer than this Cachescope's {SCHEMA_VERSION}; "
            "upgrade Cachescope, or name another file in the cache URL"
        )


def _create(connection: sqlite3.Connection) -> None:
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('entries', ?)", (seq_start(),))
    connection.execute("INSERT INTO control_token (one, token) VALUES (1, ?)", (token_start(),))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
