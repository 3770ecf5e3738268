"""A TCP connection to a host of several addresses: the next is tried while one does not answer, and the first to answer is taken."""

from __future__ import annotations

import asyncio
import socket
from itertools import chain, zip_longest
from typing import Any

HEAD_START_S = 0.25  # of each address before the next; RFC 8305 section 8 recommends it

_Address = tuple[int, Any]  # of what family, and as sockets take it


async def connected(host: str, port: int) -> socket.socket:
    """Return a socket that is connected. Raises OSError: of the name, or of the last address that failed."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses: list[_Address] = [(family, address) for family, _, _, _, address in found]
    if not addresses:
        raise OSError("the host has no address")
    return await _attempt(addresses[0]) if len(addresses) == 1 else await _race(_in_turns(addresses))


def _in_turns(addresses: list[_Address]) -> list[_Address]:
    """Return them with the families taking turns, the first one's first: a family without a route costs one head start."""
    first = [one for one in addresses if one[0] == addresses[0][0]]
    others = [one for one in addresses if one[0] != addresses[0][0]]
    return [one for one in chain.from_iterable(zip_longest(first, others)) if one is not None]


async def _attempt(address: _Address) -> socket.socket:
    sock = socket.socket(address[0], socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await asyncio.get_running_loop().sock_connect(sock, address[1])
    except BaseException:
        sock.close()
        raise
    return sock


async def _race(addresses: list[_Address]) -> socket.socket:
    waiting = list(addresses)
    running: set[asyncio.Task[socket.socket]] = set()
    fault: BaseException | None = None
    try:
        while waiting or running:
            if waiting:
                running.add(asyncio.create_task(_attempt(waiting.pop(0))))
            done, _ = await asyncio.wait(running, timeout=HEAD_START_S if waiting else None, return_when=asyncio.FIRST_COMPLETED)
            for attempt in done:
                running.discard(attempt)
                fault = attempt.exception()
                if fault is None:
                    return attempt.result()
        raise fault or OSError("the host has no address")
    finally:
        for attempt in running:
            attempt.cancel()
            attempt.add_done_callback(_close)


def _close(attempt: asyncio.Task[socket.socket]) -> None:
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().close()
