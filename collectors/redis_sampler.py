"""Samples Redis and Valkey servers: what they count, their slow commands, and what the keyspace is made of.

Every tick is bounded: one INFO, one SLOWLOG GET, and so many keys looked at in batches of O(1) commands, within a budget of time.
What a key holds is never read, and its name is reduced to a shape before it leaves this module: names can be prompts or people.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, cast

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from collectors.errors import ScrapeFailed
from collectors.keyspace import Sample
from collectors.metrics import CollectorMetrics
from collectors.prometheus.families import OVERFLOW
from collectors.prometheus.scrape import Sink, shown, source_of
from collectors.settings import RedisTarget
from collectors.ticking import Ticker
from storage.metrics import labels_text
from storage.rows import CounterReading, SampleRow, Scrape

# INFO's field -> the name that redis_exporter gives it, so that one table of meanings serves both.
_COUNTERS: Final = {
    "keyspace_hits": "redis_keyspace_hits_total",
    "keyspace_misses": "redis_keyspace_misses_total",
    "evicted_keys": "redis_evicted_keys_total",
    "expired_keys": "redis_expired_keys_total",
    "rejected_connections": "redis_rejected_connections_total",
}
_GAUGES: Final = {
    "used_memory": "redis_memory_used_bytes",
    "maxmemory": "redis_memory_max_bytes",
    "mem_fragmentation_ratio": "redis_mem_fragmentation_ratio",
    "connected_clients": "redis_connected_clients",
}
_SERVER: Final = ("redis_version", "valkey_version", "redis_mode", "server_mode", "role", "uptime_in_seconds", "maxmemory_policy",
                  "used_memory", "maxmemory", "connected_clients", "mem_fragmentation_ratio")  # fmt: skip
_BATCH_KEYS: Final = 25  # looked at in one transaction: about 80 commands of constant cost, well under a millisecond of the server
_MOST_SERIES: Final = 500  # a server has some 240 commands, subcommands apart
_COMMAND_CHARS: Final = 32
_RESTART_MS: Final = 2_000  # a new run is at least this much later: start times are known to the second


class RedisSampler:
    """One server. now_ms: our clock."""

    def __init__(self, target: RedisTarget, sink: Sink, metrics: CollectorMetrics, *, now_ms: Callable[[], int]) -> None:
        self._target = target
        self._sink = sink
        self._metrics = metrics
        self._now_ms = now_ms
        self._source = source_of("redis", target.url)
        self._client = redis.asyncio.Redis.from_url(
            target.url,
            socket_timeout=target.timeout_s,
            socket_connect_timeout=target.timeout_s,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            client_name="cachescope-sampler",
            max_connections=2,
        )
        self._sample = Sample()
        self._cursor = 0
        self._clustered: bool | None = None
        self._own: dict[str, Any] | None = None  # the run that is sampled, and the look-ups that the sampling itself made in it

    async def close(self) -> None:
        await self._client.aclose()

    async def once(self) -> None:
        """Look at the server and store what was seen."""
        try:
            async with asyncio.timeout(self._target.timeout_s + self._target.budget_ms / 1000 + 1):
                scrape = await self._look()
        except (RedisError, OSError, TimeoutError, ScrapeFailed) as error:
            self._metrics.scrapes.labels("failed").inc()
            told = str(error) if isinstance(error, ScrapeFailed) else f"{shown(self._target.url)}: {_reason(error)}"
            await self._sink.failed(self._source, told, self._now_ms())
            return
        faults = await self._sink.scraped(self._source, scrape, max_series=_MOST_SERIES)
        self._metrics.scrapes.labels("partial" if faults else "ok").inc()

    async def _look(self) -> Scrape:
        if self._own is None:
            self._own = json.loads(await self._sink.snapshot(self._source, "sampler") or "{}")
        refused: list[str] = []
        hits, misses = await _allowed(self._keys(), "the keyspace sample", refused, (0, 0))
        slow = await _allowed(self._slowlog(), "SLOWLOG", refused, None)
        # After the sampling, so that its own look-ups are in what INFO counts, and in what is taken off it.
        info = await self._info()
        at_ms = self._now_ms()
        own = self._account(info, hits, misses, at_ms)
        counters, dropped = _counters(info, own, at_ms)
        snapshots = {
            "server": json.dumps({name: info[name] for name in _SERVER if name in info}),
            "sampler": json.dumps(own),
        }
        if slow is not None:
            snapshots["slowlog"] = json.dumps(slow)
        if self._sample.looked_at:
            snapshots["keyspace"] = json.dumps(self._sample.told(keys=_keys_of(info, self._database())))
        return Scrape(at_ms, _gauges(info, at_ms), counters, dropped, error="; ".join(refused), snapshots=snapshots)

    async def _info(self) -> dict[str, Any]:
        info = cast("dict[str, Any]", await cast("Awaitable[Any]", self._client.info("all")))
        if "run_id" not in info or "uptime_in_seconds" not in info:
            raise ScrapeFailed(f"{shown(self._target.url)} gave no INFO of a Redis or Valkey server")
        return info

    def _account(self, info: Mapping[str, Any], hits: int, misses: int, at_ms: int) -> dict[str, Any]:
        """Return the run's identity and start, and how many look-ups the sampling itself has made in it."""
        own = self._own or {}
        server_ms = int(info.get("server_time_usec", at_ms * 1000)) // 1000
        if own.get("run_id") != info["run_id"]:
            start_ms = server_ms - int(info["uptime_in_seconds"]) * 1000
            own = {"run_id": info["run_id"], "start_ms": max(start_ms, own.get("start_ms", 0) + _RESTART_MS), "hits": 0, "misses": 0}
        own = {**own, "hits": own["hits"] + hits, "misses": own["misses"] + misses}
        if info.get("keyspace_hits", 0) < own["hits"] or info.get("keyspace_misses", 0) < own["misses"]:
            own |= {"hits": 0, "misses": 0}  # somebody has reset the server's statistics
        self._own = own
        return own

    def _database(self) -> int:
        return int(self._client.connection_pool.connection_kwargs.get("db") or 0)

    async def _slowlog(self) -> dict[str, Any]:
        """Return the newest slow commands: name, number of arguments, duration, time. Never an argument."""
        if not self._target.slowlog_entries:
            return {"length": None, "entries": []}
        ask: Callable[..., Awaitable[Any]] = self._client.execute_command
        length = await ask("SLOWLOG", "LEN")
        # As two words: the client library would join the arguments of "SLOWLOG GET" into one text.
        found = await ask("SLOWLOG", "GET", self._target.slowlog_entries)
        return {"length": length, "entries": [_slow(entry) for entry in found]}

    async def _keys(self) -> tuple[int, int]:
        """Look at some keys; return how many hits and misses the server counted for that."""
        if self._clustered is None and self._target.keys_per_tick:
            self._clustered = bool((await self._client.info("cluster")).get("cluster_enabled"))
        hits = misses = looked_at = 0
        ends = time.monotonic() + self._target.budget_ms / 1000
        while looked_at < self._target.keys_per_tick and time.monotonic() < ends:
            self._cursor, found = await self._client.scan(self._cursor, count=_BATCH_KEYS)
            keys = cast("list[bytes]", found)
            for start in range(0, len(keys), _BATCH_KEYS):
                counted = await self._batch(keys[start : start + _BATCH_KEYS])
                hits, misses = hits + counted[0], misses + counted[1]
            looked_at += max(len(keys), 1)
            if self._cursor == 0:
                self._sample.whole()
                break
        return hits, misses

    async def _batch(self, keys: Sequence[bytes]) -> tuple[int, int]:
        """Look at some keys; return how many hits and misses the server counted for that.

        TYPE and PTTL count as look-ups on most versions, so what they add is measured inside one transaction. A node of a cluster has
        no transaction over several keys: there the first key's is measured, and the others are taken to count the same.
        """
        if not self._clustered or len(keys) == 1:
            return await self._measured(keys)
        hits, misses = await self._measured(keys[:1])
        each = hits + misses
        async with self._client.pipeline(transaction=False) as opened:
            pipe = cast("Any", opened)
            _ask(pipe, keys[1:])
            found = self._take(keys[1:], await pipe.execute(raise_on_error=False))
        return hits + each * found, misses + each * (len(keys) - 1 - found)

    async def _measured(self, keys: Sequence[bytes]) -> tuple[int, int]:
        async with self._client.pipeline(transaction=True) as opened:
            pipe = cast("Any", opened)
            pipe.info("stats")
            _ask(pipe, keys)
            pipe.info("stats")
            before, *answers, after = await pipe.execute(raise_on_error=False)
        for answer in (before, after):
            if isinstance(answer, RedisError):
                raise answer
        self._take(keys, answers)
        return after["keyspace_hits"] - before["keyspace_hits"], after["keyspace_misses"] - before["keyspace_misses"]

    def _take(self, keys: Sequence[bytes], answers: Sequence[Any]) -> int:
        """Count the keys that are there; return how many. Raises the server's first refusal."""
        found = 0
        for place, key in enumerate(keys):
            kind, ttl_ms, size = mine = answers[3 * place : 3 * place + 3]
            if refusal := next((answer for answer in mine if isinstance(answer, RedisError)), None):
                raise refusal
            if kind != b"none":
                found += 1
                self._sample.add(key, kind.decode("ascii", "replace"), ttl_ms=ttl_ms, size_bytes=size)
        return found


