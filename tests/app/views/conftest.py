"""An installation of its own for each test: a real SQLite cache and record of acts, and no gateway."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.admin.actions import AdminContext
from app.wiring import Wiring
from tests.app import support


@pytest.fixture
def wired(tmp_path: Path) -> Iterator[Wiring]:
    with contextlib.closing(support.wiring(tmp_path)) as wiring:
        yield wiring


@pytest.fixture
def ctx(wired: Wiring) -> AdminContext:
    return support.admin(wired)
