"""The server's word that a control record changed. It may get lost at any time: the poll behind it finds out all the same."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

import redis.asyncio

from engine.tiers.redis_scripts import PREFIX

CHANNEL = f"{PREFIX}control"
_AGAIN_S = 1.0
_LOOK_S = 5.0  # so long a connection waits for a message before it looks whether the server is still there


def listening_pool(url: str, timeout_s: float) -> Any:
    """Return a pool of the one connection that listens. A read on it has no time-out."""
    return redis.asyncio.ConnectionPool.from_url(
        url, max_connections=1, socket_connect_timeout=timeout_s, socket_timeout=None, health_check_interval=_LOOK_S, protocol=2
    )


class Announcements:
    """connect: makes a client of its own, or raises RedisError where no server is known. Listens from the first `wait` on."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.listening = False
        self.faults = 0  # how often listening broke off

    async def wait(self, timeout_s: float) -> None:
        """Return at the next announcement, or one since the last call, and after timeout_s at the latest."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._listen(), name="cachescope-announcements")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        self._changed.clear()

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except Exception:  # noqa: BLE001 - the listening loop: it is tried again, the poll goes on, and the fault is counted
                self.faults += 1
            self.listening = False
            await asyncio.sleep(_AGAIN_S)

    async def _listen_once(self) -> None:
        client = self._connect()
        try:
            async with client.pubsub(ignore_subscribe_messages=True) as subscription:
                await subscription.subscribe(CHANNEL)
                self.listening = True
                self._changed.set()  # what was said before is not known
                while True:
                    if await subscription.get_message(timeout=_LOOK_S) is not None:
                        self._changed.set()
        finally:
            await client.aclose(close_connection_pool=True)

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