def _ask(pipe: Any, keys: Sequence[bytes]) -> None:
    for key in keys:
        pipe.type(key)
        pipe.pttl(key)
        pipe.memory_usage(key, samples=3)


async def _allowed(call: Awaitable[Any], what: str, refused: list[str], otherwise: Any) -> Any:
    """Return the call's answer, or `otherwise` when this user may not, noting what that hides."""
    try:
        return await call
    except ResponseError as error:
        refused.append(f"{what} is hidden: {str(error)[:80]}")
        return otherwise


def _reason(error: Exception) -> str:
    """Return why a server gave nothing. A refusal's text can repeat what was sent, so only its class is told."""
    return "did not answer in time" if isinstance(error, TimeoutError | redis.exceptions.TimeoutError) else type(error).__name__


def _counters(info: Mapping[str, Any], own: Mapping[str, Any], at_ms: int) -> tuple[list[CounterReading], int]:
    """Return the readings, less what the sampling itself made, and how many of INFO's fields have no meaning here."""
    start_ms = own["start_ms"]
    none = labels_text({})
    less = {"keyspace_hits": own["hits"], "keyspace_misses": own["misses"]}
    found = [
        CounterReading(name, none, at_ms, float(info[field] - less.get(field, 0)), start_ms, labels_text({OVERFLOW: "true"}))
        for field, name in _COUNTERS.items()
        if isinstance(info.get(field), int | float)
    ]
    for field, stats in info.items():
        if field.startswith("cmdstat_") and isinstance(stats, dict) and isinstance(stats.get("calls"), int):
            labels = labels_text({"cmd": field.removeprefix("cmdstat_")})
            found.append(
                CounterReading("redis_commands_total", labels, at_ms, float(stats["calls"]), start_ms, labels_text({OVERFLOW: "true"}))
            )
    return found, max(0, len(info) - len(found) - len(_GAUGES))


