"""The shared store in one SQLite file, for the processes of one machine.

Reads run on the event loop: they take microseconds, less than handing them to a thread. Each transaction is one synchronous
piece; only the wait for another process's lock is asynchronous, so a locked file delays its caller and nobody else.
A file that was moved away or replaced is noticed by `control_token`, which every gateway polls: it opens the new one, and the
token of a new file differs from any that was seen (random start, random steps), so that all records are read again.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from engine.errors import EngineError, TierUnavailable
from engine.tiers.base import ControlDoc, Removed, untold
from engine.tiers.codec import to_bytes, to_text
from engine.tiers.reserve import Reserve
from engine.tiers.sequence import token_step
from engine.tiers.sqlite_file import connect, is_busy, is_damage, is_full, used_bytes
from engine.tiers.sqlite_rows import COLUMNS, entry_of, row_of
from engine.types import Entry, EntryHead, LeaseState, RemovalCause, VectorRow

T = TypeVar("T")

_GET = f"SELECT {COLUMNS} FROM entries WHERE key = ? AND expires_ms > ?"  # noqa: S608  constants only
# REPLACE deletes the older row: the new one gets a new seq, so it appears again in `vectors_since`.
_PUT = f"INSERT OR REPLACE INTO entries ({COLUMNS}) VALUES ({', '.join('?' * 21)})"  # noqa: S608  constants only
_SCAN = """SELECT seq, entry_id, key, partition, namespace, tenant, model, generation, created_ms, expires_ms, size_bytes,
    cost_usd, prompt FROM entries WHERE namespace = ? AND seq > ? AND expires_ms > ? ORDER BY seq LIMIT ?"""
_VECTORS = """SELECT seq, key, entry_id, generation, expires_ms, embedder, vector FROM entries
    WHERE partition = ? AND seq > ? AND length(vector) > 0 AND expires_ms > ? ORDER BY seq LIMIT ?"""
# Hops from one namespace to the next by the index: DISTINCT would read every entry.
_NAMESPACES = """WITH RECURSIVE name (n) AS (
        SELECT min(namespace) FROM entries
        UNION ALL SELECT (SELECT min(namespace) FROM entries WHERE namespace > n) FROM name WHERE n IS NOT NULL
    ) SELECT n FROM name WHERE n IS NOT NULL UNION SELECT namespace FROM known_namespaces"""
_EXPIRED = "DELETE FROM entries WHERE seq IN (SELECT seq FROM entries WHERE expires_ms <= ? ORDER BY expires_ms LIMIT ?)"
_FIRST_TO_EXPIRE = "DELETE FROM entries WHERE seq IN (SELECT seq FROM entries ORDER BY expires_ms LIMIT ?) RETURNING expires_ms"
# Every 8th put of a file that is full removes up to 32 entries: four times what came in.
_BOUND_EVERY = 8
_BOUND_ROWS = 32
# A control record that a full file does not take costs so many entries at a time, a few times at most.
_ROOM_ROWS = 200
_ROOM_ROUNDS = 5
# Every 64th put removes up to 256 expired rows: four times what came in, in about a millisecond.
_PURGE_EVERY = 64
_PURGE_ROWS = 256
# A store without puts drops them at control polls.
_IDLE_PURGE_S = 10.0
_MOST_READ_UP = 10_000
_DELETE_BATCH = 500
# Looks at every lease, of which the last seconds' are there: so not with each of them.
_DROP_LEASES = "DELETE FROM leases WHERE until_ms <= ?"
_DROP_LEASES_EVERY = 64
_DELETE = "DELETE FROM entries WHERE key = ? RETURNING expires_ms"
_DELETE_ENTRY = "DELETE FROM entries WHERE key = ? AND entry_id = ? RETURNING expires_ms"


class SqliteTier:
    """Entries, vectors and control records in the file `path`, shared by several processes.

    timeout_s: how long a call waits for a lock before TierUnavailable. clock: Unix milliseconds. removed: told of what left.
    max_bytes: of the pages in use; above it those entries go that expire first. A freed page stays in the file, for what comes next.
    Safe to call from several threads, each with its own event loop. Raises what `sqlite_file.connect` raises.
    """

    name = "store"

    def __init__(
        self, path: Path, *, timeout_s: float, clock: Callable[[], int], max_bytes: int = 2**63 - 1, removed: Removed = untold
    ) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._removed = removed
        self._timeout_s = timeout_s
        self._clock = clock
        self._lock = threading.Lock()
        self._connection = connect(path, timeout_s=timeout_s)
        self._file = self._identity()
        self._reserve = Reserve(path)
        self._reserve.keep()
        self._closed = False
        self._puts = self._leases = 0
        self._read_up: dict[str, tuple[int, tuple[int, int]]] = {}  # partition -> cursor behind which there was nothing, and when
        self._next_purge_s = 0.0

    async def get(self, key: str) -> Entry | None:
        parameters = (key, self._clock())
        try:
            with self._lock:
                row = self._connection.execute(_GET, parameters).fetchone()
        except sqlite3.Error:
            # Asked again the long way, which waits for a lock or says what is wrong.
            rows = await self._read(_GET, parameters)
            row = rows[0] if rows else None
        return entry_of(row) if row else None

    async def put(self, entry: Entry) -> None:
        row = row_of(entry)
        now = self._clock()
        if self._puts % _PURGE_EVERY == 0:
            self._reserve.keep()

        def work(connection: sqlite3.Connection) -> Counter[RemovalCause]:
            gone: Counter[RemovalCause] = Counter()
            before = connection.execute("SELECT expires_ms FROM entries WHERE key = ?", (entry.key,)).fetchone()
            if before is not None:
                gone[RemovalCause.REPLACED if before[0] > now else RemovalCause.EXPIRED] += 1
            if entry.expires_ms <= now:
                connection.execute("DELETE FROM entries WHERE key = ?", (entry.key,))
            else:
                connection.execute(_PUT, row)
            if self._puts % _PURGE_EVERY == 0:
                gone[RemovalCause.EXPIRED] += connection.execute(_EXPIRED, (now, _PURGE_ROWS)).rowcount
            if self._puts % _BOUND_EVERY == 0 and used_bytes(connection) > self._max_bytes:
                for (expires_ms,) in connection.execute(_FIRST_TO_EXPIRE, (_BOUND_ROWS,)).fetchall():
                    gone[RemovalCause.SIZE if expires_ms > now else RemovalCause.EXPIRED] += 1
            self._puts += 1
            return gone

        self._tell(await self._write(work))

    def _tell(self, gone: Counter[RemovalCause]) -> None:
        for cause, count in gone.items():
            if count:
                self._removed(cause, count)

    async def delete(self, keys: Iterable[str]) -> int:
        return await self._delete(_DELETE, [(key,) for key in dict.fromkeys(keys)])

    async def delete_entries(self, entries: Mapping[str, str]) -> int:
        return await self._delete(_DELETE_ENTRY, list(entries.items()))

    async def _delete(self, sql: str, wanted: Sequence[tuple[str, ...]]) -> int:
        now = self._clock()
        deleted = 0
        for start in range(0, len(wanted), _DELETE_BATCH):
            batch = wanted[start : start + _DELETE_BATCH]

            def work(connection: sqlite3.Connection, batch: Sequence[tuple[str, ...]] = batch) -> Counter[RemovalCause]:
                gone = [row[0] for which in batch for row in connection.execute(sql, which).fetchall()]
                return Counter(RemovalCause.EXPLICIT if expires_ms > now else RemovalCause.EXPIRED for expires_ms in gone)

            found = await self._write(work)
            self._tell(found)
            deleted += found[RemovalCause.EXPLICIT]
        return deleted

    async def close(self) -> None:
        self._closed = True
        with self._lock, contextlib.suppress(sqlite3.Error):
            self._connection.close()

    async def vectors_since(self, partition: str, cursor: int, limit: int) -> tuple[list[VectorRow], int]:
        version = self._version()
        if version and self._read_up.get(partition) == (cursor, version):
            return [], cursor
        rows = await self._read(_VECTORS, (partition, cursor, self._clock(), limit))
        if rows:
            return [VectorRow(*row[1:]) for row in rows], rows[-1][0]
        last = await self._read("SELECT seq FROM sqlite_sequence WHERE name = 'entries'", ())
        # A sequence behind the cursor is another store's: the reader starts anew.
        if not last or last[0][0] < cursor:
            return [], 0
        if len(self._read_up) >= _MOST_READ_UP:
            self._read_up.clear()
        if version:
            self._read_up[partition] = (cursor, version)
        return [], cursor

    def _version(self) -> tuple[int, int] | None:
        """Return what changes with every commit to this file, by this connection or another; None where it cannot be told.

        A search asks for what is new each time, and mostly nothing is: this costs a quarter of looking.
        """
        try:
            with self._lock:
                return self._connection.total_changes, self._connection.execute("PRAGMA data_version").fetchone()[0]
        except sqlite3.Error:
            return None

    async def scan(self, namespace: str, cursor: str, limit: int, *, expired: bool = False) -> tuple[list[EntryHead], str]:
        after_ms = -1 if expired else self._clock()
        rows = await self._read(_SCAN, (to_bytes(namespace), int(cursor or 0), after_ms, limit))
        heads = [
            EntryHead(
                entry_id=row[1],
                key=row[2],
                partition=row[3],
                namespace=to_text(row[4]),
                tenant=to_text(row[5]),
                model=to_text(row[6]),
                generation=row[7],
                created_ms=row[8],
                expires_ms=row[9],
                size_bytes=row[10],
                cost_usd=row[11],
                prompt=to_text(row[12]),
            )
            for row in rows
        ]
        return heads, str(rows[-1][0]) if len(rows) >= limit else ""

    async def namespaces(self) -> list[str]:
        return sorted(to_text(name) for (name,) in await self._read(_NAMESPACES, ()))

    async def control_token(self) -> int:
        self._follow_file()
        self._drop_expired()
        token: int = (await self._read("SELECT token FROM control_token", ()))[0][0]
        return token

    def _drop_expired(self) -> None:
        """Remove a batch of expired rows now and then. One that finds the file locked leaves it to the next."""
        if time.monotonic() < self._next_purge_s:
            return
        self._next_purge_s = time.monotonic() + _IDLE_PURGE_S
        self._reserve.keep()
        now = self._clock()
        with self._lock, contextlib.suppress(sqlite3.Error):
            # Looked for first: a read takes no lock from the writers.
            if self._connection.execute("SELECT 1 FROM entries WHERE expires_ms <= ? LIMIT 1", (now,)).fetchone():
                gone = self._transact(lambda connection: connection.execute(_EXPIRED, (now, _PURGE_ROWS)).rowcount, durable=False)
                self._tell(Counter({RemovalCause.EXPIRED: gone}))

    async def control_all(self, prefix: str = "") -> list[ControlDoc]:
        start = to_bytes(prefix)
        # No UTF-8 text holds the byte FF: the range is exactly the keys that start so.
        sql = "SELECT key, value, version FROM control WHERE key >= ? AND key < ? ORDER BY key"
        rows = await self._read(sql, (start, start + b"\xff"))
        return [ControlDoc(to_text(key), to_text(value), version) for key, value, version in rows]

    async def control_get(self, key: str) -> ControlDoc | None:
        rows = await self._read("SELECT value, version FROM control WHERE key = ?", (to_bytes(key),))
        return ControlDoc(key, to_text(rows[0][0]), rows[0][1]) if rows else None

    async def control_changed(self, timeout_s: float) -> None:
        await asyncio.sleep(timeout_s)

    async def control_put(self, key: str, value: str, *, expected: int | None = None) -> ControlDoc | None:
        name = to_bytes(key)

        def work(connection: sqlite3.Connection) -> ControlDoc | None:
            found = connection.execute("SELECT version FROM control WHERE key = ?", (name,)).fetchone()
            version = found[0] if found else 0
            if expected is not None and expected != version:
                return None
            connection.execute("INSERT OR REPLACE INTO control VALUES (?, ?, ?)", (name, to_bytes(value), version + 1))
            kind, _, namespace = key.partition(":")
            if kind in {"policy", "generations"}:
                connection.execute("INSERT OR IGNORE INTO known_namespaces VALUES (?)", (to_bytes(namespace),))
            _move_token(connection, key)
            return ControlDoc(key, value, version + 1)

        return await self._control(key, work)

    async def control_delete(self, key: str) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            gone = connection.execute("DELETE FROM control WHERE key = ?", (to_bytes(key),)).rowcount > 0
            if gone:
                _move_token(connection, key)
            return gone

        return await self._control(key, work)

    async def _control(self, key: str, work: Callable[[sqlite3.Connection], T]) -> T:
        """Change control records, also in a file that is full: a purge must hide. A sign of life is not worth an entry."""
        if key.startswith("gateway:"):
            return await self._write(work)
        for attempt in range(_ROOM_ROUNDS):
            try:
                return await self._write(work, durable=True)
            except TierUnavailable as error:
                is_room_missing = isinstance(error.__cause__, sqlite3.Error) and is_full(error.__cause__)
                if not is_room_missing or not await self._make_room(with_entries=attempt > 0):
                    raise
        return await self._write(work, durable=True)

    async def _make_room(self, *, with_entries: bool) -> bool:
        """Give the reserve back, or begin the log anew, whose bytes are then for what comes next; else let some entries go.

        with_entries: those that expire first. Return whether it is worth trying again.
        """
        if not with_entries:
            # Each commit begins the log anew when it can. Done here, it could eat what was given back for the record.
            if not self._reserve.give():
                with self._lock, contextlib.suppress(sqlite3.Error):
                    self._connection.execute("PRAGMA wal_checkpoint(RESTART)")
            return True
        now = self._clock()
        gone = await self._write(lambda connection: connection.execute(_FIRST_TO_EXPIRE, (_ROOM_ROWS,)).fetchall())
        self._tell(Counter(RemovalCause.SIZE if expires_ms > now else RemovalCause.EXPIRED for (expires_ms,) in gone))
        return bool(gone)

    async def lease(self, key: str, owner: str, ttl_ms: int) -> LeaseState:
        name, now = to_bytes(key), self._clock()

        def work(connection: sqlite3.Connection) -> LeaseState:
            if self._leases % _DROP_LEASES_EVERY == 0:
                connection.execute(_DROP_LEASES, (now,))
            self._leases += 1
            found = connection.execute("SELECT owner, state FROM leases WHERE key = ? AND until_ms > ?", (name, now)).fetchone()
            if found is not None and found[1] != LeaseState.HELD:
                return LeaseState(found[1])
            if found is not None and found[0] != owner:
                return LeaseState.HELD
            connection.execute("INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?)", (name, owner, LeaseState.HELD, now + ttl_ms))
            return LeaseState.MINE

        return await self._write(work)

    async def lease_end(self, key: str, owner: str, state: LeaseState, ttl_ms: int) -> None:
        until_ms = 0 if state is LeaseState.FREE else self._clock() + ttl_ms
        sql = "UPDATE leases SET state = ?, until_ms = ? WHERE key = ? AND owner = ? AND state = 'held'"
        await self._write(lambda connection: connection.execute(sql, (state, until_ms, to_bytes(key), owner)) and None)

    async def ping(self) -> None:
        self._follow_file()
        await self._read("SELECT 1 FROM control_token", ())

    async def _read(self, sql: str, parameters: tuple[object, ...]) -> list[Any]:
        return await self._wait(lambda: self._connection.execute(sql, parameters).fetchall())

    async def _write(self, work: Callable[[sqlite3.Connection], T], *, durable: bool = False) -> T:
        return await self._wait(lambda: self._transact(work, durable=durable))

    async def _wait(self, attempt: Callable[[], T]) -> T:
        """Return the attempt's result, trying again while another connection holds the lock, for timeout_s at most."""
        deadline = time.monotonic() + self._timeout_s
        pause_s = 0.001
        while True:
            try:
                with self._lock:
                    return attempt()
            except sqlite3.Error as error:
                if not is_busy(error):
                    raise self._unavailable(error) from error
                if time.monotonic() + pause_s > deadline:
                    raise TierUnavailable(f"the cache file {self.path} stayed locked for {self._timeout_s:g} s") from error
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, 0.02)

    def _transact(self, work: Callable[[sqlite3.Connection], T], *, durable: bool) -> T:
        connection = self._connection
        if durable:
            connection.execute("PRAGMA synchronous = FULL")
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                result = work(connection)
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            return result
        finally:
            if durable:
                connection.execute("PRAGMA synchronous = NORMAL")

    def _unavailable(self, error: sqlite3.Error) -> TierUnavailable:
        if is_damage(error):
            return TierUnavailable(f"the cache file {self.path} is damaged ({error}); stop all its users and move it away")
        if is_full(error):
            return TierUnavailable(f"the cache file {self.path} takes no writes ({error}); make room on its disk, or purge and reclaim")
        return TierUnavailable(f"the cache file {self.path} did not answer: {error}")

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def _follow_file(self) -> None:
        """Open the file that the path names now. Without this, processes started before and after a swap would never meet."""
        if self._closed or self._identity() == self._file:
            return
        with self._lock:
            try:
                fresh = connect(self.path, timeout_s=0)
            except (EngineError, OSError) as error:
                raise TierUnavailable(f"the cache file {self.path} was replaced and the new one cannot be opened: {error}") from error
            # SQLite sees that its file was moved, and leaves the -wal of the new one alone when it closes.
            self._connection.close()
            self._connection = fresh
            self._read_up.clear()
            self._file = self._identity()


def _move_token(connection: sqlite3.Connection, key: str) -> None:
    if not key.startswith("gateway:"):  # a heartbeat changes nothing that is in force
        connection.execute("UPDATE control_token SET token = token + ?", (token_step(),))
