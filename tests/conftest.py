"""Fixtures shared by all tests, and the one skip that is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.servers import RedisServer, running_redis

SHARED = Path(__file__).resolve().parents[2] / "shared"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if SHARED.is_dir():
        return
    skip = pytest.mark.skip(reason="the folder ../shared is absent")
    for item in items:
        if item.get_closest_marker("shared_data"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def _redis_session() -> Iterator[RedisServer]:
    with running_redis() as server:
        yield server


@pytest.fixture
def redis_server(_redis_session: RedisServer) -> RedisServer:
    """A real redis-server shared by the session, emptied for each test."""
    import redis

    client = redis.Redis.from_url(_redis_session.url)
    client.flushall()
    client.close()
    return _redis_session


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """A real redis-server that the test may stop, pause and start."""
    with running_redis() as server:
        yield server
