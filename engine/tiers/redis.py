"""The shared store in Redis or Valkey (6.2 or newer), one server, for gateways on several machines.

Lost control records: all records and the token are fields of one hash, so they are lost together or not at all. A server that
comes back empty gives a token with a new random start; one that comes back from an older snapshot goes on by random steps. Either
way the token differs from any that a gateway saw, every gateway reads the records again, and without a generation nothing is
visible. What a snapshot cannot tell is that a purge came after it: run the server with `appendonly yes` where that matters.

A server whose memory is full refuses entries and takes control records: a purge must hide what it still serves. Redis 7 and Valkey
allow it to a script that asks for it; for an older one some of the oldest entries are removed first.

A server that stops answering costs one call its timeout. From then on calls fail at once, while a task of the tier's own asks
every 0.25 s, then up to every 2 s, whether it is back.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, cast

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ClusterDownError, OutOfMemoryError, RedisClusterException, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from engine.errors import InvalidSetting, TierUnavailable
from engine.tiers import redis_scripts as scripts
from engine.tiers.base import ControlDoc, Removed, untold
from engine.tiers.codec import decode, decode_head, decode_vector, encode_head, to_bytes, to_text
from engine.tiers.redis_push import Announcements, listening_pool
from engine.tiers.sequence import token_start, token_step
from engine.types import Entry, EntryHead, LeaseState, RemovalCause, VectorRow

T = TypeVar("T")

_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 2.0
_CONNECTIONS = 64
# A script holds the server up: 500 entries take about a millisecond.
_BATCH = 500
# PEXPIRE refuses more than 2^63 - now; a hundred years are as good as for ever.
LONGEST_TTL_MS = 100 * 366 * 86_400_000

# Entries removed at a time, and how often, for one control record on a full server that cannot be told to take it.
_ROOM = 200
_ROOM_AT_ONCE = 20
_ROUNDS = 20

_CONTROL = scripts.CONTROL
NAMES = f"{scripts.PREFIX}names"
_SEQ = f"{scripts.PREFIX}seq"


class RedisTier:
    """Entries, vectors and control records on the server of `url`. Nothing is sent before the first call.

    timeout_s: bound of every call, connecting included; then TierUnavailable. clock: Unix milliseconds.
    removed: told of what was replaced and deleted; what the server removes by itself (expiry, eviction) only its INFO tells.
    undecodable: entries met that another version wrote or that are broken; each was a miss.
    One event loop per tier: connections belong to the loop that made them.
    """

    name = "store"

    def __init__(self, url: str, *, timeout_s: float, clock: Callable[[], int], removed: Removed = untold) -> None:
        self._removed = removed
        self.undecodable = 0
        self.faults: Counter[str] = Counter()
        self._url = url
        self._timeout_s = timeout_s
        self._clock = clock
        self._down = False
        self._places = asyncio.Semaphore(_CONNECTIONS)
        self._rng = random.Random()  # noqa: S311 - jitter, no secrets
        self._probe: asyncio.Task[None] | None = None
        self._redis = self._connect(url)
        self._announcements = Announcements(self._listener)
        self._register()

    def _connect(self, url: str) -> Any:
        """Return the client. Raises InvalidSetting."""
        timeout_s = self._timeout_s
        try:
            pool = redis.asyncio.ConnectionPool.from_url(
                url,
                # Bounded by the semaphore of `_call`, and each call by its time-out: a pool that waits, and sockets that watch the
                # time as well, cost as much as the command itself.
                socket_timeout=None,
                socket_connect_timeout=timeout_s,
                retry=Retry(NoBackoff(), 0),
                protocol=2,
            )
        except ValueError:
            raise InvalidSetting("the cache URL is no Redis URL; expected redis://host:port/db") from None
        return redis.asyncio.Redis.from_pool(pool)

    def _register(self) -> None:
        self._put = self._redis.register_script(scripts.PUT)
        self._delete = self._redis.register_script(scripts.DELETE)
        self._since = self._redis.register_script(scripts.SINCE)
        self._namespaces = self._redis.register_script(scripts.NAMESPACES)
        self._even_full = {
            text: self._redis.register_script(scripts.WHEN_FULL + text)
            for text in (scripts.CONTROL_PUT, scripts.CONTROL_DELETE, scripts.CONTROL_EPOCH)
        }
        self._lease = self._redis.register_script(scripts.LEASE)
        self._lease_end = self._redis.register_script(scripts.LEASE_END)

    async def get(self, key: str) -> Entry | None:
        head, vector, body = await self._call(lambda: cast("Awaitable[list[Any]]", self._redis.hmget(entry_key(key), ["h", "v", "b"])))
        if head is None:
            return None
        entry = decode(head, vector or b"", body or b"")
        if entry is None:
            self.undecodable += 1
        # The server's clock removes it, ours decides.
        return entry if entry is not None and entry.expires_ms > self._clock() else None

    async def put(self, entry: Entry) -> None:
        ttl_ms = entry.expires_ms - self._clock()
        if ttl_ms <= 0:
            await self.delete([entry.key])
            return
        namespace = to_bytes(entry.namespace)
        keys: list[str | bytes] = [entry_key(entry.key), partition_key(entry.partition), namespace_key(namespace), NAMES, _SEQ]
        arguments: list[bytes | str | int] = [
            entry.key,
            entry.partition,
            namespace,
            min(ttl_ms, LONGEST_TTL_MS),
            encode_head(entry),
            entry.vector,
            entry.body,
            entry.entry_id,
        ]
        if await self._call(lambda: self._put(keys=keys, args=arguments)):
            self._removed(RemovalCause.REPLACED, 1)

    async def delete(self, keys: Iterable[str]) -> int:
        return await self._remove([(key, "*") for key in dict.fromkeys(keys)])

    async def delete_entries(self, entries: Mapping[str, str]) -> int:
        return await self._remove(list(entries.items()))

    async def _remove(self, wanted: Sequence[tuple[str, str]]) -> int:
        now = self._clock()
        deleted = 0
        for start in range(0, len(wanted), _BATCH):
            arguments = [part for pair in wanted[start : start + _BATCH] for part in pair]
            found: list[bytes] = await self._call(lambda given=arguments: self._delete(args=given), once=True)  # type: ignore[misc]
            heads = [decode_head(head) for head in found]
            deleted += sum(head is None or head.expires_ms > now for head in heads)
        if deleted:
            self._removed(RemovalCause.EXPLICIT, deleted)
        return deleted

    def _listener(self) -> Any:
        """Return a connection's worth of client that may wait for messages without end."""
        return redis.asyncio.Redis(connection_pool=listening_pool(self._url, self._timeout_s))

    async def close(self) -> None:
        await self._announcements.close()
        if self._probe is not None:
            self._probe.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._probe
        with contextlib.suppress(RedisError, OSError):
            await self._disconnect()

    async def _disconnect(self) -> None:
        await self._redis.aclose()
        await self._redis.connection_pool.disconnect()

    async def vectors_since(self, partition: str, cursor: int, limit: int) -> tuple[list[VectorRow], int]:
        now = self._clock()
        rows: list[VectorRow] = []
        while len(rows) < limit:
            at, met, found = await self._members(partition_key(partition), cursor, min(limit - len(rows), _BATCH), ("p", partition), "v")
            for head, vector in found:
                row = decode_vector(head, vector)
                if row is None:
                    self.undecodable += 1
                elif row.expires_ms > now:
                    rows.append(row)
            if met == 0:
                break
            cursor = at
        if not rows and cursor and await self._last_seq(partition) < cursor:
            return [], 0  # a sequence behind the cursor is another store's: the reader starts anew
        return rows, cursor

    async def _last_seq(self, partition: str) -> int:
        """Return the last sequence number that the vectors of this partition, or of the whole store, have got."""
        del partition
        return int(await self._call(lambda: self._redis.get(_SEQ)) or 0)

    async def scan(self, namespace: str, cursor: str, limit: int, *, expired: bool = False) -> tuple[list[EntryHead], str]:
        del expired  # the server removes them
        name = to_bytes(namespace)
        now = self._clock()
        heads: list[EntryHead] = []
        at = int(cursor or 0)
        while len(heads) < limit:
            at, met, found = await self._members(namespace_key(name), at, min(limit - len(heads), _BATCH), ("n", name), "")
            if met == 0:
                return heads, ""
            for data, _ in found:
                head = decode_head(data)
                if head is None:
                    self.undecodable += 1
                elif head.expires_ms > now:
                    heads.append(head)
        return heads, str(at)

    async def namespaces(self) -> list[str]:
        found: list[bytes] = await self._call(lambda: self._namespaces(keys=[NAMES, _CONTROL]))
        return sorted({to_text(name) for name in found})

    async def control_token(self) -> int:
        token = await self._call(lambda: cast("Awaitable[bytes | None]", self._redis.hget(_CONTROL, "t")))
        if token is None:
            token = await self._control(scripts.CONTROL_EPOCH, [token_start()], once=False)
        return int(token)

    async def control_all(self, prefix: str = "") -> list[ControlDoc]:
        fields = await self._call(lambda: cast("Awaitable[dict[bytes, bytes]]", self._redis.hgetall(_CONTROL)))
        start = b"r:" + to_bytes(prefix)
        docs = []
        for field in sorted(name for name in fields if name.startswith(start)):
            version, _, value = fields[field].partition(b":")
            docs.append(ControlDoc(to_text(field[2:]), to_text(value), int(version)))
        return docs

    async def control_get(self, key: str) -> ControlDoc | None:
        found = await self._call(lambda: cast("Awaitable[bytes | None]", self._redis.hget(_CONTROL, b"r:" + to_bytes(key))))
        if found is None:
            return None
        version, _, value = found.partition(b":")
        return ControlDoc(key, to_text(value), int(version))

    async def control_changed(self, timeout_s: float) -> None:
        await self._announcements.wait(timeout_s)

    async def lease(self, key: str, owner: str, ttl_ms: int) -> LeaseState:
        state: bytes = await self._call(lambda: self._lease(keys=[_lease_key(key)], args=[owner, ttl_ms]))
        return LeaseState(to_text(state))

    async def lease_end(self, key: str, owner: str, state: LeaseState, ttl_ms: int) -> None:
        await self._call(lambda: self._lease_end(keys=[_lease_key(key)], args=[owner, state.value, ttl_ms]))

    async def control_put(self, key: str, value: str, *, expected: int | None = None) -> ControlDoc | None:
        kind, _, namespace = key.partition(":")
        named = b"n:" + to_bytes(namespace) if kind in {"policy", "generations"} else b""
        wanted = "" if expected is None else expected
        arguments: list[bytes | str | int] = [to_bytes(key), to_bytes(value), wanted, _step(key), token_start(), named]
        version = await self._control(scripts.CONTROL_PUT, arguments, namespace=namespace)
        return ControlDoc(key, value, int(version)) if version else None

    async def control_delete(self, key: str) -> bool:
        arguments: list[bytes | str | int] = [to_bytes(key), _step(key), token_start()]
        return bool(await self._control(scripts.CONTROL_DELETE, arguments))

    async def _control(self, text: str, arguments: list[bytes | str | int], *, namespace: str = "", once: bool = True) -> Any:
        """Run a script over the control records, also on a server whose memory is full.

        namespace: whose entries are removed first where some must be.
        """

        async def run() -> Any:
            if text in self._even_full:
                try:
                    return await self._even_full[text](keys=[_CONTROL], args=arguments)
                except ResponseError as error:
                    if "compiling" not in str(error):
                        raise
                    self._even_full.clear()  # Redis 6: it does not know the first line
            plain = self._redis.register_script(text)
            for _ in range(_ROUNDS):
                try:
                    return await plain(keys=[_CONTROL], args=arguments)
                except RedisError as error:
                    is_full = isinstance(error, OutOfMemoryError) or "OOM" in str(error)
                    if not is_full or not await self._make_room(to_bytes(namespace)):
                        raise
            return await plain(keys=[_CONTROL], args=arguments)

        return await self._call(run, once=once)

    async def _make_room(self, namespace: bytes) -> bool:
        """Remove some of the oldest entries of this namespace, or of the first that has any; return whether there were some."""
        for name in (namespace, *sorted(await self._redis.smembers(NAMES))):
            index = namespace_key(name)
            if oldest := [to_text(key) for key in await self._redis.zrange(index, 0, _ROOM - 1)]:
                # Each by itself, few at a time: on a cluster they lie on several servers.
                for start in range(0, len(oldest), _ROOM_AT_ONCE):
                    await asyncio.gather(*(self._redis.unlink(entry_key(key)) for key in oldest[start : start + _ROOM_AT_ONCE]))
                await self._redis.zrem(index, *oldest)
                self.faults["made_room"] += len(oldest)
                self._removed(RemovalCause.SIZE, len(oldest))
                return True
        return False

    async def ping(self) -> None:
        """Ask the server itself, even while calls fail at once; its answer ends that."""
        await self._call(lambda: cast("Awaitable[Any]", self._redis.ping()), even_down=True)
        self._down = False

    async def _members(
        self, index: bytes, cursor: int, limit: int, owner: tuple[str, str | bytes], other: str
    ) -> tuple[int, int, list[tuple[bytes, bytes]]]:
        """Return the cursor after at most `limit` members, how many were met, and (head, other field) of the living ones."""
        arguments: list[bytes | str | int] = [cursor, limit, *owner, other]
        at, met, *flat = await self._call(lambda: self._since(keys=[index], args=arguments))
        return int(at), int(met), list(zip(flat[::2], flat[1::2], strict=True))

    async def _call(self, run: Callable[[], Awaitable[T]], *, once: bool = False, even_down: bool = False) -> T:
        """Return the server's answer.

        A connection that turns out closed is tried anew, within the same time: after a restart all idle ones are. once: not so,
        for what must not be done twice: the server may have done it before the connection broke.
        """
        if self._down and not even_down:
            self.faults["refused"] += 1
            self._went_down()  # whatever ended the probe, one is under way
            raise TierUnavailable("Redis did not answer a moment ago; it is being asked again in the background")
        try:
            async with asyncio.timeout(self._timeout_s), self._places:
                try:
                    return await run()
                except RedisConnectionError:
                    if once:
                        raise
                    await self._drop_idle()
                    return await run()
        except (RedisConnectionError, RedisTimeoutError, RedisClusterException, ClusterDownError, OSError, TimeoutError) as error:
            # TimeoutError is an OSError since Python 3.11; both are named for the reader.
            self.faults["unreachable"] += 1
            self._went_down()
            raise TierUnavailable(f"Redis did not answer within {self._timeout_s:g} s ({type(error).__name__})") from error
        except RedisError as error:
            # The server lives but refuses: read-only, out of memory. Only the code is told: the rest may quote keys.
            self.faults["error"] += 1
            code = str(error).partition(" ")[0][:40]
            raise TierUnavailable(f"Redis refused the command: {type(error).__name__} {code}") from error

    async def _drop_idle(self) -> None:
        await self._redis.connection_pool.disconnect(inuse_connections=False)

    def _went_down(self) -> None:
        self._down = True
        if self._probe is None or self._probe.done():
            self._probe = asyncio.get_running_loop().create_task(self._ask_until_back(), name="redis-probe")

    async def _ask_until_back(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while self._down:
            # Jittered: gateways on one server must not ask it all at the same moment.
            await asyncio.sleep(pause_s * self._rng.uniform(0.5, 1.0))
            pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            try:
                with contextlib.suppress(RedisError, OSError):
                    await self._drop_idle()  # whatever ended one connection has most likely ended the others
                with contextlib.suppress(TierUnavailable):
                    await self.ping()
            except Exception:  # noqa: BLE001 - the loop that alone ends the refusals must outlive whatever fails in it; counted
                self.faults["probe"] += 1


def entry_key(key: str) -> str:
    return f"{scripts.PREFIX}e:{key}"


def partition_key(partition: str) -> bytes:
    return f"{scripts.PREFIX}p:{partition}".encode()


def namespace_key(name: bytes) -> bytes:
    return f"{scripts.PREFIX}n:".encode() + name


def _lease_key(key: str) -> bytes:
    return f"{scripts.PREFIX}l:".encode() + to_bytes(key)


def _step(key: str) -> int:
    """A heartbeat changes nothing that is in force: it leaves the token."""
    return 0 if key.startswith("gateway:") else token_step()
