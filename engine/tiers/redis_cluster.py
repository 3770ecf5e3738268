"""The shared store in a Redis or Valkey Cluster. Entries lie in the slots of their keys: a namespace is spread over all masters."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import redis.asyncio
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, SlotNotCoveredError

from engine.errors import InvalidSetting, TierUnavailable
from engine.tiers import redis_scripts as scripts
from engine.tiers.codec import decode_head, encode_head, to_bytes, to_text
from engine.tiers.redis import LONGEST_TTL_MS, NAMES, RedisTier, entry_key, namespace_key, partition_key
from engine.types import Entry, RemovalCause

_CONNECTIONS = 256  # a node
# One put in eight looks at as many members as eight puts on a single server do, and removes the dead ones.
_CLEAN_EVERY = 8
_CLEANED = 40
_AT_ONCE = 50
# Keys looked at to find one of each master: enough for one with a hundredth of the slots.
_PROBES = 1_000

T = TypeVar("T")


class RedisClusterTier(RedisTier):
    """As RedisTier, with url `redis+cluster://any-master:port`; what must be atomic is atomic within one key."""

    def _connect(self, url: str) -> Any:
        self._puts = 0
        self._ready = False
        self._learning = asyncio.Lock()
        try:
            return RedisCluster.from_url(
                url.replace("+cluster", "", 1),
                max_connections=_CONNECTIONS,
                socket_timeout=self._timeout_s,
                socket_connect_timeout=self._timeout_s,
                retry=Retry(NoBackoff(), 2),  # a master that moved is found anew in between
                protocol=2,
            )
        except ValueError:
            raise InvalidSetting("the cache URL is no Redis URL; expected redis+cluster://host:port") from None

    def _register(self) -> None:
        super()._register()
        self._cluster_put = self._redis.register_script(scripts.CLUSTER_PUT)
        self._index = self._redis.register_script(scripts.CLUSTER_INDEX)
        self._drop = self._redis.register_script(scripts.CLUSTER_DROP)
        self._cluster_delete = self._redis.register_script(scripts.CLUSTER_DELETE)

    async def _call(self, run: Callable[[], Awaitable[T]], *, once: bool = False, even_down: bool = False) -> T:
        async def ready() -> T:
            if not self._ready:
                # One at a time: redis-py 8.1 closes connections that are in use when several calls learn the nodes at once.
                async with self._learning:
                    if not self._ready:
                        await self._redis.initialize()
                        self._ready = True
            return await run()

        try:
            return await super()._call(ready, once=once, even_down=even_down)
        except AttributeError as error:
            # The same, when the nodes are learned anew while calls are under way: the closed connection has no writer.
            self.faults["closed"] += 1
            raise TierUnavailable("a connection to the cluster was closed while its nodes were learned anew") from error

    async def ping(self) -> None:
        """Read a key of every master, even while calls fail at once; only when all answer is the cluster whole, and that ended."""

        async def ask() -> None:
            await asyncio.gather(*(self._redis.exists(key) for key in self._one_key_each()))

        await self._call(ask, even_down=True)
        self._down = False

    def _one_key_each(self) -> list[str]:
        """Return keys, none of them stored, of slots of each master that has any; a key of a slot that nobody has among them."""
        masters = len(self._redis.get_primaries())
        keys: dict[str, str] = {}
        for number in range(_PROBES):
            key = f"{scripts.PREFIX}probe:{number}"
            try:
                node = self._redis.get_node_from_key(key)
            except SlotNotCoveredError:
                keys["nobody"] = key  # asked for all the same: the client then learns anew who has it
                continue
            keys.setdefault(node.name, key)
            if len(keys) >= masters:
                break
        return list(keys.values())

    async def _drop_idle(self) -> None:
        """The client itself lets go of the connections of a node that fails, and asks the others where its slots are."""

    async def _disconnect(self) -> None:
        await self._redis.aclose()

    def _listener(self) -> Any:
        # A message that one node gets is passed on to all.
        nodes = self._redis.get_nodes()
        if not nodes:
            raise RedisError("no node is known yet")
        node = self._rng.choice(nodes)
        options = {
            name: value
            for name, value in node.connection_kwargs.items()
            if name in {"username", "password", "ssl", "credential_provider"} or name.startswith("ssl_")
        }
        return redis.asyncio.Redis(
            host=node.host, port=node.port, protocol=2, socket_timeout=None, socket_connect_timeout=self._timeout_s, **options
        )

    async def put(self, entry: Entry) -> None:
        ttl_ms = min(entry.expires_ms - self._clock(), LONGEST_TTL_MS)
        if ttl_ms <= 0:
            await self.delete([entry.key])
            return
        namespace = to_bytes(entry.namespace)
        values = [ttl_ms, encode_head(entry), entry.vector, entry.body, entry.partition, namespace, entry.entry_id]
        old = await self._call(lambda: self._cluster_put(keys=[entry_key(entry.key)], args=values))
        if old[1] is not None:
            self._removed(RemovalCause.REPLACED, 1)
        indexes = [(namespace_key(namespace), 0)]
        if entry.vector:
            indexes.append((partition_key(entry.partition), 1))
        gone = []
        if old[0] and (old[0] != entry.partition.encode() or not entry.vector):
            gone.append(partition_key(to_text(old[0])))
        if old[1] and old[1] != namespace:
            gone.append(namespace_key(old[1]))

        async def index() -> None:
            await asyncio.gather(
                *(self._index(keys=[zset], args=[entry.key, ttl_ms, keeps_last]) for zset, keeps_last in indexes),
                *(self._redis.zrem(zset, entry.key) for zset in gone),
                self._redis.sadd(NAMES, namespace),
            )

        await self._call(index)
        self._puts += 1
        if self._puts % _CLEAN_EVERY == 0:
            await self._clean(namespace_key(namespace), ("n", namespace))
            if entry.vector:
                await self._clean(partition_key(entry.partition), ("p", entry.partition))

    async def _clean(self, index: bytes, owner: tuple[str, str | bytes]) -> None:
        """Remove the dead ones of some members drawn at random."""
        flat = await self._call(lambda: self._redis.zrandmember(index, _CLEANED, withscores=True))
        pairs = flat if flat and isinstance(flat[0], list | tuple) else list(zip(flat[::2], flat[1::2], strict=True))
        await self._living(index, [(key, float(score)) for key, score in pairs], owner, "")

    async def _remove(self, wanted: Sequence[tuple[str, str]]) -> int:
        """Remove entries; their index members are removed when they are next met: one stored anew meanwhile must not lose its own."""
        now, deleted = self._clock(), 0
        for start in range(0, len(wanted), _AT_ONCE):
            batch = wanted[start : start + _AT_ONCE]

            async def remove(batch: Sequence[tuple[str, str]] = batch) -> list[Any]:
                return list(await asyncio.gather(*(self._cluster_delete(keys=[entry_key(key)], args=[given]) for key, given in batch)))

            for head in await self._call(remove, once=True):
                if head is not None:
                    known = decode_head(head)
                    deleted += known is None or known.expires_ms > now
        if deleted:
            self._removed(RemovalCause.EXPLICIT, deleted)
        return deleted

    async def namespaces(self) -> list[str]:
        names = await self._call(lambda: self._redis.smembers(NAMES))

        async def held() -> list[Any]:
            return list(await asyncio.gather(*(self._redis.exists(namespace_key(name)) for name in names)))

        there = await self._call(held)
        fields = await self._call(lambda: self._redis.hkeys(scripts.CONTROL))
        recorded = {field[2:] for field in fields if field.startswith(b"n:")}
        return sorted(to_text(name) for name in recorded | {name for name, here in zip(names, there, strict=True) if here})

    async def _last_seq(self, partition: str) -> int:
        last = await self._call(lambda: self._redis.zscore(partition_key(partition), ""))
        return int(last) + 1 if last is not None else 0

    async def _members(
        self, index: bytes, cursor: int, limit: int, owner: tuple[str, str | bytes], other: str
    ) -> tuple[int, int, list[tuple[bytes, bytes]]]:
        met = await self._call(lambda: self._redis.zrangebyscore(index, f"({cursor}", "+inf", start=0, num=limit, withscores=True))
        found = await self._living(index, [(key, score) for key, score in met if key], owner, other)
        return int(met[-1][1]) if met else cursor, len(met), found

    async def _living(
        self, index: bytes, members: list[tuple[bytes, float]], owner: tuple[str, str | bytes], other: str
    ) -> list[tuple[bytes, bytes]]:
        """Return (head, other field) of the members whose entry is there and belongs to the owner; remove the others.

        other: `v` where the members must have a vector.
        """
        field, name = owner[0], to_bytes(owner[1]) if isinstance(owner[1], str) else owner[1]
        members = [(key, score) for key, score in members if key]
        living: list[tuple[bytes, bytes]] = []
        dead: list[bytes | str] = []
        for start in range(0, len(members), _AT_ONCE):
            batch = members[start : start + _AT_ONCE]

            async def look(batch: list[tuple[bytes, float]] = batch) -> list[Any]:
                return list(await asyncio.gather(*(self._redis.hmget(entry_key(to_text(key)), [field, "h", other]) for key, _ in batch)))

            for (key, score), (owned, head, more) in zip(batch, await self._call(look), strict=True):
                # A delete leaves the member, and the key may be stored anew without a vector.
                if owned == name and head is not None and (more or other != "v"):
                    living.append((head, more or b""))
                else:
                    dead += [key, f"{score:.0f}"]
        if dead:
            await self._call(lambda: self._drop(keys=[index], args=dead))
        return living
