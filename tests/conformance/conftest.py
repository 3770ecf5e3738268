"""Every tier by name, each on its real server or file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from engine.tiers import open_store
from engine.tiers.base import StoreTier, Tier
from engine.tiers.memory import MemoryTier
from tests.conformance.samples import FakeClock
from tests.support.servers import RedisCluster, RedisServer

STORES = ["sqlite", pytest.param("redis", marks=pytest.mark.redis), pytest.param("redis_cluster", marks=pytest.mark.redis)]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=STORES)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'cache.db'}"
    return served(request)


def served(request: pytest.FixtureRequest) -> str:
    """Return the URL of the server that the parameter names."""
    fixture = {"redis": "redis_server", "valkey": "valkey_server"}.get(request.param, request.param)
    server: RedisServer | RedisCluster = request.getfixturevalue(fixture)
    return server.url


@pytest.fixture
async def open_another(store_url: str, clock: FakeClock) -> AsyncIterator[Callable[[], StoreTier]]:
    """Open one more connection to the same store, closed after the test."""
    opened: list[StoreTier] = []

    def open_it() -> StoreTier:
        opened.append(open_store(store_url, timeout_s=20, clock=clock))
        return opened[-1]

    yield open_it
    for store in opened:
        await store.close()


@pytest.fixture
def store(open_another: Callable[[], StoreTier]) -> StoreTier:
    return open_another()


@pytest.fixture(params=["memory", *STORES, pytest.param("valkey", marks=pytest.mark.redis)])
async def tier(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Tier]:
    made: Tier
    if request.param == "memory":
        made = MemoryTier(10_000_000, clock=clock)
    elif request.param == "sqlite":
        made = open_store(f"sqlite:///{tmp_path / 'cache.db'}", timeout_s=20, clock=clock)
    else:
        made = open_store(served(request), timeout_s=20, clock=clock)
    yield made
    await made.close()