def _gauges(info: Mapping[str, Any], at_ms: int) -> list[SampleRow]:
    found = [
        SampleRow(name, labels_text({}), "gauge", at_ms, float(info[field]))
        for field, name in _GAUGES.items()
        if isinstance(info.get(field), int | float)
    ]
    for field, stats in info.items():
        if field.startswith("db") and field[2:].isdigit() and isinstance(stats, dict):
            labels = labels_text({"db": field})
            found.append(SampleRow("redis_db_keys", labels, "gauge", at_ms, float(stats.get("keys", 0))))
            found.append(SampleRow("redis_db_keys_expiring", labels, "gauge", at_ms, float(stats.get("expires", 0))))
    return found


def _keys_of(info: Mapping[str, Any], database: int) -> int:
    stats = info.get(f"db{database}")
    return int(stats.get("keys", 0)) if isinstance(stats, dict) else 0


def _slow(entry: Sequence[Any]) -> dict[str, Any]:
    """Reduce an entry (id, time, microseconds, arguments, …) to what tells nothing of its arguments."""
    number, at_s, duration_us, arguments = entry[:4]
    words = [bytes(word) for word in arguments]
    name = words[0].decode("ascii", "replace").upper() if words else ""
    plain = name.replace(".", "").replace("_", "").replace("-", "")
    known = plain.isascii() and plain.isalnum() and len(name) <= _COMMAND_CHARS
    count = max(0, len(words) - 1)
    if words and words[-1].startswith(b"... (") and words[-1].endswith(b" more arguments)"):
        count += int(words[-1].split()[1].lstrip(b"(")) - 1
    return {"id": number, "at_s": at_s, "duration_us": duration_us, "command": name if known else "(other)", "arguments": count}


class RedisSamplers:
    """All servers, a task each."""

    def __init__(self, targets: Sequence[RedisTarget], sink: Sink, metrics: CollectorMetrics, *, now_ms: Callable[[], int]) -> None:
        self._samplers = [(target, RedisSampler(target, sink, metrics, now_ms=now_ms)) for target in targets]
        self._ticker = Ticker("redis", metrics)

    def start(self) -> None:
        for target, sampler in self._samplers:
            self._ticker.start(sampler.once, interval_s=target.interval_s)

    async def stop(self) -> None:
        await self._ticker.stop()
        for _, sampler in self._samplers:
            await sampler.close()
