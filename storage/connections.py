"""How a connection to a database file is set up: what it may do, how long it waits, what it knows beyond SQL."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event

from storage.settings import StorageSettings
from storage.sketch import merge_bytes
from storage.slots import slot

# 64 MB of log before it is folded into the file. Ids are random: a batch of 512 spans touches some 1,500 index pages. The longer
# the log, the fewer times each of them is copied.
_CHECKPOINT_PAGES: Final = 16_000
_LOG_LIMIT_BYTES: Final = 96 * 1024 * 1024  # a log that a long reader made grow is cut back to this
# Up to so much a reader sorts in memory, not in a file: grouping a month's rows takes a quarter less. A pool holds four.
_READER_CACHE_KIB: Final = 16_384


def engine_of(path: Path, mode: str, settings: StorageSettings, *, begin: str) -> Engine:
    """Return the pool of connections to this file. mode: ro | rw. begin: the statement that begins each transaction."""

    def connect() -> sqlite3.Connection:
        # isolation_level=None: the driver must not begin transactions on its own; the event below does.
        raw = sqlite3.connect(
            f"{path.as_uri()}?mode={mode}",
            uri=True,
            timeout=settings.busy_timeout_s,
            isolation_level=None,
            check_same_thread=False,
        )
        if mode == "rw":
            raw.execute(f"PRAGMA synchronous={_synchronous(settings)}")
            raw.execute(f"PRAGMA wal_autocheckpoint={_CHECKPOINT_PAGES}")
            raw.execute(f"PRAGMA journal_size_limit={_LOG_LIMIT_BYTES}")
            raw.execute("PRAGMA cache_size=-65536")
            raw.create_function("sketch_merge", 2, merge_bytes, deterministic=True)
        else:
            raw.execute(f"PRAGMA cache_size=-{_READER_CACHE_KIB}")
            raw.create_function("slot", 1, slot, deterministic=True)
        return raw

    pool = {"poolclass": QueuePool, "pool_size": 4 if mode == "ro" else 1, "max_overflow": -1}
    # An error's text has the statement's values otherwise, and ends in a log: prompts are among them.
    made = create_engine("sqlite+pysqlite://", creator=connect, hide_parameters=True, **pool)

    @event.listens_for(made, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql(begin)

    return made


def bind_quickly() -> None:
    """Spare the driver its slow search for adapters.

    Python's sqlite3 asks None, bool and bytes values for an adapter by several failing attribute look-ups, a microsecond each; a
    lookup's row has twenty such values. These adapters change no value, and are written in C.
    """
    nothing: dict[None, None] = {}
    sqlite3.register_adapter(type(None), nothing.get)
    sqlite3.register_adapter(bool, int)
    sqlite3.register_adapter(bytes, bytes)


def _synchronous(settings: StorageSettings) -> str:
    value = settings.synchronous.upper()
    if value not in ("FULL", "NORMAL"):
        raise ValueError(f"synchronous is FULL or NORMAL, not {settings.synchronous!r}")
    return value
