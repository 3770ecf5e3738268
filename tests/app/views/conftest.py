"""A telemetry database for a test alone, empty. Where one is shared or has lookups in it, a module has a fixture of its own."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage.store import Store
from tests.support import telemetry


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with contextlib.closing(telemetry.open_store(tmp_path)) as opened:
        yield opened
