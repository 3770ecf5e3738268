"""Of several addresses the first that answers is taken, and none that does not answer is waited for."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

import pytest

from engine.gateway.connecting import _in_turns, _race, connected

ADDRESS = ("127.0.0.1", 0)


@pytest.fixture
def good() -> Iterator[socket.socket]:
    with socket.create_server(ADDRESS) as server:
        yield server


@pytest.fixture
def refusing() -> tuple[str, int]:
    with socket.create_server(ADDRESS) as server:
        address: tuple[str, int] = server.getsockname()
    return address


@pytest.fixture
def silent() -> Iterator[tuple[str, int]]:
    """Yield an address that answers nothing: the queue of its server is full."""
    with contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(ADDRESS, backlog=0))
        for _ in range(4):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(server.getsockname())
        yield server.getsockname()


async def test_an_address_that_refuses_or_is_silent_holds_up_nobody(
    good: socket.socket, refusing: tuple[str, int], silent: tuple[str, int]
) -> None:
    family = socket.AF_INET
    async with asyncio.timeout(60):
        won = await _race([(family, silent), (family, refusing), (family, good.getsockname())])
    with won:
        assert won.getpeername() == good.getsockname()


async def test_when_all_refuse_the_error_is_theirs(refusing: tuple[str, int]) -> None:
    with pytest.raises(ConnectionRefusedError):
        await _race([(socket.AF_INET, refusing)] * 2)


async def test_a_name_of_two_families_reaches_a_server_of_one(good: socket.socket) -> None:
    with await connected("localhost", good.getsockname()[1]) as sock:
        assert sock.getpeername() == good.getsockname()


async def test_who_gives_up_leaves_no_connection_behind(silent: tuple[str, int]) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await _race([(socket.AF_INET, silent)] * 2)


def test_families_take_turns() -> None:
    six, four = socket.AF_INET6, socket.AF_INET
    assert _in_turns([(six, 1), (six, 2), (four, 3), (four, 4), (four, 5)]) == [(six, 1), (four, 3), (six, 2), (four, 4), (four, 5)]
