"""Of its own for each test: an installation with a real SQLite cache and record of acts and no gateway; the two databases alone."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.admin.actions import AdminContext
from app.wiring import Wiring
from storage.store import Store, open_ops
from tests.app import support
from tests.support import telemetry


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wiring]:
    with contextlib.closing(support.wiring(tmp_path)) as wiring:
        yield wiring


@pytest.fixture
def ctx(wired: Wiring) -> AdminContext:
    return support.admin(wired)


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    opened = telemetry.open_store(tmp_path), open_ops(telemetry.settings(tmp_path))
    yield opened
    for store in opened:
        store.close()
