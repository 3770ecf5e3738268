"""Fixtures shared by all tests, and the one skip that is allowed."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.support.servers import RedisCluster, RedisServer, running_cluster, running_redis, valkey

SHARED = Path(__file__).resolve().parents[2] / "shared"
_MAY_SKIP = pytest.StashKey[bool]()
_FORBIDDEN = pytest.StashKey[list[str]]()

# A slow machine is no counterexample. With CI=true Hypothesis loads its own profile, which also derives the examples from the test alone.
settings.register_profile("patient", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_FORBIDDEN] = []


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With CI=true a skip is a failure: what was not run must not look as if it had passed."""
    report = yield
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true" and not item.stash.get(_MAY_SKIP, False):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        item.config.stash[_FORBIDDEN].append(f"{item.nodeid}: {reason}")
        report.outcome, report.longrepr = "failed", f"nothing may be skipped with CI=true: {reason}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skipped = config.stash[_FORBIDDEN]
    if skipped:
        terminalreporter.section("skipped, which fails with CI=true", red=True)
        for line in skipped:
            terminalreporter.write_line(line)
    allowed = [report for report in terminalreporter.getreports("skipped") if report.when == "setup"]
    if allowed and os.environ.get("CI") == "true":
        terminalreporter.section("skipped, as it may be: the folder ../shared is absent", yellow=True)
        for report in allowed:
            terminalreporter.write_line(report.nodeid)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if SHARED.is_dir():
        return
    skip = pytest.mark.skip(reason="the folder ../shared is absent")
    for item in items:
        if item.get_closest_marker("shared_data"):
            item.stash[_MAY_SKIP] = True
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def _main_module() -> Iterator[None]:
    """A page that Streamlit's AppTest runs becomes `__main__`; a process that a later test spawns would begin with running it."""
    before = sys.modules["__main__"]
    yield
    sys.modules["__main__"] = before


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


@pytest.fixture(scope="session")
def _cluster_session() -> Iterator[RedisCluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def redis_cluster(_cluster_session: RedisCluster) -> RedisCluster:
    """A real cluster of three masters, shared by the session, emptied for each test."""
    _cluster_session.empty()
    return _cluster_session


@pytest.fixture(scope="session")
def _valkey_session() -> Iterator[RedisServer]:
    with running_redis(valkey()) as server:
        yield server


@pytest.fixture
def valkey_server(_valkey_session: RedisServer) -> RedisServer:
    """A real valkey-server shared by the session, emptied for each test."""
    import redis

    client = redis.Redis.from_url(_valkey_session.url)
    client.flushall()
    client.close()
    return _valkey_session


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """A real redis-server that the test may stop, pause and start."""
    with running_redis() as server:
        yield server
