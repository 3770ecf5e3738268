"""Databases that another process has locked, and what opening them waits for."""

from __future__ import annotations

from pathlib import Path

import pytest

from storage import migrations
from storage.errors import StoreBusy
from storage.store import open_ops, open_telemetry
from tests.storage.support import settings
from tests.storage.test_store import count_tables
from tests.support import locks


def test_who_writes_keeps_nobody_from_opening_what_needs_no_change(tmp_path: Path) -> None:
    open_ops(settings(tmp_path)).close()
    with locks.held(tmp_path / "ops.db", locks.WRITING):
        store = open_ops(settings(tmp_path, busy_timeout_s=0.05))
        assert count_tables(store) > 3
        with pytest.raises(StoreBusy), store.write():
            pass
    with store.write():
        pass
    store.close()


def test_a_schema_is_brought_up_to_date_only_when_nobody_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_ops(settings(tmp_path)).close()
    monkeypatch.setitem(migrations.REVISIONS, "ops", (*migrations.REVISIONS["ops"], "ops_9999"))  # as a newer program would have it
    with locks.held(tmp_path / "ops.db", locks.WRITING), pytest.raises(StoreBusy, match="locked by another process"):
        open_ops(settings(tmp_path, busy_timeout_s=0.05))


@pytest.mark.parametrize("write", [False, True])
def test_opening_a_locked_database_waits_no_longer_than_is_asked(tmp_path: Path, *, write: bool) -> None:
    """With the hour that a write waits for here this test would never end."""
    patient = settings(tmp_path, busy_timeout_s=3_600)
    open_telemetry(patient, write=True).close()
    with locks.held(tmp_path / "telemetry.db", locks.EVERYTHING):
        for wait_s in (0.05, 0.0):
            with pytest.raises(StoreBusy, match="locked by another process"):
                open_telemetry(patient, write=write, wait_s=wait_s)
    store = open_telemetry(patient, write=write, wait_s=0.0)
    assert count_tables(store) > 3
    store.close()
