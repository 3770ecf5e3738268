"""Open stores on fresh files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.store import Store, open_ops, open_telemetry
from tests.storage.support import settings


@pytest.fixture
def telemetry(tmp_path: Path) -> Iterator[Store]:
    store = open_telemetry(settings(tmp_path), write=True)
    yield store
    store.close()


@pytest.fixture
def ops(tmp_path: Path) -> Iterator[Store]:
    store = open_ops(settings(tmp_path))
    yield store
    store.close()
